"""Plain data as JSON and back: what the values in ``meta``, ``cb_kwargs`` and the like may be.

Never pickle: reading imports nothing, and makes nothing but simple values of the standard library, and items,
members of enumerations and objects that are no more than their attributes, of classes that are there already.
"""

from __future__ import annotations

import dataclasses
import json
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from scrapy.utils.python import global_object_name

from .class_paths import Unstorable, class_at, class_path, own_class_at, own_path
from .items import CLASSES, field_names, has_fields, item_of, object_of, taken_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TAGGED = b'"!":'  # stands in the text of all data that has a tag
TAG = "!"
_SCALARS = (str, int, float, bool, type(None))
_PATH, _PURE_PATH = type(Path()), type(PurePath())  # of this platform
_TIMES = date, timedelta, timezone, ZoneInfo
# Types of values that nobody can change; a time may be of a zone of any kind.
FIXED = frozenset((*_SCALARS, *_TIMES, bytes, Decimal, UUID, complex, range, _PATH, _PURE_PATH))
dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


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
    if kind is date or (kind is datetime and not _is_zoned(value)):
        return {TAG: kind.__name__, "v": value.isoformat()}
    return _rare_to_plain(value, kind)


def _rare_to_plain(value: Any, kind: type) -> Any:
    plain = _plain_of(kind)
    if plain is not None:
        return plain(value)
    if issubclass(kind, Enum):
        if value.name not in kind.__members__:  # flags put together
            raise Unstorable(f"{value!r} is no member of {global_object_name(kind)}")
        return {TAG: "enum", "class": class_path(kind), "v": value.name}
    if kind is Decimal:
        return {TAG: "Decimal", "v": str(value)}
    if kind in _SIMPLE:
        tag, arguments = _SIMPLE[kind]
        return {TAG: tag, "v": [to_plain(argument) for argument in arguments(value)]}
    if issubclass(kind, type):
        return {TAG: "class", "v": own_path(value)}
    tag, path, parts = taken_apart(value)
    return {TAG: tag, "class": path, "v": _held_by(value, parts)}


@lru_cache(CLASSES)
def _plain_of(kind: type) -> Callable[[Any], Any] | None:
    """What makes plain text or numbers of those of another class; None for any other, and for one with fields
    besides."""
    if issubclass(kind, Enum) or has_fields(kind):
        return None
    plains = ((str, str.__str__), (int, int.__int__), (float, float.__float__))
    return next((make for plain, make in plains if issubclass(kind, plain)), None)


_MOST_AGAIN = 5000  # objects and items that are written because another is written again; and for each of all
_AGAIN_EACH = 10  # so many more: thousands of offers may share a shop, which has an address
# Ids of those that are being written, each held by the one before, and whether that is once more.
_open: dict[int, bool] = {}
_written: set[int] = set()  # ids of all that were written in the first of them
_again: list[int] = []  # of those that were written in one that was again


def _held_by(value: Any, parts: dict[str, Any]) -> Any:
    """The *parts* of *value* by `to_plain`. One that holds itself would be written again and again, with all
    it holds, until the stack has no room. Those that many hold are written for each that does; but where
    these are held by many, too (each category by all below it, say), once for each way that leads there, and
    of such ways there may be 2 ** 20 in twenty."""
    key = id(value)  # its own as long as the first holds it
    if key in _open:
        raise Unstorable(f"{global_object_name(type(value))} holds itself, which plain data cannot")
    is_again = bool(_open) and _open[next(reversed(_open))]
    if is_again:
        _again.append(key)
        if len(_again) > _MOST_AGAIN + _AGAIN_EACH * len(_written):
            raise Unstorable(f"{global_object_name(type(value))} is held in too many ways to be plain data")
    _open[key] = is_again or key in _written
    _written.add(key)
    try:
        return to_plain(parts)
    finally:
        del _open[key]
        if not _open:
            _written.clear()
            _again.clear()


def is_mutable(value: Any) -> bool:
    """Whether *value* is or holds something that can be changed, so that it matters which copy one has."""
    kind = type(value)
    if kind in FIXED or isinstance(value, (Enum, type)):
        return False
    if isinstance(value, (str, int, float)):  # of a class of its own, and with attributes
        return bool(getattr(value, "__dict__", None))
    if kind is datetime or kind is time:
        return is_mutable(value.tzinfo)
    if isinstance(value, tuple) or kind is frozenset:
        return any(map(is_mutable, value))
    if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return any(is_mutable(getattr(value, name, None)) for name in field_names(kind) or ())
    return True


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
        cls, kept = class_at(value["class"]), value["v"]
        return cls.__members__[kept] if issubclass(cls, Enum) else item_of(cls, from_plain(kept))
    if tag == "object":
        return object_of(own_class_at(value["class"]), from_plain(value["v"]))
    untag = _UNTAG.get(str(tag))
    if untag is None:
        raise ValueError(f"unknown tag {tag!r}")
    return untag(value.get("v"))


def _is_zoned(value: datetime) -> bool:
    """Whether the offset from UTC does not say all of *value*: its zone has others, or a name, or repeats the
    hour. Of a zone of another class nothing else can be written."""
    zone = value.tzinfo
    if type(zone) is timezone and len(_zone_arguments(zone)) > 1:
        return True
    return type(zone) is ZoneInfo or (value.fold == 1 and type(zone) in FIXED)


def _zone_key(zone: ZoneInfo) -> tuple[str]:
    if zone.key is None:  # from a file
        raise Unstorable("a time zone without a key is not plain data")
    return (zone.key,)


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
    datetime: ("zoned", lambda v: (v.replace(tzinfo=None, fold=0).isoformat(), v.fold, v.tzinfo)),
    time: ("time", lambda v: (v.hour, v.minute, v.second, v.microsecond, v.tzinfo, *[1] * v.fold)),
    ZoneInfo: ("ZoneInfo", _zone_key),
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
    "zoned": lambda text, fold, zone: datetime.fromisoformat(text).replace(fold=fold, tzinfo=zone),
    "time": lambda *parts: time(*parts[:5], fold=parts[5] if len(parts) > 5 else 0),
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
    "class": own_class_at,
    **{tag: partial(_made_by, make) for tag, make in _MADE_BY.items()},
}
