"""Items and objects, taken apart into their fields or attributes, and made anew from these."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from functools import cached_property, lru_cache
from inspect import getattr_static
from types import FunctionType, MemberDescriptorType
from typing import Any

from scrapy import Item
from scrapy.utils.python import global_object_name

from .class_paths import Unstorable, class_path, own_path

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
