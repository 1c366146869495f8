"""URLs in: the links of a page become queued pages without a request each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.parse.urls import host_of
from . import compat
from .fingerprints import plain_identity
from .meta_keys import LINK_SCORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier, Lease, Link
    from ..settings import FrontierSettings
    from .enqueue_requests import Intake
    from .fingerprints import Identities
    from .outlinks import Outlinks
    from .politeness_key import Units
    from .queued_requests import Records
    from .refused_links import Refusals
    from .request_codec import Codec
    from .stats import Notes


class BulkIntake:
    """What `Intake` does to one request, done to the links of a page; with *links* into the graph too."""

    def __init__(
        self,
        crawler: Crawler,
        settings: FrontierSettings,
        frontier: Frontier,
        clock: Callable[[], float],
        identities: Identities,
        units: Units,
        codec: Codec,
        intake: Intake,
        records: Records,
        links: Outlinks | None,
        refusals: Refusals,
        notes: Notes,
    ) -> None:
        self._crawler = crawler
        self._frontier = frontier
        self._clock = clock
        self._identities = identities
        self._units = units
        self._codec = codec
        self._intake = intake
        self._records = records
        self._refusals = refusals
        self._tally = notes.tally
        self.recognize = frontier.recognize
        self.record = codec.of_link
        self._links = links
        self.records_links = links is not None
        self._has_depth = bool(settings.limits.depth)
        self.knows_texts = intake.knows_texts
        self.has_ajax = settings.ajax

    def identify(self, url: str) -> tuple[bytes, str] | None:
        """Fingerprint and host of a link, as a request would have them; None where the text of the URL does
        not tell. 2 us."""
        return plain_identity(url) if self._identities.is_default else None

    def identify_request(self, request: Request) -> tuple[bytes, str, str]:
        """Fingerprint, URL and host of the request for a link; 20 us."""
        return self._identities.of(request), request.url, host_of(request.url)

    def weight(self, score: Any) -> float:
        """Of a link that somebody gave this *score*."""
        return 1.0 if self._links is None else self._links.score(score, LINK_SCORE)

    def fingerprint(self, request: Request) -> bytes:
        return self._identities.of(request)

    def unit_of(self, url: str, host: str) -> str:
        """Who is asked for *url* at one time: by default its *host*."""
        return host if self._units.of is host_of else self._units.of(url)

    def depth_of(self, depth: int | None) -> int:
        """The *depth* that a budget asks for."""
        return depth or 0 if self._has_depth else 0

    def without_session(self, url: str) -> str:
        clean = self._intake.without_session(url)
        if clean != url:
            self._tally["frontier/traps/session"] += 1
        return clean

    def hand_over(self, links: list[Link], lease: Lease | None) -> None:
        """Take *links* in by one call; *lease* is that of the page they are on."""
        new = known = 0
        for link, answer in zip(links, self._frontier.discover(links, self._clock(), lease), strict=True):
            if answer.kind:
                self._refusals.say(answer, link, link.url)
            elif answer.is_taken:
                new += 1
            elif answer.page is not None and self._records.is_missing(answer):
                request = self._codec.decode(link.url, link.priority, link.payload)
                self._records.queued(answer.page, request, False)
            elif not link.only_seen:
                known += 1
        self._tally["scheduler/enqueued/disk"] += new
        self.count("dupefilter/filtered", known)
        if new:
            compat.wake(self._crawler)

    def count(self, name: str, number: int) -> None:
        """Count known links, and those beyond what a page may have."""
        if number:
            self._tally[name] += number
