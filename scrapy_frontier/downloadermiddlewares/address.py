"""`FRONTIER_POLITENESS_KEY = "ip"`: hosts that share an address share its clock.

A page whose host was not resolved yet is queued under the host's name. It never goes on the wire from there:
here the name is resolved, with the resolver and the cache that the connection uses, and the page moves to the
queue of the address. Links found later go there at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import reasons
from ..core.parse.urls import host_of
from ..crawl.assembly import Component
from ..crawl.in_flight import postpone
from ..crawl.meta_keys import chosen_slot
from ..settings import ADDRESS

if TYPE_CHECKING:
    from scrapy.http import Request, Response


class AddressMiddleware(Component):
    """Behind Offsite (50), which refuses more cheaply, and before whatever asks the host for anything."""

    def is_wanted(self) -> bool:
        """With ``FRONTIER_POLITENESS_KEY = "ip"``."""
        return self.settings.politeness_key == ADDRESS

    async def process_request(self, request: Request) -> Request | None:
        """Postpone a page that waited under another name than the address of its host."""
        crawl, flight = self.crawl, self.flights.get(id(request))
        if crawl is None or flight is None or request.meta.get("proxy"):
            return None
        if chosen_slot(request.meta) is not None:
            return None
        lease, host = flight.lease, host_of(request.url)
        address = await crawl.politeness_keys.address_of(host)
        if address is None or address == lease.host:  # without one connecting fails as well, and says why
            return None
        return postpone(flight, request, reasons.ADDRESS(host=host, address=address), host=address)

    def process_response(self, request: Request, response: Response) -> Response:
        """Where the connection went elsewhere than the name resolved to, the pages that come follow it."""
        crawl = self.crawl
        if crawl is not None and response.ip_address is not None and not request.meta.get("proxy"):
            crawl.politeness_keys.learn(host_of(request.url), str(response.ip_address))
        return response
