"""The house: imports point downwards, the core reads no clock, and the package itself is light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import scrapy_frontier

PACKAGE = Path(scrapy_frontier.__file__).parent
CORE = sorted((PACKAGE / "core").glob("*.py"))
ADAPTERS = sorted(file for file in PACKAGE.rglob("*.py") if (PACKAGE / "core") not in file.parents)
OUTSIDE = {"scrapy", "twisted", "asyncio"}
CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def name_of(file: Path) -> str:
    return str(file.relative_to(PACKAGE))


def imports(file: Path, types: bool = True) -> Iterator[str]:
    """Absolute names of all that *file* imports, also within functions; for type checkers only if *types*."""
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


def core_modules(file: Path, types: bool = True) -> set[str]:
    """Names of the core's modules that *file* imports."""
    inner = [name.split(".") for name in imports(file, types) if name.startswith("scrapy_frontier.core.")]
    return {parts[2] for parts in inner}


def chains(node: ast.AST) -> Iterator[list[str]]:
    """Every dotted name in *node*, as its parts."""
    for inner in ast.walk(node):
        parts: list[str] = []
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and parts:
            yield [inner.id, *parts]


def test_there_is_something_to_check() -> None:
    names = {file.stem for file in CORE}
    assert {"frontier", "store", "hosts", "records", "keys", "varint", "lifecycle", "errors"} <= names


@pytest.mark.parametrize("file", CORE, ids=name_of)
def test_the_core_knows_nothing_of_scrapy_or_an_event_loop(file: Path) -> None:
    assert {name.split(".")[0] for name in imports(file)}.isdisjoint(OUTSIDE)


@pytest.mark.parametrize("file", CORE, ids=name_of)
def test_the_core_knows_nothing_of_its_adapters(file: Path) -> None:
    ours = {name for name in imports(file) if name.split(".")[0] == "scrapy_frontier"}
    assert all(name.startswith("scrapy_frontier.core.") for name in ours)


@pytest.mark.parametrize("file", CORE, ids=name_of)
def test_only_the_store_touches_leveldb(file: Path) -> None:
    assert (file.stem == "store") == any(name.split(".")[0] == "plyvel" for name in imports(file))


@pytest.mark.parametrize("file", ADAPTERS, ids=name_of)
def test_no_adapter_touches_leveldb(file: Path) -> None:
    assert not any(name.split(".")[0] == "plyvel" for name in imports(file))


@pytest.mark.parametrize("file", CORE, ids=name_of)
def test_nothing_in_the_core_stands_on_the_frontier_and_nobody_opens_a_store(file: Path) -> None:
    """`Frontier` gets its store as an argument; its type may be named."""
    assert "frontier" not in core_modules(file)
    assert "store" not in core_modules(file, types=False)


def test_what_thinks_about_bytes_and_text_knows_no_store_at_all() -> None:
    for name in ("errors", "varint", "lifecycle", "keys", "records", "hosts"):
        assert "store" not in core_modules(PACKAGE / "core" / f"{name}.py")


PARSERS = {
    *("urls", "hostnames", "traps", "dates", "relations", "headers", "pagehead", "directives"),
    *("robots", "robots_rules", "robots_answers", "sitemaps", "sitemap_bytes"),
}


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_what_reads_the_texts_of_the_web_knows_nothing_of_a_crawl(name: str) -> None:
    assert core_modules(PACKAGE / "core" / f"{name}.py") <= PARSERS


def test_imports_in_the_core_go_round_in_no_circle() -> None:
    below = {file.stem: core_modules(file) - {file.stem} for file in CORE}
    while bottom := {name for name, needed in below.items() if not needed & set(below)}:
        below = {name: needed for name, needed in below.items() if name not in bottom}
    assert below == {}


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


@pytest.mark.skipif(not (PACKAGE / "commands").exists(), reason="there are no commands yet")
def test_the_commands_load_nothing_heavy_beside_scrapy() -> None:
    """Every `scrapy` command imports the entry module of ours."""
    without = heavy_after("import scrapy.commands, scrapy.cmdline")
    assert heavy_after("import scrapy.commands, scrapy.cmdline, scrapy_frontier.commands") == without


def test_public_names_are_found_when_they_are_used() -> None:
    for name in scrapy_frontier.__all__:
        assert getattr(scrapy_frontier, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = scrapy_frontier.Nothing
