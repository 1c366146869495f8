"""One page whose links are followed in bulk: read once, judged one by one, handed over together.

What stands for a link is a payload that the new links of the page share but for the URL; the request is made
of it when the page is handed out. Depth, Referer, the length of URLs and allowed domains are done to links as
Scrapy's own middlewares do it to requests: their objects are asked, once a page or a site.
"""

from __future__ import annotations

import json
from dataclasses import InitVar, dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scrapy import Request

from ...core import reasons
from ...core.frontier import NEUTRAL, new_link
from ...core.parse.urls import escaped_fragment, host_of
from ...core.store.link_rows import CANONICAL, INTERNAL, NOFOLLOW
from ..flights.in_flight import PageLinks
from ..meta_keys import LINK_SCORE
from ..requests.request_classes import copied
from ..responses.fast_link_extractor import let_go_of_tree, text_of
from ..scrapy_internals import compat
from .built_in_middlewares import Depth, Referrers
from .callback_requests import Offsite, TimeSlice
from .outlinks import MOST_LINKS

if TYPE_CHECKING:
    from collections import defaultdict
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import HtmlResponse, Response

    from ...core.frontier import Link
    from ..flights.in_flight import Flight
    from ..intake.enqueue_requests import Intake
    from ..intake.refused_links import Refusing
    from ..requests.codec import Codec
    from ..responses.fast_link_extractor import Anchor
    from ..responses.follow_rules import Way
    from .built_in_middlewares import BuiltIns
    from .outlinks import LinkCollector, Outlinks

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
    _intake: Intake
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
        self._recognize = self._intake.recognize
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
        self._skipped = set(map(self._intake.identities.of, map(self._as_queued, self._yielded)))
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
        intake = self._intake
        clean = intake.without_session(url)
        self._tally["frontier/traps/session"] += clean != url
        identity = intake.identify(clean)
        if identity is None:  # its text does not tell who it is, or not alone
            request = self._request(clean, way, text_of(anchor))
            clean = request.url
            identity = intake.identities.of(request), host_of(clean)
        fingerprint, host = identity
        if fingerprint in self._skipped:
            return
        again = not only_seen and fingerprint in intake.unfiltered
        again = again and intake.is_for_other(fingerprint, way.callback, way.rule)
        is_told = intake.knows_texts and fingerprint not in intake.unfiltered
        key = intake.politeness_key_of(clean, host)
        priority = self._depth.priority if not only_seen or flags & NOFOLLOW else 0
        payload = b"" if only_seen else self._payload(clean, way, anchor)
        depth = (self._depth.of_links or 0) if intake.has_depth else 0
        about = fingerprint, clean, key, priority, payload, flags, weight, depth
        text, kept_host = url if is_told else "", "" if key == host else key
        link = new_link(about + (text, again, kept_host, False, only_seen, None, NEUTRAL, False))  # noqa: RUF005
        self._new.append(link)
        if len(self._new) >= TOGETHER:
            self._hand_over()

    def _keep_no_more(self) -> None:
        """The page has more links than the link graph takes of one."""
        if self._lease is not None:
            self._hand_over()
            self._lease = None
        self._not_kept += 1

    def _as_queued(self, request: Request) -> Request:
        clean = self._intake.without_session(request.url)
        return request if clean == request.url else copied(request, clean)

    def _hand_over(self) -> None:
        if self._new:
            links, self._new = self._new, []
            if self._intake.enqueue_links(links, self._lease):
                compat.wake(self._crawler)

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
            shared = self._codec.of_link(way.callback, way.errback, referrer, self._meta(way, _TEXT))
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
