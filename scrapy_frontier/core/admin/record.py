"""A record of an export, and its fields: whatever is not of its kind raises `KeyError` or `TypeError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = TypeVar("Kind")
Record = dict[str, object]  # as JSON has it


def number(record: Record, name: str) -> int:
    """The whole number *name* of a record; true and false are 1 and 0. Raises `KeyError` where there is none,
    `TypeError` for anything else."""
    return _field(record, name, "whole number", int)


def real(record: Record, name: str) -> float:
    """The number *name* of a record, whole ones too; raises as `number`."""
    return float(_field(record, name, "number", int, float))


def text(record: Record, name: str) -> str:
    """The text *name* of a record. Raises as `number` does."""
    return _field(record, name, "text", str)


def several(record: Record, name: str, kind: type[Kind]) -> Sequence[Kind]:
    """The list *name* of a record; raises as `number`.

    Whoever takes them raises on what is not of this *kind*; it is not looked at here.
    """
    return _field(record, name, "list", list, tuple)


def fields(record: Record, name: str) -> Record:
    """The object *name* of a record; raises as `number`."""
    return _field(record, name, "object", dict)


def _field(record: Record, name: str, what: str, *kinds: type[Kind]) -> Kind:
    value = record[name]
    if not isinstance(value, kinds):
        raise TypeError(f"{name} is no {what}")
    return value
