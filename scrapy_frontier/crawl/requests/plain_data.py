"""Plain data as JSON and back: what the values in ``meta``, ``cb_kwargs`` and the like may be.

Never pickle: reading imports nothing, and makes nothing but simple values of the standard library, and items,
members of enumerations and objects that are no more than their attributes, of classes that are there already.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scrapy import Item
from scrapy.utils.python import global_object_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TAGGED = b'"!":'  # stands in the text of all data that has a tag
TAG = "!"
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
_SCALARS = (str, int, float, bool, type(None))
_PATH, _PURE_PATH = type(Path()), type(PurePath())  # of this platform
_TIMES = datetime, date, time, timedelta, timezone
# Types of values that nobody can change.
FIXED = frozenset((*_SCALARS, *_TIMES, bytes, Decimal, UUID, complex, range, _PATH, _PURE_PATH))
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
        if value.name not in type(value).__members__:  # flags put together
            raise Unstorable(f"{value!r} is no member of {global_object_name(kind)}")
        return {TAG: "enum", "class": class_path(kind), "v": value.name}
    if kind is Decimal:
        return {TAG: "Decimal", "v": str(value)}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if kind in _SIMPLE:
        tag, arguments = _SIMPLE[kind]
        return {TAG: tag, "v": [to_plain(argument) for argument in arguments(value)]}
    if isinstance(value, type):
        return {TAG: "class", "v": _own_path(value)}
    names = list(value) if isinstance(value, Item) else _field_names(kind)
    if names is None or _has_more(value, kind, names):
        return _object_to_plain(value, kind)
    get = value.__getitem__ if isinstance(value, Item) else value.__getattribute__
    path = class_path(kind)
    return {
        TAG: "item",
        "class": path,
        "v": _held_by(value, lambda: {name: to_plain(get(name)) for name in names}),
    }


def _has_more(value: Any, kind: type, names: Iterable[str]) -> bool:
    """Whether an item has attributes beside its fields, the *names*, that are not worked out from these."""
    more = getattr(value, "__dict__", {}).keys() - {"_values", *names}
    return any(not isinstance(getattr(kind, name, None), cached_property) for name in more)


class _Bare:
    """A class whose objects have attributes and nothing else."""


_MOST_WITHIN = 5000  # objects and items in one
_written: set[int] = set()  # ids of those that are being written: each is held by the one before
_within: list[int] = []  # ids of all that were written in the first of them


def _object_to_plain(value: Any, kind: type) -> Any:
    """An object that is no more than its attributes."""
    if not _is_plain_class(kind):
        raise Unstorable(f"{global_object_name(kind)} is not plain data")
    path = _own_path(kind)
    return {TAG: "object", "class": path, "v": _held_by(value, lambda: to_plain(vars(value)))}


def _held_by(value: Any, write: Callable[[], Any]) -> Any:
    """What *write* makes of all that *value* holds, which may not be much. One that holds itself would be
    written again and again, with all it holds, until the stack has no room; and those that many hold (each
    category its ancestors, say) once for each way that leads to them."""
    if not _written:
        _within.clear()
    _within.append(id(value))
    if id(value) in _written or len(_within) > _MOST_WITHIN:
        raise Unstorable(f"{global_object_name(type(value))} holds itself, or too much, to be plain data")
    _written.add(id(value))
    try:
        return write()
    finally:
        _written.discard(id(value))


def _is_plain_class(cls: type) -> bool:
    """Whether the attributes of an object of *cls* are all there is to it, so that another with the same is
    as good."""
    for base in cls.__mro__[:-1]:
        own = vars(base)
        if own.get("__slots__") or not (_ACTS.isdisjoint(own) and _MORE.isdisjoint(own)):
            return False
    return bool(cls.__dictoffset__) and cls.__basicsize__ == _Bare.__basicsize__  # or it keeps more in C


def is_mutable(value: Any) -> bool:
    """Whether *value* is or holds something that can be changed, so that it matters which copy one has."""
    kind = type(value)
    if kind in FIXED or isinstance(value, (str, int, float, Enum, type)):
        return False
    if isinstance(value, tuple) or kind is frozenset:
        return any(map(is_mutable, value))
    if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return any(is_mutable(getattr(value, name)) for name in _field_names(kind) or ())
    return True


def _field_names(cls: type) -> list[str] | None:
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


def _own_path(cls: type) -> str:
    """`class_path` of a class that is a value, or has objects that are; raises `Unstorable` for one of the
    standard library: some start processes, and a plugin calls what it finds in a ``meta``."""
    path = class_path(cls)
    package = path.partition(".")[0]
    if package in sys.stdlib_module_names and package != "builtins":
        raise Unstorable(f"class {path} of the standard library is not plain data")
    return path


def _own_class_at(path: str) -> type:
    """The inverse of `_own_path`; raises `ValueError` for any other path, also of a class that a module has
    from elsewhere."""
    cls = class_at(path)
    if _own_path(cls) != path:
        raise ValueError(f"{path} is another class")
    return cls


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
    if tag == "object":
        return _object(_own_class_at(value["class"]), value["v"])
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
    if issubclass(cls, tuple):
        kept = {**getattr(cls, "_field_defaults", {}), **fields}
        return tuple.__new__(cls, [kept[name] for name in names])
    item = cls.__new__(cls)
    for name in names:
        if name in fields:
            object.__setattr__(item, name, fields[name])
    return item


def _object(cls: type, value: Any) -> Any:
    """An object of *cls* with these attributes; no method of it is called."""
    if not _is_plain_class(cls):
        raise ValueError(f"an object of {cls!r} is more than its attributes")
    made: Any = object.__new__(cls)
    made.__dict__.update(from_plain(value))
    return made


def _zone_arguments(zone: timezone) -> tuple[Any, ...]:
    offset, name = zone.utcoffset(None), zone.tzname(None)
    return (offset,) if name == timezone(offset).tzname(None) else (offset, name)


def _default_arguments(value: defaultdict[Any, Any]) -> tuple[Any, ...]:
    factory = value.default_factory
    if factory is None:
        return None, dict(value)
    name = getattr(factory, "__name__", "")
    if _FACTORIES.get(name) is not factory:
        raise Unstorable(f"a defaultdict that makes its values by {factory!r} is not plain data")
    return name, dict(value)


def _default_of(name: str | None, items: Any) -> defaultdict[Any, Any]:
    return defaultdict(None if name is None else _FACTORIES[name], items)


# What a defaultdict may call: nothing that a stranger chooses.
_FACTORIES: dict[str, Callable[[], Any]] = {
    cls.__name__: cls for cls in (bool, bytes, dict, float, int, list, set, str, tuple, Counter, OrderedDict)
}
# The simple types of the standard library: a tag, and the arguments that make such a value.
_SIMPLE: dict[type, tuple[str, Callable[[Any], Iterable[Any]]]] = {
    time: ("time", lambda v: (v.hour, v.minute, v.second, v.microsecond, v.tzinfo)),
    timedelta: ("timedelta", lambda v: (v.days, v.seconds, v.microseconds)),
    timezone: ("timezone", _zone_arguments),
    UUID: ("UUID", lambda v: (str(v),)),
    _PATH: ("Path", lambda v: (str(v),)),
    _PURE_PATH: ("PurePath", lambda v: (str(v),)),
    complex: ("complex", lambda v: (v.real, v.imag)),
    range: ("range", lambda v: (v.start, v.stop, v.step)),
    bytearray: ("bytearray", lambda v: (bytes(v),)),
    deque: ("deque", lambda v: (list(v), v.maxlen)),
    Counter: ("Counter", lambda v: (dict(v),)),
    OrderedDict: ("OrderedDict", lambda v: (dict(v),)),
    defaultdict: ("defaultdict", _default_arguments),
    SimpleNamespace: ("SimpleNamespace", lambda v: (vars(v),)),
}
_MADE_BY: dict[str, Callable[..., Any]] = {
    **{tag: cls for cls, (tag, _) in _SIMPLE.items()},
    "defaultdict": _default_of,
    "SimpleNamespace": lambda attributes: SimpleNamespace(**attributes),
}


def _made_by(make: Callable[..., Any], arguments: Any) -> Any:
    return make(*map(from_plain, arguments))


_UNTAG: dict[str, Callable[[Any], Any]] = {
    "dict": lambda value: {from_plain(key): from_plain(item) for key, item in value},
    "tuple": lambda value: tuple(map(from_plain, value)),
    "set": lambda value: set(map(from_plain, value)),
    "frozenset": lambda value: frozenset(map(from_plain, value)),
    "bytes": partial(b64decode, validate=True),
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "Decimal": Decimal,
    "class": _own_class_at,
    **{tag: partial(_made_by, make) for tag, make in _MADE_BY.items()},
}
