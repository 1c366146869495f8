"""No way from a public page by redirects into a private network, whatever a name resolves to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest, NotConfigured

from ..core.hosts.sitemap_sites import Errand
from ..core.parse.hostnames import is_private
from ..core.parse.redirects import PRIVATE
from ..core.parse.urls import host_of
from ..crawl import compat
from ..crawl.meta_keys import FROM_PUBLIC, SITEMAP
from ..crawl.stats import count
from ..settings import FrontierSettings
from .redirect import is_from_private

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

REFUSED = "a public page led to it, and its address is private"


class PrivateNetworkMiddleware:
    """Looks up the host of a redirect's target before the page is asked for.

    Only where a public page led to another host by its name; addresses and local names are refused at the
    page itself. So it is with a sitemap that the robots.txt of another host names. The response's own
    address is checked again: a name may resolve to one thing and then to another. Nothing can be told of
    requests that go through a proxy.
    """

    def __init__(self, crawler: Crawler) -> None:
        if FrontierSettings.of_component(crawler.settings).redirects.allows_private:
            raise NotConfigured("FRONTIER_ALLOW_PRIVATE is set")
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> Coroutine[Any, Any, None] | None:
        return self._look_up(request) if is_led_to(request) and not request.meta.get("proxy") else None

    async def _look_up(self, request: Request) -> None:
        address = await leads_inside(request)
        if address is not None:
            raise self._refused(address)

    def process_response(self, request: Request, response: Response) -> Response:
        led_to = is_led_to(request) and FROM_PUBLIC in request.meta and not request.meta.get("proxy")
        if led_to and response.ip_address is not None:
            address = str(response.ip_address)
            if is_private(address):
                raise self._refused(address)
        return response

    def _refused(self, address: str) -> IgnoreRequest:
        count(self._crawler, "frontier/redirects/refused")
        count(self._crawler, f"frontier/redirects/refused/{PRIVATE.name}")
        return refusal_of(address)


def refusal_of(address: str) -> IgnoreRequest:
    return IgnoreRequest(f"{REFUSED} ({address})")


def is_led_to(request: Request) -> bool:
    """Whether another host led to *request*, which may be public; 0.3 us for a request that none led to."""
    meta = request.meta
    if FROM_PUBLIC not in meta and SITEMAP not in meta:
        return False
    host = host_of(request.url)
    return meta.get(FROM_PUBLIC) == host or _named_by(request) not in ("", host)


async def leads_inside(request: Request) -> str | None:
    """The private address to which somebody public leads by *request* (`is_led_to`); None if it does not.

    Looks up names by the resolver and the cache of the connections.
    """
    host = host_of(request.url)
    address = await _private_address(host)
    if address is None or request.meta.get(FROM_PUBLIC) == host:
        return address
    return None if await _private_address(_named_by(request)) is not None else address


async def comes_from_inside(request: Request, response: Response) -> bool:
    """Whether *response* came from a private network; its host is looked up where nobody kept the address, as
    Scrapy 2.14 does not for a response without a body."""
    if response.ip_address is None and not request.meta.get("proxy"):
        return await _private_address(host_of(request.url)) is not None
    return is_from_private(request, response)


async def _private_address(host: str) -> str | None:
    return next(filter(is_private, await compat.addresses_of(host)), None)


def _named_by(request: Request) -> str:
    """The host whose robots.txt names a sitemap; empty for other requests."""
    if SITEMAP not in request.meta:
        return ""
    return host_of(Errand.from_meta(request.meta[SITEMAP], request.url).speaks_for)
