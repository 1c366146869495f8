"""Decides by settings and request how often a page comes back, whether as a hub, and whether at all."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from w3lib.url import canonicalize_url

from ..store.keys import State
from .change_rates import DAY
from .policy import Bounds, Rests

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.records import Page

INTERVAL, ADAPTIVE = "interval", "adaptive"
DEFAULT_SHELF_LIFE = 7 * 86400.0
HUB_SPAN = DAY
SEEDS = "seeds"


class RevisitPlan(NamedTuple):
    """When a page comes back: every ``span`` seconds; if that is infinite, only after a failed visit, and not
    even then if ``never`` is true. ``is_fixed``: a setting or the request names the span."""

    span: float
    is_hub: bool = False
    is_fixed: bool = False
    never: bool = False

    def brings_back(self, page: Page) -> bool:
        """Return whether *page* comes back in its present state. With an infinite span it does if it failed,
        or its last visit did, so that no document is lost by one bad day."""
        if self.span < inf:
            return True
        is_doubted = page.state is State.DONE and page.visits is not None and page.visits.bad.visits > 0
        return not self.never and (page.state is State.FAILED or is_doubted)


NEVER = RevisitPlan(inf, never=True)


class RevisitRule(NamedTuple):
    """The revisit settings of a crawl; spans are in seconds.

    ``shelf_lives`` and ``hubs`` are pairs of a URL, or a regular expression to search in URLs, and a span;
    the first that matches counts. ``hubs`` may name `SEEDS`. The crawl waits up to ``horizon`` for pages to
    fall due. While new pages are queued too, a ``share`` of the visits goes to pages that come back.
    """

    policy: str = INTERVAL
    shelf_life: float = DEFAULT_SHELF_LIFE
    shelf_lives: tuple[tuple[str, float], ...] = ()
    bounds: Bounds = Bounds()
    horizon: float = 0.0
    share: float = 0.5
    hubs: tuple[tuple[str, float], ...] = ()

    @property
    def waits(self) -> bool:
        """Whether pages that fall due during the crawl are visited; else only those due at its start."""
        return self.horizon > 0.0

    @property
    def hub_urls(self) -> list[str]:
        """The hubs that are named by their URLs, in order: they are queued without a link to them."""
        return [pattern for pattern, _ in self.hubs if is_url(pattern)]

    def rests(self, plan: RevisitPlan) -> Rests:
        """Return the `Rests` of a page by *plan*: at most the longest of the bounds, or its own span if
        longer. An infinite span counts as the longest."""
        longest = self.bounds.longest
        return Rests(plan.span, max(plan.span, longest)) if plan.span < inf else Rests(longest, longest)

    @property
    def name(self) -> bytes:
        """16 hexadecimal digits: a hash of all settings that due rows depend on."""
        rule = (self.policy, self.shelf_life, self.shelf_lives, self.bounds, self.waits, self.hubs)
        return hashlib.blake2b(repr(rule).encode(), digest_size=8).hexdigest().encode()


class RevisitPlans:
    """Makes the plans of pages by *rule* and their requests."""

    def __init__(self, rule: RevisitRule) -> None:
        self.rule = rule
        self._shelf_lives = [(_matcher(pattern), span) for pattern, span in rule.shelf_lives]
        self._hubs = [(_matcher(pattern), span) for pattern, span in rule.hubs if pattern != SEEDS]
        self._seeds = dict(rule.hubs).get(SEEDS)

    def of(self, page: Page) -> RevisitPlan:
        """Return the plan of *page*: a hub if its request or a pattern says so, or if it is a sitemap; else
        by the span that its request or a pattern names, or the shelf life of the rule.

        `NEVER` if only one process has its request, or if the request may change something (not GET or HEAD,
        or with a body) and names no span. 1 us.
        """
        facts = page.facts
        refresh, shelf_life = facts.refresh, facts.shelf_life
        if facts.is_in_memory or (refresh is None and shelf_life is None and facts.is_unsafe):
            return NEVER
        refresh = self._hub_span(page) if refresh is None else refresh
        if refresh is None and shelf_life is None and facts.is_sitemap and page.state is State.DONE:
            refresh = min(HUB_SPAN, self.rule.shelf_life)
        if refresh is not None:
            return RevisitPlan(refresh, is_hub=True, is_fixed=True)
        if shelf_life is not None:
            return RevisitPlan(shelf_life, is_fixed=True)
        for matches, span in self._shelf_lives:
            if matches(page.url):
                return RevisitPlan(span, is_fixed=True)
        return RevisitPlan(self.rule.shelf_life)

    def _hub_span(self, page: Page) -> float | None:
        for matches, span in self._hubs:
            if matches(page.url):
                return span
        return self._seeds if page.parent is None or page.facts.is_seed else None


def is_url(pattern: str) -> bool:
    """Return whether *pattern* is a URL, and not an expression: those that begin with a scheme have a
    backslash, ``[``, ``*`` or ``$`` before the query."""
    is_http = pattern[:8].lower().startswith(("http://", "https://"))
    if not is_http or not set(pattern.partition("?")[0]).isdisjoint("\\[*$"):
        return False
    try:
        return bool(canonicalize_url(pattern))
    except ValueError:
        return False


def _matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that tells whether a URL equals *pattern* once both are canonicalized, or, if
    *pattern* is an expression, contains it."""
    if not is_url(pattern):
        return re.compile(pattern).search
    canonical = canonicalize_url(pattern)
    return lambda url: _canonical(url) == canonical


_canonical = lru_cache(maxsize=64)(canonicalize_url)  # 20 us, once for each page and all hubs
