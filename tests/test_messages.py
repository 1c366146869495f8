"""Every error and every warning of the package tells the person who reads it what to do."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import scrapy_frontier

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(scrapy_frontier.__file__).parent
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(PACKAGE.rglob("*.py"))}
NODES = [node for tree in TREES.values() for node in ast.walk(tree)]
LEVELS = {"warning", "error", "exception", "critical", "WARNING", "ERROR", "CRITICAL"}
# What begins a remedy; a question counts as one.
REMEDY = re.compile(
    r"\b(add|ask|check|export|fetch|fix|free|give|import|install|keep|let|look|make|mend|move|name|pass|put|"
    r"remove|report|restore|run|see|set|start|stop|turn|unset|use|wait|write)\b|meant\?",
    re.IGNORECASE,
)

HANDED_ON = {"", "%s"}  # what an error of ours says, with its remedy


def ours() -> set[str]:
    """The classes of errors that end a crawl or a command, and Scrapy's two that we raise with words."""
    names = {"FrontierError", "UsageError", "NotConfigured"}
    for _ in range(3):  # of subclasses of subclasses
        for node in NODES:
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                names |= {node.name} if bases & names else set()
    return names


ERRORS = ours()
FUNCTIONS = {node.name: node for node in NODES if isinstance(node, ast.FunctionDef)}


def texts(node: ast.AST) -> str:
    parts = node.body if isinstance(node, ast.FunctionDef) else [node]
    if ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None:
        parts = parts[1:]
    found = [each.value for part in parts for each in ast.walk(part) if isinstance(each, ast.Constant)]
    return " ".join(each for each in found if isinstance(each, str))


def words_of(call: ast.Call, tree: ast.AST) -> str:
    """All that a message is made of: what stands in it, what is kept by a name, what a function makes."""
    found = [texts(each) for each in call.args]
    for node in (inner for each in call.args for inner in ast.walk(each)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            found.append(texts(FUNCTIONS[node.func.id]))
        elif isinstance(node, ast.Name):
            found += [
                texts(each.value)
                for each in (NODES if node.id.isupper() else ast.walk(tree))
                if isinstance(each, ast.Assign | ast.AnnAssign | ast.AugAssign) and each.value is not None
                for name in ast.walk(each)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.id == node.id
            ]
    return " ".join(found)


def messages() -> Iterator[tuple[str, str]]:
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = (
                node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            )
            levels = {each.attr for each in node.args if isinstance(each, ast.Attribute)}
            is_logged = isinstance(node.func, ast.Attribute) and bool(({function} | levels) & LEVELS)
            if function in ERRORS or is_logged:
                yield f"{file.relative_to(PACKAGE)}:{node.lineno}", words_of(node, tree)


FOUND = dict(messages())


def test_there_are_messages_to_look_at() -> None:
    assert len(FOUND) > 70
    assert not REMEDY.search("FRONTIER_DIGEST fails for %s (said once)")


@pytest.mark.parametrize("where", FOUND)
def test_a_message_names_the_remedy(where: str) -> None:
    words = FOUND[where]
    assert words.strip() in HANDED_ON or REMEDY.search(words), words


def test_no_message_sends_to_a_page_of_the_docs() -> None:
    """They are not installed with the package."""
    prose = {node.value for node in NODES if isinstance(node, ast.Expr)}
    found = [node.value for node in NODES if isinstance(node, ast.Constant) and node not in prose]
    assert [text for text in found if "docs/" in str(text)] == []
