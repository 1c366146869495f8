"""Applies the directives of a page to the items and links that its callback yields.

`DirectiveRules.of` is asked once a page, and every output goes through the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy import FormRequest, Request
from scrapy.http import HtmlResponse, JsonRequest

from ..core import reasons
from ..core.parse.directives import NO_CONSEQUENCES, consequences
from ..core.parse.headers import has_rel
from ..core.parse.urls import escaped_fragment
from ..core.reasons import LONGEST_URL
from ..core.store.link_rows import NOFOLLOW
from .assembly import Component
from .callback_requests import run_in_slices
from .codec import copied
from .fingerprints import page_fingerprint
from .left_out import left_out_of
from .link_extractor import anchors_of, parse_beside
from .meta_keys import DIRECTIVES, NOFOLLOW_META, NOT_INHERITED
from .meta_values import pattern_and_force_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..core.parse.directives import Consequences


class DirectiveRules(Component):
    """Makes the `PageRules` of each page of a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._rels = {rel.encode() for rel in self.settings.nofollow_rels}

    def of(self, response: Response) -> PageRules | None:
        """Return the rules for the output of the callback of *response*; None if everything passes.

        0.1 ms for a page of 100 KB without directives: its bytes are searched for the link types that count.
        """
        active = self.active_requests.of(response)
        found = self._of_ended(response) if active is None else active.consequences
        if response.status >= 300:  # an error has no content to be indexed
            found = found._replace(drops_items=False)
        inherits = pattern_and_force_of(response.request) is not None
        is_plain = found == NO_CONSEQUENCES and not (inherits or self.settings.ajax)
        has_rels = self._may_have_rels(response)
        if is_plain and not has_rels:
            return None
        return PageRules(self, response, found, has_rels)

    def _of_ended(self, response: Response) -> Consequences:
        directives = response.meta.get(DIRECTIVES) if response.request is not None else None
        return consequences(directives, self.settings.obeyed)

    def _may_have_rels(self, response: Response) -> bool:
        if not self._rels or not isinstance(response, HtmlResponse):
            return False
        body = response.body.lower()
        return any(rel in body for rel in self._rels)

    def nofollow_only(self, response: Any) -> Generator[None, None, frozenset[bytes]]:
        """Return the fingerprints of the pages that *response* links only with link types that are not
        followed. Yields after each element."""
        refused: set[str] = set()
        others: set[str] = set()
        for anchor in anchors_of(response, self.settings.traps.length):
            yield
            if anchor is not None:
                url, element = anchor
                is_refused = has_rel(element.get("rel"), self.settings.nofollow_rels)
                (refused if is_refused else others).add(url)
        found: set[bytes] = set()
        for url in refused:
            yield
            found.add(page_fingerprint(url))
        for url in others if found else ():
            yield
            found.discard(page_fingerprint(url))
        return frozenset(found)

    def with_ajax_form(self, request: Any) -> Any:
        """Return *request* with the state of a ``#!`` URL in its query, with ``FRONTIER_AJAX``."""
        if not self.settings.ajax or not isinstance(request, Request):
            return request
        url = escaped_fragment(request.url)
        return request if url is None else copied(request, url)


@dataclass(eq=False, repr=False)
class PageRules:
    """The rules for one page. Its items are dropped with ``noindex``."""

    _rules: DirectiveRules
    _response: Any
    _found: Consequences
    _has_rels: bool  # links may have types that are not followed
    _nofollow_only: frozenset[bytes] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        self._is_nofollow = self._found.is_nofollow
        self._inherited = pattern_and_force_of(self._response.request)
        self._is_read = self._is_nofollow or not self._has_rels

    async def filter(self, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the canonical page, then the *result* of a callback without dropped items; links that are not
        followed end here. Gives way to other pages while this one is read."""
        if (canonical := self._canonical()) is not None:
            yield canonical
        async for output in result:
            if not self._is_read and isinstance(output, Request) and self._is_link(output):
                await parse_beside(self._response)
                await run_in_slices(self.find_refused())
            if (kept := self._judge(output)) is not None:
                yield kept

    def _canonical(self) -> Any:
        """Return a request for the canonical page as a link of this page; None without one."""
        request, url = self._response.request, self._found.alias_of
        if url is None or request is None or request.method != "GET":
            return None
        link: Request = copied(request, url)
        link.dont_filter = False
        for key in NOT_INHERITED:
            link.meta.pop(key, None)
        return self._link(link)

    def _judge(self, output: Any) -> Any:
        if isinstance(output, Request):
            return self._link(output)
        if output is None or not self._found.drops_items:
            return output
        what = f"an item of {self._response.url}"
        left_out_of(self._rules.crawler).add("frontier/noindex/items", what, reasons.NOINDEX())
        return None

    # -- links -----------------------------------------------------------------------------------------

    def _link(self, request: Any) -> Any:
        request = self._rules.with_ajax_form(request)
        outside = self._inherited.hand_on(request) if self._inherited is not None else ""
        if not self._is_link(request):
            return request
        if outside:
            left_out_of(self._rules.crawler).add("frontier/pattern/links", request, outside)
            return self._refused(request, outside, is_nofollow=False)
        if request.meta.get(NOFOLLOW_META) is not False and (reason := self.refusal(request.url)):
            return self._refused(request, reason)
        return request

    def refusal(self, url: str) -> str:
        """Return why a link to *url* is not followed, and count it; empty if it is. After `find_refused`."""
        if self._is_nofollow:
            reason = reasons.NOFOLLOW_PAGE(url=self._response.url[:LONGEST_URL])
            left_out_of(self._rules.crawler).add("frontier/nofollow/links", url, reason)
            return reason
        if self._nofollow_only and page_fingerprint(url) in self._nofollow_only:
            rels = " or ".join(sorted(self._rules.settings.nofollow_rels))
            reason = reasons.NOFOLLOW_LINK(rels=rels, url=self._response.url[:LONGEST_URL])
            left_out_of(self._rules.crawler).add("frontier/nofollow/rel", url, reason)
            return reason
        return ""

    def _is_link(self, request: Request) -> bool:
        """Whether *request* follows a link: no form, no call of an interface (JSON, POST), no retry of the
        page."""
        return (
            request.method == "GET"
            and not request.body
            and not isinstance(request, (FormRequest, JsonRequest))
            and request.url != self._response.url
        )

    def find_refused(self) -> Iterator[None]:
        """Find the links that are not followed, once; yields after each element of the page."""
        if not self._is_read:
            self._nofollow_only = yield from self._rules.nofollow_only(self._response)
            self._is_read = True

    @property
    def refuses_none(self) -> bool:
        """Whether `refusal` is empty for every link. After `find_refused`."""
        return not self._is_nofollow and not self._nofollow_only

    def _refused(self, request: Request, reason: str, is_nofollow: bool = True) -> None:
        """Make the page of *request* known without queueing it; if it *is_nofollow* the link has no
        weight."""
        crawl, active = self._rules.crawl, self._rules.active_requests.of(self._response)
        if crawl is None:
            return
        if crawl.links is not None and active is not None:
            found = active.gather_links(self._response.url)
            crawl.links.note(active, found, request, flags=NOFOLLOW if is_nofollow else 0)
        crawl.enqueuer.see(request, reason)
