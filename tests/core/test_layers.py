"""The house: who may ask whom, no circles, a core that reads no clock, and a package that is itself light.

A room is a folder; `ALLOWED` says into which rooms each may look, imports for type checkers included. What
breaks a rule today stands in a list that may only shrink: a test fails when a thing on it is mended and still
listed.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import scrapy_frontier

PACKAGE = Path(scrapy_frontier.__file__).parent
FILES = sorted(file for file in PACKAGE.rglob("*.py") if file.parent != PACKAGE or file.name != "__init__.py")
CORE = [file for file in FILES if (PACKAGE / "core") in file.parents]
OUTSIDE = {"scrapy", "twisted", "asyncio"}
CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
MOST_FILES_OF_A_ROOM = 24  # more, shown as a list, and nobody finds his way
MOST_LINES = 350
MOST_LINES_OF_AN_ADAPTER = 160  # as long as those of Scrapy are
ADAPTERS = {"downloadermiddlewares", "spidermiddlewares", "extensions"}
# 304 answers what was asked, and errors begin with 400, whatever they mean.
STATUSES_OF_ADAPTERS = {304, 400}

NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make"}  # public, by their documentation

BASE = {"core"}  # errors, times, sizes, reasons
BELOW_REVISITS = {*BASE, "core/parse", "core/store", "core/hosts", "core/transitions"}
BELOW_PAGES = {*BELOW_REVISITS, "core/ranking", "core/revisits"}
BELOW_FRONTIER = {*BELOW_PAGES, "core/pages"}
BESIDE = {"crawl", "crawl/scrapy_internals"}
MIDDLEWARE = {*BASE, *BESIDE, "core/parse", "settings", "crawl/meta_keys"}
ALLOWED = {
    "core": set(),
    "core/parse": BASE,
    "core/store": BASE,
    "core/transitions": {*BASE, "core/store"},
    "core/ranking": {*BASE, "core/store"},
    "core/hosts": {*BASE, "core/store", "core/parse"},
    "core/revisits": BELOW_REVISITS,
    "core/pages": BELOW_PAGES,
    "core/frontier": BELOW_FRONTIER - {"core/parse"},
    "core/admin": BELOW_FRONTIER,
    "setting_values": BASE,
    "setting_revisits": {*BASE, "core/revisits", "setting_values"},
    "signals": set(),
    "settings": {
        *BASE,
        *("core/parse", "core/hosts", "core/pages", "setting_values", "setting_revisits"),
    },
    "crawl/clock": BASE,
    "crawl/standstill": {*BASE, "core/frontier"},
    "crawl/meta_keys": set(),
    "crawl/stats": {"core/frontier"},
    "crawl/scrapy_internals": {"core/hosts", "crawl/meta_keys"},
    "crawl/store": {*BASE, "core/store"},
    "crawl/ranking": {"core/frontier", "settings"},
    "crawl/hosts": {
        *BASE,
        *("core/parse", "core/hosts", "core/frontier", "settings"),
        "crawl/scrapy_internals",
    },
    "crawl/requests": {
        *BASE,
        *("core/pages", "core/frontier", "crawl/meta_keys", "crawl/scrapy_internals", "crawl/stats"),
    },
    "crawl/responses": {"core/parse", "crawl/requests", "crawl/scrapy_internals"},
    "crawl/robots": {
        *BASE,
        *("core/parse", "core/hosts", "core/frontier", "settings"),
        *("crawl/clock", "crawl/hosts", "crawl/scrapy_internals", "crawl/standstill"),
    },
    "crawl/flights": {
        *BASE,
        *("core/parse", "core/transitions", "core/revisits", "core/pages", "core/frontier"),
        *("crawl/requests", "crawl/responses", "crawl/robots", "crawl/stats"),
    },
    "crawl/intake": {
        *("core/parse", "core/pages", "core/frontier", "settings"),
        *("crawl/flights", "crawl/hosts", "crawl/requests"),
        *("crawl/meta_keys", "crawl/scrapy_internals", "crawl/stats"),
    },
    "crawl/links": {
        *BASE,
        *("core/parse", "core/frontier", "settings"),
        *("crawl/flights", "crawl/intake", "crawl/requests", "crawl/responses"),
        *("crawl/meta_keys", "crawl/scrapy_internals", "crawl/stats"),
    },
    "crawl": {
        *BASE,
        *("core/parse", "core/hosts", "core/revisits", "core/pages", "core/frontier", "settings", "signals"),
        *("crawl/clock", "crawl/meta_keys", "crawl/standstill", "crawl/stats"),
        *("crawl/scrapy_internals", "crawl/store"),
        *("crawl/ranking", "crawl/hosts", "crawl/requests", "crawl/responses", "crawl/robots"),
        *("crawl/flights", "crawl/intake", "crawl/links"),
    },
    "downloadermiddlewares": {
        *MIDDLEWARE,
        *("crawl/flights", "crawl/hosts", "crawl/requests", "crawl/responses", "crawl/robots"),
        *("crawl/standstill", "crawl/stats"),
    },
    "spidermiddlewares": {*MIDDLEWARE, "crawl/links"} - {"settings"},
    "extensions": {*BASE, *BESIDE, "core/frontier", "crawl/ranking"},
    "addon": {"settings"},
    "spiders": {"crawl", "crawl/responses", "crawl/scrapy_internals", "addon"},
    "commands": {
        *BASE,
        *("core/parse", "core/frontier", "core/admin", "settings", "addon"),
        *("crawl/hosts", "crawl/ranking", "crawl/requests", "crawl/store"),
    },
}
# Files that have a room of their own, above or below their neighbours.
ALONE = {
    *("core/frontier.py", "core/transitions.py"),
    *("crawl/clock.py", "crawl/meta_keys.py", "crawl/clock.py", "crawl/log.py"),
}
# What a room hands on to the next and does not look into; for type checkers alone.
HANDED_ON = {"core/store/leveldb.Store", "core/ranking/graph.Links", "core/ranking/scorer.Scorer"}

# State of leases, hosts and requests, and the one file that changes it, but for where it begins. Of a host
# some is changed by its own verbs as well, and each of its fields by one other file at most.
OWNERS = {
    "host.visited": "core/hosts/politeness.py",
    "host.is_blocked": "core/hosts/politeness.py",
    "is_complete": "core/store/batch.py",
    "is_on_wire": "core/hosts/politeness.py",
    "was_sent": "core/hosts/politeness.py",
    "in_memory": "crawl/queued.py",
    "live": "crawl/queued.py",
    "by_follow_up": "crawl/in_flight.py",
    "asked_with": "downloadermiddlewares/conditional.py",
    "spider_error": "crawl/in_flight.py",
    "flight.ways": "crawl/bulk_follow.py",
}
CHANGING = {"add", "append", "clear", "discard", "pop", "remove", "setdefault", "update"}
# What the frontier makes, as the page lists it, and where that stands.
PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
PARTS = re.findall(r"`(\w+)`", PAGE[PAGE.index("order they are made") : PAGE.index("The methods of")])
PARTLY = {"core/hosts", "core/pages", "core/revisits"}
# Whoever decides on a row puts it there; the filter is for whoever has fingerprints.
FOR_ALL = {"batch.rows", "batch.seen"}
# Done for each page, or each host that is loaded, where a call would take longer than that.
AT_ONCE = {
    ("core/hosts/politeness.py", "hosts.by_name"),
    ("core/pages/endings.py", "batch.counts.attempts"),
    ("core/pages/endings.py", "batch.ends"),
}
PARTS_OF_PARTS = {"ScoreColumns"}  # what else writes rows, for one part alone
# Where a file looks into a room it should not. A line goes when the code is mended; none may come.
SINS: set[tuple[str, str]] = set()
# Files that need each other, directly or round about.
CIRCLES: set[str] = set()
LONG: set[str] = set()
SAME_NAMES: set[str] = set()
SAID_WITH_MODULE = ("core/store/keys.py", "core/reasons.py")
# What takes anything, and says why there.
SAY_ANY = {"core/ranking/scorer.py"}


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def room_of(name: str) -> str:
    """The room of a file: its folder; at the top, or where it stands `ALONE`, one of its own."""
    folder = name.rpartition("/")[0]
    return name.removesuffix(".py") if name in ALONE else folder or name.removesuffix(".py")


@cache
def imports(file: Path, types: bool = True) -> frozenset[str]:
    """Absolute names of all that *file* imports, also within functions; for type checkers only if *types*."""
    return frozenset(_imports(file, types))


def _imports(file: Path, types: bool) -> Iterator[str]:
    package = ["scrapy_frontier", *file.relative_to(PACKAGE).parent.parts]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    if not types:
        tree.body = [node for node in tree.body if not is_for_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def needed(file: Path, types: bool = True) -> frozenset[str]:
    """Our own files that *file* imports."""
    names = [name.split(".")[1:] for name in imports(file, types) if name.split(".")[0] == "scrapy_frontier"]
    found = set()
    for parts in names:
        for path in ("/".join(parts) + ".py", "/".join(parts[:-1]) + ".py"):
            if (PACKAGE / path).is_file():
                found.add(path)
                break
    return frozenset(found - {name_of(file)})


BESIDE_SCRAPY = [file for file in FILES if name_of(file).split("/")[0] in {"crawl", *ADAPTERS}]


def chains(node: ast.AST) -> Iterator[list[str]]:
    """Every dotted name in *node*, as its parts."""
    for inner in ast.walk(node):
        parts: list[str] = []
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and parts:
            yield [inner.id, *parts]


def around(needs: dict[str, frozenset[str]]) -> set[str]:
    """What is part of a circle."""

    def reached(start: str) -> set[str]:
        met: set[str] = set()
        ahead = list(needs.get(start, ()))
        while ahead:
            name = ahead.pop()
            if name not in met:
                met.add(name)
                ahead += needs.get(name, ())
        return met

    return {name for name in needs if name in reached(name)}


@pytest.mark.parametrize("room", sorted(path.parent for path in PACKAGE.rglob("__init__.py")), ids=str)
def test_each_room_says_at_its_door_what_it_is_for(room: Path) -> None:
    assert ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))


def below(room: str) -> set[str]:
    return ALLOWED[room].union(*map(below, ALLOWED[room]))


def is_plain(found: Any) -> bool:
    """A named tuple, a typed dictionary, an enumeration, or a constant."""
    if isinstance(found, type):
        return issubclass(found, (tuple, dict, Enum))
    return isinstance(found, (int, float, str, bytes, tuple))


def strays(file: Path) -> Iterator[str]:
    """Rooms that *file* looks into and should not. Plain values may come from any room further down, under
    their own names: what calls no code binds no room to another's ways."""
    room, at_once = room_of(name_of(file)), imports(file, types=False)
    for name in imports(file):
        module, _, attribute = name.rpartition(".")
        path = module.removeprefix("scrapy_frontier.").replace(".", "/")
        if not (PACKAGE / f"{path}.py").is_file():  # not ours, or a module as a whole
            path = name.removeprefix("scrapy_frontier.").replace(".", "/")
            attribute = ""
        if not (PACKAGE / f"{path}.py").is_file() or not name.startswith("scrapy_frontier."):
            continue
        other = room_of(f"{path}.py")
        if other in {room, *ALLOWED[room]}:
            continue
        if attribute and other in below(room):
            if is_plain(getattr(import_module(module), attribute)):
                continue
            if f"{path}.{attribute}" in HANDED_ON and name not in at_once:
                continue
        yield other


def rooms_needed() -> dict[str, frozenset[str]]:
    """Of each room the others that its files import anything of, be it only a plain value."""
    found: dict[str, set[str]] = {room: set() for room in ALLOWED}
    for file in FILES:
        found[room_of(name_of(file))] |= {room_of(name) for name in needed(file)}
    return {room: frozenset(others - {room}) for room, others in found.items()}


def test_imports_go_round_in_no_circle() -> None:
    found = around({name_of(file): needed(file) for file in FILES})
    assert found - CIRCLES == set(), "new"
    assert CIRCLES - found == set(), "mended: take it off the list"


@pytest.mark.parametrize("file", BESIDE_SCRAPY, ids=name_of)
def test_an_adapter_knows_no_status(file: Path) -> None:
    """What one says of a host or a page stands in the core. Any number that may be one is taken for one."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    numbers = {node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is int}
    assert {number for number in numbers if 300 < number < 600} <= STATUSES_OF_ADAPTERS


def privates(file: Path) -> Iterator[tuple[bool, str]]:
    """Every private name of a file that is defined there, or read of something else than ``self``."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield True, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield True, node.id
        elif isinstance(node, ast.Attribute):
            if not isinstance(node.value, ast.Name) or node.value.id not in ("self", "cls"):
                yield False, node.attr
            elif isinstance(node.ctx, ast.Store):
                yield True, node.attr


def test_private_names_of_others_are_touched_in_three_files() -> None:
    found = [(name_of(file), is_ours, name) for file in FILES for is_ours, name in privates(file)]
    ours = {name for _, is_ours, name in found if is_ours}
    theirs = {(file, name) for file, _, name in found if re.match("_[a-z]", name) and name not in ours}
    foreign = {file for file, name in theirs if name not in NAMED_TUPLES}
    assert foreign <= {
        "crawl/scrapy_internals.py",
        "crawl/link_extractor.py",
    }, theirs


def test_no_class_name_means_two_things() -> None:
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in FILES]
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    found = {name for name, count in names.items() if count > 1 and not name.startswith("_")}
    assert found == SAME_NAMES


def constants(file: Path) -> Iterator[str]:
    """Its public constants."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id[0].isupper():
                    yield inner.id


def test_no_public_constant_means_two_things() -> None:
    """Kinds of rows and reasons may be called as what they are of: where there is another they are said with
    their module."""
    found = {name_of(file): set(constants(file)) for file in FILES}
    names = Counter(name for public in found.values() for name in public)
    shared = {name for name, count in names.items() if count > 1}
    names.subtract(name for module in SAID_WITH_MODULE for name in found[module])
    assert {name for name, count in names.items() if count > 1} == set()
    modules = [name[:-3].replace("/", ".") for name in SAID_WITH_MODULE]
    bare = {f"scrapy_frontier.{module}.{name}" for module in modules for name in shared}
    assert [name_of(file) for file in FILES if imports(file) & bare] == []


def test_ids_of_pages_are_said_to_be_such() -> None:
    assert [name_of(file) for file in FILES if "page_id: int" in file.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("file", CORE, ids=name_of)
def test_the_core_knows_nothing_of_scrapy_or_an_event_loop(file: Path) -> None:
    assert {name.split(".")[0] for name in imports(file)}.isdisjoint(OUTSIDE)


def test_types_of_the_core_say_what_they_are_of() -> None:
    assert {name_of(file) for file in CORE if "typing.Any" in imports(file)} == SAY_ANY


@pytest.mark.parametrize("file", CORE, ids=name_of)
def test_the_core_knows_nothing_of_its_adapters(file: Path) -> None:
    ours = {name for name in imports(file) if name.split(".")[0] == "scrapy_frontier"}
    assert all(name.startswith("scrapy_frontier.core.") for name in ours)


def made(tree: ast.AST) -> list[str]:
    """What is made there, or called by its name alone, in order."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    calls = sorted(calls, key=lambda node: (node.end_lineno, node.end_col_offset))
    return [node.func.id for node in calls if isinstance(node.func, ast.Name)]


@pytest.mark.parametrize("file", [file for file in CORE if room_of(name_of(file)) in PARTLY], ids=name_of)
def test_no_part_makes_another(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert not set(made(tree)) & set(PARTS)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert {node.name for node in classes if "batch: Batch" in ast.unparse(node)} <= {*PARTS, *PARTS_OF_PARTS}


def changed(file: Path) -> Iterator[str]:
    """What *file* sets, sets or deletes something in, or adds to or takes out of, as ``batch.counts.due``: by
    dotted names without ``self`` and leading underscores."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            is_set = isinstance(node.ctx, (ast.Store, ast.Del))
            of_it = node if is_set and isinstance(node, ast.Attribute) else node.value
            names = next(chains(of_it), [])
            if names and (is_set or getattr(node, "attr", "") in CHANGING):
                yield ".".join(name.lstrip("_") for name in names if name != "self")


@pytest.mark.parametrize("state", OWNERS)
def test_each_piece_of_state_has_one_owner(state: str) -> None:
    names = {name_of(file): {f".{name}" for name in changed(file)} for file in FILES}
    found = [file for file in names if any(name.endswith(f".{state}") for name in names[file])]
    assert found == [OWNERS[state]]


def test_each_field_of_a_host_has_one_owner() -> None:
    """The turns of `core/admin/scores.py` are over hosts of its own."""
    files = [file for file in CORE if room_of(name_of(file)) != "core/admin"]
    found = {(name, name_of(file)) for file in files for name in changed(file) if name.startswith("host.")}
    assert len(found) > 20
    assert [name for name, count in Counter(name for name, _ in found).items() if count > 1] == []


def test_no_part_changes_what_another_keeps() -> None:
    """Nor what is in it, by whatever name it knows the other; of it, it calls methods."""
    files = [file for file in CORE if room_of(name_of(file)) in {*PARTLY, "core/frontier"}]
    typed = re.compile(rf"\b_?(\w+): ({'|'.join(PARTS)})\b")
    parts = {name for file in files for name, _ in typed.findall(file.read_text(encoding="utf-8"))}
    found = {(name_of(file), name) for file in files for name in changed(file) if name not in FOR_ALL}
    assert {(file, name) for file, name in found if "." in name and name.split(".")[0] in parts} == AT_ONCE


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_only_the_store_touches_leveldb(file: Path) -> None:
    touches = any(name.split(".")[0] == "plyvel" for name in imports(file))
    assert touches == (name_of(file) == "core/store/leveldb.py")


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_only_the_store_lays_out_bytes(file: Path) -> None:
    room, text = room_of(name_of(file)), file.read_text(encoding="utf-8")
    assert room == "core/store" or "struct.Struct" not in text
    if room.startswith("core") and room not in ("core/store", "core/parse"):
        assert not re.findall(r"int\.from_bytes|\.to_bytes\(|\.tobytes\(|[\"']>u\d|json\.dumps", text)


@pytest.mark.parametrize("file", CORE, ids=name_of)
def test_the_core_reads_no_clock_and_shares_no_chance(file: Path) -> None:
    """Time and chance are arguments; a `random.Random` of one's own is one."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for *_, module, name in chains(tree):
        assert name not in CLOCKS.get(module, ()), f"{module}.{name}"
        assert module != "random" or name == "Random", f"random.{name}"
    taken = {name.rpartition(".")[::2] for name in imports(file)}
    for module, name in taken:
        assert name not in CLOCKS.get(module, ()), f"from {module} import {name}"
        assert module != "random" or name == "Random", f"from random import {name}"


LIGHT = """
import sys
{imports}
heavy = {{name.split(".")[0] for name in sys.modules}} & {{"plyvel", "numpy", "scipy", "twisted", "lxml"}}
print(sorted(heavy))
"""


def heavy_after(code: str) -> str:
    script = LIGHT.format(imports=code)
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert heavy_after("import scrapy_frontier") == "[]"


def test_the_commands_load_nothing_heavy_beside_scrapy() -> None:
    """Every `scrapy` command imports the entry module of ours."""
    without = heavy_after("import scrapy.commands, scrapy.cmdline")
    assert heavy_after("import scrapy.commands, scrapy.cmdline, scrapy_frontier.commands") == without


def test_public_names_are_found_when_they_are_used() -> None:
    for name in scrapy_frontier.__all__:
        assert getattr(scrapy_frontier, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = scrapy_frontier.Nothing


def test_type_checkers_find_the_public_names_where_they_are() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = filter(is_for_types, tree.body)
    told = {
        alias.name: node.module
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == scrapy_frontier._MODULES
    assert set(told) == set(scrapy_frontier.__all__)
