"""Whether a redirect or a sitemap leads from a public page into a private network.

Behind a proxy nothing is looked up: the proxy resolves names, and no one here can see where they lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy.exceptions import IgnoreRequest

from ..core import reasons
from ..core.parse.urls import is_private, is_private_url
from . import scrapy_internals

if TYPE_CHECKING:
    from scrapy.http import Request, Response


# Requests to which a response led, by a redirect, a refresh or a sitemap line: whether a public page of
# another host led there.
_led: WeakKeyDictionary[Request, bool] = WeakKeyDictionary()


def note_led(request: Request, from_public: bool) -> None:
    """Notes that a response led to *request*, perhaps that of a public page, as long as the object lives."""
    _led[request] = from_public


def was_led_to(request: Request) -> bool:
    """Returns whether a response led to *request*."""
    return request in _led


def is_from_public(request: Request) -> bool:
    """Returns whether a public page, or robots.txt, of another host led to *request*. For a robots.txt it
    is what led to the page that it is fetched for."""
    page = request.page if isinstance(request, scrapy_internals.SideRequest) else None
    return _led.get(page or request, False)


def refusal_of(address: str) -> IgnoreRequest:
    """Return what to raise for a request whose host has the private *address*."""
    return IgnoreRequest(reasons.PRIVATE(address=address))


def is_from_private(request: Request, response: Response) -> bool:
    """Return whether *response* came from a private network; behind a proxy, only the URL can tell. Nothing
    is looked up."""
    address = None if request.meta.get("proxy") else response.ip_address
    return is_private(str(address)) if address is not None else is_private_url(request.url)
