"""What a revisit has to be worth, so that all together are as many as can be made: the multiplier.

By "adaptive" a crawl makes as many visits as if every page came back after its shelf life. A host that may
not be asked as often as its pages would like, by its delay and the time that the crawl runs, has a larger
multiplier of its own; others get what it cannot use. Solved from a sample of all pages, drawn in slices.

What a crawl can afford: the multiplier at which all pages together ask for what can be fetched.

The spans of `crawl_value.best_span` for many pages at once, a sample of all, and the one multiplier, with
larger ones for hosts that may not be asked that often, at which they add up to a budget. Loads NumPy.

How the visits are shared between what is new and what comes back, while both wait.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import exp, inf, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..hosts.host import HostState, host_of_page
from ..store import keys, records
from ..store.keys import State
from ..store.records import COMES_BACK
from .policy import CERTAINLY_STALE, HALVINGS, SMALL, Adaptive, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import Page, Visits
    from .plans import LearntChangeRates, Plan, Plans, RevisitRule

if TYPE_CHECKING:
    Floats = NDArray[np.float64]


class Sample(NamedTuple):
    """Pages that stand for all pages that come back: one number each of the same length.

    ``hosts`` are small numbers, ``stands_for`` how many pages each of them stands for.
    """

    weights: Floats
    rates: Floats
    recall: Floats
    hosts: NDArray[np.int64]
    stands_for: float = 1.0

    def of_host(self, host: int) -> Sample:
        """The pages of the host with that number alone, as a sample; O(pages)."""
        mine = self.hosts == host
        return Sample(
            self.weights[mine], self.rates[mine], self.recall[mine], self.hosts[mine], self.stands_for
        )


def sample_of(
    pages: Sequence[tuple[float, float, float, str]], stands_for: float
) -> tuple[Sample, list[str]]:
    """Pages, each its weight, rate, recall of its hints and host, as a sample; and the names of its hosts
    by their numbers."""
    weights, rates, recall, hosts = zip(*pages, strict=True)
    names = {name: number for number, name in enumerate(dict.fromkeys(hosts))}
    numbers = np.array([names[name] for name in hosts], np.int64)
    return Sample(np.array(weights), np.array(rates), np.array(recall), numbers, stands_for), list(names)


def limits_of(sample: Sample, limits: Sequence[float], few: int) -> Floats:
    """*limits* (visits a second) by number of the host; infinite for hosts of which there are fewer than
    *few* pages: these say nothing yet."""
    counts = np.bincount(sample.hosts, minlength=len(limits))
    found: Floats = np.where(counts < few, inf, np.array(limits))
    return found


def visits_wanted(sample: Sample, multiplier: float, bounds: Bounds) -> Floats:
    """Visits a second that each page of *sample* asks for at *multiplier*, times the pages it stands for; an
    array, page by page. 2 us a page."""
    spans = np.clip(_best_spans(sample, multiplier), bounds.shortest, bounds.longest)
    # A change that is hinted at ends a span early, where it is worth a visit at all.
    hints = np.where(sample.weights > multiplier * sample.rates, sample.recall, 0.0) * sample.rates
    with np.errstate(divide="ignore", invalid="ignore"):
        early = hints / -np.expm1(-hints * spans)
        is_hinted = (hints > 0.0) & (hints * spans > SMALL)
        wanted: Floats = np.where(is_hinted, early, 1.0 / spans) * sample.stands_for
    return wanted


def _best_spans(sample: Sample, multiplier: float) -> Floats:
    """`best_span` of every page of *sample*."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        wanted = np.where(sample.weights > 0.0, multiplier * sample.rates / sample.weights, inf)
    recall = np.maximum(sample.recall, SMALL / 10)
    low, high = np.zeros_like(recall), CERTAINLY_STALE / (1.0 - recall)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        fresh = np.exp(-middle)
        silent = (np.exp((recall - 1.0) * middle) - fresh) / recall
        reached = np.where(middle < SMALL, (1.0 - recall) * middle * middle / 2.0, 1.0 - fresh - silent)
        is_low = reached < wanted
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    reached = np.where(wanted < SMALL * SMALL / 2.0, np.sqrt(2.0 * wanted / (1.0 - recall)), high)
    spans: Floats = np.where(wanted < 1.0, reached / sample.rates, inf)
    return spans


def for_all(sample: Sample, budget: float, bounds: Bounds, limits: Floats) -> tuple[float, list[int]]:
    """The multiplier at which *sample* asks for *budget* visits a second, and the hosts that may not be asked
    that often: theirs is `of_limit`.

    *limits*: visits a second by number of the host. What a host may not use others get. Where the budget is
    too small even for the longest spans the largest multiplier there is, where it is too large 0. Some 0.1 s
    for 4,000 pages, and some ms for each host at its limit.
    """

    def by_host(multiplier: float) -> Floats:
        wanted = visits_wanted(sample, multiplier, bounds)
        summed: Floats = np.bincount(sample.hosts, wanted, minlength=len(limits)).astype(np.float64)
        return summed

    found = _root(lambda multiplier: float(np.minimum(by_host(multiplier), limits).sum()), budget, sample)
    return found, np.flatnonzero(by_host(found) > limits).tolist()


def of_limit(sample: Sample, limit: float, bounds: Bounds) -> float:
    """The multiplier at which *sample*, the pages of one host, asks for *limit* visits a second: the largest
    there is where even by that it asks for more, 0 where it never asks for as many. Some ms."""
    return _root(lambda multiplier: float(visits_wanted(sample, multiplier, bounds).sum()), limit, sample)


_DEEPEST = 1e-12  # of the largest multiplier: less is as good as none


def _root(asked: Callable[[float], float], budget: float, sample: Sample) -> float:
    """The multiplier at which *asked*, which falls with it, is *budget*: the largest of *sample* at most."""
    most = float((sample.weights / sample.rates).max())
    if most <= 0.0 or asked(most) >= budget:
        return max(most, 0.0)
    if asked(most * _DEEPEST) <= budget:
        return 0.0
    low, high = log(most * _DEEPEST), log(most)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if asked(exp(middle)) > budget:
            low = middle
        else:
            high = middle
        if high - low < 1e-3:
            break
    return exp(high)


_AHEAD = 8.0  # hubs that may come before all others at once
_MOST = 4.0  # visits that one of the two may be behind
_LOOKED_AT = 16  # hosts for one turn
_FIND_AGAIN = 256  # turns until the hosts in memory are looked through once more


class HubShare:
    """Lets hubs come before all others that are due, whatever they are worth, no more of these than their
    *share*: the others have the place that their worth gives them."""

    def __init__(self, share: float) -> None:
        self._gain = share / (1.0 - share) if share < 1.0 else inf
        self._ahead = _AHEAD if share else 0.0

    def let_in(self, is_hub: bool) -> bool:
        """Whether the next page that is due comes first: only a hub does, while its kind has a place saved.
        Every other page saves it share / (1 - share) of one, 8 at most; they begin with 8, without a
        share with none. Counts the page."""
        if not is_hub:
            self._ahead = min(self._ahead + self._gain, _AHEAD)
            return False
        is_let_in = self._ahead >= 1.0
        self._ahead -= is_let_in
        return is_let_in


class RevisitShare:
    """Gives pages that come back their *share* of the visits, over all and on each host that has both: they
    stand in the queues behind all that is new, and are taken out of turn.

    ``credit`` counts the visits they are behind.
    """

    def __init__(self, batch: Batch, hosts: Hosts, share: float) -> None:
        self._batch = batch
        self._hosts = hosts
        self._share = share
        self.credit = 0.0
        self._own: dict[str, float] = {}  # of hosts that have both
        self._before: tuple[float, str, float | None] = 0.0, "", None  # the last hand-out
        self._line: dict[str, None] = {}  # hosts with such pages, whose turn comes next first
        self._unasked = 0  # turns until the line is made anew

    def joins(self, host: Host) -> None:
        """A page of *host* that came back is queued: the host has its turn behind the others that have such
        pages."""
        self._line.setdefault(host.name)

    def handed_out(self, host: Host, sort_key: bytes) -> None:
        """A page is handed out, of whichever kind: count it, while both kinds wait, against the share of its
        own."""
        counts = self._batch.counts
        gain = self._share - sort_key.startswith(COMES_BACK)
        self._before = self.credit, host.name, self._own.get(host.name)
        if 0 < counts.queued_again < counts.states[State.QUEUED]:
            self.credit = min(max(self.credit + gain, -_MOST), _MOST)
        if 0 < host.queued_again < host.queued:
            own = self._own.get(host.name, 0.0)
            self._own[host.name] = min(max(own + gain, -_MOST), _MOST)
        elif self._own:
            self._own.pop(host.name, None)

    def taken_back(self) -> None:
        """The page handed out last was none after all: what was counted for it goes back."""
        self.credit, name, own = self._before
        if own is not None:
            self._own[name] = own
        else:
            self._own.pop(name, None)

    def turn(self, otherwise: Host) -> tuple[Host, bytes | None]:
        """If it is their turn, a host that may be asked for a page that came back and the sort key of its
        best; else *otherwise*, for its best of all. Some 16 hosts are looked at, one seek each."""
        if self.credit < 1.0:
            return otherwise, None
        if not self._line:
            self._find()
        for _ in range(min(_LOOKED_AT, len(self._line))):
            name = next(iter(self._line))
            del self._line[name]
            host = self._hosts.find(name)
            if host is None or not host.queued_again:
                self._own.pop(name, None)
                continue
            self._line[name] = None
            if host.state is not HostState.READY or not host.heads:
                continue
            if self._hosts.is_over_rate(host):
                continue
            if not host.heads[0].startswith(COMES_BACK) and self._own.get(name, 0.0) < 1.0:
                continue
            sort_key = self._best_of(host)
            if sort_key is not None:
                return host, sort_key
        return otherwise, None

    def _find(self) -> None:
        """Those that earlier runs left."""
        self._unasked -= 1
        if self._unasked < 0 and self._batch.counts.queued_again:
            self._unasked = _FIND_AGAIN
            self._line = {name: None for name, host in self._hosts.by_name.items() if host.queued_again}

    def _best_of(self, host: Host) -> bytes | None:
        batch = self._batch
        for sort_key in self._batch.store.keys_of(host.prefix, COMES_BACK, 1 + len(host.leased) + batch.ends):
            # Its end may not be written yet.
            is_there = batch.rows.get(host.prefix + sort_key, b"") is not None
            if is_there and sort_key not in host.leased:
                return sort_key
        return None


SAMPLE = 1024  # pages: to solve for them takes 20 ms
DRAWS = 4 * SAMPLE  # at most, where few pages come back
_AT_A_TIME = 10  # pages a step, 20 us each
_EVERY = 3600.0  # seconds between two solutions
_FEW = 4  # pages in the sample that say nothing yet of their host
_BEHIND = 0.05  # share of what comes back that is due and was not visited
_FADING = 30 * 86400.0  # seconds


class Opened(NamedTuple):
    """Seconds the crawl was ``running``, of those that passed on the ``wall``, the older the fainter; and
    when this was noted (POSIX seconds, 0: never)."""

    running: float = 0.0
    wall: float = 0.0
    noted: float = 0.0

    @property
    def share(self) -> float:
        """The share of the time in which a host could be asked, 0 to 1."""
        return self.running / self.wall if self.wall > 0.0 else 1.0


def went_on(opened: Opened, now: float, is_running: bool = True) -> Opened:
    """*opened* at *now* (POSIX seconds), the crawl running since or not. A clock that was set back costs
    nothing."""
    passed = max(now - opened.noted, 0.0) if opened.noted else 0.0
    kept = exp(-passed / _FADING)
    return Opened(kept * opened.running + passed * is_running, kept * opened.wall + passed, now)


_Drawn = tuple[float, float, float, str]  # a page of the sample: its weight, rate, recall and host


@dataclass(eq=False, repr=False)
class RevisitBudget:
    """When pages come back by *rule*, which *plans* leave free to; *rates* say what is known of them.

    Owns the row of when the crawl was running. ``hosts`` are the multipliers of those at their limit.
    """

    _batch: Batch
    _score_of: Callable[[PageId], float | None]
    _rule: RevisitRule
    _plans: Plans
    _rates: LearntChangeRates
    _opened_at: float
    hosts: dict[str, float] = field(default_factory=dict, init=False)
    _sample: list[_Drawn] | None = field(default=None, init=False)  # while it is drawn
    # Hosts whose own multiplier is not solved yet.
    _left: list[tuple[str, Sample, float]] = field(default_factory=list, init=False)
    _drawn = 0
    _solved_at = -inf

    def __post_init__(self) -> None:
        # One of its own: by the frontier's the pauses drawn would depend on the pages of the sample.
        self._rng = random.Random(0)  # noqa: S311 - draws a sample, guards nothing
        rule, opened_at, stored = self._rule, self._opened_at, self._batch.store.get(keys.OPENED)
        opened = Opened(*records.decode_opened(stored))
        counts, before = self._batch.counts, opened.noted
        # A pause counts where it left something undone: who had visited all that was due had time enough.
        if counts.queued_again > _BEHIND * (counts.queued_again + counts.due):
            opened = went_on(opened, opened_at, is_running=False)
        self._bounds = rule.bounds
        if not rule.waits:  # a page is visited once a run: what is planned for between two of them is lost
            since = opened_at - before if before else inf
            shortest = max(rule.bounds.shortest, min(since, rule.shelf_life, rule.bounds.longest))
            self._bounds = rule.bounds._replace(shortest=shortest)
        self._opened = opened._replace(noted=opened_at)

    def note(self, now: float) -> None:
        """The crawl is running at *now*: have the open batch say so; by "adaptive" only."""
        if self._rates.is_adaptive:
            self._opened = went_on(self._opened, now)
            self._batch.rows[keys.OPENED] = records.encode_opened(*self._opened)

    # -- when ------------------------------------------------------------------------------------------

    def plan(self, page_id: PageId, page: Page, host: str, visits: Visits, weight: float) -> Plan:
        """When a page of *host* comes back: as its plan says, or after the span with which a visit is worth
        what it costs, unless somebody named one. *weight* is 1 for an average page."""
        plan, policy = self._plans.of(page_id, page), self._policy(host)
        if policy is None or plan.is_fixed or plan.span == inf:
            return plan
        recall = self._rates.hints_of(page).recall
        return plan._replace(span=policy.span(weight, self._rates.rate_of(host, visits), recall))

    def is_due_by_hint(self, host: str, page: Page, visits: Visits, weight: float, now: float) -> bool:
        """Whether a sitemap that tells of a change makes the page due: one to be trusted, if a visit is
        worth it."""
        hints, policy = self._rates.hints_of(page), self._policy(host)
        if policy is None or not hints.is_trusted or self._plans.of(0, page).is_fixed:
            return hints.is_trusted
        rate = self._rates.rate_of(host, visits)
        return policy.is_due_by_hint(weight, rate, hints.precision, now - visits.last)

    def _policy(self, host: str) -> Adaptive | None:
        rates = self._rates
        if not rates.is_adaptive or not rates.multiplier:
            return None
        return Adaptive(self.hosts.get(host, rates.multiplier), self._bounds)

    # -- what it costs ---------------------------------------------------------------------------------

    def is_due(self, now: float) -> bool:
        """Whether there is a step to take at *now*: a sample is being drawn, a host is to be solved, or an
        hour has passed. O(1)."""
        if not self._rates.is_adaptive:
            return False
        return self._sample is not None or bool(self._left) or now - self._solved_at >= _EVERY

    def step(self, now: float) -> None:
        """Draw some pages more, or solve once there are enough, 20 ms, and then for one host more."""
        if self._left:
            self._solve_one()
            return
        pages = self._batch.counts.next_page
        if self._sample is None:
            self._sample, self._drawn = [], 0
            self.note(now)
        for _ in range(min(_AT_A_TIME, pages)):
            self._draw(self._rng.randrange(pages))
        if len(self._sample) >= SAMPLE or self._drawn >= min(DRAWS, 4 * pages):
            self._solve(now)

    def _draw(self, page_id: PageId) -> None:
        self._drawn += 1
        page, rates = self._plans.page_of(page_id), self._rates
        visits = None if page is None else page.visits
        if page is None or visits is None or not visits.due or self._sample is None:
            return
        plan = self._plans.of(page_id, page)
        if plan.is_fixed or plan.span == inf:
            return
        host = host_of_page(page)
        rate, recall = rates.rate_of(host, visits), rates.hints_of(page).recall
        self._sample.append((self._weight(page_id, visits), rate, recall, host))

    def _weight(self, page_id: PageId, visits: Visits) -> float:
        """0 where nobody knows: of a page in a queue, in a crawl that scores none."""
        score = self._score_of(page_id)
        if score is not None:
            return score
        key = records.due_key(visits.due, page_id)  # there is none of a page in a queue
        return keys.score_of(records.decode_due(key, self._batch.store.get(key) or b"").weight)

    def _solve(self, now: float) -> None:
        from statistics import median

        drawn, self._sample, self._solved_at = self._sample, None, now
        if not drawn or self._rule.shelf_life == inf:
            return
        # Draws may meet a page twice: of a small crawl more than all of it.
        stands_for = self._batch.counts.next_page / self._drawn
        budget = len(drawn) * stands_for / self._rule.shelf_life
        usual = median([weight for weight, *_ in drawn if weight] or [1.0])
        drawn = [(weight or usual, rate, recall, host) for weight, rate, recall, host in drawn]
        sample, names = sample_of(drawn, stands_for)
        limits = limits_of(sample, [self._limit(name) for name in names], _FEW)
        found, at_limit = for_all(sample, budget, self._bounds, limits)
        limited = {names[each] for each in at_limit}
        self.hosts = {name: was for name, was in self.hosts.items() if name in limited}
        self._left = [(names[each], sample.of_host(each), float(limits[each])) for each in at_limit]
        self._rates.put_multiplier(found)
        self._rates.keep()

    def _limit(self, host: str) -> float:
        """Visits a second that *host* allows."""
        delay = self._rates.delay_of(host)
        return self._opened.share / delay if delay > 0.0 else inf

    def _solve_one(self) -> None:

        host, sample, limit = self._left.pop()
        found = self.hosts[host] = of_limit(sample, limit, self._bounds)
        # Where all are at their limit no budget is large enough; a host nobody drew is asked like these.
        self._rates.put_multiplier(self._rates.multiplier or found)
