"""What the settings and a request ask of revisits: how often, whether as a hub, whether at all.

How often pages change, learnt from their visits: the rows of what is known of hosts, and of all pages.

Learnt with it is how far sites are to be trusted that tell of changes. `estimate_change_rates` calculates.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from w3lib.url import canonicalize_url

from ..parse.urls import origin_of
from ..store import keys, records
from ..store.keys import State
from . import change_rates
from .change_rates import (
    DAY,
    HintAccuracy,
    History,
    HostChangeRates,
    RateDrift,
    RateEstimates,
    by_counts,
    rate,
)
from .policy import Bounds, age_value, due_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..hosts.sites import RobotsAndSitemaps
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import Page, Visits

INTERVAL, ADAPTIVE = "interval", "adaptive"
DEFAULT_SHELF_LIFE = 7 * 86400.0
HUB_SPAN = 86400.0
SEEDS = "seeds"
_SHORTEST_OF_SITEMAPS = 3600.0  # seconds
_MOST_REDIRECTS = 5  # that a hub is followed through


class Plan(NamedTuple):
    """A page comes back every ``span`` seconds, or is a hub; infinite: only where a visit went wrong, and
    where it ``is_for_once`` not even then. Somebody asked for just that span where it ``is_fixed``."""

    span: float
    is_hub: bool = False
    is_fixed: bool = False
    is_for_once: bool = False

    def brings_back(self, page: Page) -> bool:
        """Whether *page* comes back as it is now. Without a span one does that failed, or is in doubt: no
        document is lost to one bad day."""
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
        """Hubs that are named by their URLs, in order: they are queued though nobody yields them."""
        return [pattern for pattern, _ in self.hubs if is_url(pattern)]

    def rests(self, plan: Plan) -> tuple[float, float]:
        """Seconds that a page by *plan* rests, and those it does at most, whatever goes wrong: the longest of
        the bounds, or its own span if longer. Without a span it rests as if that were the longest."""
        longest = self.bounds.longest
        return (plan.span, max(plan.span, longest)) if plan.span < inf else (longest, longest)

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
        self._rule = rule
        self.page_of = page_of
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
            refresh = sitemap_span(page.visits, self._rule.shelf_life)
        if refresh is not None:
            return Plan(refresh, is_hub=True, is_fixed=True)
        if shelf_life is not None:
            return Plan(shelf_life, is_fixed=True)
        for matches, span in self._shelf_lives:
            if matches(page.url):
                return Plan(span, is_fixed=True)
        return Plan(self._rule.shelf_life)

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
            found = self.page_of(page.parent)
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
    """Whether *pattern* names a page, and is no expression that begins with a scheme (``https://[^/]+/news``).
    In a query anything may stand: what has ``?name=`` as it is would be found in no URL."""
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

_MOST_HOSTS = 10_000  # in memory
_NO_HINTS = HintAccuracy()


class LearntChangeRates:
    """What visits have taught, by *rule*; *sites* keep how honest sitemaps were.

    Rates of up to 10,000 hosts stay in memory, others cost a lookup each. What is learnt goes into the open
    batch.
    """

    def __init__(self, batch: Batch, sites: RobotsAndSitemaps, rule: RevisitRule) -> None:
        self._batch = batch
        self._sites = sites
        self.is_adaptive = rule.policy == ADAPTIVE
        self._unknown = 1.0 / rule.shelf_life if rule.shelf_life < inf else 1.0 / (7 * DAY)
        self._hosts: dict[str, tuple[HostChangeRates, float, int]] = {}
        *everywhere, multiplier, unlike, usual = records.decode_all_rates(batch.get(keys.RATES_OF_ALL))
        self._everywhere, self._drift = HostChangeRates(*everywhere), RateDrift(unlike, usual)
        self.multiplier = multiplier  # what a visit has to be worth everywhere; 0: nobody knows

    # -- what visits teach -----------------------------------------------------------------------------

    def expected(self, host: str) -> float:
        """Changes a second to expect of a page of *host* of which nothing is known; above 0. See
        `estimate_change_rates.expected_rate`."""
        return change_rates.expected_rate(self._of(host)[0], self._everywhere, self._unknown)

    def delay_of(self, host: str) -> float:
        """Seconds that *host* wanted between two visits when it was visited last; 0: none, or not known."""
        return self._of(host)[1]

    def blame_of(self, host: str) -> int:
        """What stands against *host*, most of whose pages were gone at once, 0 to 8; see
        `policy.Losses`."""
        return self._of(host)[2]

    def put_blame(self, host: str, blame: int) -> None:
        """Have that *blame*, 0 to 8, stand against *host* from now on, in the open batch; nothing where it
        does already."""
        rates, delay, before = self._of(host)
        if blame != before:
            self._put(host, rates, delay, blame)

    def _put(self, host: str, rates: HostChangeRates, delay: float, blame: int) -> None:
        self._hosts[host] = rates, delay, blame
        self._batch.rows[keys.rates_key(host)] = records.encode_host_rates(rates, delay, blame)

    def _of(self, host: str) -> tuple[HostChangeRates, float, int]:
        found = self._hosts.get(host)
        if found is None:
            stored = self._batch.get(keys.rates_key(host))
            *rates, delay, blame = records.decode_host_rates(stored)
            if len(self._hosts) >= _MOST_HOSTS:
                self._hosts.clear()
            found = self._hosts[host] = HostChangeRates(*rates), delay, blame
        return found

    def observed(
        self, host: str, delay: float, page: Page, visits: Visits, has_changed: bool, now: float
    ) -> Visits:
        """The *visits* after a revisit that showed whether the *page* of *host* has changed, with what that
        teaches; in the open batch. *page* is as it was before."""
        before = page.visits
        assert before is not None
        is_listed = page.lastmod is not None
        span = max(now - before.last, 1.0)
        seen = change_rates.Observation(span, has_changed, is_listed, before.is_hinted)
        hints = self.hints_of(page)
        history = History(*records.decode_history(before.history))
        known = RateEstimates(history, self._of(host)[0], self._everywhere, hints, self._drift)
        found = change_rates.observed(seen, known, self._unknown)
        self._put(host, found.host, delay, self.blame_of(host))
        self._everywhere, self._drift = found.everywhere, found.drift
        if found.hints != hints:
            origin = origin_of(page.url) or ""
            sitemaps = self._sites.sitemaps_of(origin)
            self._sites.keep_sitemaps(origin, sitemaps._replace(hints=tuple(found.hints)))
        self.keep()
        return visits._replace(history=records.encode_history(*found.history))

    def put_multiplier(self, multiplier: float) -> None:
        """A visit has to be worth that everywhere from now on; `keep` puts it into the open batch."""
        self.multiplier = multiplier

    def keep(self) -> None:
        """Put what is known of all pages, and the ``multiplier``, into the open batch: one row."""
        about = self._everywhere, self.multiplier, self._drift
        self._batch.rows[keys.RATES_OF_ALL] = records.encode_all_rates(*about)

    # -- what is known ---------------------------------------------------------------------------------

    def rate_of(self, host: str, visits: Visits) -> float:
        """Changes a second of a page of *host* by what its *visits* showed; above 0. See
        `estimate_change_rates.rate`."""
        history = History(*records.decode_history(visits.history))
        return change_rates.rate(history, self.expected(host))

    def hints_of(self, page: Page) -> HintAccuracy:
        """How far the sitemaps of its site are to be trusted that tell of changes of *page*; where none
        does, nothing follows from silence. A lookup for a page that is listed."""
        if page.lastmod is None:
            return _NO_HINTS
        return HintAccuracy(*self._sites.sitemaps_of(origin_of(page.url) or "").hints)

    def value(self, host: str, page: Page, visits: Visits, weight: float, now: float) -> float:
        """What puts due pages in order: the larger, the sooner. In days of a page of weight 1, by either
        policy.

        *weight* is the importance, 1 on average; a page that is listed costs a lookup.
        """
        if not self.is_adaptive:
            return age_value(weight, visits.last, now) / DAY
        hints = self.hints_of(page)
        precision = hints.precision if visits.is_hinted else 0.0
        rate_of_page = self.rate_of(host, visits)
        return due_value(weight, rate_of_page, now - visits.last, hints.recall, precision) / DAY
