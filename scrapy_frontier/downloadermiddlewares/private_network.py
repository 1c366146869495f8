"""No way from a public page by redirects, or from a public site by its sitemaps, into a private network,
whatever a name resolves to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.parse.redirect_chains import PRIVATE
from ..crawl.assembly import Component
from ..crawl.hosts.private_network import is_led_to, leads_inside, led_inside, refusal_of
from ..crawl.meta_keys import FROM_PUBLIC, SITEMAP

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.exceptions import IgnoreRequest
    from scrapy.http import Request, Response


class PrivateNetworkMiddleware(Component):
    """Looks up the host of a redirect's target before the page is asked for.

    Only where a public page led to another host by its name; addresses and local names are refused at the
    page itself. So it is with a sitemap that the robots.txt of another host names. The address that answers
    is checked again: a name may resolve to one thing and then to another. Nothing can be told of requests
    that go through a proxy.
    """

    def is_wanted(self) -> bool:
        """Unless ``FRONTIER_ALLOW_PRIVATE`` is set."""
        return not self.settings.redirects.allows_private

    def process_request(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """None at once but for the few requests that another host led to; these are looked up, and raise
        `IgnoreRequest` where they lead inside."""
        if _may_be_led_to(request) and is_led_to(request) and not request.meta.get("proxy"):
            return self._look_up(request)
        return None

    async def _look_up(self, request: Request) -> None:
        address = await leads_inside(request)
        if address is not None:
            raise self._refused(address)

    def process_response(
        self, request: Request, response: Response
    ) -> Coroutine[Any, Any, Response] | Response:
        """*response*; raises `IgnoreRequest` where somebody public led to it and its address is private."""
        return self._look_at(request, response) if _may_be_led_to(request) else response

    async def _look_at(self, request: Request, response: Response) -> Response:
        address = await led_inside(request, response)
        if address is not None:
            raise self._refused(address)
        return response

    def _refused(self, address: str) -> IgnoreRequest:
        self.crawler.stats.inc_value("frontier/redirects/refused")
        self.crawler.stats.inc_value(f"frontier/redirects/refused/{PRIVATE.name}")
        return refusal_of(address)


def _may_be_led_to(request: Request) -> bool:
    """False for the many requests of which `is_led_to` need not be asked."""
    return FROM_PUBLIC in request.meta or SITEMAP in request.meta
