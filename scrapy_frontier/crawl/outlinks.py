"""Turns the links of a page into edges of the link graph: what its callback yields, or all its anchors.

A link that is known by the text of its URL is an edge at once. Any other is remembered by its request until
that reaches the scheduler, which identifies the page. Links left over when the page ends were dropped by a
filter (offsite, depth, length of the URL), or are anchors that the spider does not follow: their pages are
only seen.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy.http import HtmlResponse, Request, Response

from ..core import reasons
from ..core.frontier import Event, Frontier, Link, Outcome
from ..core.parse.headers import has_rel
from ..core.parse.urls import without_fragment
from ..core.store.keys import LARGEST, clamped
from ..core.store.link_rows import KINDS, NOFOLLOW
from . import meta_keys, scrapy_internals
from .in_flight import ActiveRequest, ActiveRequests, PageLinks
from .link_extractor import anchor_texts, anchors_of, let_go_of_tree
from .meta_keys import LINK_SCORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..settings import FrontierSettings
    from .enqueue import RequestEnqueuer
    from .log import Reporter

MOST_LINKS = 10_000  # links of one page
MOST_LEFT = 1_000  # of these, that a callback yields and a filter drops; 30 us each, at the end of the page
SEEN_TOGETHER = 10  # at most 2 ms each: hundreds of query parameters
TOGETHER = 100  # new links in one call at most: 2 ms, 8 if each is of a new host


@dataclass(eq=False, repr=False)
class Outlinks:
    """Keeps the links that callbacks yield; with ``FRONTIER_LINKS = "all"`` all anchors of a page too. At
    most `MOST_LINKS` of one page; the others are counted."""

    settings: FrontierSettings
    _frontier: Frontier
    _enqueuer: RequestEnqueuer
    _active_requests: ActiveRequests
    _reporter: Reporter

    def __post_init__(self) -> None:
        self._recognize = self._frontier.recognize
        self._longest = self.settings.traps.length

    # -- while the callback runs -----------------------------------------------------------------------

    def learns_words(self, response: Response) -> bool:
        """Whether the texts of links on the page of *response* are learned from: once a callback has said
        what a page is worth, this one too, or if pages are worth their items."""
        if self._frontier.focus is None:
            meta = {} if response.request is None else response.request.meta
            if not self.settings.counts_items and meta.get(meta_keys.CONTENT_SCORE) is None:
                return False
            self._frontier.begin_focus()
        return self._frontier.focus is not None

    def note(
        self,
        active: ActiveRequest,
        found: PageLinks,
        request: Request,
        ending: str | None = None,
        flags: int = 0,
    ) -> bool:
        """Note a request that a callback yields, in 1 us if its page is known by its URL; whether it goes on.
        See `LinkCollector` for *ending*; the edge has *flags* besides its own."""
        url, method, body, again, meta = scrapy_internals.essentials(request)
        if method != "GET" or url[:4] != "http" or 0 < self._longest < len(url):
            return True
        if again and url == active.request.url:  # a retry is no link
            return True
        if found.count >= MOST_LINKS:
            self._reporter.tally["frontier/links/ignored"] += 1
            return True
        found.count += 1
        flags |= found.flags(url) | found.kinds.get(url, 0)
        weight = 1.0
        if meta:
            if meta.get(LINK_SCORE) is not None:  # of this link: a copy of the meta must not inherit it
                weight = self.score(meta.pop(LINK_SCORE), LINK_SCORE)
            if meta.get(meta_keys.NOFOLLOW_META):
                flags |= NOFOLLOW
        is_plain = not (body or (meta and meta.get(meta_keys.VERBATIM)))
        if not is_plain or not self._recognize(url, active.lease, flags, weight):
            anchor = found.texts.get(url, "") if found.texts else ""
            link = Link(url=url, flags=flags, weight=weight, anchor=anchor)
            self._active_requests.note_link(request, link, found)
            return True
        if ending is None or found.count == 1 or again or (meta and meta_keys.FORCE in meta):
            return True
        if not url.startswith(ending):
            return True
        self._reporter.tally["dupefilter/filtered"] += 1
        return False

    def note_anchors(self, found: PageLinks, response: Response) -> Iterator[None]:
        """Note the anchors and areas of an HTML page, about 10 us each; yields after each.

        No URL of more than ``URLLENGTH_LIMIT`` characters counts.
        """
        assert isinstance(response, HtmlResponse)
        rels = self.settings.nofollow_rels
        for anchor in anchors_of(response, self._longest):
            yield
            if anchor is not None:
                url, element = anchor
                is_nofollow = found.is_nofollow or has_rel(element.get("rel"), rels)
                flags = KINDS["a"] | (NOFOLLOW if is_nofollow else 0)
                self._note_anchor(found, without_fragment(url), flags)
        let_go_of_tree(response)

    def _note_anchor(self, found: PageLinks, url: str, flags: int) -> None:
        link = url, flags | found.flags(url)
        if link in found.anchors:
            return
        if found.count >= MOST_LINKS:
            self._reporter.tally["frontier/links/ignored"] += 1
            return
        found.count += 1
        found.anchors[link] = None

    def score(self, value: Any, name: str) -> float:
        """Return *value* as a score from 0 to `LARGEST`; 1 if it is no number.

        What is changed is counted, and logged once for each *name*.
        """
        try:
            score = float(value)
        except OverflowError:  # an integer beyond 1e308
            score = math.inf if value > 0 else -math.inf
        except (TypeError, ValueError):
            score = math.nan
        used = clamped(score)
        if used != score:
            self._reporter.tally["frontier/scores/ignored"] += 1
            words = "%s = %.40r counts as %d: set a number from 0 to %d (logged once)"
            self._reporter.log_once(f"score {name}", logging.WARNING, words, name, value, used, LARGEST)
        return used

    # -- when the page ends ----------------------------------------------------------------------------

    def end(self, active: ActiveRequest, outcome: Outcome, now: float) -> Outcome:
        """Return *outcome* with what is known of the links of the page that ends so; links left over are
        handed to the frontier if it was fetched."""
        found = active.links
        if outcome.event is Event.REDIRECTED:
            url = active.follow_up.url if active.follow_up is not None else ""
            return outcome._replace(has_links=True, flags=PageLinks(active.request.url).flags(url))
        if outcome.event is Event.GONE:
            return outcome._replace(has_links=True)
        if outcome.event is Event.FETCHED and found is not None:
            self._reporter.tally["frontier/links/ignored"] += max(len(found.yielded) - MOST_LEFT, 0)
            self._frontier.discover(list(self._left(active, found)), now, active.lease)
        return outcome

    def see_anchors(self, active: ActiveRequest, found: PageLinks) -> Iterator[None]:
        """Make the pages of very many anchors known before their page ends; yields after `SEEN_TOGETHER`."""
        while len(found.anchors) > SEEN_TOGETHER:
            first = [*islice(found.anchors, SEEN_TOGETHER)]
            self._enqueuer.enqueue_links([*self._seen_anchors(active, first)], active.lease)
            for anchor in first:
                del found.anchors[anchor]
            yield

    def _left(self, active: ActiveRequest, found: PageLinks) -> Iterator[Link]:
        """Yield links whose requests never reached the scheduler, or that had none."""
        identities = self._enqueuer.identities
        for request, link in islice(found.yielded.items(), MOST_LEFT):
            about = request.url, active.lease, link.flags, link.weight
            if not identities.is_plain(request) or not self._recognize(*about, only_seen=True):
                request = self._enqueuer.strip_session_of(request)
                yield self._seen(link, request.url, identities.with_host(request))
        yield from self._seen_anchors(active, found.anchors)

    def _seen_anchors(self, active: ActiveRequest, anchors: Iterable[tuple[str, int]]) -> Iterator[Link]:
        enqueuer = self._enqueuer
        for url, flags in anchors:
            if not self._recognize(url, active.lease, flags, only_seen=True):
                clean = enqueuer.without_session(url)
                identity = enqueuer.identify(clean) or enqueuer.identities.with_host(Request(clean))
                yield self._seen(Link(flags=flags), clean, identity)

    def _seen(self, link: Link, url: str, identity: tuple[bytes, str]) -> Link:
        """Return *link* as one to a page that is only seen, by its *identity*: fingerprint and host."""
        link.fingerprint, link.host = identity
        link.url, link.only_seen = url, reasons.OUT_OF_SCOPE()
        is_told = self._enqueuer.knows_texts and link.fingerprint not in self._enqueuer.unfiltered
        link.text = url if is_told else ""
        return link


def item_field(item: Any, name: str) -> Any:
    """Return the value of a field of an item of any kind, dicts too; None without one, and for what is no
    item."""
    if isinstance(item, dict):
        return item.get(name)
    return ItemAdapter(item).get(name) if ItemAdapter.is_item(item) else None


@dataclass(eq=False, repr=False)
class LinkCollector:
    """Notes what the callback of *response* yields on its active request: `take` for each output, `end` once.

    Links to known pages whose URLs begin with *ending* go no further, but for the first.
    """

    _links: Outlinks
    _response: Response
    _active: ActiveRequest
    _ending: str | None = None
    _items: int = 0

    def __post_init__(self) -> None:
        self._found = self._active.gather_links(self._response.url)
        self.reads_page = self._links.settings.links == "all" and isinstance(self._response, HtmlResponse)

    def take(self, yielded: Any) -> bool:
        """Note *yielded*; whether it goes on to the scheduler, or the pipelines."""
        if isinstance(yielded, Request):
            if self._found.texts is None:
                is_used = self._links.learns_words(self._response)
                self._found.texts = anchor_texts(self._response) if is_used else {}
            return self._links.note(self._active, self._found, yielded, self._ending)
        self._items += yielded is not None
        self._note_scores(partial(item_field, yielded))
        return True

    def end(self) -> Iterator[None]:
        """Note the scores and anchors of the page; yields after each element of it."""
        if self._response.request is not None:
            self._note_scores(self._response.request.meta.get)
        if self._links.settings.counts_items:
            self._found.content_score = float(self._items)
        if self.reads_page:
            yield from self._links.note_anchors(self._found, self._response)
            yield from self._links.see_anchors(self._active, self._found)

    def _note_scores(self, value_of: Callable[[str], Any]) -> None:
        """Notes what the page is worth, if the callback says so."""
        score = value_of(meta_keys.CONTENT_SCORE)
        if score is not None:
            self._found.content_score = self._links.score(score, meta_keys.CONTENT_SCORE)
