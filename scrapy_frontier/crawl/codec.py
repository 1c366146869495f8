"""Requests as compact payloads and back.

A payload is JSON text holding what differs from a plain ``Request(url)``: never pickle, nothing that
could run code. Values are limited to plain data (`plain_data`). The URL and the priority are kept by the
frontier beside the payload.

A payload may come from a stranger (an export, a job directory): all that it can do is fetch, and call the
spider's own callbacks (``docs/internals/format.md``).

Classes by their names: what a payload may say of them, and that nothing is imported for it.

Items and objects, taken apart into their fields or attributes, and made anew from these.

Plain data as JSON and back: what the values in ``meta``, ``cb_kwargs`` and the like may be.

Never pickle: reading imports nothing, and makes nothing but simple values of the standard library, and items,
members of enumerations and objects that are no more than their attributes, of classes that are there already.

The callbacks of a spider by name: what a payload may say, and nothing else.

Requests of classes of their own: what these have beside what every request has, and made anew with it.

Only Scrapy's own classes are called to make a request. Others may take anything for a parameter, make a URL
or a body of it, and do so again with what they have made before; so no method of theirs is called, but for
what an earlier version wrote.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache, partial
from inspect import getattr_static
from math import isfinite
from pathlib import Path, PurePath
from traceback import format_exception_only
from types import FunctionType, MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from scrapy import Item, Request, Spider
from scrapy.http.headers import Headers
from scrapy.utils.python import global_object_name

from . import scrapy_internals
from .fingerprints import is_plain
from .meta_keys import AUTO_SLOT, NOT_STORED, SLOT, chosen_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import MethodType


class Unstorable(ValueError):
    """A request holds something that is not plain data, or a callback that is no method of the spider."""


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


def own_path(cls: type) -> str:
    """`class_path` of a class that is a value, or has objects that are; raises `Unstorable` for one of the
    standard library: some start processes, and a plugin calls what it finds in a ``meta``."""
    path = class_path(cls)
    package = path.partition(".")[0]
    if package in sys.stdlib_module_names and package != "builtins":
        raise Unstorable(f"class {path} of the standard library is not plain data")
    return path


def own_class_at(path: str) -> type:
    """The inverse of `own_path`; raises `ValueError` for any other path, also of a class that a module has
    from elsewhere."""
    cls = class_at(path)
    if own_path(cls) != path:
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


CLASSES = 200  # of which it is kept what they are
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


# What `typing` and attrs keep with an object and is no part of it: the types that were chosen for a generic
# class, and a hash, which is another one in the next process.
_HASH = "_attrs_cached_hash"
_BESIDE = frozenset(("__orig_class__", _HASH))


class _Bare:
    """A class whose objects have attributes and nothing else."""


def taken_apart(value: Any) -> tuple[str, str, dict[str, Any]]:
    """Whether *value* is an "item" or an "object", the path of its class, and its fields or attributes, those
    that are set; raises `Unstorable` where there is more to it."""
    kind = type(value)
    fields = _fields_of(value, kind)
    if fields is not None:
        return "item", class_path(kind), fields
    if not _is_plain_class(kind):
        raise Unstorable(f"{global_object_name(kind)} is not plain data")
    return "object", own_path(kind), attributes_of(value, kind)


def item_of(cls: type, fields: dict[str, Any]) -> Any:
    """An item of *cls* with these fields and slots, those it still has; no method of it is called. Raises
    `ValueError` for any other class."""
    names, slots = field_names(cls), slots_of(cls)
    if names is None:
        raise ValueError(f"{cls!r} is no class of items")
    if issubclass(cls, Item):
        return _scrapy_item(cls, fields)
    if issubclass(cls, tuple):
        kept = {**getattr(cls, "_field_defaults", {}), **fields}
        return tuple.__new__(cls, [kept[name] for name in names])
    item: Any = object.__new__(cls)
    set_attributes(item, {name: fields[name] for name in (*names, *slots) if name in fields})
    return _without_hash(cls, item)


def set_attributes(made: Any, attributes: dict[str, Any]) -> None:
    """Give *made* the *attributes* where it keeps them, in its slots or its ``__dict__``: also those behind a
    property, which may do more than set them."""
    cls: type = type(made)
    slots = slots_of(cls)
    for name, value in attributes.items():
        if name in slots:
            slots[name].__set__(made, value)
        else:
            made.__dict__[name] = value


def object_of(cls: type, attributes: Any) -> Any:
    """An object of *cls* with these attributes; no method of it is called. Raises `ValueError` for a class
    whose objects are more than that."""
    if not _is_plain_class(cls):
        raise ValueError(f"an object of {cls!r} is more than its attributes")
    made: Any = object.__new__(cls)
    made.__dict__.update(attributes)
    return _without_hash(cls, made)


def has_fields(cls: type) -> bool:
    """Whether *cls* is a dataclass or made by attrs, whatever else it is."""
    return hasattr(cls, "__dataclass_fields__") or hasattr(cls, "__attrs_attrs__")


@lru_cache(CLASSES)
def field_names(cls: type) -> tuple[str, ...] | None:
    """The fields of items of *cls*: a Scrapy item, a dataclass, a class made by attrs, a named tuple; None
    for any other class, and for one whose items act by themselves, or are more than their attributes (as a
    `dict` is)."""
    if any(not _ACTS.isdisjoint(vars(base)) for base in cls.__mro__):
        return None
    if issubclass(cls, tuple):
        return None if has_fields(cls) else getattr(cls, "_fields", None)
    if not _is_bare(cls):
        return None
    if issubclass(cls, Item):
        return tuple(cls.fields)
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    attributes = getattr(cls, "__attrs_attrs__", None)
    return None if attributes is None else tuple(attribute.name for attribute in attributes)


def _is_bare(cls: type) -> bool:
    """Whether no class that *cls* extends keeps anything in C, as `dict` and `Exception` do."""
    try:
        object.__new__(cls)  # refuses to make such
    except TypeError:
        return False
    return True


@lru_cache(CLASSES)
def slots_of(cls: type) -> dict[str, MemberDescriptorType]:
    """The slots of objects of *cls*, but for those in which attrs keeps what it works out from the fields."""
    slots: dict[str, MemberDescriptorType] = {}
    for base in reversed(cls.__mro__):
        own = {name: slot for name, slot in vars(base).items() if isinstance(slot, MemberDescriptorType)}
        fields = vars(base).get("__attrs_attrs__")
        kept = own if fields is None else own.keys() & {field.name for field in fields}
        slots.update((name, own[name]) for name in kept)
    return slots


def attributes_of(value: Any, kind: type) -> dict[str, Any]:
    """What an object has, in its ``__dict__`` and its slots."""
    own = vars(value) if kind.__dictoffset__ else {}
    found = {name: part for name, part in own.items() if name not in _BESIDE}
    for name, slot in slots_of(kind).items():
        with suppress(AttributeError):  # not set yet
            found[name] = slot.__get__(value, kind)
    return found


def _fields_of(value: Any, kind: type) -> dict[str, Any] | None:
    """The fields of an item that are set, and the slots beside these; None where it has attributes besides
    that are not worked out from them, and for what is no item. Raises `Unstorable` where a field is kept in
    another place."""
    names, slots = field_names(kind), slots_of(kind)
    if names is None:
        return None
    more = attributes_of(value, kind)
    fields: dict[str, Any] | None
    if issubclass(kind, Item):
        fields = more.pop("_values", None)
    elif issubclass(kind, tuple):
        fields = dict(zip(names, tuple.__iter__(value), strict=True))
    else:
        fields = {name: more.pop(name) for name in (*names, *slots) if name in more}
    if not all(isinstance(getattr(kind, name, None), cached_property) for name in more):
        return None
    if has_fields(kind) and fields is not None:
        _see_to_unset(kind, set(names) - fields.keys())
    return fields


def _see_to_unset(kind: type, names: set[str]) -> None:
    """Raise `Unstorable` if one of the fields *names*, which an item does not have itself, may still be set:
    by a descriptor that keeps the values. A property works its own out from others."""
    for name in names:
        found = getattr_static(kind, name, None)
        is_known = found is None or isinstance(found, (property, MemberDescriptorType))
        if not is_known and hasattr(type(found), "__set__"):
            raise Unstorable(f"{global_object_name(kind)} keeps {name!r} elsewhere")


def _scrapy_item(cls: type[Item], fields: dict[str, Any]) -> Item:
    item = Item.__new__(cls)
    Item.__init__(item)
    for name, field in fields.items():
        Item.__setitem__(item, name, field)
    return item


def _without_hash(cls: type, made: Any) -> Any:
    """*made*, an object of *cls*, whose hash is yet to be worked out where attrs keeps it."""
    if hasattr(cls, "__attrs_attrs__") and _keeps_hash(cls):
        object.__setattr__(made, _HASH, None)
    return made


@lru_cache(CLASSES)
def _keeps_hash(cls: type) -> bool:
    """Whether objects of *cls* keep their hash, as attrs wrote their ``__hash__``."""
    methods = [vars(base).get("__hash__") for base in cls.__mro__]
    return any(_HASH in method.__code__.co_names for method in methods if isinstance(method, FunctionType))


def _is_plain_class(cls: type) -> bool:
    """Whether the attributes of an object of *cls* are all there is to it, so that another with the same is
    as good."""
    for base in cls.__mro__[:-1]:
        own = vars(base)
        if own.get("__slots__") or not (_ACTS.isdisjoint(own) and _MORE.isdisjoint(own)):
            return False
    return bool(cls.__dictoffset__) and cls.__basicsize__ == _Bare.__basicsize__  # or it keeps more in C


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

# What every spider has is no callback, but for these.
_CALLBACKS_OF_SCRAPY = frozenset(("parse", "_parse"))


class Unreadable(ValueError):
    """A payload that cannot be turned into a request of this spider: its page is set aside, the crawl goes
    on."""


class Callbacks:
    """The methods of *spider*, and of its attributes, by the names under which they are found again."""

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        self._names: dict[Any, str] = {}
        self._methods: dict[str, Callable[..., Any]] = {}

    def named(self, name: str) -> Callable[..., Any]:
        """The method called *name*, looked up once; raises `Unreadable` where the spider has none it may be
        given."""
        method = self._methods.get(name)
        if method is None:
            found = own_method(self._spider, name)
            if found is None:
                raise Unreadable(f"spider {self._spider.name!r} has no callback {name!r}")
            method = self._methods[name] = found
        return method

    def name_of(self, callback: Callable[..., Any]) -> str:
        """The name under which *callback* is found again; raises `Unstorable` if there is none, or the spider
        kept another under it before. Looked up once."""
        name = self._names.get(callback)
        if name is None:
            name = self._find(callback)
            if self._methods.setdefault(name, callback) != callback:
                raise Unstorable(f"callback {callback!r} is not all that the spider keeps as {name!r}")
            self._names[callback] = name
        return name

    def may_be_called_again(self, callback: Callable[..., Any] | None) -> bool:
        """Whether another request may be given *callback*, which is a method of the spider then.

        Of what is none nobody can tell: the shell waits for one call, and a second one fails.
        """
        try:
            return callback is None or bool(self.name_of(callback))
        except (Unstorable, TypeError):  # one without a hash
            return False

    def reached_by(self, callback: Callable[..., Any] | None, rule: Any) -> Callable[..., Any] | None:
        """`compat.callback_in_the_end` of these; None for what is no method of the spider."""
        reached = scrapy_internals.callback_in_the_end(self._spider, callback, rule)
        return reached if self.may_be_called_again(reached) else None

    def _find(self, callback: Any) -> str:
        spider = self._spider
        function = getattr(callback, "__func__", None)  # a partialmethod has none
        if function is not None and getattr(callback, "__self__", None) in (spider, type(spider)):
            names = sorted(dir(spider), key=vars(spider).__contains__)  # what a spider keeps it may change
            for name in names:
                member = own_method(spider, name)
                if member is not None and member.__func__ is function:
                    return name
        for name, member in vars(spider).items():
            if inspect.ismethod(member) and member == callback and own_method(spider, name) is not None:
                return name
        raise Unstorable(f"callback {callback!r} is not a method of the spider")


def own_method(spider: Spider, name: str) -> MethodType | None:
    """The method of the class of *spider* called *name*, or that the spider keeps under it; else None.

    No path leads further, what all spiders have is no callback, and no property is looked at.
    """
    if name.startswith("__") or (hasattr(Spider, name) and name not in _CALLBACKS_OF_SCRAPY):
        return None
    found = vars(spider).get(name)
    if found is None:
        kept = inspect.getattr_static(type(spider), name, None)
        if not (callable(kept) or isinstance(kept, classmethod)):  # a property, say
            return None
        try:
            found = getattr(spider, name, None)
        except Exception:  # whatever stands there is no method
            return None
    return found if inspect.ismethod(found) else None


BASE_ATTRIBUTES = frozenset(Request.attributes)
# Where every request has these and more: before Scrapy 2.19 not in slots.
_PLACES = frozenset((*slots_of(Request), *attributes_of(Request("about:blank"), Request)))


def is_scrapys(cls: type[Request]) -> bool:
    """Whether *cls* is a class of Scrapy: its public `attributes` say all of it, and may be given to it."""
    return cls.__module__.partition(".")[0] == "scrapy"


def own_attributes(request: Request) -> dict[str, Any]:
    """What *request* has and not every request has: the `attributes` that a class of Scrapy adds; of any
    other class all in ``__dict__`` and slots, but for what is worked out from the rest. Raises `Unstorable`
    where one hides something of `Request`."""
    cls = type(request)
    if is_scrapys(cls):
        return {name: getattr(request, name) for name in cls.attributes if name not in BASE_ATTRIBUTES}
    own = {name: value for name, value in attributes_of(request, cls).items() if name not in _PLACES}
    for name in own:
        if hasattr(Request, name):
            raise Unstorable(f"its {name!r} hides that of every request")
    return _without_worked_out(cls, own)


def copied(request: Request, url: str = "") -> Request:
    """A copy of *request*, for another *url* if there is one, with headers and a ``meta`` of its own and all
    that its class keeps. No method of that is called: its constructor may take something else, or do once
    more what it has done before. 15 us. Raises `ValueError` for a URL without a scheme."""
    cls = type(request)
    if cls is Request:
        return request.replace(url=url or request.url)  # the same, and sooner
    kept = attributes_of(request, cls)
    if url:
        kept = _without_worked_out(cls, kept)
    for name in _PLACES & kept.keys():
        if type(kept[name]) in (dict, list):
            kept[name] = kept[name].copy()
    made = Request.__new__(cls)
    set_attributes(made, kept)
    made.headers = Headers(request.headers, encoding=request.encoding)
    if url:
        scrapy_internals.set_url(made, url)
    return made


def _without_worked_out(cls: type[Request], kept: dict[str, Any]) -> dict[str, Any]:
    """What a request of *cls* has *kept*, without what is worked out from the rest when it is asked for."""
    return {name: kept[name] for name in kept if not isinstance(getattr(cls, name, None), cached_property)}


def request_class(path: str) -> type[Request]:
    """The Request class at *path*; raises `ValueError` for any other class, and one that is not imported."""
    cls = class_at(path)
    if not issubclass(cls, Request):
        raise Unreadable(f"{path} is not a Request class")
    return cls


def arguments_of(cls: type[Request], extra: dict[str, Any]) -> dict[str, Any]:
    """*extra*, all of it attributes that *cls* adds to those of every request; raises `Unreadable` if not."""
    for name in extra:
        if name in BASE_ATTRIBUTES or name not in cls.attributes:
            raise Unreadable(f"{cls.__name__} adds no {name!r}")
    return extra


def of_class(cls: type[Request], plain: Request, own: dict[str, Any]) -> Request:
    """*plain* as a request of *cls*, with the `own_attributes` of one; no method of it is called. Raises
    `Unreadable` for what belongs to every request."""
    for name in own:
        if name in _PLACES or hasattr(Request, name):
            raise Unreadable(f"{cls.__name__} adds no {name!r}")
    made = Request.__new__(cls)
    set_attributes(made, attributes_of(plain, Request))
    set_attributes(made, own)
    return made


_HEADS = 50  # payloads without meta that are kept
_MOST_NAMES = 100
_quote = json.encoder.encode_basestring
# `json.loads` without its three calls and a search for white space
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # set when it is made
OWN_PAYLOAD = "own"  # field: what its page had before, see `payload_edits`
_PLAIN_FIELDS = BASE_ATTRIBUTES - {"url", "priority", "callback", "errback", "headers"}
OWN_FILES = frozenset(("file", "s3"))  # schemes that read what only this machine, or its keys, may read


# -- requests --------------------------------------------------------------------------------------


class Codec:
    """Turns the requests of one spider into payloads and back.

    Payloads of URLs with one of `OWN_FILES` become requests only where *opened* names their scheme, or the
    spider has asked for such a URL itself: *on_open* is called with the scheme when it does so first.
    *on_rare* is called with each request that was encoded and is more than a plain GET with text and numbers
    in its ``meta``.
    """

    def __init__(
        self,
        spider: Spider,
        opened: frozenset[str] = frozenset(),
        on_rare: Callable[[Request], None] | None = None,
        on_open: Callable[[str], None] | None = None,
    ) -> None:
        self._on_rare, self._on_open = on_rare, on_open
        self.callbacks = Callbacks(spider)
        self._opened = opened
        self._heads: dict[tuple[Any, ...], bytes] = {}

    def encode(self, request: Request) -> bytes:
        """The payload of *request*, b"" for a plain GET with nothing besides. Raises `Unstorable` where it
        holds more than plain data, or what raises when it is looked at."""
        kept = scrapy_internals.attributes(request)
        url, callback, errback, method, body, again, encoding, headers, meta, cookies, arguments, flags = kept
        if url[:4] != "http":
            self._open(url.partition(":")[0])
        try:
            is_rare = body or again or cookies or arguments or flags or method != "GET"
            is_rare = is_rare or type(request) is not Request
            if is_rare:
                head = dump(self._fields_of(request))
            else:
                head = self._head(request, callback, errback, encoding, headers)
            if meta:
                if not NOT_STORED.isdisjoint(meta):
                    meta = _without_ours(meta)
                text = _flat_text(meta)
                if text is None:
                    text, is_rare = dumps(to_plain(meta)), True
                head = _and_meta(head, text)
            if is_rare and self._on_rare is not None:
                self._on_rare(request)
            return head
        except RecursionError:
            raise Unstorable("it holds data without end, or nested too deeply") from None
        except Unstorable:
            raise
        except Exception as error:  # a property, a `__hash__`: code of others, which may do anything
            reason = format_exception_only(error)[0].strip()
            raise Unstorable(f"looking at what it holds raised {reason}") from error

    def _open(self, scheme: str) -> None:
        if scheme in OWN_FILES and scheme not in self._opened:
            self._opened |= {scheme}
            if self._on_open is not None:
                self._on_open(scheme)

    def of_link(self, callback: Any, errback: Any, referer: str | None, meta: dict[str, Any]) -> bytes:
        """`encode` of a `Request` with these alone, text and numbers in its *meta*, of which nobody has to be
        made: 4 us for 25."""
        head = self._plain_head(callback, errback, "utf-8", () if referer is None else (referer.encode(),))
        return _and_meta(head, _flat_text(meta) or dumps(to_plain(meta))) if meta else head

    def _head(
        self, request: Request, callback: Any, errback: Any, encoding: str, headers: Headers | None
    ) -> bytes:
        """The payload of a plain GET without ``meta``: the same for most links of a page, so the last are
        kept."""
        referer = dict.get(headers, b"Referer", ()) if headers else ()
        if headers and not len(headers) == len(referer) == 1:
            return dump(self._fields_of(request))
        key = callback, errback, encoding, *referer
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            head = self._heads[key] = self._plain_head(callback, errback, encoding, referer)
        return head

    def _plain_head(self, callback: Any, errback: Any, encoding: str, referer: Sequence[bytes]) -> bytes:
        """What `_fields_of` makes of a request with callbacks and no header but one ``Referer``."""
        parts = []
        if callback is not None:
            parts.append(f'"callback":{_quote(self.callbacks.name_of(callback))}')
        if errback is not None:
            parts.append(f'"errback":{_quote(self.callbacks.name_of(errback))}')
        if referer:
            parts.append(f'"headers":{{"Referer":{_quote(referer[0].decode("latin-1"))}}}')
        if encoding != "utf-8":
            parts.append(f'"encoding":{_quote(encoding)}')
        text = f"{{{','.join(parts)}}}" if parts else ""
        return text.encode("utf-8", "surrogatepass")

    def _fields_of(self, request: Request) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if request.callback is not None:
            fields["callback"] = self.callbacks.name_of(request.callback)
        if request.errback is not None:
            fields["errback"] = self.callbacks.name_of(request.errback)
        if request.headers:
            fields["headers"] = _plain_headers(request.headers)
        *_, cookies, cb_kwargs, flags = scrapy_internals.attributes(request)
        for name, value in (("cookies", cookies), ("cb_kwargs", cb_kwargs), ("flags", flags)):
            if value:
                fields[name] = to_plain(value)
        if request.method != "GET":
            fields["method"] = request.method
        if request.body:
            fields["body"] = to_plain(request.body)
        if request.dont_filter:
            fields["dont_filter"] = True
        if request.encoding != "utf-8":
            fields["encoding"] = request.encoding
        if type(request) is not Request:
            fields["class"] = class_path(type(request))
            place = "extra" if is_scrapys(type(request)) else "kept"
            fields[place] = to_plain(own_attributes(request))
        return fields

    def decode(self, url: str, priority: int, payload: bytes) -> Request:
        """The request that was encoded, as a new object. Raises `Unreadable` with the reason."""
        scheme = "" if url.startswith("http") else url.partition(":")[0].lower()
        if scheme in OWN_FILES and scheme not in self._opened:
            raise Unreadable(f"the spider has asked for no {scheme}: URL itself here (have it yield one)")
        try:
            if not payload:
                return _request(url, priority, {})
            text = payload.decode("utf-8", "surrogatepass")
            fields, end = _scan(text, 0)
            if end != len(text) or not isinstance(fields, dict):
                raise ValueError(f"expected an object and no more, found {type(fields).__name__}")
            return self._build(url, priority, fields, TAGGED in payload)
        except Unreadable:
            raise
        except Exception as error:  # bytes of any kind may stand there
            raise Unreadable(f"{type(error).__name__}: {error}") from error

    def _build(self, url: str, priority: int, fields: dict[str, Any], is_tagged: bool) -> Request:
        arguments: dict[str, Any] = {}
        headers = own = None
        cls = request_class(fields["class"]) if "class" in fields else None
        for name, value in fields.items():
            if name == "callback" or name == "errback":
                arguments[name] = self.callbacks.named(value)
            elif name == "headers":
                headers = _headers(value)
            elif name in _PLAIN_FIELDS:
                arguments[name] = from_plain(value) if is_tagged else value
            elif cls is not None and name == "extra":
                arguments.update(arguments_of(cls, from_plain(value)))
            elif cls is not None and name == "kept":
                own = from_plain(value)
            elif name not in ("class", OWN_PAYLOAD):
                raise Unreadable(f"a request has no {name!r}")
        meta = arguments.get("meta")
        if meta and not NOT_STORED.isdisjoint(meta):
            arguments["meta"] = _without_ours(meta)
        if cls is None or own is not None:
            request = _request(url, priority, arguments)
        else:  # of Scrapy, or as earlier versions wrote others
            arguments["priority"] = priority
            try:
                request = cls(url=url, **arguments)
            except (TypeError, LookupError):  # it calls its URL something else
                request = cls(url, **arguments)
        if headers is not None:
            request.headers = headers
        return request if cls is None or own is None else of_class(cls, request, own)


_VERBATIM = "verbatim_url"


def _request(url: str, priority: int, arguments: dict[str, Any]) -> Request:
    """A `Request`; a plain URL is to be taken as it is, which saves Scrapy 2.19 two thirds of the time."""
    meta = arguments.pop("meta", None)
    if (meta and _VERBATIM in meta) or not is_plain(url):
        return Request(url, priority=priority, meta=meta, **arguments)
    request = Request(url, priority=priority, meta={_VERBATIM: True}, **arguments)
    del request.meta[_VERBATIM]
    if meta:
        request.meta.update(meta)
    return request


def meta_payload(meta: dict[str, Any]) -> bytes:
    """The payload of a plain request with nothing but *meta*; the same as `Codec.encode` makes. Raises
    `Unstorable`."""
    text = _flat_text(meta) or dumps(to_plain(meta))
    return _and_meta(b"", text) if meta else b""


def _without_ours(meta: dict[str, Any]) -> dict[str, Any]:
    """*meta* without what is ours and not the user's, the download slot included."""
    ours = NOT_STORED
    if AUTO_SLOT in meta and chosen_slot(meta) is None:
        ours |= {SLOT}
    return {key: item for key, item in meta.items() if key not in ours}


def _and_meta(head: bytes, text: str) -> bytes:
    """The payload *head* with the *text* of its meta."""
    tail = f'"meta":{text}}}'.encode("utf-8", "surrogatepass")
    return (head[:-1] + b"," if head else b"{") + tail


def dump(fields: dict[str, Any]) -> bytes:
    """The payload with these *fields*; b"" without any."""
    return dumps(fields).encode("utf-8", "surrogatepass") if fields else b""


def _plain_headers(headers: Headers) -> dict[str, str | list[str]]:
    plain: dict[str, str | list[str]] = {}
    for name, values in dict.items(headers):
        texts = [value.decode("latin-1") for value in values]
        plain[name.decode("latin-1")] = texts[0] if len(texts) == 1 else texts
    return plain


def _headers(plain: dict[str, str | list[str]]) -> Headers:
    """Headers whose names are normalised already, which `Headers` would do again for 8 us."""
    headers = Headers()
    for name, values in plain.items():
        texts = [values] if isinstance(values, str) else values
        dict.__setitem__(headers, name.encode("latin-1"), [text.encode("latin-1") for text in texts])
    return headers


def _flat_text(value: dict[Any, Any]) -> str | None:
    """``dumps(value)`` where that holds nothing but text and numbers; else None, soon."""
    parts = []
    for key, item in value.items():
        name = _NAMES.get(key) or _name(key)
        if not name:
            return None
        kind = type(item)
        if kind is str:
            parts.append(name + _quote(item))
        elif kind is int:
            parts.append(f"{name}{item}")
        elif kind is bool:
            parts.append(name + ("true" if item else "false"))
        elif item is None:
            parts.append(name + "null")
        elif kind is float and isfinite(item):
            parts.append(f"{name}{item!r}")
        else:
            return None
    return "{" + ",".join(parts) + "}"


_NAMES: dict[Any, str] = {}  # of the keys that most requests have, as they stand in a payload


def _name(key: Any) -> str:
    """*key* as it stands in front of a value; empty for one that is more than text."""
    if type(key) is not str or key == TAG:
        return ""
    name = _quote(key) + ":"
    if len(_NAMES) < _MOST_NAMES:
        _NAMES[key] = name
    return name
