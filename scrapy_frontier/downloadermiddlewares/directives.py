"""Reads the directives of a page, meta robots, X-Robots-Tag and rel=canonical, once for all.

The spider middleware applies them to items and links; the record of the page shows them.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Request, Response

from ..core import reasons
from ..core.parse.directives import consequences, robots_directives
from ..core.parse.html import Head
from ..core.parse.urls import ajax_form
from ..crawl.assembly import Component
from ..crawl.codec import copied
from ..crawl.host_trouble import lines_of
from ..crawl.left_out import left_out_of
from ..crawl.link_extractor import canonical_of, head_of
from ..crawl.meta_keys import DIRECTIVES
from ..crawl.robots import agent_of

if TYPE_CHECKING:
    from ..core.parse.directives import Directives
    from ..crawl.in_flight import ActiveRequest

_NO_HEAD = Head()


class DirectivesMiddleware(Component):
    """Puts the directives of a page into ``response.meta["frontier_directives"]``, if it has any.

    A dict of plain data: ``noindex`` and ``nofollow`` as bools, ``names`` of all directives without a value
    as a sorted list, ``canonical`` as a URL, None for the page itself. With ``FRONTIER_NOINDEX = "skip"`` a
    page with noindex does not reach its callback. Stands between Scrapy's middlewares for retries and for
    meta refresh: it must see decompressed bodies, and no page that is retried.
    """

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Note the directives of *response*. Raises `IgnoreRequest` for a page with noindex, with
        ``FRONTIER_NOINDEX = "skip"``. A page that asks for its AJAX form is requested in that form."""
        request.meta.pop(DIRECTIVES, None)  # a spider may have copied the meta of the page before
        active = self.active_requests.get(request)
        if self.settings.ajax and active is not None and self._has_ajax_form(request, response):
            self.crawler.stats.inc_value("frontier/ajax")
            return copied(request, ajax_form(request.url))
        directives = self._read(request, response)
        if directives is not None:
            request.meta[DIRECTIVES] = directives
            if active is not None:
                self._obey(active, directives, response)
        return response

    def _read(self, request: Request, response: Response) -> Directives | None:
        headers = response.headers
        has = partial(dict.__contains__, headers)  # without making bytes of a name first
        tags = lines_of(response, "X-Robots-Tag") if has(b"X-Robots-Tag") else []
        head = head_of(response) if isinstance(response, HtmlResponse) else _NO_HEAD
        if not (tags or head.metas or head.canonicals):
            return None
        now = self.crawl.clock() if self.crawl is not None else time.time()
        found = robots_directives(tags, head.metas, agent_of(request, self.crawler.settings), now)
        if isinstance(response, HtmlResponse) and response.status < 300:
            found["canonical"] = canonical_of(response)
        return found if found["names"] or found["noindex"] or found["canonical"] else None

    def _obey(self, active: ActiveRequest, directives: Directives, response: Response) -> None:
        found = consequences(directives, self.settings.obeyed)
        if directives["noindex"] and response.status < 300:
            self.crawler.stats.inc_value("frontier/noindex/pages")
            if found.skips:
                left_out_of(self.crawler).add(
                    "frontier/left_out/noindex_pages", response.url, reasons.SKIPPED()
                )
                raise IgnoreRequest(reasons.SKIPPED())
        if directives["nofollow"]:
            self.crawler.stats.inc_value("frontier/nofollow/pages")
        active.obeys(found)

    def _has_ajax_form(self, request: Request, response: Response) -> bool:
        """Whether a page asks to be fetched as ``?_escaped_fragment_=`` instead."""
        return (
            isinstance(response, HtmlResponse)
            and response.status == 200
            and request.method == "GET"
            and "_escaped_fragment_=" not in request.url
            and ("fragment", "!") in head_of(response).metas
        )
