"""The glossary is true: what it names is there, and neither names nor pages use a word that it gives up."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "scrapy_frontier"
PAGE = (ROOT / "docs" / "internals" / "glossary.md").read_text(encoding="utf-8")
GIVEN_BY_OTHERS = {"exc_info"}  # the logging module's


def defined(tree: ast.AST) -> Iterator[str]:
    """Names of classes, functions, parameters, attributes and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id.isupper():
            yield node.id


def test_what_the_glossary_names_is_where_it_says() -> None:
    named = re.findall(r"`([\w/]+\.py)` `(\w+)`", PAGE)
    rows = re.findall(r"^\| \w.* \| .* \| `.*\.py` ", PAGE, re.MULTILINE)
    assert len(named) == len(rows) > 50
    for file, name in named:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        assert name in {getattr(node, "name", "") for node in tree.body}, (file, name)


GAP = r"[\s#]+(?:[\w*`'-]+[\s#]+){0,3}"  # between the words of a phrase: up to three others


def given_up() -> Iterator[tuple[str, str, str]]:
    """Words that are not used, the cell that says what is instead, and what they may stand for in prose."""
    table = PAGE[PAGE.index("| not | but | in prose |") :]
    for words, but, in_prose in re.findall(r"^\| (`.*?) \| (.*) \|(.*) ?\|$", table, re.MULTILINE):
        yield from ((word, but, in_prose.strip()) for word in re.findall(r"`([^`]+)`", words))


def test_no_name_uses_a_word_that_is_given_up() -> None:
    words = {word.replace(" ", "_"): re.findall(r"`(core/.+?)`", but) for word, but, _ in given_up()}
    assert len(words) > 30
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE).as_posix()
        banned = [word for word, rooms in words.items() if not place.startswith(tuple(rooms))]
        found = re.compile(f"_({'|'.join(banned)})_")
        for name in {file.stem, *defined(ast.parse(file.read_text(encoding="utf-8")))} - GIVEN_BY_OTHERS:
            parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
            assert not found.search(f"_{'_'.join(parts)}_"), (file, name)


def comments_and_docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def prose(page: Path) -> str:
    """*page* without code, without where its links lead, and without the table of words that are given up."""
    text = page.read_text(encoding="utf-8").partition("\n## Words that are not used\n")[0]
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^ {4}.*$|`[^`\n]*`|\]\([^)\s]+\)", "", text, flags=re.MULTILINE)


def test_no_page_uses_a_word_that_is_given_up() -> None:
    banned = [word.replace(" ", GAP) for word, _, in_prose in given_up() if not in_prose]
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        assert re.findall(rf"\b(?:{'|'.join(banned)})\b", prose(page).replace("INFO", "").lower()) == [], page


def test_no_docstring_or_comment_uses_a_word_that_is_given_up() -> None:
    """Phrases are looked for in all of the text: names and messages have none either."""
    words = [word.replace(" ", GAP) for word, _, in_prose in given_up() if not in_prose or " " in word]
    banned = re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)
    phrases = re.compile(rf"\b(?:{'|'.join(word for word in words if '[' in word)})\b", re.IGNORECASE)
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert phrases.findall(text) == [], file
        for said in comments_and_docstrings(text):
            said = re.sub("`[^`]*`|context manager", "", said)  # code, and a word of Python's
            assert banned.findall(said) == [], (file, said)
