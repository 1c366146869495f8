"""The layers of the package: who may import whom, no circles, a pure core, and one writer for each state."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import scrapy_frontier
from scrapy_frontier.commands import COMMANDS

PACKAGE = Path(scrapy_frontier.__file__).parent
FILES = sorted(file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py")
CORE = [file for file in FILES if (PACKAGE / "core") in file.parents]

# A room is a folder, or a file that stands alone. Each may import itself and what is listed.
BELOW_PAGES = {
    "core",
    *(f"core/{name}" for name in ("transitions", "parse", "store", "hosts", "ranking", "revisits")),
}
BELOW_CRAWL = {*BELOW_PAGES, "core/pages", "core/frontier", "settings", "signals"}
BESIDE_CRAWL = {*BELOW_CRAWL, "crawl"}
ALLOWED = {
    "core": set(),
    "core/parse": {"core"},
    "core/store": {"core"},
    "core/transitions": {"core", "core/store"},
    "core/ranking": {"core", "core/store"},
    "core/hosts": {"core", "core/store", "core/parse"},
    "core/revisits": BELOW_PAGES - {"core/ranking"},
    "core/pages": BELOW_PAGES,
    "core/frontier": {*BELOW_PAGES, "core/pages"},
    "core/admin": {*BELOW_PAGES, "core/pages"},
    "settings": {*BELOW_PAGES, "core/pages"},
    "signals": set(),
    "addon": {"settings"},
    "shared": {*BELOW_PAGES, "core/pages", "core/frontier"},
    "crawl": {*BELOW_CRAWL, "core/admin", "shared"},
    "downloadermiddlewares": BESIDE_CRAWL,
    "spidermiddlewares": BESIDE_CRAWL,
    "extensions": BESIDE_CRAWL,
    "spiders": {*BESIDE_CRAWL, "addon"},
    "live": {*BESIDE_CRAWL, "core/admin", "commands"},
    "commands": {*BESIDE_CRAWL, "core/admin", "addon", "live", "shared"},
}
ALONE = {"core/frontier.py", "core/transitions.py"}  # a room of its own within a folder

# The one file that changes a piece of state after it was made.
OWNERS = {
    "host.visited": "core/hosts/politeness.py",
    "is_on_wire": "core/hosts/politeness.py",
    "was_sent": "core/hosts/politeness.py",
    "is_complete": "core/store/batch.py",
    "in_memory": "crawl/queued.py",
    "by_follow_up": "crawl/in_flight.py",
    "links_with": "crawl/in_flight.py",
    "unfiltered": "crawl/enqueue.py",
}
CHANGING = {"add", "append", "clear", "discard", "pop", "remove", "setdefault", "update"}
CLOCKS = {
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "now",
    "utcnow",
    "today",
}
PRIVATE_OF_NAMED_TUPLES = {
    "_replace",
    "_asdict",
    "_fields",
    "_field_defaults",
    "_make",
}  # public, by their documentation


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def room_of(name: str) -> str:
    folder = name.rpartition("/")[0]
    return name.removesuffix(".py") if name in ALONE else folder or name.removesuffix(".py")


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> frozenset[str]:
    """Absolute names of all that *file* imports, also within functions and for type checkers."""
    package, found = ["scrapy_frontier", *file.relative_to(PACKAGE).parent.parts], set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@cache
def needed(file: Path) -> frozenset[str]:
    """Our own files that *file* imports."""
    found = set()
    for name in imports(file):
        first, *parts = name.split(".")
        paths = [f"{'/'.join(path)}.py" for path in (parts, parts[:-1])] if first == "scrapy_frontier" else []
        found |= set([path for path in paths if (PACKAGE / path).is_file()][:1])
    return frozenset(found - {name_of(file)})


def chains(file: Path) -> Iterator[tuple[list[str], ast.AST]]:
    """Every dotted name in *file*, as its parts, with its node."""
    for node in ast.walk(tree_of(file)):
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name):
            yield [inner.id, *parts], node


def changed(file: Path) -> Iterator[str]:
    """Dotted names that *file* assigns to, or whose contents it changes, without leading underscores."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Attribute | ast.Subscript):
            is_set = isinstance(node.ctx, ast.Store | ast.Del)
            is_changed = isinstance(node, ast.Attribute) and node.attr in CHANGING
            if is_set or is_changed:
                target = node if is_set and isinstance(node, ast.Attribute) else node.value
                yield ".".join(part.strip("_") for part in ast.unparse(target).split("[")[0].split("."))


def test_every_room_is_listed() -> None:
    assert {room_of(name_of(file)) for file in FILES} == set(ALLOWED)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_imports_only_from_rooms_below(file: Path) -> None:
    room = room_of(name_of(file))
    assert {room_of(name) for name in needed(file)} <= {room, *ALLOWED[room]}


def test_no_imports_form_a_circle() -> None:
    needs = {name_of(file): needed(file) for file in FILES}
    while free := {name for name, others in needs.items() if not others & needs.keys()}:
        needs = {name: others for name, others in needs.items() if name not in free}
    assert needs == {}


@pytest.mark.parametrize("file", CORE, ids=name_of)
def test_the_core_is_pure(file: Path) -> None:
    """It imports no Scrapy and no event loop; time and chance are arguments."""
    assert {name.split(".")[0] for name in imports(file)}.isdisjoint({"scrapy", "twisted", "asyncio"})
    for (*_, module, name), _ in chains(file):
        assert not (module in ("time", "datetime", "date") and name in CLOCKS), f"{module}.{name}"
        assert module != "random" or name == "Random", f"random.{name}"
    for module, _, name in (name.rpartition(".") for name in imports(file)):
        assert not (module == "time" and name in CLOCKS), f"from time import {name}"
        assert module != "random" or name == "Random", f"from random import {name}"


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_only_the_store_touches_leveldb(file: Path) -> None:
    touches = any(name.split(".")[0] in {"plyvel", "plyvel_next"} for name in imports(file))
    assert not touches or name_of(file).startswith("core/store/leveldb")


@pytest.mark.parametrize("state", OWNERS)
def test_each_piece_of_state_has_one_writer(state: str) -> None:
    found = [
        name_of(file) for file in FILES if any(f".{name}".endswith(f".{state}") for name in changed(file))
    ]
    assert found == [OWNERS[state]]


def test_private_names_of_scrapy_are_used_in_one_file() -> None:
    ours, used = set(), set()
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                ours.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                ours.add(node.id if isinstance(node, ast.Name) else node.attr)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
                used.add((name_of(file), node.attr))
    private = {(file, name) for file, name in used if re.match("_[a-z]", name) and name not in ours}
    foreign = {file for file, name in private if name not in PRIVATE_OF_NAMED_TUPLES}
    assert foreign <= {"crawl/scrapy_internals.py", "crawl/bulk_follow.py"}


def heavy_after(code: str) -> str:
    heavy = {"plyvel", "plyvel_next", "numpy", "scipy", "twisted", "lxml"}
    script = f"import sys\n{code}\nprint(sorted({{name.split('.')[0] for name in sys.modules}} & {heavy}))"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_importing_the_package_or_its_commands_loads_nothing_heavy() -> None:
    """Every `scrapy` command imports the entry module of ours."""
    assert heavy_after("import scrapy_frontier") == "[]\n"
    without = heavy_after("import scrapy.commands, scrapy.cmdline")
    assert heavy_after("import scrapy.commands, scrapy.cmdline, scrapy_frontier.commands") == without


def test_only_a_command_that_ranks_loads_scipy() -> None:
    modules = sorted({f"scrapy_frontier.commands.{spec.module}" for spec in COMMANDS.values()})
    assert "scipy" not in heavy_after(f"import scrapy_frontier.commands.call, {', '.join(modules)}")


def test_public_names_are_where_type_checkers_and_users_find_them() -> None:
    for name in scrapy_frontier.__all__:
        assert getattr(scrapy_frontier, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = scrapy_frontier.Nothing
    (block,) = [node for node in tree_of(PACKAGE / "__init__.py").body if isinstance(node, ast.If)][:1]
    told = {alias.name: node.module for node in block.body for alias in node.names}
    assert told == scrapy_frontier._MODULES
