"""Refuses requests by which a public page leads into a private network: redirects, and sitemaps that the
robots.txt of another host names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ..core.parse.directives import PRIVATE
from ..crawl.assembly import Component
from ..crawl.left_out import refuse_redirect
from ..crawl.meta_keys import SITEMAP
from ..crawl.private_network import is_led_to, leads_inside, led_inside, refusal_of, was_led_to
from ..crawl.scrapy_internals import SideRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

    from scrapy.http import Request, Response

_T = TypeVar("_T")


class PrivateNetworkMiddleware(Component):
    """Looks up the host of such a request as it goes out, and checks the address that answered.

    Addresses and local names are refused at the page itself already. A name may resolve to a public address
    first and to a private one for the connection (DNS rebinding): then the GET is sent, and its answer
    refused. It stands behind the middlewares that choose a proxy; of requests that go through one nothing can
    be told.
    """

    def is_wanted(self) -> bool:
        """Return true unless ``FRONTIER_ALLOW_PRIVATE`` is set."""
        return not self.settings.allows_private

    def process_request(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """Return None at once, but for the few requests that another host led to; these are looked up, and
        raise `IgnoreRequest` if they lead inside."""
        if _may_be_led_to(request) and is_led_to(request) and not request.meta.get("proxy"):
            return self._unless_inside(leads_inside(request), request, None)
        return None

    def process_response(
        self, request: Request, response: Response
    ) -> Coroutine[Any, Any, Response] | Response:
        """Return *response*; raise `IgnoreRequest` if a public page led to it and its address is private."""
        if _may_be_led_to(request):
            return self._unless_inside(led_inside(request, response), request, response)
        return response

    async def _unless_inside(self, look_up: Awaitable[str | None], request: Request, passed: _T) -> _T:
        """Return *passed*; raise `IgnoreRequest`, which is counted, if *look_up* finds a private address."""
        address = await look_up
        if address is None:
            return passed
        refuse_redirect(self.crawler, PRIVATE, request)
        raise refusal_of(address)


def _may_be_led_to(request: Request) -> bool:
    """Return false for the many requests of which `is_led_to` need not be asked."""
    return was_led_to(request) or SITEMAP in request.meta or isinstance(request, SideRequest)
