"""Whether a redirect or a sitemap leads from a public page into a private network.

Behind a proxy nothing is looked up: the proxy resolves names, and no one here can see where they lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy.exceptions import IgnoreRequest

from ..core import reasons
from ..core.hosts.sites import SitemapTask
from ..core.parse.urls import host_of, is_private, is_private_url
from . import scrapy_internals
from .meta_keys import SITEMAP, UNSET

if TYPE_CHECKING:
    from scrapy.http import Request, Response


# Requests to which a response led, by a redirect or a refresh: whether a public page of
# another host led there.
_led: WeakKeyDictionary[Request, bool] = WeakKeyDictionary()


def note_led(request: Request, from_public: bool) -> None:
    """Notes that a response led to *request*, perhaps that of a public page, as long as the object lives."""
    _led[request] = from_public


def was_led_to(request: Request) -> bool:
    """Returns whether a response led to *request*."""
    return request in _led


def is_from_public(request: Request) -> bool:
    """Returns whether a public page of another host led to *request*. A robots.txt is led to as its page."""
    return _led.get(_page_of(request), False)


def refusal_of(address: str) -> IgnoreRequest:
    """Return what to raise for a request whose host has the private *address*."""
    return IgnoreRequest(reasons.PRIVATE(address=address))


def is_led_to(request: Request) -> bool:
    """Return whether another host led to *request*, which may be public. A robots.txt is led to as its
    page."""
    page = _page_of(request)
    return is_from_public(request) or _named_by(page) not in ("", host_of(page.url))


async def leads_inside(request: Request) -> str | None:
    """Return the private address to which a public page leads by *request* (`is_led_to`); None if it does
    not.

    Looks names up by the resolver and the cache of the connections.
    """
    return await _unless_named_inside(request, await _private_address(host_of(request.url)))


async def led_inside(request: Request, response: Response) -> str | None:
    """Return the private address that *response* came from if a public page led there by *request*, whatever
    its name stood for when it was looked up; None if it is public or came through a proxy."""
    if response.ip_address is None or request.meta.get("proxy") or not is_led_to(request):
        return None
    address = str(response.ip_address)
    return await _unless_named_inside(request, address) if is_private(address) else None


def is_from_private(request: Request, response: Response) -> bool:
    """Return whether *response* came from a private network; behind a proxy, only the URL can tell. Nothing
    is looked up."""
    address = None if request.meta.get("proxy") else response.ip_address
    return is_private(str(address)) if address is not None else is_private_url(request.url)


async def _unless_named_inside(request: Request, address: str | None) -> str | None:
    """Return *address*, but None if the robots.txt that names a sitemap is in a private network itself."""
    if address is None or is_from_public(request):
        return address
    return None if await _private_address(_named_by(_page_of(request))) is not None else address


async def _private_address(host: str) -> str | None:
    return next(filter(is_private, await scrapy_internals.addresses_of(host)), None)


def _page_of(request: Request) -> Request:
    page = request.page if isinstance(request, scrapy_internals.SideRequest) else None
    return request if page is None else page


def _named_by(request: Request) -> str:
    """Return the host whose robots.txt names a sitemap; empty for other requests."""
    if request.meta.get(SITEMAP) in UNSET:
        return ""
    return host_of(SitemapTask.from_meta(request.meta[SITEMAP], request.url).speaks_for)
