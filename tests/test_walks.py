"""The benchmark that traces how far a link and a page walk knows where walks begin."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import scrapy_frontier

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
walks = pytest.importorskip("walks", reason="the benchmarks are not there")


def qualified(node: ast.AST, within: str = "") -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + child.name
            inner = "" if isinstance(child, ast.ClassDef) else ".<locals>"
            yield from qualified(child, f"{within}{child.name}{inner}.")


def test_every_walk_begins_in_a_function_there_is() -> None:
    files = Path(scrapy_frontier.__file__).parent.rglob("*.py")
    names = {name for file in files for name in qualified(ast.parse(file.read_text(encoding="utf-8")))}
    for title, kind in walks.KINDS.items():
        assert kind.begins in names, title
        assert not kind.through or names & set(kind.through), title
