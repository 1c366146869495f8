"""Items and objects, taken apart into their fields or attributes, and made anew from these."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import Item
from scrapy.utils.python import global_object_name

from .class_paths import Unstorable, class_path, own_path

if TYPE_CHECKING:
    from collections.abc import Iterable

_ACTS = frozenset(("__call__", "__del__"))  # what no mere data has
# What an object has that is more than its attributes: it is made in a way of its own, is waited for or
# closed, or stands for another.
_MORE = frozenset(
    (
        *("__new__", "__getattr__", "__getattribute__", "__await__", "__enter__", "__aenter__"),
        *("__next__", "__anext__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
        *("__getnewargs__", "__getnewargs_ex__"),
    )
)


class _Bare:
    """A class whose objects have attributes and nothing else."""


def taken_apart(value: Any) -> tuple[str, str, dict[str, Any]]:
    """Whether *value* is an "item" or an "object", the path of its class, and its fields or attributes;
    raises `Unstorable` where there is more to it."""
    kind = type(value)
    names = list(value) if isinstance(value, Item) else field_names(kind)
    if names is None or _has_more(value, kind, names):
        if not _is_plain_class(kind):
            raise Unstorable(f"{global_object_name(kind)} is not plain data")
        return "object", own_path(kind), vars(value)
    get = value.__getitem__ if isinstance(value, Item) else value.__getattribute__
    return "item", class_path(kind), {name: get(name) for name in names}


def item_of(cls: type, fields: dict[str, Any]) -> Any:
    """An item of *cls* with these fields, those it still has; raises `ValueError` for any other class."""
    if issubclass(cls, Item):
        return cls(fields)
    names = field_names(cls)
    if names is None:
        raise ValueError(f"{cls!r} is no class of items")
    if issubclass(cls, tuple):
        kept = {**getattr(cls, "_field_defaults", {}), **fields}
        return tuple.__new__(cls, [kept[name] for name in names])
    item = cls.__new__(cls)
    for name in names:
        if name in fields:
            object.__setattr__(item, name, fields[name])
    return item


def object_of(cls: type, attributes: Any) -> Any:
    """An object of *cls* with these attributes; no method of it is called. Raises `ValueError` for a class
    whose objects are more than that."""
    if not _is_plain_class(cls):
        raise ValueError(f"an object of {cls!r} is more than its attributes")
    made: Any = object.__new__(cls)
    made.__dict__.update(attributes)
    return made


def field_names(cls: type) -> list[str] | None:
    """The attributes of items of *cls*: a dataclass, a class made by attrs, a named tuple; None for any other
    class, and for one whose items act by themselves."""
    if any(not _ACTS.isdisjoint(vars(base)) for base in cls.__mro__):
        return None
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    if issubclass(cls, tuple):
        return getattr(cls, "_fields", None)
    attributes = getattr(cls, "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


def _has_more(value: Any, kind: type, names: Iterable[str]) -> bool:
    """Whether an item has attributes beside its fields, the *names*, that are not worked out from these."""
    more = getattr(value, "__dict__", {}).keys() - {"_values", *names}
    return any(not isinstance(getattr(kind, name, None), cached_property) for name in more)


def _is_plain_class(cls: type) -> bool:
    """Whether the attributes of an object of *cls* are all there is to it, so that another with the same is
    as good."""
    for base in cls.__mro__[:-1]:
        own = vars(base)
        if own.get("__slots__") or not (_ACTS.isdisjoint(own) and _MORE.isdisjoint(own)):
            return False
    return bool(cls.__dictoffset__) and cls.__basicsize__ == _Bare.__basicsize__  # or it keeps more in C
