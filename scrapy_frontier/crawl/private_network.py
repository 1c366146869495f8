"""Whether a redirect, or a sitemap, leads from a public page into a private network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest

from ..core import reasons
from ..core.hosts.sites import SitemapTask
from ..core.parse.urls import host_of, is_private, is_private_url
from . import scrapy_internals
from .meta_keys import FROM_PUBLIC, SITEMAP, UNSET

if TYPE_CHECKING:
    from scrapy.http import Request, Response


def refusal_of(address: str) -> IgnoreRequest:
    """What to raise for a request whose host has the private *address*."""
    return IgnoreRequest(reasons.PRIVATE(address=address))


def is_led_to(request: Request) -> bool:
    """Whether another host led to *request*, which may be public."""
    host = host_of(request.url)
    return request.meta.get(FROM_PUBLIC) == host or _named_by(request) not in ("", host)


async def leads_inside(request: Request) -> str | None:
    """The private address to which somebody public leads by *request* (`is_led_to`); None if it does not.

    Looks up names by the resolver and the cache of the connections.
    """
    return await _unless_named_inside(request, await _private_address(host_of(request.url)))


async def led_inside(request: Request, response: Response) -> str | None:
    """The private address of *response* to which somebody public led by *request*, whatever its name stood
    for when it was looked up; None if it is public, came through a proxy, or was led to from inside."""
    if response.ip_address is None or request.meta.get("proxy") or not is_led_to(request):
        return None
    address = str(response.ip_address)
    return await _unless_named_inside(request, address) if is_private(address) else None


async def _unless_named_inside(request: Request, address: str | None) -> str | None:
    """*address*, but None where the robots.txt that names a sitemap is in a private network itself."""
    if address is None or request.meta.get(FROM_PUBLIC) == host_of(request.url):
        return address
    return None if await _private_address(_named_by(request)) is not None else address


async def comes_from_inside(request: Request, response: Response) -> bool:
    """Whether *response* came from a private network; its host is looked up where nobody kept the address, as
    Scrapy 2.14 does not for a response without a body."""
    if response.ip_address is None and not request.meta.get("proxy"):
        return await _private_address(host_of(request.url)) is not None
    return is_from_private(request, response)


async def _private_address(host: str) -> str | None:
    return next(filter(is_private, await scrapy_internals.addresses_of(host)), None)


def _named_by(request: Request) -> str:
    """The host whose robots.txt names a sitemap; empty for other requests."""
    if request.meta.get(SITEMAP) in UNSET:
        return ""
    return host_of(SitemapTask.from_meta(request.meta[SITEMAP], request.url).speaks_for)


def is_from_private(request: Request, response: Response) -> bool:
    """Whether *response* came from a private network; behind a proxy, and where nobody kept the address, only
    the URL can tell. Nothing is looked up."""
    address = None if request.meta.get("proxy") else response.ip_address
    return is_private(str(address)) if address is not None else is_private_url(request.url)
