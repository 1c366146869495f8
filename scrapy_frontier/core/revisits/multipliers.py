"""What a crawl can afford: the multiplier at which all pages together ask for what can be fetched.

The spans of `crawl_value.best_span` for many pages at once, a sample of all, and the one multiplier, with
larger ones for hosts that may not be asked that often, at which they add up to a budget. Loads NumPy.
"""

from __future__ import annotations

from math import exp, inf, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .crawl_value import CERTAINLY_STALE, HALVINGS, SMALL, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

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
