"""Has hosts that share an address share its clock (`FRONTIER_POLITENESS_KEY = "ip"`).

A page whose host is not resolved yet is queued under the name of its host. Before it is sent the name is
resolved here, with the resolver and the cache that the connection uses, and the page moves to the queue of
the address. Links found later go there at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import reasons
from ..core.parse.urls import host_of
from ..crawl.assembly import Component
from ..crawl.in_flight import postpone
from ..settings import ADDRESS

if TYPE_CHECKING:
    from scrapy.http import Request, Response


class AddressMiddleware(Component):
    """Stands behind what chooses a proxy, and behind the HTTP cache: no name is looked up of a request that
    goes by a proxy, or that the cache answers."""

    def is_wanted(self) -> bool:
        """Return whether ``FRONTIER_POLITENESS_KEY`` is ``"ip"``."""
        return self.settings.politeness_key == ADDRESS

    async def process_request(self, request: Request) -> Request | None:
        """Postpone a page that is queued under another name than the address of its host."""
        crawl, active = self.crawl, self.active_requests.get(request)
        if crawl is None or active is None or active.has_own_slot or request.meta.get("proxy"):
            return None
        lease, host = active.lease, host_of(request.url)
        address = await crawl.politeness_keys.address_of(host)
        if address is None or address == lease.host:  # without an address connecting fails and tells why
            return None
        return postpone(active, request, reasons.ADDRESS(host=host, address=address), host=address)

    def process_response(self, request: Request, response: Response) -> Response:
        """Remember the address that answered: the name may have resolved to another one."""
        crawl = self.crawl
        if crawl is not None and response.ip_address is not None and not request.meta.get("proxy"):
            crawl.politeness_keys.learn(host_of(request.url), str(response.ip_address))
        return response
