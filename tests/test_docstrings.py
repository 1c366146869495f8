"""What docstrings mark as a parameter is one, and what they name is there."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
TREES = {
    path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "scrapy_frontier").rglob("*.py")
}


def named_in_docstrings() -> Iterator[tuple[str, str, set[str], str]]:
    """File, function or class, its parameters and fields, and a name that its docstring marks as one."""

    def walk(node: ast.AST, outer: set[str]) -> Iterator[tuple[str, set[str], str]]:
        for child in ast.iter_child_nodes(node):
            known = set(outer)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                known |= {each.arg for each in ast.walk(child.args) if isinstance(each, ast.arg)}
            elif isinstance(child, ast.ClassDef):
                made = [each for each in child.body if getattr(each, "name", "") in ("__init__", "__new__")]
                known = {each.arg for init in made for each in ast.walk(init) if isinstance(each, ast.arg)}
                fields = [each.target for each in child.body if isinstance(each, ast.AnnAssign)]
                known |= {each.id.lstrip("_") for each in fields if isinstance(each, ast.Name)}
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for name in re.findall(r"(?<![\w*`])\*([a-z_]+)\*(?![\w*])", ast.get_docstring(child) or ""):
                    yield child.name, known, name
            yield from walk(child, known if isinstance(child, ast.FunctionDef | ast.ClassDef) else outer)

    for path, tree in TREES.items():
        for where, known, name in walk(tree, set()):
            yield str(path.relative_to(ROOT)), where, known, name


def test_what_a_docstring_marks_as_a_parameter_is_one() -> None:
    told = list(named_in_docstrings())
    assert [(path, where, name) for path, where, known, name in told if name not in known] == []
    assert len(told) > 500


def defined_names(tree: ast.AST) -> set[str]:
    """What a module or class defines: functions, classes, variables, attributes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def test_every_dotted_name_in_a_docstring_is_there() -> None:
    """`module.name` and `Class.name`: in modules and classes of ours, else in one that can be imported."""
    owners: dict[str, set[str]] = {}
    told = set()
    for path, tree in TREES.items():
        owners.setdefault(path.parent.name, set()).add(path.stem)
        owners.setdefault(path.stem, set()).update(defined_names(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                owners.setdefault(node.name, set()).update(defined_names(node))
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                told.update(re.findall(r"(?<!`)`(\w+(?:\.\w+)+)`(?!`)", ast.get_docstring(node) or ""))
    for path_of_owner, _, name in (each.rpartition(".") for each in told):
        known = owners.get(path_of_owner.rpartition(".")[2])
        if known is None:
            known = set(vars(importlib.import_module(path_of_owner)))
        assert name in known, f"{path_of_owner}.{name}"
    assert len(told) > 60
