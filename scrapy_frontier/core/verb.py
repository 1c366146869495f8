"""A verb of the frontier that one of its parts does alone: no call in between."""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")
Part = TypeVar("Part")


class Verb(Generic[P, R]):
    """What *does* it, of the part that the frontier keeps by the name *part*: its promise stands there.

    It is bound when it is asked for first; from then on it is an attribute of the frontier like any other.
    """

    def __init__(self, part: str, does: Callable[Concatenate[Part, P], R]) -> None:
        self._part = part
        self._does = does

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, frontier: object | None, owner: type) -> Callable[P, R]:
        found: Callable[..., R] = self._does
        if frontier is not None:
            found = vars(frontier)[self._name] = MethodType(self._does, getattr(frontier, self._part))
        return found
