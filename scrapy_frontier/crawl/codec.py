"""Requests as payloads (JSON) and back.

A payload holds what differs from a plain ``Request(url)``; the frontier keeps the URL and the priority beside
it. It holds plain data, dataclasses, attrs classes and Scrapy items. Whatever else a request carries raises
`Unstorable`, and the request stays in memory.

A payload may come from a stranger (an export, a job directory). Reading one imports nothing and runs no code
of the classes that it names: all it can do is fetch pages and call the spider's own callbacks
(``docs/internals/format.md``).
"""

from __future__ import annotations

import inspect
import json
import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import lru_cache, partial
from traceback import format_exception_only
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy import Request, Spider
from scrapy.http.headers import Headers
from scrapy.utils.python import global_object_name

from . import scrapy_internals
from .fingerprints import is_plain
from .meta_keys import NOT_STORED, VERBATIM

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import MethodType


class Unstorable(ValueError):
    """The request holds something that no payload can hold; the message names it."""


class Unreadable(ValueError):
    """The payload makes no request of this spider; its page is set aside and the crawl goes on."""


# -- values --------------------------------------------------------------------------------------------

TAG = "!"  # key of an object that stands for a value JSON does not have
_SCALARS = frozenset((str, int, float, bool, type(None)))
_CLASSES = 200  # classes of which it is kept what they are
# Types whose values are written as text: how, and how they are read.
_TEXTS: dict[type, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    bytes: (lambda value: b64encode(value).decode(), partial(b64decode, validate=True)),
    datetime: (datetime.isoformat, datetime.fromisoformat),
    date: (date.isoformat, date.fromisoformat),
    Decimal: (str, Decimal),
}
_LISTS: tuple[type, ...] = (tuple, set, frozenset)
# Types of values that cannot be changed, so that a copy is as good.
FIXED = frozenset((*_SCALARS, *_TEXTS))

dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def to_plain(value: Any) -> Any:
    """Returns *value* as JSON can hold it, with tags for other types. Raises `Unstorable`.

    Text and numbers of classes of their own, as parsers make them, become plain ones.
    """
    kind: type = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return _plain_dict(value)
    if kind is list:
        return [to_plain(item) for item in value]
    if kind in _TEXTS:
        return _plain_text(value, kind)
    if kind in _LISTS:
        parts = [to_plain(item) for item in value]
        return {TAG: kind.__name__, "v": parts if kind is tuple else sorted(parts, key=repr)}
    for plain_kind, convert in ((str, str.__str__), (int, int.__int__), (float, float.__float__)):
        if issubclass(kind, plain_kind):
            return convert(value)
    if not is_item_class(kind):
        raise Unstorable(f"{global_object_name(kind)} is not plain data")
    return {TAG: "item", "class": class_path(kind), "v": to_plain(state_of(value))}


def _plain_dict(value: dict[Any, Any]) -> dict[str, Any]:
    if not all(type(key) is str and key != TAG for key in value):
        return {TAG: "dict", "v": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    if all(type(part) in _SCALARS for part in value.values()):
        return value
    return {key: to_plain(item) for key, item in value.items()}


def _plain_text(value: Any, kind: type) -> dict[str, str]:
    if type(getattr(value, "tzinfo", None)) not in (timezone, type(None)):
        raise Unstorable(f"the time zone of {value!r} cannot be stored")
    write, _ = _TEXTS[kind]
    return {TAG: kind.__name__, "v": write(value)}


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`. Raises `ValueError` for an unknown tag or class, and whatever nonsense
    behind a known tag raises."""
    if type(value) is list:
        return [from_plain(item) for item in value]
    if type(value) is not dict:
        return value
    if TAG not in value:
        return {key: from_plain(item) for key, item in value.items()}
    tag, kept = value[TAG], value.get("v")
    if tag == "item":
        return _item_of(class_at(value["class"]), from_plain(kept))
    return _READ_BY_TAG[tag](kept)


def _read_list(make: Callable[[Any], Any], parts: list[Any]) -> Any:
    return make(map(from_plain, parts))


_READ_BY_TAG: dict[str, Callable[[Any], Any]] = {
    **{kind.__name__: read for kind, (_, read) in _TEXTS.items()},
    **{kind.__name__: partial(_read_list, kind) for kind in _LISTS},
    "dict": lambda pairs: {from_plain(key): from_plain(item) for key, item in pairs},
}


def is_mutable(value: Any) -> bool:
    """Whether *value* can be changed, so that it matters whether a callback gets it or a copy."""
    if isinstance(value, tuple | frozenset):
        return any(map(is_mutable, value))
    return type(value) not in FIXED and not isinstance(value, str | int | float)


# -- classes -------------------------------------------------------------------------------------------


def class_path(cls: type) -> str:
    """Returns the path (module.name) by which `class_at` finds *cls* again. Raises `Unstorable`."""
    path = global_object_name(cls)
    try:
        found = class_at(path)
    except ValueError:
        found = None
    if found is not cls:
        raise Unstorable(f"class {path} cannot be found by this name")
    return path


def class_at(path: str) -> type:
    """Returns the class at *path* in a module that is imported already. Raises `ValueError`."""
    module, _, name = path.rpartition(".")
    if module not in sys.modules:
        raise ValueError(f"{path} is in a module that this project has not imported")
    found = vars(sys.modules[module]).get(name)  # `getattr` may import: modules can define ``__getattr__``
    if not isinstance(found, type):
        raise ValueError(f"{path} is not a class")
    return found


@lru_cache(_CLASSES)
def is_item_class(cls: type) -> bool:
    """Whether *cls* is a class of items whose attributes are all there is to them: a dataclass, an attrs
    class, a Scrapy item; none that extends a built-in type, or acts when it is called or deleted."""
    if not ItemAdapter.is_item_class(cls) or any(
        {"__call__", "__del__"} & vars(base).keys() for base in cls.__mro__
    ):
        return False
    try:
        object.__new__(cls)
    except TypeError:  # it extends a built-in type
        return False
    return True


def _item_of(cls: type, kept: Any) -> Any:
    """Returns an object of *cls* with the attributes *kept*; calls no method of it."""
    if not is_item_class(cls):
        raise ValueError(f"{cls!r} is not a class of items")
    made: Any = object.__new__(cls)
    set_state(made, kept)
    return made


@lru_cache(_CLASSES)
def _slots_of(cls: type) -> dict[str, MemberDescriptorType]:
    members = (member for base in cls.__mro__ for member in vars(base).items())
    return {name: member for name, member in members if isinstance(member, MemberDescriptorType)}


def state_of(value: Any) -> dict[str, Any]:
    """Returns what *value* keeps in its slots and its ``__dict__``; runs no code of its class."""
    cls: type = type(value)
    kept: dict[str, Any] = {}
    for name, slot in _slots_of(cls).items():
        with suppress(AttributeError):  # not set
            kept[name] = slot.__get__(value)
    if cls.__dictoffset__:
        kept.update(object.__getattribute__(value, "__dict__"))
    return kept


def set_state(made: Any, state: dict[str, Any]) -> None:
    """The inverse of `state_of`. Raises `AttributeError` if *made* has no place for one of *state*."""
    cls: type = type(made)
    slots = _slots_of(cls)
    for name, value in state.items():
        if name in slots:
            slots[name].__set__(made, value)
        else:
            object.__getattribute__(made, "__dict__")[name] = value


# -- callbacks -----------------------------------------------------------------------------------------

_CALLBACKS_OF_SCRAPY = frozenset(("parse", "_parse"))  # no other attribute of every spider is a callback


class Callbacks:
    """The methods of *spider*, and those that it keeps as attributes, by name."""

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        self._names: dict[Any, str] = {}

    def named(self, name: str) -> Callable[..., Any]:
        """Returns the method called *name*. Raises `Unreadable` if the spider has none."""
        method = own_method(self._spider, name)
        if method is None:
            raise Unreadable(f"spider {self._spider.name!r} has no callback {name!r}")
        return method

    def name_of(self, callback: Callable[..., Any]) -> str:
        """Returns the name by which `named` finds *callback*. Raises `Unstorable` if there is none."""
        name = self._names.get(callback)
        if name is None:
            name = self._names[callback] = self._find(callback)
        return name

    def _find(self, callback: Any) -> str:
        if inspect.ismethod(callback):
            for name in (callback.__name__, *dir(type(self._spider)), *vars(self._spider)):
                if own_method(self._spider, name) == callback:
                    return name
        raise Unstorable(f"callback {callback!r} is not a method of the spider")

    def may_be_called_again(self, callback: Callable[..., Any] | None) -> bool:
        """Whether other requests may have *callback* too: it is a method of the spider, or None. A closure
        may wait for one call, as the one of ``scrapy shell`` does."""
        try:
            return callback is None or bool(self.name_of(callback))
        except (Unstorable, TypeError):  # TypeError: it has no hash
            return False

    def reached_by(self, callback: Callable[..., Any] | None, rule: Any) -> Callable[..., Any] | None:
        """Returns the method of the spider that gets the page in the end (see
        `scrapy_internals.callback_in_the_end`); None for what is not a method."""
        reached = scrapy_internals.callback_in_the_end(self._spider, callback, rule)
        return reached if self.may_be_called_again(reached) else None


def own_method(spider: Spider, name: str) -> MethodType | None:
    """Returns the method that the class of *spider* defines as *name*, or that the spider keeps under it, or
    None.

    Reads no property, follows no path, and finds nothing that every spider has.
    """
    if name.startswith("__") or (hasattr(Spider, name) and name not in _CALLBACKS_OF_SCRAPY):
        return None
    found = vars(spider).get(name)
    if found is None:
        kept = inspect.getattr_static(type(spider), name, None)
        if not (inspect.isfunction(kept) or isinstance(kept, classmethod)):
            return None
        found = getattr(spider, name)
    return found if inspect.ismethod(found) else None


# -- requests ------------------------------------------------------------------------------------------

OWN_FILES = frozenset(("file", "s3"))  # schemes that read what only this machine, or its keys, may read
_OF_EVERY_REQUEST = frozenset(state_of(Request("about:blank")))
_OTHERS = frozenset(("class", "kept"))
_CALLBACKS = frozenset(("callback", "errback"))
_ARGUMENTS = frozenset(Request.attributes) - {"url", "priority"}
_TAGGED = b'"!":'  # what a payload holds that is more than JSON
_MEMORY = b'{"!":"memory"'  # how a `memory_payload` begins
_IDENTIFYING = (b'"method"', b'"body"', b'"class"', b'"verbatim_url"', _MEMORY)


class Codec:
    """Turns the requests of *spider* into payloads and back; those for one of `OWN_FILES` have no payload."""

    def __init__(self, spider: Spider) -> None:
        self.callbacks = Callbacks(spider)

    def encode(self, request: Request) -> bytes:
        """Returns the payload of *request*, b"" for a plain GET without anything else. Raises
        `Unstorable`."""
        try:
            if _scheme(request.url) in OWN_FILES:
                raise Unstorable("its URL is of this machine, or needs its keys")
            return dump(self._fields_of(request))
        except RecursionError:
            raise Unstorable("it holds data without end, or nested too deeply") from None
        except Unstorable:
            raise
        except Exception as error:  # the ``__hash__`` or ``__iter__`` of a class of the project
            reason = format_exception_only(error)[0].strip()
            raise Unstorable(f"looking at what it holds raised {reason}") from error

    def decode(self, url: str, priority: int, payload: bytes, with_callbacks: bool = True) -> Request:
        """Makes a new request like the one that was encoded, perhaps without its callbacks. Raises
        `Unreadable` with the reason."""
        if _scheme(url) in OWN_FILES and with_callbacks:
            raise Unreadable(f"a {_scheme(url)}: URL is fetched only if the spider yields it in the same run")
        try:
            fields = _fields_in(payload)
            if not with_callbacks:
                fields = {name: field for name, field in fields.items() if name not in _CALLBACKS}
            return self._build(url, priority, fields, _TAGGED in payload)
        except Unreadable:
            raise
        except Exception as error:  # any bytes may stand there
            raise Unreadable(f"{type(error).__name__}: {error}") from error

    def _fields_of(self, request: Request) -> dict[str, Any]:
        both = (("callback", request.callback), ("errback", request.errback))
        fields: dict[str, Any] = {
            name: self.callbacks.name_of(each) for name, each in both if each is not None
        }
        if request.headers:
            fields["headers"] = _plain_headers(request.headers)
        if request.method != "GET":
            fields["method"] = request.method
        if request.body:
            fields["body"] = to_plain(request.body)
        if request.dont_filter:
            fields["dont_filter"] = True
        if request.encoding != "utf-8":
            fields["encoding"] = request.encoding
        parts = {"cookies": request.cookies, "cb_kwargs": request.cb_kwargs, "flags": request.flags}
        for name, value in {**parts, "meta": _without_ours(request.meta)}.items():
            if value:
                fields[name] = to_plain(value)
        if type(request) is not Request:
            fields["class"] = class_path(type(request))
            fields["kept"] = to_plain(own_attributes(request))
        return fields

    def _build(self, url: str, priority: int, fields: dict[str, Any], is_tagged: bool) -> Request:
        unknown = fields.keys() - _ARGUMENTS - _OTHERS
        if unknown:
            raise Unreadable(f"a request has no {min(unknown)!r}")
        arguments = {name: fields[name] for name in fields.keys() & _ARGUMENTS}
        if is_tagged:
            arguments = {name: from_plain(argument) for name, argument in arguments.items()}
        for name in _CALLBACKS & arguments.keys():
            arguments[name] = self.callbacks.named(arguments[name])
        if "headers" in arguments:
            arguments["headers"] = _headers(arguments["headers"])
        arguments["meta"] = _without_ours(arguments.get("meta")) or {}
        cls = class_at(fields["class"]) if "class" in fields else Request
        if not issubclass(cls, Request):
            raise Unreadable(f"{cls!r} is not a class of requests")
        request = Request.__new__(cls)
        if not is_plain(url) or VERBATIM in arguments["meta"]:
            Request.__init__(request, url, priority=priority, **arguments)
        else:  # nothing to escape: it is taken as it is, which saves two thirds of the time
            arguments["meta"] = {**arguments["meta"], VERBATIM: True}
            Request.__init__(request, url, priority=priority, **arguments)
            del request.meta[VERBATIM]
        own = from_plain(fields.get("kept", {}))
        for name in own:
            if name in _OF_EVERY_REQUEST or hasattr(Request, name):
                raise Unreadable(f"{cls.__name__} adds no {name!r}")
        set_state(request, own)
        return request


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def own_attributes(request: Request) -> dict[str, Any]:
    """Returns what *request* keeps beside what every request does. Raises `Unstorable` if one of these hides
    an attribute of `Request`."""
    own = {name: value for name, value in state_of(request).items() if name not in _OF_EVERY_REQUEST}
    for name in own:
        if hasattr(Request, name):
            raise Unstorable(f"its {name!r} hides that of every request")
    return own


def copied(request: Request, url: str = "") -> Request:
    """Returns a copy of *request*, for another *url* if one is given, with containers of its own and all that
    its class keeps. Calls no method of its class. Raises `ValueError` for a URL without a scheme."""
    made = Request.__new__(type(request))
    state = state_of(request)
    for name in _OF_EVERY_REQUEST & state.keys():
        if isinstance(state[name], dict | list):
            state[name] = state[name].copy()
    set_state(made, state)
    if url:
        scrapy_internals.set_url(made, url)
    return made


def meta_payload(meta: dict[str, Any]) -> bytes:
    """Returns the payload of a plain GET with nothing but *meta*. Raises `Unstorable`."""
    return dump({"meta": to_plain(meta)}) if meta else b""


def memory_payload(fingerprint: bytes) -> bytes:
    """Returns the payload of a request that only this process has: its *fingerprint*."""
    return dump({TAG: "memory", "fingerprint": fingerprint.hex()})


def visit_payload(payload: bytes, page_payload: bytes) -> bytes:
    """Returns the *payload* of a single visit of a page with *page_payload*; b"" if it is the same. That of a
    plain GET is not empty here."""
    return b"" if payload == page_payload else payload or b"{}"


def fingerprint_in(payload: bytes) -> bytes | None:
    """Returns the fingerprint in a `memory_payload`; None for any other. Raises `ValueError` and `KeyError`
    for nonsense."""
    return bytes.fromhex(_fields_in(payload)["fingerprint"]) if payload.startswith(_MEMORY) else None


def is_plain_get(payload: bytes) -> bool:
    """Whether the URL alone identifies the page of the request, to Scrapy's fingerprinter."""
    return not any(word in payload for word in _IDENTIFYING)


def has_headers(payload: bytes) -> bool:
    """Whether the request was yielded with headers or cookies, which may be meant for its host alone."""
    return b'"headers"' in payload or b'"cookies"' in payload


def meta_in(payload: bytes) -> dict[Any, Any]:
    """Returns the ``meta`` of the request; {} if it cannot be read."""
    try:
        return dict(from_plain(_fields_in(payload).get("meta", {})))
    except Exception:  # any bytes may stand there
        return {}


def _fields_in(payload: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(payload.decode("utf-8", "surrogatepass")) if payload else {}
    return fields


def dump(fields: dict[str, Any]) -> bytes:
    """Returns the payload with these *fields*; b"" without any."""
    return dumps(fields).encode("utf-8", "surrogatepass") if fields else b""


def _without_ours(meta: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns *meta* without the keys of ours."""
    if not meta or NOT_STORED.isdisjoint(meta):
        return meta
    return {key: item for key, item in meta.items() if key not in NOT_STORED}


def _plain_headers(headers: Headers) -> dict[str, str | list[str]]:
    plain: dict[str, str | list[str]] = {}
    for name, values in dict.items(headers):
        texts = [value.decode("latin-1") for value in values]
        plain[name.decode("latin-1")] = texts[0] if len(texts) == 1 else texts
    return plain


def _headers(plain: dict[str, str | list[str]]) -> Headers:
    """The inverse of `_plain_headers`: names have been normalised, which `Headers` would do again."""
    headers = Headers()
    for name, texts in plain.items():
        values = [texts] if isinstance(texts, str) else texts
        dict.__setitem__(headers, name.encode("latin-1"), [value.encode("latin-1") for value in values])
    return headers
