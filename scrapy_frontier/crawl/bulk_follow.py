"""Follows the links of pages for a spider: in bulk, or by a request each where something must see requests.

With ``FRONTIER_FOLLOW`` the links of every page that reaches a callback are followed, as ``link_extractor``
or the rules of a `CrawlSpider` say; with ``frontier_follow`` in the meta of a request, those of its page. In
bulk means that a page is read once and its links are handed over in one call. Depth, Referer, the length of
URLs and allowed domains hold as Scrapy's own middlewares apply them to requests: their objects are asked,
once a page or a site.
"""

from __future__ import annotations

import json
import logging
import reprlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from scrapy import Request
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.linkextractors import LinkExtractor
from scrapy.spidermiddlewares import referer
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware
from scrapy.spidermiddlewares.start import StartSpiderMiddleware
from scrapy.spidermiddlewares.urllength import UrlLengthMiddleware
from scrapy.spiders import CrawlSpider, Rule

from ..core import reasons
from ..core.frontier import Link
from ..core.parse.urls import escaped_fragment, host_of, origin_text
from ..core.store.link_rows import CANONICAL, INTERNAL, NOFOLLOW
from . import scrapy_internals
from .callback_requests import Offsite, usual_listeners
from .codec import Unreadable, copied
from .in_flight import PageLinks
from .link_extractor import FollowRule, PageReader, is_text, let_go_of_tree, text_of
from .meta_keys import FOLLOW, LINK_SCORE
from .meta_values import pattern_and_force_of
from .outlinks import MOST_LINKS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import HtmlResponse, Response
    from scrapy.link import Link as ScrapyLink

    from ..settings import FrontierSettings
    from .callback_requests import CallbackOutput
    from .codec import Codec
    from .dupefilters import DupeFilter
    from .enqueue import RequestEnqueuer
    from .in_flight import ActiveRequests
    from .link_extractor import Anchor
    from .log import Reporter
    from .outlinks import LinkCollector, Outlinks

# --- which links are followed -----------------------------------------------------------------------------

_OWN = ("_requests_to_follow", "_build_request", "_callback", "_errback", "parse_with_rules")
_PLAIN_RULE = Rule()


class Extractor(Protocol):
    """A link extractor, as Scrapy's."""

    def extract_links(self, response: HtmlResponse) -> Iterable[ScrapyLink]:
        """Return the links of a page, absolute, each once."""


def follow_all(spider: Spider | None, callback: Callable[..., Any] | None = None) -> FollowRule:
    """Return the rule that sends all links to *callback*, found by the spider's ``link_extractor``, by
    default Scrapy's. Raises `TypeError` if that is no link extractor: it was meant to keep the crawl in."""
    extractor: Any = getattr(spider, "link_extractor", None)
    if extractor is None:
        extractor = LinkExtractor()
    if isinstance(extractor, type) or not callable(getattr(extractor, "extract_links", None)):
        raise TypeError(f"link_extractor = {reprlib.repr(extractor)} has no extract_links to call")
    return FollowRule(PageReader(extractor), callback)


class SpiderRules:
    """The rules of a `CrawlSpider`, under names that are private to it; false for another spider, or none."""

    def __init__(self, spider: Any) -> None:  # its class is not known
        self._spider = spider
        if isinstance(spider, CrawlSpider) and not hasattr(spider, "_rules"):
            spider._compile_rules()  # its own __init__ leaves out that of its class, as others may
        self._rules: list[Rule] = list(spider._rules) if isinstance(spider, CrawlSpider) else []
        self.is_taken_over = False
        self.follow_rules = tuple(
            FollowRule(PageReader(rule.link_extractor), spider._callback, spider._errback, number)
            for number, rule in enumerate(self._rules)
        )

    def __bool__(self) -> bool:
        return bool(self._rules)

    def bar(self) -> str:
        """Return why links of the rules need a request each: a function of theirs sees it. Empty if not."""
        for name in _OWN:
            if getattr(type(self._spider), name, None) is not getattr(CrawlSpider, name, None):
                return f"the spider has a {name} of its own"
        for number, rule in enumerate(self._rules):
            for name in ("process_links", "process_request"):
                if getattr(rule, name) is not getattr(_PLAIN_RULE, name):
                    return f"rule {number} has {name}"
        return ""

    def take_over(self) -> None:
        """Stop the spider from following links itself; ``is_taken_over`` if it did before."""
        self.is_taken_over = bool(getattr(self._spider, "_follow_links", False))
        self._spider._follow_links = False

    def lead_on_from(self, request: Request) -> bool:
        """Whether the rules follow links of the page of *request*."""
        callback = request.callback
        if callback is None or callback == self._spider._parse:
            return True
        number = request.meta.get("rule")
        if callback != self._spider._callback or not isinstance(number, int) or number >= len(self._rules):
            return False
        return self._rules[number].follow

    def requests(self, response: HtmlResponse) -> Iterator[Request]:
        """Yield requests for the links of *response*, made by the spider itself."""
        for request in self._spider._requests_to_follow(response):
            if request is not None:
                yield request


# --- Scrapy's own spider middlewares, applied once a page ---------------------------------------------------

# All that these do to the requests of a callback is done here.
BUILT_IN = (
    *(StartSpiderMiddleware, HttpErrorMiddleware, DepthMiddleware, UrlLengthMiddleware),
    referer.RefererMiddleware,
)
_OF_ITS_OWN = frozenset(("referrer_policy", "depth_reset"))  # meta that overrides what the page says
# Policies of Scrapy that look at the scheme of a link alone; the first is the default one.
_BY_SCHEME = (referer.NoReferrerWhenDowngradePolicy, referer.UnsafeUrlPolicy)
_NO_REQUEST = Request("http://none.invalid/")  # without a Referer policy


class BuiltIns:
    """The built-in ones among *middlewares* that see the requests of a callback, each None if it is disabled;
    ``are_all`` if no other middleware is there."""

    def __init__(self, middlewares: Iterable[Any] = ()) -> None:
        found = {type(each): each for each in middlewares}
        self.are_all = all(cls in BUILT_IN for cls in found)
        self.depth = found.get(DepthMiddleware)
        self.length = found.get(UrlLengthMiddleware)
        self.referer = found.get(referer.RefererMiddleware)
        self._deepest = -1  # in the stats

    @property
    def longest(self) -> int:
        """Most characters of a URL, by `UrlLengthMiddleware`; 0 without a limit."""
        return 0 if self.length is None else int(self.length.maxlength)

    def reached(self, depth: int) -> None:
        """Update Scrapy's stat of the deepest request."""
        if self.depth is not None and depth > self._deepest:
            self._deepest = depth
            self.depth.stats.max_value("request_depth_max", depth)


class Depth:
    """What `DepthMiddleware` does to the links of a page by the depth ``of_page``, which a callback may
    change: their depth, what it adds to their priority, and whether that is too deep."""

    def __init__(self, built_ins: BuiltIns, response: Response) -> None:
        self._built_ins = built_ins
        self.of_page = response.meta.get("depth", 0)
        self.of_links: int | None = None
        self.priority, self.is_too_deep = 0, False
        self.sees_each = False  # it drops or counts each request by itself
        if built_ins.depth is not None:
            depth = self.of_links = int(self.of_page) + 1
            self.priority = -depth * built_ins.depth.prio
            self.is_too_deep = 0 < built_ins.depth.maxdepth < depth
            self.sees_each = self.is_too_deep or built_ins.depth.verbose_stats

    def count_links(self, count: int) -> None:
        """Count links that went on, or were too deep, in Scrapy's stats."""
        middleware = self._built_ins.depth
        if middleware is None or self.of_links is None or not count:
            return
        if self.is_too_deep:
            middleware.stats.inc_value("depth/request_ignored_count", count)
            return
        if middleware.verbose_stats:
            middleware.stats.inc_value(f"request_depth_count/{self.of_links}", count)
        self._built_ins.reached(self.of_links)


class Referrers:
    """The Referer of the links of a page, as `RefererMiddleware` sets it."""

    def __init__(self, built_ins: BuiltIns, response: Response) -> None:
        self._page = response.url
        self._policy: referer.ReferrerPolicy | None = None
        if built_ins.referer is not None:
            self._policy = built_ins.referer.policy(response, _NO_REQUEST)
        self._is_by_origin = type(self._policy).__module__ == referer.__name__
        self._is_by_scheme = isinstance(self._policy, _BY_SCHEME) and self._is_by_origin
        self._known: dict[str, str | None] = {}  # by origin or scheme

    def of(self, url: str) -> str | None:
        """Return the Referer of a request for *url*, None for none. A policy of Scrapy's is asked once for an
        origin, or a scheme: its answer depends on nothing else."""
        if self._policy is None:
            return None
        if not self._is_by_origin:
            return self._policy.referrer(self._page, url)
        key = url.partition(":")[0] if self._is_by_scheme else origin_text(url)
        if key not in self._known:
            self._known[key] = self._policy.referrer(self._page, url)
        return self._known[key]


def known_ending(crawler: Crawler, built_ins: BuiltIns, response: Response) -> str | None:
    """Return the beginning of those URLs whose requests may be dropped right behind the callback of
    *response* if their pages are known; None if a component must see or count each request.

    Nine links in ten lead to known pages, and the scheduler drops their requests. Depth, referrer, length and
    offsite checks on the way there cost ten times as much and leave nothing behind.
    """
    request, spider = response.request, crawler.spider
    if request is None or not built_ins.are_all or Depth(built_ins, response).sees_each:
        return None
    if usual_listeners(crawler) is None:
        return None
    offsite = crawler.get_downloader_middleware(OffsiteMiddleware)
    if offsite is None or spider is None or not getattr(spider, "allowed_domains", None):
        return ""
    if not offsite.should_follow(request, spider):
        return None
    return origin_text(response.url) + "/"  # no more offsite than the page itself


def bypass(built_ins: BuiltIns, response: Response, output: CallbackOutput | None) -> Callable[[Any], bool]:
    """Return a function that takes the requests of one callback past the *built_ins*, if there is no other
    middleware: 4 us instead of 60. It returns False for an output that must go the usual way, because a
    middleware would drop or log it, or its meta overrides the page's."""
    take = None if output is None else output.taking(response)
    if take is None or not built_ins.are_all or response.request is None:
        return _takes_none
    found = _Bypass(built_ins, response, take)
    return _takes_none if found.is_closed else found.takes


def _takes_none(output: Any) -> bool:
    return False


class _Bypass:
    """See `bypass`. Facts of the page are worked out with its first request, its depth with each."""

    def __init__(self, built_ins: BuiltIns, response: Response, take: Callable[[Request], None]) -> None:
        self._built_ins = built_ins
        self._response, self._meta = response, response.meta
        self._depth = Depth(built_ins, response)
        self._referrers: Referrers | None = None
        self._longest = built_ins.longest
        self._take = take
        self.is_closed = self._depth.sees_each

    def takes(self, output: Any) -> bool:
        """Take *output* if it is a plain request, with depth, priority and Referer set; whether it was."""
        if not isinstance(output, Request) or output.encoding != "utf-8":
            return False
        url, meta, depth = output.url, output.meta, self._depth
        if 0 < self._longest < len(url) or not _OF_ITS_OWN.isdisjoint(meta):
            return False
        if self._meta.get("depth", 0) != depth.of_page:
            depth = Depth(self._built_ins, self._response)
            if depth.sees_each:
                return False
            self._depth = depth
        if depth.of_links is not None:
            meta["depth"] = depth.of_links
            output.priority += depth.priority
            self._built_ins.reached(depth.of_links)
        if self._referrers is None:
            self._referrers = Referrers(self._built_ins, self._response)
        referrer = self._referrers.of(url)
        if referrer is not None:  # as `Headers.setdefault` does it
            dict.setdefault(output.headers, b"Referer", [referrer.encode()])
        self._take(output)
        return True


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

TOGETHER = 300  # new links in one call at most, 6 ms
_TEXT = "\ufdd0"  # no character: replaced by the text of a link in a payload that all links share
_quote = json.encoder.encode_basestring


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
    """Follows the links of one page by *rules* when its callback has ended; it stands before the *collector*
    of what the callback yields. *page_rules* refuse nofollow links."""

    reads_page = True

    def __init__(
        self,
        follow: Follow,
        response: HtmlResponse,
        rules: tuple[FollowRule, ...],
        collector: LinkCollector | None,
        page_rules: Refusing | None,
    ) -> None:
        self._follow, self._response, self._rules = follow, response, rules
        self._collector, self._page_rules = collector, page_rules
        active = follow.active_requests.of(response)
        assert active is not None
        self._enqueuer = follow.enqueuer
        self._tally = follow.reporter.tally
        self._recognize = follow.enqueuer.recognize
        self._lease = None if follow.links is None else active.lease
        self._found = active.links or PageLinks(response.url)
        self._offsite = Offsite(follow.crawler.spider, follow.receivers)
        self._shared: dict[tuple[int | None, str | None], bytes] = {}  # payloads, by rule and Referer
        self._score = getattr(follow.crawler.spider, LINK_SCORE, None)
        self._longest = follow.built_ins.longest
        self._yielded: list[Request] = []
        self._skipped: set[bytes] = set()  # fingerprints of pages that the callback asks for itself
        self._new: list[Link] = []
        self._known = self._recognized = self._too_long = self._not_kept = self._count = 0

    def take(self, output: Any) -> bool:
        """Note what the callback asks for itself, which is not followed again; whether *output* goes on."""
        if isinstance(output, Request):
            self._yielded.append(output)
        return self._collector is None or self._collector.take(output)

    def end(self) -> Iterator[None]:
        """Take in all links of the page; yields after every few elements. 3 us a link to a page that was met
        lately, 20 us a new one."""
        if self._page_rules is not None:
            yield from self._page_rules.find_refused()
            if self._page_rules.refuses_none:
                self._page_rules = None
        self._skipped = set(map(self._enqueuer.identities.of, map(self._as_queued, self._yielded)))
        self._depth = Depth(self._follow.built_ins, self._response)  # as the callback has left it
        yield from self._read()
        let_go_of_tree(self._response)
        self._hand_over()
        self._count_links()
        if self._collector is not None:
            yield from self._collector.end()

    def _read(self) -> Iterator[None]:
        found, lease, recognize = self._found, self._lease, self._recognize
        has_ajax, origin, canonical = self._follow.settings.ajax, found.origin, found.canonical
        room = self._room()
        seen: set[str] = set()
        for rule in self._rules:
            for link in rule.reader.read(self._response, self._longest):
                if link is None:
                    yield
                    continue
                url, anchor, kind = link
                if has_ajax:
                    url = escaped_fragment(url) or url
                text = url[: url.index("#")] if "#" in url else url
                if text in seen:
                    yield
                    continue
                seen.add(text)
                is_usual = len(seen) <= room and url.startswith(origin) and url != canonical
                if is_usual and recognize(text, lease, INTERNAL | kind):
                    self._known += 1
                    if self._known % 64 == 0:
                        yield
                    continue
                self._take(url, text, rule, anchor, kind)
                yield
                room = room or self._room()
        found.count += self._known
        self._count += self._known

    def _room(self) -> int:
        """Return how many links within the site need only be looked up: they pass every other check."""
        is_judged = self._page_rules is not None or self._score is not None or self._depth.is_too_deep
        passes = self._offsite.is_open or self._offsite.passed.get(self._found.origin[:-1], False)
        return MOST_LINKS - self._found.count if not is_judged and passes else 0

    def _take(self, url: str, text: str, rule: FollowRule, anchor: Anchor, kind: int) -> None:
        if 0 < self._longest < len(url):
            self._too_long += 1
            return
        self._count += 1
        found, only_seen = self._found, ""
        flags = found.flags(url) | kind
        if url == found.canonical:
            flags |= CANONICAL
        weight = 1.0
        if self._score is not None:
            score = self._score(self._response, url, text_of(anchor))
            weight = 1.0 if self._follow.links is None else self._follow.links.score(score, LINK_SCORE)
        if self._page_rules is not None and url != self._response.url:
            only_seen = self._page_rules.refusal(url)
        if only_seen:
            flags |= NOFOLLOW
        elif self._depth.is_too_deep or not self._offsite.passes(url):
            if self._lease is None:  # no link graph
                return
            only_seen = reasons.OUT_OF_SCOPE()
        if found.count >= MOST_LINKS:
            self._keep_no_more()
        found.count += 1
        if self._recognize(text, self._lease, flags, weight, only_seen=bool(only_seen)):
            self._recognized += not only_seen
        else:
            self._add(url, rule, anchor, flags, weight, only_seen)

    def _add(
        self, url: str, rule: FollowRule, anchor: Anchor, flags: int, weight: float, only_seen: str
    ) -> None:
        """Take in a link to a page that was not met lately."""
        enqueuer = self._enqueuer
        clean = enqueuer.strip_session(url)
        identity = enqueuer.identify(clean)
        if identity is None:  # its text alone does not identify it
            request = self._request(clean, rule, text_of(anchor))
            clean = request.url
            identity = enqueuer.identities.of(request), host_of(clean)
        fingerprint, host = identity
        if fingerprint in self._skipped:
            return
        again = not only_seen and fingerprint in enqueuer.unfiltered
        again = again and enqueuer.is_for_other(fingerprint, rule.callback, rule.rule)
        is_told = enqueuer.knows_texts and fingerprint not in enqueuer.unfiltered
        key = enqueuer.politeness_key_of(clean, host)
        link = Link(
            fingerprint=fingerprint,
            url=clean,
            host=key,
            kept_host="" if key == host else key,
            priority=self._depth.priority if not only_seen or flags & NOFOLLOW else 0,
            payload=b"" if only_seen else self._payload(clean, rule, anchor),
            flags=flags,
            weight=weight,
            depth=(self._depth.of_links or 0) if enqueuer.has_depth else 0,
            text=url if is_told else "",
            again=again,
            only_seen=only_seen,
        )
        self._new.append(link)
        if len(self._new) >= TOGETHER:
            self._hand_over()

    def _keep_no_more(self) -> None:
        """Note that the page has more links than the link graph keeps of one."""
        if self._lease is not None:
            self._hand_over()
            self._lease = None
        self._not_kept += 1

    def _as_queued(self, request: Request) -> Request:
        clean = self._enqueuer.without_session(request.url)
        return request if clean == request.url else copied(request, clean)

    def _hand_over(self) -> None:
        if self._new:
            links, self._new = self._new, []
            if self._enqueuer.enqueue_links(links, self._lease):
                scrapy_internals.wake(self._follow.crawler)

    def _count_links(self) -> None:
        stats = self._follow.crawler.stats
        self._tally["dupefilter/filtered"] += self._known + self._recognized
        if self._follow.links is not None:
            self._tally["frontier/links/ignored"] += self._not_kept
        self._depth.count_links(self._count)
        self._offsite.count_refused(stats)
        if self._too_long:
            stats.inc_value("urllength/request_ignored_count", self._too_long)

    @cached_property
    def _referrers(self) -> Referrers:
        """Made for the first link to a new page: many pages have none."""
        return Referrers(self._follow.built_ins, self._response)

    def _payload(self, url: str, rule: FollowRule, anchor: Anchor) -> bytes:
        """Return the payload of a request for *url*, encoded once for each rule and Referer."""
        referrer = self._referrers.of(url)
        key = rule.rule, referrer
        shared = self._shared.get(key)
        if shared is None:
            about = rule.callback, rule.errback, referrer, self._meta(rule, _TEXT)
            shared = self._shared[key] = self._follow.codec.encode_link(*about)
        if rule.rule is None:
            return shared
        text = _quote(text_of(anchor)).encode("utf-8", "surrogatepass")
        return shared.replace(_quote(_TEXT).encode(), text)

    def _request(self, url: str, rule: FollowRule, text: str) -> Request:
        referrer = self._referrers.of(url)
        headers = None if referrer is None else {"Referer": referrer}
        meta = self._meta(rule, text)
        return Request(url, rule.callback, errback=rule.errback, meta=meta, headers=headers)

    def _meta(self, rule: FollowRule, text: str) -> dict[str, Any]:
        meta = rule.meta(text)
        if self._depth.of_links is not None:
            meta["depth"] = self._depth.of_links
        return meta


# --- one crawl --------------------------------------------------------------------------------------------

OURS = ("FrontierSpiderMiddleware",)


@dataclass(eq=False, repr=False)
class Follow:
    """Follows what the pages of a crawl link; all pages if it ``is_on``.

    For each response in this order: `begin`, `requests`, and if its links are followed in bulk `taker`.
    """

    crawler: Crawler
    settings: FrontierSettings
    codec: Codec
    dupefilter: DupeFilter
    active_requests: ActiveRequests
    enqueuer: RequestEnqueuer
    links: Outlinks | None
    reporter: Reporter
    built_ins: BuiltIns = field(default_factory=BuiltIns, init=False)
    receivers: list[Any] = field(default_factory=list, init=False)  # of requests: offsite checks
    _rules_to: dict[Any, tuple[FollowRule, ...]] = field(default_factory=dict, init=False)  # by callback
    _bar: str | None = field(default=None, init=False)  # why each link is a request; None: not known yet

    def __post_init__(self) -> None:
        self.is_on = self.settings.follows
        self._spider_rules = SpiderRules(self.crawler.spider)

    def begin(self, response: Response, wanted: Any) -> None:
        """Note by which rules the links of *response* are followed, before its callback runs. *wanted* is
        true, or the name of a callback. Nothing for a response that is no HTML."""
        active = self.active_requests.of(response)
        if active is None or not is_text(response):
            return
        if self._bar is None:
            self._bar = self._look_for_bar()
        active.follow_rules = self._rules_for(active.request, wanted)

    def is_followed(self, response: Response) -> bool:
        """Whether the links of *response* are still to be followed."""
        active = self.active_requests.of(response)
        return active is not None and bool(active.follow_rules)

    def requests(self, response: Response) -> Iterator[Request] | None:
        """Return a request for each link of *response*, to be yielded behind the callback's output; None if
        its links are not followed, or in bulk."""
        if not self.is_followed(response) or self._is_in_bulk(response):
            return None
        return self._requests_by(self._take_rules(response), response)

    def _is_in_bulk(self, response: Response) -> bool:
        if pattern_and_force_of(response.request) is not None:  # which each link inherits
            return False
        receivers = usual_listeners(self.crawler)
        self.receivers = receivers or []
        if receivers is None:
            words = "Links are followed by a request each, not in bulk: a listener of request_scheduled or "
            self.reporter.log_once("listener", logging.INFO, words + "request_dropped sees each (said once)")
        return not self._bar and receivers is not None

    def _requests_by(self, rules: tuple[FollowRule, ...], response: Any) -> Iterator[Request]:
        if rules is self._spider_rules.follow_rules:
            yield from self._spider_rules.requests(response)
            return
        score = getattr(self.crawler.spider, LINK_SCORE, None)
        for rule in rules:
            for link in rule.reader.extractor.extract_links(response):
                meta = {} if score is None else {LINK_SCORE: score(response, link.url, link.text)}
                yield Request(link.url, rule.callback, meta=meta)

    def taker(
        self, response: Any, collector: LinkCollector | None, page_rules: Refusing | None
    ) -> PageFollowing:
        """Return what follows the links of *response* in bulk, and stands before the *collector*. To be asked
        after `requests`, if it `is_followed`."""
        return PageFollowing(self, response, self._take_rules(response), collector, page_rules)

    def _take_rules(self, response: Response) -> tuple[FollowRule, ...]:
        """Return the rules of *response*, once."""
        active = self.active_requests.of(response)
        assert active is not None
        rules, active.follow_rules = active.follow_rules, ()
        return rules

    def _rules_for(self, request: Request, wanted: Any) -> tuple[FollowRule, ...]:
        """Return the rules for links of the page of *request*."""
        if self._spider_rules and not isinstance(wanted, str):
            is_asked = request.meta.get(FOLLOW) is not None
            leads_on = self._spider_rules.lead_on_from(request)
            if leads_on and not self._spider_rules.is_taken_over:
                return ()  # the spider follows them itself
            return self._spider_rules.follow_rules if leads_on or is_asked else ()
        if wanted not in self._rules_to:
            self._rules_to[wanted] = self._rules_to_callback(wanted)
        return self._rules_to[wanted]

    def _rules_to_callback(self, wanted: Any) -> tuple[FollowRule, ...]:
        """Return the rule for all links, to the callback *wanted* by name, or the spider's default one."""
        try:
            callback = self.codec.callbacks.named(wanted) if isinstance(wanted, str) else None
        except Unreadable as reason:
            words = "%s = %r follows no link: %s; name a method of it"
            self.reporter.log(logging.ERROR, words, FOLLOW, wanted, reason)
            return ()
        try:
            return (follow_all(self.crawler.spider, callback),)
        except TypeError as reason:
            self.reporter.log(logging.ERROR, "No link is followed: %s; set a LinkExtractor()", reason)
            return ()

    def _look_for_bar(self) -> str:
        """Return why links cannot be followed in bulk in this crawl, which is logged; empty if they can."""
        self.built_ins = BuiltIns(scrapy_internals.spider_middlewares(self.crawler))
        bar = self._bar_in_crawl() or (self._spider_rules.bar() if self._spider_rules else "")
        if bar:
            words = "Links are followed by a request each, not in bulk: %s"
            self.reporter.log(logging.INFO, words, bar)
        elif self._spider_rules and self.is_on:
            self._spider_rules.take_over()
        return bar

    def _bar_in_crawl(self) -> str:
        if not scrapy_internals.is_usual_engine(self.crawler):
            return "the engine is none of Scrapy's"
        if self.dupefilter.is_own:
            return "the project has a DUPEFILTER_CLASS of its own"
        if self.dupefilter.is_debugging:
            return "DUPEFILTER_DEBUG logs each dropped request"
        for middleware in scrapy_internals.spider_middlewares(self.crawler):
            name = type(middleware).__name__
            if name == OURS[0]:
                break  # the next ones stand between it and the spider
            if type(middleware) not in BUILT_IN and name not in OURS and _sees_output(middleware):
                return f"the spider middleware {name} sees each request"
        return ""


def _sees_output(middleware: Any) -> bool:
    return any(hasattr(middleware, f"process_spider_output{end}") for end in ("", "_async"))
