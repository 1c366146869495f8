"""Requests as compact payloads and back.

A payload is JSON text holding what differs from a plain ``Request(url)``: never pickle, nothing that
could run code. Values are limited to plain data (`plain_data`). The URL and the priority are kept by the
frontier beside the payload.

A payload may come from a stranger (an export, a job directory): all that it can do is fetch, and call the
spider's own callbacks (``docs/internals/format.md``).
"""

from __future__ import annotations

import json
from math import isfinite
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.http.headers import Headers

from ..meta_keys import AUTO_SLOT, NOT_STORED, SLOT, chosen_slot
from ..scrapy_internals import compat
from .callback_names import Callbacks, Unreadable
from .class_paths import Unstorable, class_path
from .fingerprints import is_plain
from .plain_data import TAG, TAGGED, dumps, from_plain, to_plain
from .request_classes import (
    BASE_ATTRIBUTES,
    arguments_of,
    is_scrapys,
    of_class,
    own_attributes,
    request_class,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        kept = compat.attributes(request)
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
        *_, cookies, cb_kwargs, flags = compat.attributes(request)
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
