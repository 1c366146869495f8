"""Refuses requests by which a public page leads into a private network: redirects, and sitemaps that the
robots.txt of another host names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.parse.directives import PRIVATE
from ..core.parse.urls import host_of, is_private
from ..crawl import scrapy_internals
from ..crawl.assembly import Component
from ..crawl.left_out import refuse_redirect
from ..crawl.private_network import is_from_public, refusal_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.http import Request, Response


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
        return self._look_up(request) if is_from_public(request) and not request.meta.get("proxy") else None

    async def _look_up(self, request: Request) -> None:
        """Ask the resolver, and the cache, of the connections."""
        self._refuse(request, await scrapy_internals.addresses_of(host_of(request.url)))

    def process_response(self, request: Request, response: Response) -> Response:
        """Return *response*; raise `IgnoreRequest` if a public page led to it and its address is private,
        whatever its name stood for when it was looked up."""
        if is_from_public(request) and not request.meta.get("proxy") and response.ip_address is not None:
            self._refuse(request, [str(response.ip_address)])
        return response

    def _refuse(self, request: Request, addresses: list[str]) -> None:
        """Raise `IgnoreRequest`, which is counted, if one of *addresses* is private."""
        for address in filter(is_private, addresses):
            refuse_redirect(self.crawler, PRIVATE, request)
            raise refusal_of(address)
