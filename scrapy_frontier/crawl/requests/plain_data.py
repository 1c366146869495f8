"""Plain data as JSON and back: what the values in ``meta``, ``cb_kwargs`` and the like may be.

Never pickle: reading imports nothing, and makes nothing but items and members of enumerations, of classes
that are there already.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from base64 import b64decode, b64encode
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import Item
from scrapy.utils.python import global_object_name

if TYPE_CHECKING:
    from collections.abc import Callable

TAGGED = b'"!":'  # stands in the text of all data that has a tag
TAG = "!"
_ACTS = frozenset(("__call__", "__del__"))  # what no mere data has
_SCALARS = (str, int, float, bool, type(None))
FIXED = frozenset((*_SCALARS, bytes, datetime, date, Decimal))  # types of values that nobody can change
dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class Unstorable(ValueError):
    """A request holds something that is not plain data, or a callback that is no method of the spider."""


def to_plain(value: Any) -> Any:
    """*value* as JSON can hold it, types kept by tags; raise `Unstorable` for anything but plain data.

    Text and numbers of a class of their own come back as plain ones: link extractors and parsers make such
    text, and a `CrawlSpider` puts it into ``meta``.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        if all(type(key) is str and key != TAG for key in value):
            return {key: to_plain(item) for key, item in value.items()}
        return {TAG: "dict", "v": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    if kind is list:
        return [to_plain(item) for item in value]
    if kind is tuple:
        return {TAG: "tuple", "v": [to_plain(item) for item in value]}
    if kind is set or kind is frozenset:
        return {TAG: kind.__name__, "v": sorted((to_plain(item) for item in value), key=repr)}
    if kind is bytes:
        return {TAG: "bytes", "v": b64encode(value).decode()}
    if kind is datetime or kind is date:
        return {TAG: kind.__name__, "v": value.isoformat()}
    return _rare_to_plain(value, kind)


def _rare_to_plain(value: Any, kind: type) -> Any:
    if isinstance(value, Enum):
        return {TAG: "enum", "class": class_path(kind), "v": value.name}
    if kind is Decimal:
        return {TAG: "Decimal", "v": str(value)}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    names = list(value) if isinstance(value, Item) else _field_names(kind)
    if names is None:
        raise Unstorable(f"{global_object_name(kind)} is not plain data")
    get = value.__getitem__ if isinstance(value, Item) else value.__getattribute__
    fields = {name: to_plain(get(name)) for name in names}
    return {TAG: "item", "class": class_path(kind), "v": fields}


def is_mutable(value: Any) -> bool:
    """Whether *value* is or holds something that can be changed, so that it matters which copy one has."""
    kind = type(value)
    if kind in FIXED or isinstance(value, (str, int, float, Enum)):
        return False
    if kind is tuple or kind is frozenset:
        return any(map(is_mutable, value))
    if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return any(is_mutable(getattr(value, name)) for name in _field_names(kind) or ())
    return True


def _field_names(cls: type) -> list[str] | None:
    """The attributes of items of *cls*, a dataclass or a class made by attrs; None for any other class, and
    for one whose items act by themselves."""
    if any(not _ACTS.isdisjoint(vars(base)) for base in cls.__mro__):
        return None
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    attributes = getattr(cls, "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


def class_path(cls: type) -> str:
    """The path (module.name) by which *cls* can be found again; raises `Unstorable` if there is none."""
    path = global_object_name(cls)
    try:
        found = class_at(path)
    except ValueError:
        found = None
    if found is not cls:
        raise Unstorable(f"class {path} cannot be found again")
    return path


def class_at(path: str) -> type:
    """The class *path* names, of a module that this project has imported; raise `ValueError` for any other.

    Nothing is imported: whoever wrote the path may be a stranger.
    """
    module, _, name = path.rpartition(".")
    if module not in sys.modules:
        raise ValueError(f"{path} is of a module that this project has not imported")
    found = vars(sys.modules[module]).get(name)  # no `getattr`: modules may import what is asked of them
    if not isinstance(found, type):
        raise ValueError(f"{path} is no class")
    return found


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`. Imports nothing; raises `ValueError` on an unknown tag or class, and what
    nonsense behind a known tag raises."""
    if type(value) is list:
        return [from_plain(item) for item in value]
    if type(value) is not dict:
        return value
    if TAG not in value:
        return {key: from_plain(item) for key, item in value.items()}
    tag = value[TAG]
    if tag == "item" or tag == "enum":
        return _instance(class_at(value["class"]), value["v"])
    untag = _UNTAG.get(str(tag))
    if untag is None:
        raise ValueError(f"unknown tag {tag!r}")
    return untag(value.get("v"))


def _instance(cls: type, value: Any) -> Any:
    """The member *value* of an enumeration, or an item of *cls* with these fields, those it still has."""
    if issubclass(cls, Enum):
        return cls.__members__[value]
    fields = {name: from_plain(field) for name, field in value.items()}
    if issubclass(cls, Item):
        return cls(fields)
    names = _field_names(cls)
    if names is None:
        raise ValueError(f"{cls!r} is no class of items")
    item = cls.__new__(cls)
    for name in names:
        if name in fields:
            object.__setattr__(item, name, fields[name])
    return item


_UNTAG: dict[str, Callable[[Any], Any]] = {
    "dict": lambda value: {from_plain(key): from_plain(item) for key, item in value},
    "tuple": lambda value: tuple(map(from_plain, value)),
    "set": lambda value: set(map(from_plain, value)),
    "frozenset": lambda value: frozenset(map(from_plain, value)),
    "bytes": partial(b64decode, validate=True),
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "Decimal": Decimal,
}
