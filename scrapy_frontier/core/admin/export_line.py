"""A line of an export, and its fields: whatever is not of its kind raises `KeyError` or `TypeError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = TypeVar("Kind")
Line = dict[str, object]  # as JSON has it


def number(line: Line, name: str) -> int:
    """The whole number *name* of a line; true and false are 1 and 0. Raises `KeyError` where there is none,
    `TypeError` for anything else."""
    return _field(line, name, "whole number", int)


def real(line: Line, name: str) -> float:
    """The number *name* of a line, whole ones too; raises as `number`."""
    return float(_field(line, name, "number", int, float))


def text(line: Line, name: str) -> str:
    """The text *name* of a line. Raises as `number` does."""
    return _field(line, name, "text", str)


def several(line: Line, name: str, kind: type[Kind]) -> Sequence[Kind]:
    """The list *name* of a line; raises as `number`.

    Whoever takes them raises on what is not of this *kind*; it is not looked at here.
    """
    return _field(line, name, "list", list, tuple)


def fields(line: Line, name: str) -> Line:
    """The object *name* of a line; raises as `number`."""
    return _field(line, name, "object", dict)


def _field(line: Line, name: str, what: str, *kinds: type[Kind]) -> Kind:
    value = line[name]
    if not isinstance(value, kinds):
        raise TypeError(f"{name} is no {what}")
    return value
