"""Follows the links of pages for a spider: in bulk, or with a request for each link if something must see it.

With ``FRONTIER_FOLLOW`` the links of every page that reaches a callback are followed, as ``link_extractor``
says; with ``frontier_follow`` in the meta of a request, those of its page. In bulk means that a page is read
once and its links are handed over in one call, if nothing but Scrapy's own parts stands on the way of
requests (`RequestPath`). A spider with rules follows these itself, as a `CrawlSpider` does.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider

from ..core import reasons
from ..core.frontier import Link
from ..core.parse.urls import escaped_fragment, host_of
from ..core.store.link_rows import INTERNAL, NOFOLLOW
from . import scrapy_internals
from .callback_requests import Offsite
from .codec import Unreadable, copied
from .in_flight import PageLinks
from .link_extractor import FollowRule, PageReader, let_go_of_tree, text_of
from .meta_keys import FOLLOW, LINK_SCORE
from .meta_values import pattern_and_force_of
from .outlinks import MOST_LINKS, TOGETHER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.http import Response
    from scrapy.link import Link as ScrapyLink

    from ..settings import FrontierSettings
    from .callback_requests import PageRequests, RequestPath
    from .dupefilters import DupeFilter
    from .enqueue import RequestEnqueuer
    from .in_flight import ActiveRequest
    from .link_extractor import Anchor
    from .outlinks import LinkCollector, Outlinks
    from .queued import QueuedRequests

# --- which links are followed -----------------------------------------------------------------------------


class Extractor(Protocol):
    """A link extractor, as Scrapy's."""

    def extract_links(self, response: HtmlResponse) -> Iterable[ScrapyLink]:
        """Return the links of a page, absolute, each once."""


# --- what a callback yields -------------------------------------------------------------------------------


async def chained(result: AsyncIterator[Any], more: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield the *result* of a callback, then *more*, also if the callback raises."""
    try:
        async for each in result:
            yield each
    except Exception:
        for each in more:
            yield each
        raise
    for each in more:
        yield each


# --- one page ---------------------------------------------------------------------------------------------

STEP = 16  # elements of a page between two looks at the clock: .1 ms of known links, 1 ms of slow URLs


class Refusing(Protocol):
    """What refuses links of one page: `find_refused` first, then the other two."""

    def find_refused(self) -> Iterator[None]:
        """Find the links that are not followed, once; yields after each element of the page."""

    @property
    def refuses_none(self) -> bool:
        """Whether `refusal` is empty for every link."""

    def refusal(self, url: str) -> str:
        """Return why a link to *url* is not followed, and count it; empty if it is."""


class PageFollowing:
    """Follows the links of one page by *rule* when its callback has ended. *requests* knows what Scrapy's
    middlewares make of them, *page_rules* refuse nofollow links, and *collector* notes what the callback
    yields."""

    reads_page = True

    def __init__(
        self,
        follow: Follow,
        active: ActiveRequest,
        rule: FollowRule,
        requests: PageRequests,
        page_rules: Refusing | None,
        collector: LinkCollector | None,
    ) -> None:
        self._follow, self._rule, self._requests = follow, rule, requests
        self._page_rules, self._collector = page_rules, collector
        self._response: Any = requests.response
        self._enqueuer, self._recognize = follow.enqueuer, follow.enqueuer.recognize
        self._lease = None if follow.links is None else active.lease
        self._found = active.links or PageLinks(self._response.url)
        self._learns_words = False
        spider = follow.path.crawler.spider
        self._offsite = Offsite(spider, follow.path.receivers or [])
        self._score = getattr(spider, LINK_SCORE, None)
        self._longest = follow.path.crawler.settings.getint("URLLENGTH_LIMIT")
        self._made: dict[tuple[Any, ...], tuple[Request, bytes]] = {}  # with their payloads
        self._yielded: list[Request] = []
        self._skipped: set[bytes] = set()  # fingerprints of pages that the callback asks for itself
        self._seen: set[str] = set()  # URLs without fragments
        self._new: list[Link] = []
        self._is_too_deep = False
        self._known = self._too_long = self._too_many = 0

    def take(self, output: Any) -> bool:
        """Note what the callback asks for itself, which is not followed again; whether *output* goes on."""
        if isinstance(output, Request):
            self._yielded.append(output)
        return self._collector is None or self._collector.take(output)

    def end(self) -> Iterator[None]:
        """Take in all links of the page; yields after `STEP` elements. 3 us a link to a page that was met
        lately, 20 us a new one."""
        if self._page_rules is not None:
            yield from self._page_rules.find_refused()
            if self._page_rules.refuses_none:
                self._page_rules = None
        for request in self._yielded:
            clean = self._enqueuer.without_session(request.url)
            request = request if clean == request.url else copied(request, clean)
            self._skipped.add(self._enqueuer.identities.of(request))
            yield
        self._is_too_deep = self._requests.is_too_deep  # as the callback has left it
        links = self._follow.links
        self._learns_words = links is not None and links.learns_words(self._response)
        yield from self._read()
        let_go_of_tree(self._response)
        self._hand_over()
        self._count()
        if self._collector is not None:
            yield from self._collector.end()

    def _read(self) -> Iterator[None]:
        found, has_ajax = self._found, self._follow.settings.ajax
        origin, seen = found.origin, self._seen
        recognize, lease = self._recognize, self._lease
        is_open = self._is_open()
        for place, link in enumerate(self._rule.reader.read(self._response, self._longest)):
            if place % STEP == 0:
                yield
            if link is None:
                continue
            url, anchor, kind = link
            if has_ajax:
                url = escaped_fragment(url) or url
            text = url.partition("#")[0]
            if text in seen:
                continue
            seen.add(text)
            # Most links lead within the site to known pages, and pass every other check.
            is_usual = is_open and found.count < MOST_LINKS and url.startswith(origin)
            if is_usual and recognize(text, lease, INTERNAL | kind):
                self._known += 1
                found.count += 1
            else:
                self._take(url, text, anchor, kind)
                is_open = self._is_open()

    def _is_open(self) -> bool:
        """Whether all links within the site pass the checks of `_take`."""
        is_judged = self._page_rules is not None or self._score is not None or self._is_too_deep
        passes = self._offsite.is_open or self._offsite.passed.get(self._found.origin[:-1], False)
        return passes and not is_judged

    def _take(self, url: str, text: str, anchor: Anchor, kind: int) -> None:
        if 0 < self._longest < len(url):
            self._too_long += 1
            return
        found = self._found
        flags = found.flags(url) | kind
        weight = 1.0
        if self._score is not None:
            score = self._score(self._response, url, text_of(anchor))
            weight = 1.0 if self._follow.links is None else self._follow.links.score(score, LINK_SCORE)
        only_seen = ""
        if self._page_rules is not None and url != self._response.url:
            only_seen = self._page_rules.refusal(url)
        if only_seen:
            flags |= NOFOLLOW
        elif self._is_too_deep or not self._offsite.passes(url):
            only_seen = reasons.OUT_OF_SCOPE()
        if found.count >= MOST_LINKS:
            self._keep_no_more()
        found.count += 1
        if self._recognize(text, self._lease, flags, weight, only_seen=bool(only_seen)):
            self._known += not only_seen
        elif self._lease is not None or not only_seen or flags & NOFOLLOW:
            self._add(url, anchor, flags, weight, only_seen)

    def _add(self, url: str, anchor: Anchor, flags: int, weight: float, only_seen: str) -> None:
        """Take in a link to a page that was not met lately."""
        enqueuer = self._enqueuer
        clean = enqueuer.strip_session(url)
        identity = enqueuer.identify(clean)
        if identity is None:  # its text alone does not identify it
            request = self._request(clean)
            clean = request.url
            identity = enqueuer.identities.of(request), host_of(clean)
        fingerprint, host = identity
        if fingerprint in self._skipped:
            return
        is_unfiltered = fingerprint in enqueuer.unfiltered
        again = (
            is_unfiltered and not only_seen and enqueuer.is_for_other(fingerprint, self._rule.callback, None)
        )
        link = Link(
            fingerprint=fingerprint,
            url=clean,
            host=enqueuer.politeness_key_of(clean, host),
            flags=flags,
            weight=weight,
            text=url if enqueuer.knows_texts and fingerprint not in enqueuer.unfiltered else "",
            again=again,
            only_seen=only_seen,
            anchor=text_of(anchor) if self._learns_words else "",
        )
        if not only_seen:
            self._fill_in(link)
        self._new.append(link)
        if len(self._new) >= TOGETHER:
            self._hand_over()

    def _fill_in(self, link: Link) -> None:
        """Fills in *link* what makes a request of it: made once of all that Scrapy's middlewares treat
        alike."""
        kind = self._requests.kind_of(link.url)
        if kind not in self._made:
            made = self._request(link.url)
            self._made[kind] = made, self._follow.codec.encode(made)
        made, link.payload = self._made[kind]
        link.priority = made.priority

    def _request(self, url: str) -> Request:
        request = Request(url, self._rule.callback)
        return request if self._is_too_deep else self._requests.through(request) or request

    def _keep_no_more(self) -> None:
        """Note that the page has more links than the link graph keeps of one."""
        if self._lease is not None:
            self._hand_over()
            self._lease = None
        self._too_many += 1

    def _hand_over(self) -> None:
        if self._new:
            links, self._new = self._new, []
            if self._enqueuer.enqueue_links(links, self._lease):
                scrapy_internals.wake(self._follow.path.crawler)

    def _count(self) -> None:
        """Count in Scrapy's stats as its own parts would have."""
        stats, tally = self._follow.path.crawler.stats, self._follow.reporter.tally
        tally["dupefilter/filtered"] += self._known
        if self._follow.links is not None:
            tally["frontier/links/ignored"] += self._too_many
        if self._is_too_deep:
            tally["depth/request_ignored_count"] += len(self._seen) - self._too_long
        self._offsite.count_refused(stats)
        if self._too_long:
            stats.inc_value("urllength/request_ignored_count", self._too_long)


# --- one crawl --------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Follow:
    """Follows what the pages of a crawl link; all pages if it ``is_on``.

    For each response `begin`, and behind its callback, if it has a rule, `requests` if there is a ``bar``, or
    else a `PageFollowing`.
    """

    path: RequestPath
    settings: FrontierSettings
    _requests: QueuedRequests
    _dupefilter: DupeFilter
    enqueuer: RequestEnqueuer
    links: Outlinks | None
    _rules: dict[Any, FollowRule | None] = field(default_factory=dict, init=False)  # by callback

    def __post_init__(self) -> None:
        self.is_on = self.settings.follows
        self.codec, self.reporter = self._requests.codec, self._requests.reporter
        self._spider = self.path.crawler.spider
        self._has_rules = isinstance(self._spider, CrawlSpider) and bool(self._spider.rules)

    def begin(self, active: ActiveRequest, response: Response, wanted: Any) -> None:
        """Note by which rule the links of *response* are followed, before its callback runs. *wanted* is
        true, or the name of a callback. Nothing for a response that is no HTML."""
        if isinstance(response, HtmlResponse):
            active.follow_rule = self._rule_for(wanted)

    def follows_in_bulk(self, request: Request) -> bool:
        """Whether links of the page of *request* need no request each. A pattern is inherited by each."""
        return not self._bar and pattern_and_force_of(request) is None

    def requests(self, rule: FollowRule, response: Any, found: PageLinks) -> Iterator[Request]:
        """Yield a request for each link of *response*."""
        score = getattr(self._spider, LINK_SCORE, None)
        seen: set[str] = set()
        for link in rule.reader.read(response):
            if link is None or link[0] in seen:
                continue
            url, anchor, kind = link
            seen.add(url)
            found.kinds[url] = kind
            meta = {} if score is None else {LINK_SCORE: score(response, url, text_of(anchor))}
            yield Request(url, rule.callback, meta=meta)

    def _rule_for(self, wanted: Any) -> FollowRule | None:
        if self._has_rules and not isinstance(wanted, str):
            return None  # the spider follows them itself
        if wanted not in self._rules:
            self._rules[wanted] = self._make_rule(wanted)
        return self._rules[wanted]

    def _make_rule(self, wanted: Any) -> FollowRule | None:
        """Return the rule for all links that the spider's ``link_extractor`` finds, by default Scrapy's, to
        the callback *wanted* by name, or the spider's default one."""
        try:
            callback = self.codec.callbacks.named(wanted) if isinstance(wanted, str) else None
        except Unreadable as reason:
            words = "%s = %r follows no link: %s; name a method of it"
            self.reporter.log(logging.ERROR, words, FOLLOW, wanted, reason)
            return None
        extractor = getattr(self._spider, "link_extractor", None)
        if extractor is None:
            extractor = LinkExtractor()
        if isinstance(extractor, type) or not callable(getattr(extractor, "extract_links", None)):
            words = "No link is followed: link_extractor = %.100r has no extract_links; set a LinkExtractor()"
            self.reporter.log(logging.ERROR, words, extractor)  # it was meant to keep the crawl in
            return None
        return FollowRule(PageReader(extractor), callback)

    @cached_property
    def _bar(self) -> str:
        """Why links cannot be followed in bulk in this crawl, which is logged; empty if they can."""
        bar = self.path.bar
        if self._dupefilter.sees_each:
            bar = "a DUPEFILTER_CLASS of the project's own sees each"
        if bar:
            words = "Links are followed by a request each, not in bulk: %s"
            self.reporter.log(logging.INFO, words, bar)
        return bar
