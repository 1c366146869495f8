"""Which component sets which stat, read from the code.

What the scheduler's module imports is the scheduler's; a middleware or extension has its own module and what
that imports, and what the crawl imports only where that component is at work (`has_middleware`).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_frontier import _MODULES, addon
from scrapy_frontier.core.pages.traps import TRAPS
from scrapy_frontier.crawl.log import refusal_stat

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parent.parent / "scrapy_frontier"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
COMPONENTS = {
    path.rpartition(".")[2] for paths in (addon.REPLACED, *addon.COMPONENTS.values()) for path in paths
}
REFUSED_LINKS = {refusal_stat(kind) for kind in (*TRAPS, "deferred", "over_budget")}


def _home(component: str) -> Path:
    return PACKAGE.joinpath(*_MODULES[component].split(".")).with_suffix(".py")


def _imported(node: ast.AST, file: Path) -> Iterator[Path]:
    """The files of the package that the statements of *node*, a part of *file*, import."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.ImportFrom) and each.level:
            place = file.parents[each.level - 1].joinpath(*(each.module or "").split("."))
            for found in (place, *(place / alias.name for alias in each.names)):
                yield from {found.with_suffix(".py"), found / "__init__.py"} & TREES.keys()


def _with_all_they_import(files: set[Path]) -> set[Path]:
    found: set[Path] = set()
    while files:
        found |= files
        files = {each for file in files for each in _imported(TREES[file], file)} - found
    return found


def _made_for(component: str, files: set[Path]) -> set[Path]:
    """What *files* import only where *component* is at work."""
    words, found = {component}, set()
    for file in sorted(files):
        for node in ast.walk(TREES[file]):
            if isinstance(node, ast.Assign | ast.If):
                asked = node.value if isinstance(node, ast.Assign) else node.test
                if not words & set(re.findall(r"\w+", ast.unparse(asked))):
                    continue
                if isinstance(node, ast.If):
                    found |= set(_imported(node, file))
                else:  # a constant that is its name, a flag that says whether it is at work
                    words |= {re.findall(r"\w+", ast.unparse(target))[-1] for target in node.targets}
    return found


def _places() -> Iterator[tuple[str, Path, str]]:
    """Each stat that is named in the code: by itself or by how it begins; the file, and the class or function
    there."""
    for file, tree in TREES.items():
        for part in tree.body:
            for node in ast.walk(part):
                if isinstance(node, ast.Constant) and re.fullmatch(r"frontier/[\w/-]+", str(node.value)):
                    yield str(node.value), file, getattr(part, "name", "")
                elif isinstance(node, ast.Call) and ast.unparse(node.func) == refusal_stat.__name__:
                    yield from ((stat, file, getattr(part, "name", "")) for stat in REFUSED_LINKS)


def setters() -> dict[str, list[set[str]]]:
    """For each stat, or what it begins with, the places where it is set: of each the components whose code
    stands there."""
    scheduler = _with_all_they_import({_home("FrontierScheduler")})
    owned = {"scheduler": scheduler}
    for component in COMPONENTS:
        files = {_home(component)} | _made_for(component, scheduler)
        owned[component] = _with_all_they_import(files) - scheduler
    found: dict[str, list[set[str]]] = {}
    for stat, file, name in _places():
        owners = {name} & COMPONENTS or {component for component, files in owned.items() if file in files}
        found.setdefault(stat, []).append(owners)
    return found
