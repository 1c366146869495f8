"""The links of a page, from what its callback yields (or all its anchors) to edges between page ids.

A link that is known by the text of its URL is an edge at once. Any other is remembered by its request until
that comes to the scheduler, which knows the page; what is left when the page ends was dropped by a filter
(offsite, depth, length of the URL) or is an anchor the spider does not follow: the graph gets a page for it
that is only seen.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy.http import HtmlResponse, Request, Response

from ..core import reasons
from ..core.frontier import Event, Frontier, Link, Outcome
from ..core.parse.headers import has_rel
from ..core.parse.urls import host_of
from ..core.store.keys import LARGEST
from ..core.store.link_rows import CANONICAL, INTERNAL, NOFOLLOW
from . import meta_keys, scrapy_internals
from .in_flight import Flight, Flights, PageLinks
from .link_extractor import is_text, references_of
from .meta_keys import LINK_SCORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..settings import FrontierSettings
    from .enqueue import RequestEnqueuer
    from .log import Reporter

MOST_LINKS = 10_000  # links of one page
ANCHORS_AT_A_TIME = 300  # anchors, 3 ms
_IS_CANONICAL = frozenset(("canonical",))


@dataclass(eq=False, repr=False)
class Outlinks:
    """Turns what spiders yield into edges; with ``FRONTIER_LINKS = "all"`` all anchors of a page too. At most
    `MOST_LINKS` links of one page; what is beyond is counted."""

    _settings: FrontierSettings
    _frontier: Frontier
    _enqueuer: RequestEnqueuer
    _flights: Flights
    _reporter: Reporter

    def __post_init__(self) -> None:
        settings = self._settings
        self._recognize = self._frontier.recognize
        self._longest = settings.traps.length
        self.takes_hashes = settings.comes_back

    # -- while the callback runs -----------------------------------------------------------------------

    def collector(self, response: Response, ending: str | None = None) -> LinkCollector | None:
        """Who takes down the links of *response*; None for a response that no lease is out for.

        Links to known pages whose URLs begin with *ending* go no further, but for the first.
        """
        flight = self._flights.get(id(response.request))
        if flight is None:
            return None
        return LinkCollector(self, flight, flight.gather_links(response.url), ending)

    def note(self, flight: Flight, found: PageLinks, request: Request, ending: str | None = None) -> bool:
        """Take down a request that a callback yields, in 1 us if its page is known by its URL; whether it
        goes on. Links to known pages whose URLs begin with *ending* do not, but for the first."""
        url, method, body, again, meta = scrapy_internals.essentials(request)
        if method != "GET" or url[:4] != "http" or 0 < self._longest < len(url):
            return True
        if again and url == flight.request.url:  # a retry is no link
            return True
        if found.count >= MOST_LINKS:
            self._reporter.tally["frontier/links/ignored"] += 1
            return True
        found.count += 1
        # `PageLinks.flags` without a call, .1 us less a link
        flags = INTERNAL if url.startswith(found.origin) or host_of(url) == found.host else 0
        if url == found.canonical:
            flags |= CANONICAL
        weight = 1.0
        if meta:
            if meta.get(LINK_SCORE) is not None:  # about this link: what copies the meta must not inherit it
                weight = self.score(meta.pop(LINK_SCORE), LINK_SCORE)
            if meta.get(meta_keys.NOFOLLOW_META):
                flags |= NOFOLLOW
        by_text = not body and not (meta and meta.get("verbatim_url"))  # the text of the URL who it is
        if not by_text or not self._recognize(url, flight.lease, flags, weight):
            self._flights.note_link(request, Link(url=url, flags=flags, weight=weight), found)
            return True
        if ending is None or found.count == 1 or again or (meta and meta_keys.FORCE in meta):
            return True
        if not url.startswith(ending):
            return True
        self._reporter.tally["dupefilter/filtered"] += 1
        return False

    def note_anchors(self, found: PageLinks, response: Response) -> Iterator[None]:
        """Take down all anchors of an HTML page, if that is wanted; about 10 us an anchor, and yields after
        every `ANCHORS_AT_A_TIME`."""
        settings = self._settings
        if settings.links != "all" or not isinstance(response, HtmlResponse) or not is_text(response):
            return
        for number, (url, flags) in enumerate(_anchors(response, self._longest, settings.nofollow_rels), 1):
            if number % ANCHORS_AT_A_TIME == 0:
                yield
            link = url, flags | found.flags(url) | (NOFOLLOW if found.is_nofollow else 0)
            if link in found.anchors:
                continue
            if found.count >= MOST_LINKS:
                self._reporter.tally["frontier/links/ignored"] += 1
                continue
            found.count += 1
            found.anchors[link] = None

    def score(self, value: Any, name: str) -> float:
        """Return *value* as a score from 0 to `LARGEST`; 1 if it is no number of at least 0.

        What is changed is counted, and logged once for each *name*.
        """
        try:
            score = float(value)
        except OverflowError:  # an integer beyond 1e308
            score = math.inf if value > 0 else -math.inf
        except (TypeError, ValueError):
            score = math.nan
        if 0 <= score <= LARGEST:
            return score
        used = LARGEST if score > LARGEST else 1.0
        self._reporter.tally["frontier/scores/ignored"] += 1
        words = "%s = %.40r counts as %d: set a number from 0 to %d (logged once)"
        self._reporter.log_once(f"score {name}", logging.WARNING, words, name, value, used, LARGEST)
        return used

    # -- when the page ends ----------------------------------------------------------------------------

    def end(self, flight: Flight, outcome: Outcome, now: float) -> Outcome:
        """*outcome*, and what is known of the links of the page that ends so; nothing is to be done for a
        page that was fetched and of which no link is left."""
        found = flight.links
        if outcome.event is Event.REDIRECTED:
            url = flight.follow_up.url if flight.follow_up is not None else ""
            return outcome._replace(has_links=True, flags=PageLinks(flight.request.url).flags(url))
        if outcome.event is Event.GONE:
            return outcome._replace(has_links=True)
        if outcome.event is Event.FETCHED and found is not None:
            self._frontier.discover(list(self._left(flight, found)), now, flight.lease)
        return outcome

    def _left(self, flight: Flight, found: PageLinks) -> Iterator[Link]:
        """Links whose requests never came to the scheduler, or were none."""
        for request, link in found.yielded.items():
            by_text = not request.body and not request.meta.get("verbatim_url")
            about = request.url, flight.lease, link.flags, link.weight
            if not by_text or not self._recognize(*about, only_seen=True):
                yield from self._seen(link, *self._identify_request(request))
        for url, flags in found.anchors:
            if not self._recognize(url, flight.lease, flags, only_seen=True):
                yield from self._seen(Link(flags=flags), *self._identify(self._enqueuer.without_session(url)))

    def _seen(self, link: Link, fingerprint: bytes | None, url: str) -> Iterator[Link]:
        if fingerprint is not None:
            is_told = self._enqueuer.knows_texts and fingerprint not in self._enqueuer.unfiltered
            link.fingerprint, link.url, link.host = fingerprint, url, host_of(url)
            link.text, link.only_seen = url if is_told else "", reasons.OUT_OF_SCOPE()
            yield link

    def _identify_request(self, request: Request) -> tuple[bytes | None, str]:
        """The fingerprint and URL of a request as it would have been queued."""
        url = request.url if request.dont_filter else self._enqueuer.without_session(request.url)
        return (self._enqueuer.identities.of(request), url) if url == request.url else self._identify(url)

    def _identify(self, url: str) -> tuple[bytes | None, str]:
        """The fingerprint of an anchor's target, and its URL as a request has it."""
        identity = self._enqueuer.identify(url)
        if identity is not None:
            return identity[0], url
        try:
            request = Request(url)
        except ValueError:
            return None, url
        return self._enqueuer.identities.of(request), request.url


def item_field(item: Any, name: str) -> Any:
    """The value of a field of an item of any kind, dicts too; None where it has none, and for what is no
    item."""
    if isinstance(item, dict):
        return item.get(name)
    return ItemAdapter(item).get(name) if ItemAdapter.is_item(item) else None


class LinkCollector:
    """Takes down what one callback yields, onto the flight of its page: `take` for each output, `end`
    once."""

    def __init__(self, links: Outlinks, flight: Flight, found: PageLinks, ending: str | None) -> None:
        self._links = links
        self._flight = flight
        self._found = found
        self._ending = ending

    def take(self, yielded: Any) -> bool:
        """Take down *yielded*; whether it goes on to the scheduler, or the pipelines."""
        if isinstance(yielded, Request):
            return self._links.note(self._flight, self._found, yielded, self._ending)
        self._note_scores(partial(item_field, yielded))
        return True

    def end(self, response: Response) -> Iterator[None]:
        """The callback is through; yields now and then on the way through a page with very many anchors."""
        if response.request is not None:
            self._note_scores(response.request.meta.get)
        yield from self._links.note_anchors(self._found, response)

    def _note_scores(self, value_of: Callable[[str], Any]) -> None:
        """What the callback has said of the page by *value_of*: what it is worth, and what its content is."""
        score = value_of(meta_keys.CONTENT_SCORE)
        if score is not None:
            self._found.content_score = self._links.score(score, meta_keys.CONTENT_SCORE)
        if self._links.takes_hashes:
            self._flight.takes_content(value_of(meta_keys.CONTENT_HASH))


def _anchors(response: HtmlResponse, longest: int, rels: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Absolute http(s) URLs of all anchors, areas and the canonical link, with their flags; one of *rels*
    makes `NOFOLLOW`. None that has more than *longest* characters, if that is not 0: a trap, and to know who
    a URL of a megabyte is takes 100 ms."""
    absolute = references_of(response)
    for element in response.selector.root.iter("a", "area", "link"):
        href = element.get("href")
        if href is None or 0 < 8 * longest < len(href):
            continue
        rel = element.get("rel")
        flags = NOFOLLOW if has_rel(rel, rels) else 0
        if element.tag == "link":
            if not has_rel(rel, _IS_CANONICAL):
                continue
            flags = CANONICAL
        url = (absolute(href) or "").partition("#")[0]
        if url and not 0 < longest < len(url):
            yield url, flags
