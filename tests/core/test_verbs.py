"""The page of the verbs and the class say the same; nobody asks the frontier for anything else."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import scrapy_frontier
from scrapy_frontier.core.frontier import Frontier

PACKAGE = Path(scrapy_frontier.__file__).parent
ROOT = Path(__file__).parent.parent.parent
FIELDS = {"was_clean"}
PAGE = (ROOT / "docs" / "internals" / "verbs.md").read_text(encoding="utf-8")


def told() -> dict[str, str]:
    """The verbs of the page with parameters and answer, as they stand in its tables."""
    cells = re.findall(r"^\| `(\w+)(\(.*?)` \| ", PAGE, re.MULTILINE)
    return {name: signature.replace("\\|", "|") for name, signature in cells}


def signature(name: str) -> str:
    found = inspect.signature(getattr(Frontier, name))
    given = [each.replace(annotation=each.empty) for each in found.parameters.values() if each.name != "self"]
    answer = "" if found.return_annotation in ("None", None) else f" -> {found.return_annotation}"
    return f"({', '.join(map(str, given))}){answer}"


def public() -> set[str]:
    return {name for name in vars(Frontier) if not name.startswith("_")}


def test_the_page_tells_each_verb_as_it_is() -> None:
    verbs = {name for name in public() if callable(getattr(Frontier, name))}
    assert told() == {name: signature(name) for name in verbs}


def test_the_page_names_what_is_there_without_a_call(tmp_path: Path) -> None:
    last = PAGE[PAGE.index("And without a call:") :]
    fields = {name for name in public() if isinstance(getattr(Frontier, name), property)}
    fields |= FIELDS
    assert set(re.findall(r"`(\w+)`", last)) == fields


def asked(file: Path) -> Iterator[str]:
    """Names that *file* looks up in something called a frontier."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name in ("frontier", "_frontier"):
                yield node.attr


@pytest.mark.parametrize(
    "room", ["crawl", "downloadermiddlewares", "spidermiddlewares", "extensions", "commands"]
)
def test_adapters_ask_for_nothing_else(room: str) -> None:
    found = {name for file in (PACKAGE / room).rglob("*.py") for name in asked(file)}
    assert found - public() - FIELDS == set()
