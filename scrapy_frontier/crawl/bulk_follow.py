"""Which pages have their links followed, and whether in bulk or by a request each.

By ``FRONTIER_FOLLOW`` all that a callback gets to see, or as the rules of a `CrawlSpider` say; by
``frontier_follow`` in the meta of a request its page alone. Whoever is to see each request (a spider
middleware of the project, a listener, a dupefilter) has them made, one by one, as a callback would.

What a callback yields, taken down until it ends, and then what its page links, which is there however the
callback ends.

What Scrapy's own spider middlewares do to the requests of a page, worked out once for all of them.

Depth, Referer and the longest URL are the same for nearly all links of a page; carried through the
middlewares one by one, each new link costs 60 us. Their objects are asked, so what they were told holds.

One page whose links are followed in bulk: read once, judged one by one, handed over together.

What stands for a link is a payload that the new links of the page share but for the URL; the request is made
of it when the page is handed out. Depth, Referer, the length of URLs and allowed domains are done to links as
Scrapy's own middlewares do it to requests: their objects are asked, once a page or a site.
"""

from __future__ import annotations

import json
import logging
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from scrapy import Request
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.http import HtmlResponse
from scrapy.spidermiddlewares import referer
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware
from scrapy.spidermiddlewares.start import StartSpiderMiddleware
from scrapy.spidermiddlewares.urllength import UrlLengthMiddleware

from ..core import reasons
from ..core.frontier import Link
from ..core.parse.urls import escaped_fragment, host_of, origin_text
from ..core.store.link_rows import CANONICAL, INTERNAL, NOFOLLOW
from . import scrapy_internals
from .callback_requests import Offsite, TimeSlice, usual_listeners
from .codec import Unreadable, copied
from .fingerprints import is_plain
from .in_flight import PageLinks
from .link_extractor import SpiderRules, Way, is_text, let_go_of_tree, one_way, text_of
from .meta_keys import DUPLICATE, FOLLOW, LINK_SCORE
from .meta_values import pattern_and_force_of
from .outlinks import MOST_LINKS

if TYPE_CHECKING:
    from collections import defaultdict
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..settings import FrontierSettings
    from .callback_requests import CallbackOutput
    from .codec import Codec
    from .dupefilters import DupeFilter
    from .enqueue import RequestEnqueuer
    from .in_flight import Flight, Flights
    from .link_extractor import Anchor
    from .log import Reporter
    from .outlinks import LinkCollector, Outlinks


class Refusing(Protocol):
    """Says which links of one page are not followed: `find_refused` first, then the others."""

    def find_refused(self) -> Iterator[None]:
        """Look for them, once; yields whenever others should have a turn of the event loop."""

    @property
    def refuses_none(self) -> bool:
        """Whether `refusal` says nothing of any link."""

    def refusal(self, url: str) -> str:
        """Why a link to *url* is not followed, which is counted; empty where it is."""


LARGE_PAGE = 500_000  # bytes of a page that is parsed in a thread: 10 ms


def taken(response: Response, result: Iterable[Any], taker: PageFollowing | LinkCollector) -> Iterator[Any]:
    """What goes on of the *result* of the callback of *response*, which may raise."""
    try:
        for each in result:
            if taker.take(each):
                yield each
    except Exception:
        for _ in taker.end(response):
            pass
        raise
    for _ in taker.end(response):
        pass


def with_more(result: Iterable[Any], more: Iterable[Any]) -> Iterator[Any]:
    """The *result* of a callback, which may raise; behind it, however it ends, *more*."""
    try:
        yield from result
    except Exception:
        yield from more
        raise
    yield from more


async def with_more_async(result: AsyncIterator[Any], more: Iterable[Any]) -> AsyncIterator[Any]:
    """As `with_more`."""
    try:
        async for each in result:
            yield each
    except Exception:
        for each in more:
            yield each
        raise
    for each in more:
        yield each


async def end(taker: PageFollowing | LinkCollector | None, response: Any, place: PlaceInLine) -> None:
    """The callback of *response* has ended: its page gives way to others by its *place* meanwhile. A very
    large one is parsed in a thread, beside the event loop, which would stand still."""
    if isinstance(taker, PageFollowing) and len(response.body) > LARGE_PAGE:
        await scrapy_internals.in_thread(lambda: response.selector)
    if taker is not None:
        for _ in taker.end(response):
            await place.give_way()


def raising(error: Exception) -> Iterator[Any]:
    """The result of a callback that raises *error* at once."""
    raise error
    yield


class PlaceInLine:
    """A page's place in *line*, those with very many links, from when it gives way first until `leave`.

    The first in the line gives way for one turn of the event loop at a time, so that it is done in bounded
    time whatever others do: a kill before that has it fetched again.
    """

    def __init__(self, line: list[PlaceInLine]) -> None:
        self._line = line

    async def give_way(self) -> None:
        """Let others have their turn."""
        if self not in self._line:
            self._line.append(self)
        await scrapy_internals.give_way(1 if self._line[0] is self else scrapy_internals.TURNS)

    def leave(self) -> None:
        """The page is through."""
        if self in self._line:
            self._line.remove(self)


# Nothing else that these do to the request of a callback can be seen.
BUILT_IN = (
    *(StartSpiderMiddleware, HttpErrorMiddleware, DepthMiddleware, UrlLengthMiddleware),
    referer.RefererMiddleware,
)
_BY_SCHEME = (referer.NoReferrerWhenDowngradePolicy, referer.DefaultReferrerPolicy)
_TO_WEB = ("http:", "https")
_OF_ITS_OWN = frozenset(("referrer_policy", "depth_reset"))  # meta: what the page says is not asked
_NO_REQUEST = Request("http://none.invalid/")  # says nothing of a Referer


class BuiltIns:
    """Those of *middlewares* that see the requests of a callback, ``depth``, ``length`` and ``referer``; None
    where one is not at work. Whether nothing else is: they ``are_all``."""

    def __init__(self, middlewares: Iterable[Any] = ()) -> None:
        found = {type(each): each for each in middlewares}
        self.are_all = all(cls in BUILT_IN for cls in found)
        self.depth = found.get(DepthMiddleware)
        self.length = found.get(UrlLengthMiddleware)
        self.referer = found.get(referer.RefererMiddleware)
        self._deepest = -1  # that the stats have been told

    @property
    def longest(self) -> int:
        """Characters of a URL that `UrlLengthMiddleware` lets pass; 0 without a limit."""
        return 0 if self.length is None else int(self.length.maxlength)

    def reached(self, depth: int) -> None:
        """Links of that *depth* go on to the engine: Scrapy's stat of the deepest follows."""
        if self.depth is not None and depth > self._deepest:
            self._deepest = depth
            self.depth.stats.max_value("request_depth_max", depth)


class Depth:
    """What `DepthMiddleware`, if it is at work, makes of the links of a page by the depth ``of_page``, which
    a callback may change: their depth, what it adds to their priority, and whether that is too deep."""

    def __init__(self, built_ins: BuiltIns, response: Response) -> None:
        self._built_ins = built_ins
        self.of_page = response.meta.get("depth", 0)
        self.of_links: int | None = None
        self.priority, self.is_too_deep = 0, False
        self.sees_each = False  # it drops, or counts, each of them by itself
        if built_ins.depth is not None:
            depth = self.of_links = int(self.of_page) + 1
            self.priority = -depth * built_ins.depth.prio
            self.is_too_deep = 0 < built_ins.depth.maxdepth < depth
            self.sees_each = self.is_too_deep or built_ins.depth.verbose_stats

    def count_links(self, count: int) -> None:
        """Have Scrapy's stats say that so many links went on, or were too deep."""
        middleware = self._built_ins.depth
        if middleware is None or self.of_links is None or not count:
            return
        if self.is_too_deep:
            if hasattr(middleware, "_ignored_logged"):  # Scrapy 2.14 does not count them
                middleware.stats.inc_value("depth/request_ignored_count", count)
            return
        if middleware.verbose_stats:
            middleware.stats.inc_value(f"request_depth_count/{self.of_links}", count)
        self._built_ins.reached(self.of_links)


class Referrers:
    """What `RefererMiddleware`, if it is at work, has links of a page say where they come from."""

    def __init__(self, built_ins: BuiltIns, response: Response) -> None:
        self._page = response.url
        self._policy: referer.ReferrerPolicy | None = None
        if built_ins.referer is not None:
            self._policy = built_ins.referer.policy(response, _NO_REQUEST)
        self._is_by_origin = type(self._policy).__module__ == referer.__name__
        self._is_by_scheme = type(self._policy) in _BY_SCHEME
        self._known: dict[str, str | None] = {}

    def of(self, url: str) -> str | None:
        """The Referer of a request for *url*, None for none. The policy is asked once for all of an origin,
        or a scheme, where it is one of Scrapy's: they say the same of all."""
        policy = self._policy
        if policy is None:
            return None
        if not self._is_by_origin:
            return policy.referrer(self._page, url)
        # `origin_text` without a call, .1 us less a link
        key = url[:5] if self._is_by_scheme else "/".join(url.split("/", 3)[:3])
        if key not in self._known:
            is_bare = self._is_by_scheme and key in _TO_WEB and _is_bare(self._page)
            self._known[key] = self._of_bare(key) if is_bare else policy.referrer(self._page, url)
        return self._known[key]

    def _of_bare(self, scheme: str) -> str | None:
        """What policies by scheme say of a page whose URL they leave as it is: 2 us for 30."""
        return None if self._page.startswith("https") and scheme != "https" else self._page


def _is_bare(url: str) -> bool:
    """Whether of *url* nothing has to be left out where it stands as Referer."""
    return is_plain(url) and not url.split("/", 3)[2].endswith((":80", ":443"))


def known_ending(crawler: Crawler, built_ins: BuiltIns, response: Response) -> str | None:
    """How URLs begin whose requests need go no further from the page of *response*, but for its first, if
    their pages are known; None where all must: somebody is to see them, or refusals are counted.

    Nine links of ten lead to known pages, and the scheduler drops their requests. What Scrapy does with each
    on the way there (depth, referrer, length, offsite) costs ten times as much, and leaves nothing behind.
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
    """What takes the requests of one callback past the middlewares of *built_ins*, if that are all there are.

    It says whether it has taken an output, in 4 us, to where *output* gathers what callbacks ask for. What a
    middleware would drop or log, and what has a word of its own, goes the usual way.
    """
    take = None if output is None else output.taking(response)
    if take is None or not built_ins.are_all or response.request is None:
        return _takes_none
    way = _Bypass(built_ins, response, take)
    return _takes_none if way.is_closed else way.takes


def _takes_none(output: Any) -> bool:
    return False


class _Bypass:
    """`bypass`; all it needs of the page is asked with its first request, but for the depth of the page."""

    def __init__(self, built_ins: BuiltIns, response: Response, take: Callable[[Request], None]) -> None:
        self._built_ins = built_ins
        self._response, self._meta = response, response.meta
        self._depth = Depth(built_ins, response)
        self._referrers: Referrers | None = None
        self._longest = built_ins.longest
        self._take = take
        self.is_closed = self._depth.sees_each

    def takes(self, output: Any) -> bool:
        """Whether *output* was a plain request, which is then on its way with depth, priority and Referer;
        Scrapy's own have to do with all else."""
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


TOGETHER = 300  # new links in one call at most, 6 ms
_TEXT = "\ufdd0"  # no character: stands for the text of an anchor in a payload all links share
_quote = json.encoder.encode_basestring


@dataclass(eq=False, repr=False)
class PageFollowing:
    """Follows the links of a page on their *ways* when its callback has ended; with *links* they are kept
    too. *receivers* hear of requests: checks for offsite ones. Stands before the *collector* of what the
    callback yields."""

    _crawler: Crawler
    _built_ins: BuiltIns
    _enqueuer: RequestEnqueuer
    _codec: Codec
    _tally: defaultdict[str, int]
    _links: Outlinks | None
    _has_ajax: bool
    flight: InitVar[Flight]
    _response: HtmlResponse
    _ways: tuple[Way, ...]
    receivers: InitVar[list[Any]]
    _collector: LinkCollector | None
    _refusing: Refusing | None

    def __post_init__(self, flight: Flight, receivers: list[Any]) -> None:
        self._recognize = self._enqueuer.recognize
        self._lease = None if self._links is None else flight.lease
        self._found = flight.links or PageLinks(self._response.url)
        self._offsite = Offsite(self._crawler.spider, receivers)
        self._own = self._found.origin[:-1]  # as `Offsite` has origins
        self._shared: dict[tuple[int | None, str | None], bytes] = {}  # payloads, by rule and Referer
        self._score = getattr(self._crawler.spider, LINK_SCORE, None)
        self._longest = self._built_ins.longest
        self._yielded: list[Request] = []
        self._skipped: set[bytes] = set()  # pages the callback has asked for itself
        self._new: list[Link] = []
        self._known = self._recognized = self._too_long = self._refused = self._not_kept = self._count = 0

    def take(self, output: Any) -> bool:
        """Note what the callback asks for itself, which is not asked for again; whether *output* goes on."""
        if isinstance(output, Request):
            self._yielded.append(output)
        return self._collector is None or self._collector.take(output)

    def end(self, response: Response) -> Iterator[None]:
        """Take all links in that nobody refuses; yields whenever others should have a turn. 3 us a link to a
        page that was met lately, 20 us a new one.
        """
        if self._refusing is not None:
            yield from self._refusing.find_refused()
            if self._refusing.refuses_none:
                self._refusing = None
        self._skipped = set(map(self._enqueuer.identities.of, map(self._as_queued, self._yielded)))
        self._depth = Depth(self._built_ins, self._response)  # as the callback has left it
        yield from self._read()
        let_go_of_tree(self._response)
        self._hand_over()
        self._count_links()
        if self._collector is not None:
            yield from self._collector.end(response)

    def _read(self) -> Iterator[None]:
        recognize, lease, found = self._recognize, self._lease, self._found
        has_ajax, origin, canonical = self._has_ajax, found.origin, found.canonical
        room = self._room()
        seen: set[str] = set()
        time_slice = TimeSlice()
        for way in self._ways:
            for url, anchor in way.reader.read(self._response, self._longest):
                if has_ajax:
                    url = escaped_fragment(url) or url
                text = url[: url.index("#")] if "#" in url else url
                if text in seen:
                    continue
                seen.add(text)
                is_usual = len(seen) <= room and url.startswith(origin) and url != canonical
                if is_usual and recognize(text, lease, INTERNAL):
                    self._known += 1
                    continue
                self._take(url, text, way, anchor)
                room = room or self._room()
                if perf_counter() >= time_slice.look_at and time_slice.is_over():
                    yield
                    time_slice.renew()
        found.count += self._known
        self._count += self._known

    def _room(self) -> int:
        """For so many links within the site it is enough that their pages are known."""
        is_judged = self._refusing is not None or self._score is not None or self._depth.is_too_deep
        own_passes = self._offsite.is_open or self._offsite.passed.get(self._own, False)
        return MOST_LINKS - self._found.count if not is_judged and own_passes else 0

    # -- a link ----------------------------------------------------------------------------------------

    def _take(self, url: str, text: str, way: Way, anchor: Anchor) -> None:
        if 0 < self._longest < len(url):
            self._too_long += 1
            return
        self._count += 1
        found, only_seen = self._found, ""
        flags = INTERNAL if url.startswith(found.origin) else found.flags(url)  # .1 us less for most links
        if url == found.canonical:
            flags |= CANONICAL
        weight = 1.0
        if self._score is not None:
            score = self._score(self._response, url, text_of(anchor))
            weight = 1.0 if self._links is None else self._links.score(score, LINK_SCORE)
        if self._refusing is not None and url != self._response.url:
            only_seen = self._refusing.refusal(url)
        if only_seen:
            flags |= NOFOLLOW
        elif self._depth.is_too_deep or not self._lets_pass(url):
            if self._lease is None:  # nobody asks who links what
                return
            only_seen = reasons.OUT_OF_SCOPE()
        if found.count >= MOST_LINKS:
            self._keep_no_more()
        found.count += 1
        if self._recognize(text, self._lease, flags, weight, only_seen=bool(only_seen)):
            self._recognized += not only_seen
        else:
            self._add(url, way, anchor, flags, weight, only_seen)

    def _lets_pass(self, url: str) -> bool:
        """Whether Scrapy lets a link to *url* pass. It is asked at the first of an origin, and counts that
        one; further refusals are counted when the links of the page are through."""
        if self._offsite.is_open:
            return True
        # `origin_text` without a call, .1 us less a link
        origin = self._own if url.startswith(self._found.origin) else "/".join(url.split("/", 3)[:3])
        passed = self._offsite.passed.get(origin)
        if passed is None:
            return self._offsite.lets_pass(Request(url))
        self._refused += not passed
        return passed

    def _add(self, url: str, way: Way, anchor: Anchor, flags: int, weight: float, only_seen: str) -> None:
        """A link to a page that nobody has met lately."""
        enqueuer = self._enqueuer
        clean = enqueuer.without_session(url)
        self._tally["frontier/traps/session"] += clean != url
        identity = enqueuer.identify(clean)
        if identity is None:  # its text does not tell who it is, or not alone
            request = self._request(clean, way, text_of(anchor))
            clean = request.url
            identity = enqueuer.identities.of(request), host_of(clean)
        fingerprint, host = identity
        if fingerprint in self._skipped:
            return
        again = not only_seen and fingerprint in enqueuer.unfiltered
        again = again and enqueuer.is_for_other(fingerprint, way.callback, way.rule)
        is_told = enqueuer.knows_texts and fingerprint not in enqueuer.unfiltered
        key = enqueuer.politeness_key_of(clean, host)
        priority = self._depth.priority if not only_seen or flags & NOFOLLOW else 0
        payload = b"" if only_seen else self._payload(clean, way, anchor)
        depth = (self._depth.of_links or 0) if enqueuer.has_depth else 0
        self._new.append(
            Link(
                fingerprint=fingerprint,
                url=clean,
                host=key,
                kept_host="" if key == host else key,
                priority=priority,
                payload=payload,
                flags=flags,
                weight=weight,
                depth=depth,
                text=url if is_told else "",
                again=again,
                only_seen=only_seen,
            )
        )
        if len(self._new) >= TOGETHER:
            self._hand_over()

    def _keep_no_more(self) -> None:
        """The page has more links than the link graph takes of one."""
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
                scrapy_internals.wake(self._crawler)

    def _count_links(self) -> None:
        self._tally["dupefilter/filtered"] += self._known + self._recognized
        if self._links is not None:
            self._tally["frontier/links/ignored"] += self._not_kept
        self._depth.count_links(self._count)
        if self._refused:
            self._crawler.stats.inc_value("offsite/filtered", self._refused)
        if self._too_long:
            self._crawler.stats.inc_value("urllength/request_ignored_count", self._too_long)

    # -- a request for a link -----------------------------------------------------------------------------

    @cached_property
    def _referrers(self) -> Referrers:
        """Asked for by the first link to a new page: many pages have none."""
        return Referrers(self._built_ins, self._response)

    def _payload(self, url: str, way: Way, anchor: Anchor) -> bytes:
        """The payload of a request for *url*, encoded once for each way and Referer."""
        referrer = self._referrers.of(url)
        key = way.rule, referrer
        shared = self._shared.get(key)
        if shared is None:
            shared = self._codec.encode_link(way.callback, way.errback, referrer, self._meta(way, _TEXT))
            self._shared[key] = shared
        if way.rule is None:
            return shared
        text = _quote(text_of(anchor)).encode("utf-8", "surrogatepass")
        return shared.replace(_quote(_TEXT).encode(), text)

    def _request(self, url: str, way: Way, text: str) -> Request:
        """The request itself."""
        referrer = self._referrers.of(url)
        headers = None if referrer is None else {"Referer": referrer}
        return Request(url, way.callback, errback=way.errback, meta=self._meta(way, text), headers=headers)

    def _meta(self, way: Way, text: str) -> dict[str, Any]:
        meta = way.meta(text)
        if self._depth.of_links is not None:
            meta["depth"] = self._depth.of_links
        return meta


OURS = ("FrontierSpiderMiddleware", "DuplicatesMiddleware")


@dataclass(eq=False, repr=False)
class Follow:
    """Follows what the pages of a crawl link, through *enqueuer*; all pages where it ``is_on``.

    For each response in this order: `begin`, `requests`, and where links are followed in bulk `taker`.
    """

    _crawler: Crawler
    _settings: FrontierSettings
    _codec: Codec
    _dupefilter: DupeFilter
    _flights: Flights
    _enqueuer: RequestEnqueuer
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
        crawl = self._crawler, self._built_ins, self._enqueuer, self._codec, self._reporter.tally, self._links
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
        self._built_ins = BuiltIns(scrapy_internals.spider_middlewares(self._crawler))
        bar = self._bar_in_crawl() or (self._rules.bar() if self._rules else "")
        if bar:
            words = "Links are followed by a request each, not in bulk: %s"
            self._reporter.log(logging.INFO, words, bar)
        elif self._rules and self.is_on:
            self._rules.take_over()
        return bar

    def _bar_in_crawl(self) -> str:
        if not scrapy_internals.is_usual_engine(self._crawler):
            return "the engine is none of Scrapy's"
        if self._dupefilter.is_own:
            return "the project has a DUPEFILTER_CLASS of its own"
        if self._dupefilter.is_debugging:
            return "DUPEFILTER_DEBUG has each named that is dropped"
        for middleware in scrapy_internals.spider_middlewares(self._crawler):
            name = type(middleware).__name__
            if name == OURS[0]:
                break  # what follows stands between it and the spider
            if type(middleware) not in BUILT_IN and name not in OURS and _sees_output(middleware):
                return f"the spider middleware {name} is to see them"
        return ""


def _sees_output(middleware: Any) -> bool:
    return any(hasattr(middleware, f"process_spider_output{end}") for end in ("", "_async"))
