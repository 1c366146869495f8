"""The glossary is true: what it names is there, and no name uses a word that it gives up."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "scrapy_frontier"
PAGE = (ROOT / "docs" / "internals" / "glossary.md").read_text(encoding="utf-8")
GIVEN_BY_OTHERS = {"exc_info"}  # the logging module's


def defined(tree: ast.AST) -> Iterator[str]:
    """Names of classes, functions, parameters and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_what_the_glossary_names_is_where_it_says() -> None:
    named = re.findall(r"`([\w/]+\.py)` `(\w+)`", PAGE)
    rows = re.findall(r"^\| \w.* \| .* \| `.*\.py` ", PAGE, re.MULTILINE)
    assert len(named) == len(rows) > 50
    for file, name in named:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        assert name in {getattr(node, "name", "") for node in tree.body}, (file, name)


def test_no_name_uses_a_word_that_is_given_up() -> None:
    table = PAGE[PAGE.index("| not | but |") :]
    given_up = {
        word
        for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for word in re.findall(r"\w+", cell)
    }
    assert len(given_up) > 15
    for file in PACKAGE.rglob("*.py"):
        for name in {file.stem, *defined(ast.parse(file.read_text(encoding="utf-8")))} - GIVEN_BY_OTHERS:
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
            assert not words & given_up, (file, name)
