"""What the settings and a request ask of revisits: how often, whether as a hub, whether at all."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from w3lib.url import canonicalize_url

from ..store.keys import State
from .change_rates import DAY, by_counts, rate
from .policy import Bounds, Rests

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.keys import PageId
    from ..store.records import Page, Visits

INTERVAL, ADAPTIVE = "interval", "adaptive"
DEFAULT_SHELF_LIFE = 7 * 86400.0
HUB_SPAN = 86400.0
SEEDS = "seeds"
_SHORTEST_OF_SITEMAPS = 3600.0  # seconds
_MOST_REDIRECTS = 5  # that a hub is followed through


class Plan(NamedTuple):
    """When a page comes back: every ``span`` seconds; infinite: only after a visit that went wrong, and not
    even then if it ``is_for_once``. ``is_fixed``: a setting or the request names the span."""

    span: float
    is_hub: bool = False
    is_fixed: bool = False
    is_for_once: bool = False

    def brings_back(self, page: Page) -> bool:
        """Return whether *page* comes back as it is now. Without a span one does that failed, or is in doubt:
        no document is lost to one bad day."""
        if self.span < inf:
            return True
        is_doubted = page.state is State.DONE and page.visits is not None and page.visits.bad.visits > 0
        return not self.is_for_once and (page.state is State.FAILED or is_doubted)


NEVER = Plan(inf, is_for_once=True)


class RevisitRule(NamedTuple):
    """How a crawl comes back to its pages; spans are in seconds.

    ``shelf_lives`` and ``hubs`` are pairs of a URL, or of a regular expression searched in URLs, and a span,
    of which the first that fits counts; ``hubs`` may name `SEEDS`. The crawl waits up to ``horizon`` for what
    falls due. While new pages wait too, a ``share`` of the visits goes to those that come back, of which
    ``hub_share`` come first as hubs, whatever they are worth.
    """

    policy: str = INTERVAL
    shelf_life: float = DEFAULT_SHELF_LIFE
    shelf_lives: tuple[tuple[str, float], ...] = ()
    bounds: Bounds = Bounds()
    horizon: float = 0.0
    share: float = 0.5
    hubs: tuple[tuple[str, float], ...] = ()
    hub_share: float = 0.5

    @property
    def waits(self) -> bool:
        """Whether what falls due meanwhile is visited; else what is due is judged at the start."""
        return self.horizon > 0.0

    @property
    def hub_urls(self) -> list[str]:
        """Returns the hubs that are named by their URLs, in order: they are queued without a link to them."""
        return [pattern for pattern, _ in self.hubs if is_url(pattern)]

    def rests(self, plan: Plan) -> Rests:
        """Return how long a page by *plan* rests: at most the longest of the bounds, or its own span if
        longer. Without a span it rests as if that were the longest."""
        longest = self.bounds.longest
        return Rests(plan.span, max(plan.span, longest)) if plan.span < inf else Rests(longest, longest)

    @property
    def name(self) -> bytes:
        """16 hexadecimal digits for what due rows depend on: of two rules that make different rows they
        differ."""
        rule = (self.policy, self.shelf_life, self.shelf_lives, self.bounds, self.waits, self.hubs)
        return hashlib.blake2b(repr(rule).encode(), digest_size=8).hexdigest().encode()


class Plans:
    """When pages come back by *rule*, as far as settings and requests say; *page_of* finds a page by its
    id."""

    def __init__(self, rule: RevisitRule, page_of: Callable[[PageId], Page | None]) -> None:
        self.rule = rule
        self._page_of = page_of
        self._shelf_lives = [(_matcher(pattern), span) for pattern, span in rule.shelf_lives]
        self._hubs = [(_matcher(pattern), span) for pattern, span in rule.hubs if pattern != SEEDS]
        self._seeds = dict(rule.hubs).get(SEEDS)

    def of(self, page_id: PageId, page: Page) -> Plan:
        """When *page* comes back: as a hub if its request or a pattern says so, or if it is a sitemap; else
        after the span that its request or a pattern names, or the shelf life of the rule.

        Never where only one process has its request, or where that changes something (no GET or HEAD, or a
        body) and names no span. 1 us; a lookup for each page that leads to it, five at most, where the rule
        has hubs.
        """
        facts = page.facts
        refresh, shelf_life = facts.refresh, facts.shelf_life
        if facts.is_in_memory or (refresh is None and shelf_life is None and facts.is_unsafe):
            return NEVER
        refresh = self._hub_span(page_id, page) if refresh is None else refresh
        if refresh is None and shelf_life is None and facts.is_sitemap and page.state is State.DONE:
            refresh = sitemap_span(page.visits, self.rule.shelf_life)
        if refresh is not None:
            return Plan(refresh, is_hub=True, is_fixed=True)
        if shelf_life is not None:
            return Plan(shelf_life, is_fixed=True)
        for matches, span in self._shelf_lives:
            if matches(page.url):
                return Plan(span, is_fixed=True)
        return Plan(self.rule.shelf_life)

    def _hub_span(self, page_id: PageId, page: Page) -> float | None:
        """The span of a hub, or of the page that one leads to."""
        if not self._hubs and self._seeds is None:
            return None
        for _ in range(_MOST_REDIRECTS):
            for matches, span in self._hubs:
                if matches(page.url):
                    return span
            if page.parent is None:
                return self._seeds
            found = self._page_of(page.parent)
            if found is None or found.target != page_id:
                break
            page_id, page = page.parent, found
        return None


def sitemap_span(visits: Visits | None, longest: float) -> float:
    """Seconds until a sitemap comes back: as often as it changes, which for all we know at first is once a
    day; an hour at the least."""
    if visits is None or visits.visits < 2:
        return min(DAY, longest)
    history = by_counts(visits.visits, visits.changes, visits.last - visits.first)
    return min(max(1 / rate(history, 1 / DAY), _SHORTEST_OF_SITEMAPS), longest)


def is_url(pattern: str) -> bool:
    """Whether *pattern* names a page, and is no expression that begins with a scheme
    (``https://[^/]+/news``). In a query anything may stand: what has ``?name=`` as it is would be found in no
    URL."""
    is_http = pattern[:8].lower().startswith(("http://", "https://"))
    if not is_http or _expression(_query.split(pattern, 1)[0]) is not None:
        return False
    try:
        return bool(canonicalize_url(pattern))
    except ValueError:
        return False


_query = re.compile(r"(?<!\()\?[\w~%][^/?#&=]*=")
_expression = re.compile(r"[\\^{}]|[].)][*+?]|\(\?|\([^()]*\||\[\w-\w|\$$").search


def _matcher(pattern: str) -> Callable[[str], object]:
    """Whether a URL is that of the page, however both are spelled, or has the expression in it."""
    if not is_url(pattern):
        return re.compile(pattern).search
    canonical = canonicalize_url(pattern)
    return lambda url: _canonical(url) == canonical


_canonical = lru_cache(maxsize=64)(canonicalize_url)  # 20 us, once for each page and all hubs
