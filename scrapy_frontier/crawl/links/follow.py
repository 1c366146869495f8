"""Which pages have their links followed, and whether in bulk or by a request each.

By ``FRONTIER_FOLLOW`` all that a callback gets to see, or as the rules of a `CrawlSpider` say; by
``frontier_follow`` in the meta of a request its page alone. Whoever is to see each request (a spider
middleware of the project, a listener, a dupefilter) has them made, one by one, as a callback would.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import HtmlResponse

from ..meta_keys import DUPLICATE, FOLLOW, LINK_SCORE
from ..requests.callback_names import Unreadable
from ..requests.pattern_and_force import pattern_and_force_of
from ..responses.follow_rules import SpiderRules, Way, one_way
from ..responses.head import is_text
from ..scrapy_internals import compat
from .built_in_middlewares import BUILT_IN, BuiltIns
from .callback_requests import usual_listeners
from .follow_in_bulk import PageFollowing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ...settings import FrontierSettings
    from ..flights.in_flight import Flights
    from ..intake.dupefilters import DupeFilter
    from ..intake.enqueue_requests import Intake
    from ..intake.refused_links import Refusing
    from ..requests.codec import Codec
    from ..stats import Reporter
    from .outlinks import LinkCollector, Outlinks

OURS = ("FrontierSpiderMiddleware", "DuplicatesMiddleware")


@dataclass(eq=False, repr=False)
class Follow:
    """Follows what the pages of a crawl link, through *intake*; all pages where it ``is_on``.

    For each response in this order: `begin`, `requests`, and where links are followed in bulk `taker`.
    """

    _crawler: Crawler
    _settings: FrontierSettings
    _codec: Codec
    _dupefilter: DupeFilter
    _flights: Flights
    _intake: Intake
    _links: Outlinks | None
    _reporter: Reporter
    _ways: dict[Any, tuple[Way, ...]] = field(default_factory=dict, init=False)
    _bar: str | None = field(default=None, init=False)  # why every link is a request; None: not asked
    _built_ins: BuiltIns = field(default_factory=BuiltIns, init=False)
    _receivers: list[Any] = field(default_factory=list, init=False)  # who hears of requests

    def __post_init__(self) -> None:
        self.is_on = self._settings.follows
        self._rules = SpiderRules(self._crawler.spider)

    def begin(self, response: Response, wanted: Any) -> None:
        """A callback is about to see *response*, whose links are *wanted*, true or the name of a callback:
        note by which ways they are followed. Nothing for what is no HTML."""
        flight = self._flights.get(id(response.request))
        if flight is None or not isinstance(response, HtmlResponse) or not is_text(response):
            return
        if self._bar is None:
            self._bar = self._look_for_bar()
        flight.ways = self._ways_from(flight.request, wanted)

    def is_followed(self, response: Response) -> bool:
        """Whether the links of *response* are still to be followed, so that nobody has taken them yet."""
        flight = self._flights.get(id(response.request))
        return flight is not None and bool(flight.ways)

    def requests(self, response: Response) -> Iterator[Request] | None:
        """A request for each link of *response*, to be yielded behind what its callback yields, however that
        ends; None where the links are not followed, or in bulk."""
        if not self.is_followed(response) or self._is_in_bulk(response):
            return None
        return self._requests_by(self._take_ways(response), response)

    def _is_in_bulk(self, response: Response) -> bool:
        """Whether the links of *response*, which are followed, need no requests."""
        if pattern_and_force_of(response.request) is not None:  # of which each link inherits its own
            return False
        if DUPLICATE in response.meta:  # of which a middleware may drop the requests
            return False
        receivers = usual_listeners(self._crawler)
        self._receivers = receivers or []
        return not self._bar and receivers is not None

    def _requests_by(self, ways: tuple[Way, ...], response: Any) -> Iterator[Request]:
        if ways is self._rules.ways:
            yield from self._rules.requests(response)
            return
        score = getattr(self._crawler.spider, LINK_SCORE, None)
        for way in ways:
            for link in way.reader.extractor.extract_links(response):
                meta = {} if score is None else {LINK_SCORE: score(response, link.url, link.text)}
                yield Request(link.url, way.callback, meta=meta)

    def taker(
        self, response: Response, collector: LinkCollector | None, refusing: Refusing | None
    ) -> PageFollowing:
        """Who follows the links of *response* in bulk, and stands before the *collector*. To be asked after
        `requests`, where it `is_followed`."""
        assert isinstance(response, HtmlResponse)
        crawl = self._crawler, self._built_ins, self._intake, self._codec, self._reporter.tally, self._links
        page = self._flights[id(response.request)], response, self._take_ways(response), self._receivers
        return PageFollowing(*crawl, self._settings.ajax, *page, collector, refusing)

    def _take_ways(self, response: Response) -> tuple[Way, ...]:
        """How the links of *response* are followed, which nobody else is to do from now on."""
        flight = self._flights[id(response.request)]
        ways, flight.ways = flight.ways, ()
        return ways

    # -- how -----------------------------------------------------------------------------------------------

    def _ways_from(self, request: Request, wanted: Any) -> tuple[Way, ...]:
        """How links of the page that *request* brings are followed."""
        if self._rules and not isinstance(wanted, str):
            is_asked = request.meta.get(FOLLOW) is not None
            leads_on = self._rules.lead_on_from(request)
            if leads_on and not self._rules.is_taken_over:
                return ()  # the spider follows them itself
            return self._rules.ways if leads_on or is_asked else ()
        if wanted not in self._ways:
            self._ways[wanted] = self._one_way(wanted)
        return self._ways[wanted]

    def _one_way(self, wanted: Any) -> tuple[Way, ...]:
        """All links, to the callback that is *wanted* by name, or the spider's default one."""
        try:
            callback = self._codec.callbacks.named(wanted) if isinstance(wanted, str) else None
        except Unreadable as reason:
            words = "%s = %r follows no link: %s; name a method of it"
            self._reporter.log(logging.ERROR, words, FOLLOW, wanted, reason)
            return ()
        try:
            return (one_way(self._crawler.spider, callback),)
        except TypeError as reason:
            self._reporter.log(logging.ERROR, "No link is followed: %s; set a LinkExtractor()", reason)
            return ()

    def _look_for_bar(self) -> str:
        """Why links cannot be followed in bulk in this crawl, which is said; empty: they can."""
        self._built_ins = BuiltIns(compat.spider_middlewares(self._crawler))
        bar = self._bar_in_crawl() or (self._rules.bar() if self._rules else "")
        if bar:
            words = "Links are followed by a request each, not in bulk: %s"
            self._reporter.log(logging.INFO, words, bar)
        elif self._rules and self.is_on:
            self._rules.take_over()
        return bar

    def _bar_in_crawl(self) -> str:
        if not compat.is_usual_engine(self._crawler):
            return "the engine is none of Scrapy's"
        if self._dupefilter.is_own:
            return "the project has a DUPEFILTER_CLASS of its own"
        if self._dupefilter.hears_of_dropped:
            return "DUPEFILTER_DEBUG has each named that is dropped"
        for middleware in compat.spider_middlewares(self._crawler):
            name = type(middleware).__name__
            if name == OURS[0]:
                break  # what follows stands between it and the spider
            if type(middleware) not in BUILT_IN and name not in OURS and _sees_output(middleware):
                return f"the spider middleware {name} is to see them"
        return ""


def _sees_output(middleware: Any) -> bool:
    return any(hasattr(middleware, f"process_spider_output{end}") for end in ("", "_async"))
