"""No way from a public page by redirects, or from a public site by its sitemaps, into a private network,
whatever a name resolves to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ..core.parse.directives import PRIVATE
from ..crawl.assembly import Component
from ..crawl.meta_keys import FROM_PUBLIC, SITEMAP
from ..crawl.private_network import is_led_to, leads_inside, led_inside, refusal_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

    from scrapy.http import Request, Response

_T = TypeVar("_T")


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
            return self._unless_inside(leads_inside(request), None)
        return None

    def process_response(
        self, request: Request, response: Response
    ) -> Coroutine[Any, Any, Response] | Response:
        """*response*; raises `IgnoreRequest` where somebody public led to it and its address is private."""
        if _may_be_led_to(request):
            return self._unless_inside(led_inside(request, response), response)
        return response

    async def _unless_inside(self, look_up: Awaitable[str | None], passed: _T) -> _T:
        """*passed*; raises `IgnoreRequest`, which is counted, where *look_up* finds a private address."""
        address = await look_up
        if address is None:
            return passed
        self.crawler.stats.inc_value("frontier/redirects/refused")
        self.crawler.stats.inc_value(f"frontier/redirects/refused/{PRIVATE.name}")
        raise refusal_of(address)


def _may_be_led_to(request: Request) -> bool:
    """False for the many requests of which `is_led_to` need not be asked."""
    return FROM_PUBLIC in request.meta or SITEMAP in request.meta
