"""No way from a public page by redirects into a private network, whatever a name resolves to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest, NotConfigured

from .. import compat
from ..core.chains import PRIVATE
from ..core.hosts import host_of
from ..core.urls import is_private
from ..notes import count
from ..requests import FROM_PUBLIC
from ..settings import FrontierSettings

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
    page itself. The response's own address is checked again: a name may resolve to one thing and then to
    another. Nothing can be told of requests that go through a proxy.
    """

    def __init__(self, crawler: Crawler) -> None:
        if FrontierSettings.of_component(crawler.settings).redirects.allows_private:
            raise NotConfigured("FRONTIER_ALLOW_PRIVATE is set")
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> Coroutine[Any, Any, None] | None:
        return self._look_up(host_of(request.url)) if _is_led_to(request) else None

    async def _look_up(self, host: str) -> None:
        for address in await compat.addresses_of(host):
            if is_private(address):
                raise self._refused(address)

    def process_response(self, request: Request, response: Response) -> Response:
        if _is_led_to(request) and response.ip_address is not None:
            address = str(response.ip_address)
            if is_private(address):
                raise self._refused(address)
        return response

    def _refused(self, address: str) -> IgnoreRequest:
        count(self._crawler, "frontier/redirects/refused")
        count(self._crawler, f"frontier/redirects/refused/{PRIVATE.name}")
        return IgnoreRequest(f"{REFUSED} ({address})")


def _is_led_to(request: Request) -> bool:
    meta = request.meta
    return FROM_PUBLIC in meta and meta[FROM_PUBLIC] == host_of(request.url) and not meta.get("proxy")
