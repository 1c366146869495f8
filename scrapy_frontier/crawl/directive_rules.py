"""What follows from a page's directives for the items and links that its callback yields.

`DirectiveRules.of` is asked once a page, and every output goes through the answer.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import FormRequest, Request
from scrapy.http import HtmlResponse, JsonRequest

from ..core import reasons
from ..core.frontier import Event
from ..core.parse.directives import NO_CONSEQUENCES, consequences
from ..core.parse.headers import has_rel
from ..core.parse.urls import escaped_fragment, host_of
from ..core.reasons import LONGEST_URL
from . import scrapy_internals
from .assembly import Component
from .codec import copied
from .fingerprints import page_fingerprint
from .link_extractor import is_text, references_of, tree_of
from .meta_keys import DIRECTIVES, FROM_PUBLIC, NOFOLLOW_META, NOT_INHERITED, ONLY_SEEN
from .meta_values import pattern_and_force_of
from .outlinks import ANCHORS_AT_A_TIME
from .private_network import is_from_private

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..core.parse.directives import Consequences
    from .meta_values import PatternAndForce


class DirectiveRules(Component):
    """The rules of one crawl: made once, it is asked for those `of` each page."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._rels = {rel.encode() for rel in self.settings.nofollow_rels}

    def of(self, response: Response) -> PageRules | None:
        """The rules for what the callback of *response* yields; None where everything simply passes.

        0.1 ms for a page of 100 KB without directives: its bytes are searched for the link types that count.
        """
        crawl, request = self.crawl, response.request
        flight = self.flights.get(id(request))
        found = self._without_flight(response) if flight is None else flight.consequences
        if found.drops_items and request is not None:
            is_refused = flight is not None and not flight.is_let_through
            if is_refused or is_error(self.crawler, response, request):
                found = found._replace(drops_items=False)
        outcome = None if flight is None else flight.outcome
        leads_on = outcome is not None and outcome.event is Event.REDIRECTED  # and is not refused, say
        inherited = pattern_and_force_of(request)
        is_plain = found == NO_CONSEQUENCES and inherited is None and not leads_on and not self.settings.ajax
        if is_plain and not self._may_have_rels(response):
            return None
        as_link = None
        if crawl is not None and flight is not None and crawl.may_be_called_again(flight.callback):
            as_link = partial(crawl.follow_ups.as_link, flight)
        return PageRules(self, response, found, leads_on, as_link, inherited)

    def _without_flight(self, response: Response) -> Consequences:
        directives = response.meta.get(DIRECTIVES) if response.request is not None else None
        return consequences(directives, response.url, self.settings.obeyed)

    def _may_have_rels(self, response: Response) -> bool:
        if not self._rels or not isinstance(response, HtmlResponse) or not is_text(response):
            return False
        body = response.body.lower()
        return any(rel in body for rel in self._rels)

    def nofollow_only(self, response: Response) -> Generator[None, None, frozenset[bytes]]:
        """Find the keys of the pages that *response* links with a link type that is not
        followed, one or another, and never without. Uses the tree that the response's selectors share.

        Yields after every `ANCHORS_AT_A_TIME` links: 100,000 would stop the event loop for 1.5 s.
        """
        if not self._may_have_rels(response):
            return frozenset()
        assert isinstance(response, HtmlResponse)
        absolute, longest = references_of(response), self.settings.traps.length
        types = self.settings.nofollow_rels
        keys: dict[str, bytes | None] = {}  # by reference
        refused: set[bytes] = set()
        for is_refused in (True, False):
            if not refused and not is_refused:
                break
            for number, anchor in enumerate(tree_of(response).iter("a", "area"), 1):
                if number % ANCHORS_AT_A_TIME == 0:
                    yield
                href, rel = anchor.get("href"), anchor.get("rel")
                if href is None or has_rel(rel, types) is not is_refused or 0 < longest < len(href):
                    continue
                if href not in keys:
                    url = absolute(href)
                    keys[href] = None if url is None else page_fingerprint(url)
                key = keys[href]
                if key is not None:
                    (refused.add if is_refused else refused.discard)(key)
        return frozenset(refused)

    def with_ajax_form(self, request: Any) -> Any:
        """*request*, with the state of a ``#!`` URL where the server can see it, if that is wanted."""
        if not self.settings.ajax or not isinstance(request, Request):
            return request
        url = escaped_fragment(request.url)
        return request if url is None else copied(request, url)


def is_error(crawler: Crawler, response: Response, request: Request) -> bool:
    """Whether *response* goes to the errback of *request*: then what it says of its content counts for
    nothing, since an error has none to be indexed."""
    return scrapy_internals.http_error_of(crawler, response, request) is not None


@dataclass(eq=False, repr=False)
class PageRules:
    """The rules for one page. *leads_on*: it only leads to another one at once, so it has no items.
    *as_link* makes a request for its canonical page as a link would be; None where that cannot be given to
    the same callback."""

    _rules: DirectiveRules
    _response: Response
    _found: Consequences
    leads_on: InitVar[bool]
    _as_link: Callable[[Request], Request] | None
    _inherited: PatternAndForce | None
    _nofollow_only: frozenset[bytes] | None = field(default=None, init=False)

    def __post_init__(self, leads_on: bool) -> None:
        self._is_nofollow = self._found.is_nofollow
        stat = "frontier/noindex/items" if self._found.drops_items else ""  # of items that are dropped
        self._drops_items_for = "frontier/redirects/items" if leads_on else stat

    def filter(self, result: Iterable[Any]) -> Iterator[Any]:
        """What goes on of the *result* of a callback: without items that are dropped, with links marked that
        are not followed, and first the canonical page where that is to be fetched."""
        yield from self._more()
        for output in result:
            if (kept := self._judge(output)) is not None:
                yield kept

    async def filter_async(
        self, result: AsyncIterator[Any], give_way: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[Any]:
        """As `filter`; others have a turn by *give_way* while a page with very many links is read."""
        for more in self._more():
            yield more
        async for output in result:
            if self._nofollow_only is None and isinstance(output, Request) and self._is_link(output):
                for _ in self.find_refused():
                    await give_way()
            if (kept := self._judge(output)) is not None:
                yield kept

    def _judge(self, output: Any) -> Any:
        if isinstance(output, Request):
            return self._link(output)
        if output is None or not self._drops_items_for:
            return output
        self._rules.crawler.stats.inc_value(self._drops_items_for)
        return None

    # -- links -----------------------------------------------------------------------------------------

    def _link(self, request: Any) -> Any:
        request = self._rules.with_ajax_form(request)
        outside = self._inherited.hand_on(request) if self._inherited is not None else ""
        if not self._is_link(request):
            return request
        if outside:
            self._rules.crawler.stats.inc_value("frontier/pattern/links")
            return self._refused(request, outside, is_nofollow=False)
        if request.meta.get(NOFOLLOW_META) is False:
            return request
        for _ in self.find_refused():
            pass
        reason = self.refusal(request.url)
        return self._refused(request, reason) if reason else request

    def refusal(self, url: str) -> str:
        """Why a link to *url* is not followed, which is counted; empty where it is. After `find_refused`."""
        if self._is_nofollow:
            self._rules.crawler.stats.inc_value("frontier/nofollow/links")
            return reasons.NOFOLLOW_PAGE(url=self._response.url[:LONGEST_URL])
        if self._nofollow_only and page_fingerprint(url) in self._nofollow_only:
            self._rules.crawler.stats.inc_value("frontier/nofollow/rel")
            rels = " or ".join(sorted(self._rules.settings.nofollow_rels))
            return reasons.NOFOLLOW_LINK(rels=rels, url=self._response.url[:LONGEST_URL])
        return ""

    def _is_link(self, request: Request) -> bool:
        """Whether *request* follows a link. Forms, calls of an interface (JSON, POST) and another try of the
        page itself are the spider's own doing."""
        return (
            request.method == "GET"
            and not request.body
            and not isinstance(request, (FormRequest, JsonRequest))
            and request.url != self._response.url
        )

    def find_refused(self) -> Iterator[None]:
        """Find the links that may not be followed, once; yields on the way through a page with very many."""
        if self._nofollow_only is None and not self._is_nofollow:
            self._nofollow_only = yield from self._rules.nofollow_only(self._response)

    @property
    def refuses_none(self) -> bool:
        """Whether `refusal` says nothing of any link, so that nobody need ask. After `find_refused`."""
        return not self._is_nofollow and not self._nofollow_only

    def _refused(self, request: Request, reason: str, is_nofollow: bool = True) -> Request | None:
        """Mark *request*: the scheduler will not queue it, and where it *is_nofollow* the link counts for
        nothing."""
        if self._rules.crawl is None:
            return None
        if is_nofollow:
            request.meta[NOFOLLOW_META] = True
        request.meta[ONLY_SEEN] = reason
        return request

    def _more(self) -> Iterator[Request]:
        """The canonical page, to be fetched in its own turn as this one was yielded: a slot, say, that a
        middleware gave this one is not its own."""
        request, url, as_link = self._response.request, self._found.alias_of, self._as_link
        if url is None or as_link is None or request is None or request.method != "GET" or self._is_nofollow:
            return
        canonical = copied(request, url)
        canonical.dont_filter = False
        for key in NOT_INHERITED:
            canonical.meta.pop(key, None)
        if host_of(url) != host_of(self._response.url) and not is_from_private(request, self._response):
            canonical.meta[FROM_PUBLIC] = host_of(url)
        canonical = as_link(canonical)
        if self._inherited is None or not self._inherited.hand_on(canonical):
            yield canonical
