"""Requests of classes of their own: what these have beside what every request has, and made anew with it.

Only Scrapy's own classes are called to make a request. Others may take anything for a parameter, make a URL
or a body of it, and do so again with what they have made before; so no method of theirs is called, but for
what an earlier version wrote.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from scrapy import Request
from scrapy.http.headers import Headers

from ..scrapy_internals import compat
from .callback_names import Unreadable
from .class_paths import Unstorable, class_at
from .items import attributes_of, set_attributes, slots_of

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
        compat.set_url(made, url)
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
