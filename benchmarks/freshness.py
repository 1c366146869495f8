"""How fresh is a collection kept that comes back to its pages, and how fresh could it be?

    python benchmarks/freshness.py [--seeds 1-5] [--sigmas 1.0,1.3,1.6] [--only plain,limits] [--jobs 2]

3,000 pages on 60 hosts; how often a page changes is log-normal with a mean of 0.58 a day, its importance goes
with the power -0.6 of its rank; 0.35 visits a page and day, 120 days. Which changes come when is the same for
all policies. What is counted is the share of the importance that is fresh after the first third. "optimum"
knows the true rates, and fetches at any time the page with the largest crawl value. "frontier" is the
project's own policy, with what visits have shown it: `change_rates` and `policy`, whose multiplier follows
the visits that were made. "index" is that without due times, all judged anew every half hour: what due times
cost.

Worlds: `plain`; `swap`, in which all pages change their rates among each other on day 60; `limits`, in which
one host in ten may be asked but a third as often as the others; `hints`, in which half of the hosts tell of
95 % of their changes in a sitemap that is read once a day, and falsely now and then, and a quarter stamps now
on everything every day; "optimum" knows how far each is to be trusted.

The exit code is 0 where the frontier is above all other policies, and in all but `swap` keeps at least .98 of
the optimum.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from math import inf, log
from statistics import mean

import numpy as np

from scrapy_frontier.core.revisits import change_rates
from scrapy_frontier.core.revisits import policy as revisit_policy
from scrapy_frontier.core.revisits.change_rates import HintAccuracy
from scrapy_frontier.core.revisits.policy import Bounds

DAY = 86400.0
PAGES, HOSTS, DAYS, MEAN, BUDGET = 3000, 60, 120, 0.58, 0.35
STEP = 1 / 48  # days
FIRST = DAYS / 3  # what comes before is not counted
WORLDS = ("plain", "swap", "limits", "hints")
LEAST = 0.98
SHELF_LIFE = DAY / BUDGET  # seconds

TOLD, FALSE_ALARMS = 0.95, 0.02  # of the changes; a page and day


class World:
    """When pages change, and what sitemaps say of it. Times in days."""

    def __init__(self, kind: str, seed: int, sigma: float) -> None:
        rng = np.random.default_rng(seed)
        self.kind = kind
        self.hosts = np.arange(PAGES) % HOSTS
        self.rates = np.exp(log(MEAN) - sigma**2 / 2 + sigma * rng.standard_normal(PAGES))
        self.weights = (rng.permutation(PAGES) + 1.0) ** -0.6
        self.weights /= self.weights.mean()
        later = self.rates[rng.permutation(PAGES)] if kind == "swap" else self.rates
        self.halves = (self.rates, later)
        pages, times = self._changes(rng)
        self._flat = np.sort(np.concatenate([pages * 1000.0 + times, np.arange(PAGES) * 1000.0 + 999]))
        self.limits = np.full(HOSTS, inf)  # visits a day
        if kind == "limits":
            self.limits[::10] = BUDGET * PAGES / HOSTS / 3
        self.limited = np.flatnonzero(self.limits < inf)
        kinds = np.array(["honest", "lying", "honest", "silent"])[np.arange(HOSTS) % 4]
        self.honest = (kinds == "honest")[self.hosts] & (kind == "hints")
        self.lying = (kinds == "lying")[self.hosts] & (kind == "hints")
        self._hints = self._tell(rng, pages, times)

    def _changes(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        pages, times = [], []
        for half, rates in enumerate(self.halves):
            counts = rng.poisson(rates * DAYS / 2)
            pages.append(np.repeat(np.arange(PAGES), counts))
            times.append((half + rng.random(counts.sum())) * DAYS / 2)
        return np.concatenate(pages), np.concatenate(times)

    def _tell(self, rng: np.random.Generator, pages: np.ndarray, times: np.ndarray) -> dict[int, np.ndarray]:
        """Which pages the sitemaps name in which step: each is read once a day."""
        if self.kind != "hints":
            return {}
        told = self.honest[pages] & (rng.random(len(pages)) < TOLD)
        alarms = np.repeat(np.arange(PAGES), rng.poisson(FALSE_ALARMS * DAYS, PAGES) * self.honest)
        false_304s = np.repeat(np.flatnonzero(self.lying), DAYS)
        named = np.concatenate([pages[told], alarms, false_304s])
        when = [times[told], rng.random(len(alarms)) * DAYS, np.tile(np.arange(DAYS), self.lying.sum())]
        offsets = self.hosts[named] / HOSTS
        read = np.ceil(np.concatenate(when) - offsets) + offsets
        steps = np.ceil(read / STEP).astype(int)
        order = np.argsort(steps, kind="stable")
        edges = np.flatnonzero(np.diff(steps[order])) + 1
        groups = np.split(named[order], edges)
        return {int(steps[order][start]): group for start, group in zip([0, *edges], groups, strict=True)}

    def next_changes(self, pages: np.ndarray, times: np.ndarray | float) -> np.ndarray:
        places = np.searchsorted(self._flat, pages * 1000.0 + times, side="right")
        return self._flat[places] - pages * 1000.0

    def rates_at(self, day: float) -> np.ndarray:
        return self.halves[day > DAYS / 2]

    def hinted(self, step: int) -> np.ndarray:
        return self._hints.get(step, np.zeros(0, int))


class Policy:
    """Says what each page is worth now; what is worth more is fetched first, -inf is not fetched."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.visited = np.zeros(PAGES)
        self.hinted_at = np.full(PAGES, inf)  # when a sitemap told of it first since its last visit

    def values(self, now: float) -> np.ndarray:
        raise NotImplementedError

    def on_hints(self, pages: np.ndarray, now: float) -> None:
        self.hinted_at[pages] = np.minimum(self.hinted_at[pages], now)

    def saw(self, pages: np.ndarray, now: float, has_changed: np.ndarray) -> None:
        self.visited[pages] = now
        self.hinted_at[pages] = inf


def values_of(rates: np.ndarray, weights: np.ndarray, ages: np.ndarray, recall: np.ndarray) -> np.ndarray:
    """The crawl value, written down once more."""
    changes = rates * ages
    plain = 1 - np.exp(-changes) * (1 + changes)
    share = np.maximum(recall, 1e-9)
    with_hints = 1 - np.exp(-changes) - (np.exp((share - 1) * changes) - np.exp(-changes)) / share
    return weights / rates * np.where(recall > 0, with_hints, plain)


class Optimum(Policy):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.share = np.where(world.honest, TOLD, 0.0)
        self.precision = TOLD * world.rates / (TOLD * world.rates + FALSE_ALARMS)

    def values(self, now: float) -> np.ndarray:
        world, rates = self.world, self.world.rates_at(now)
        found = values_of(rates, world.weights, now - self.visited, self.share)
        is_hinted = (self.hinted_at < inf) & world.honest
        return np.where(is_hinted, np.maximum(found, self.precision * world.weights / rates), found)


class Uniform(Policy):
    def values(self, now: float) -> np.ndarray:
        return now - self.visited


class Proportional(Policy):
    """As often as it changes, by the true rates."""

    def values(self, now: float) -> np.ndarray:
        return (now - self.visited) * self.world.rates_at(now)


class Multiplied(Policy):
    """Spans that shrink where a page changed and grow where it did not; the longest due first."""

    shrink, grow, shortest, longest = 0.8, 1.4, 60 / DAY, 365.0

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.spans = np.full(PAGES, 1 / BUDGET)

    def values(self, now: float) -> np.ndarray:
        return now - self.visited - self.spans

    def saw(self, pages: np.ndarray, now: float, has_changed: np.ndarray) -> None:
        super().saw(pages, now, has_changed)
        spans = self.changed(self.spans[pages], has_changed)
        self.spans[pages] = np.clip(spans, self.shortest, self.longest)

    def changed(self, spans: np.ndarray, has_changed: np.ndarray) -> np.ndarray:
        return spans * np.where(has_changed, self.shrink, self.grow)


class Nutch(Multiplied):
    """Its adaptive schedule as shipped."""


class NutchEven(Multiplied):
    grow = 1.2


class StormCrawler(Multiplied):
    grow, shortest, longest = 1.5, 1 / 24, 14.0

    def changed(self, spans: np.ndarray, has_changed: np.ndarray) -> np.ndarray:
        return np.where(has_changed, 0.5 * spans + 0.5 * self.shortest, spans * self.grow)


class Learning(Policy):
    """What is due by rates that visits have shown, with the project's estimator."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.histories = [change_rates.History()] * PAGES
        self.of_hosts = [change_rates.HostChangeRates()] * HOSTS
        self.everywhere = change_rates.HostChangeRates()
        self.hints = [HintAccuracy()] * HOSTS
        self.rates = np.full(PAGES, 1 / 7.0)  # a shelf life of a week; a day here
        self.due = np.zeros(PAGES)

    def saw(self, pages: np.ndarray, now: float, has_changed: np.ndarray) -> None:
        for page, changed in zip(pages.tolist(), has_changed.tolist(), strict=True):
            self._saw(page, now, changed, float(self.hinted_at[page]))
        super().saw(pages, now, has_changed)
        self.due[pages] = [now + self.span(page) for page in pages.tolist()]

    def _saw(self, page: int, now: float, changed: bool, hinted_at: float) -> None:
        host, unknown = int(self.world.hosts[page]), 1 / (7 * DAY)
        span, is_listed = (now - self.visited[page]) * DAY, self.world.kind == "hints"
        known = change_rates.Known(
            self.histories[page], self.of_hosts[host], self.everywhere, self.hints[host]
        )
        found = change_rates.observed(known, span, changed, is_listed, hinted_at < inf, unknown)
        self.histories[page], self.of_hosts[host], self.everywhere, self.hints[host] = found
        expected = change_rates.expected_rate(found.host, found.everywhere, unknown)
        self.rates[page] = change_rates.rate(found.history, expected) * DAY

    def values(self, now: float) -> np.ndarray:
        found = np.full(PAGES, -inf)
        due = np.flatnonzero(self.due <= now)
        found[due] = [self.value(page, now) for page in due.tolist()]
        return found

    def span(self, page: int) -> float:
        """Days until the page is due."""
        raise NotImplementedError

    def value(self, page: int, now: float) -> float:
        raise NotImplementedError


class Frontier(Learning):
    bounds = Bounds(shortest=1800.0, longest=45 * DAY)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.planned = np.zeros(PAGES)  # seconds from the last visit to the next; 0 before the first one
        self.multiplier, self.revisits = 1.0, 0

    def saw(self, pages: np.ndarray, now: float, has_changed: np.ndarray) -> None:
        elapsed = (now - self.visited[pages]) * DAY
        super().saw(pages, now, has_changed)
        for page, between in zip(pages.tolist(), elapsed.tolist(), strict=True):
            span = self.span(page) * DAY
            if self.planned[page]:
                self.follow(page, between, span)
            self.planned[page] = span

    def follow(self, page: int, between: float, span: float) -> None:
        """As `LearnedRates.came_back`."""
        self.revisits += 1
        if self.revisits <= revisit_policy.FIRST_REVISITS:
            weight, share = self.world.weights[page], 1.0 / self.revisits
            value = revisit_policy.crawl_value(weight, self.rates[page] / DAY, SHELF_LIFE)
            first = revisit_policy.FIRST_SHARE * value
            self.multiplier = first**share * self.multiplier ** (1.0 - share)
            return
        about = between, self.planned[page], span, SHELF_LIFE, min(PAGES, self.revisits)
        self.multiplier = revisit_policy.next_multiplier(self.multiplier, *about)

    def span(self, page: int) -> float:
        if not self.revisits:
            return SHELF_LIFE / DAY
        hints, rate = self.hints[self.world.hosts[page]], self.rates[page] / DAY
        best = revisit_policy.best_span(self.world.weights[page], rate, self.multiplier, hints.recall)
        return self.bounds.within(best) / DAY

    def value(self, page: int, now: float) -> float:
        hints = self.hints[self.world.hosts[page]]
        age = (now - self.visited[page]) * DAY
        precision = hints.precision if self.hinted_at[page] < inf else 0.0
        rate = self.rates[page] / DAY
        return revisit_policy.due_value(self.world.weights[page], rate, age, hints.recall, precision)

    def on_hints(self, pages: np.ndarray, now: float) -> None:
        super().on_hints(pages, now)
        for page in pages.tolist():
            host = self.world.hosts[page]
            age, rate = (now - self.visited[page]) * DAY, self.rates[page] / DAY
            weight, precision = self.world.weights[page], self.hints[host].precision
            is_worth = revisit_policy.is_due_by_hint(self.multiplier, weight, rate, precision)
            if is_worth and age >= self.bounds.shortest:
                self.due[page] = min(self.due[page], now)


class Index(Frontier):
    """No due times: every page is judged at every moment."""

    def span(self, page: int) -> float:
        return 0.0

    def values(self, now: float) -> np.ndarray:
        shares = np.array([hints.recall for hints in self.hints])[self.world.hosts]
        precision = np.array([hints.precision for hints in self.hints])[self.world.hosts]
        found = values_of(self.rates, self.world.weights, now - self.visited, shares)
        is_hinted = (self.hinted_at < inf) & (precision >= 0.5)
        return np.where(is_hinted, np.maximum(found, precision * self.world.weights / self.rates), found)


class LambdaCrawl(Learning):
    """Kolobov and others, NeurIPS 2019: no page starves; with the same rates as the frontier."""

    every = 1.0  # days from one solution to the next

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.spans = np.full(PAGES, 1 / BUDGET)
        self.solved = -inf

    def saw(self, pages: np.ndarray, now: float, has_changed: np.ndarray) -> None:
        if now >= self.solved + self.every:
            self.solved = now
            self.solve()
        super().saw(pages, now, has_changed)

    def solve(self) -> None:
        low, high = 1e-9, 1e9
        for _ in range(100):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if self._wanted(middle).sum() > BUDGET * PAGES else (low, middle)
        self.spans = 1 / self._wanted(high)

    def _wanted(self, multiplier: float) -> np.ndarray:
        rates = self.rates
        return (np.sqrt(rates**2 + 4 * self.world.weights * rates / multiplier) - rates) / 2

    def span(self, page: int) -> float:
        return float(self.spans[page])

    def value(self, page: int, now: float) -> float:
        return (now - self.visited[page]) / float(self.spans[page])


POLICIES: dict[str, type[Policy]] = {
    "optimum": Optimum,
    "frontier": Frontier,
    "index": Index,
    "LambdaCrawl": LambdaCrawl,
    "uniform": Uniform,
    "StormCrawler": StormCrawler,
    "Nutch .2/.2": NutchEven,
    "Nutch": Nutch,
    "proportional": Proportional,
}


def run(world: World, policy: Policy) -> tuple[float, float]:
    """Importance that is fresh, and the share of the budget that was used, after the first third."""
    pages, visited = np.arange(PAGES), np.zeros(PAGES)
    changes, fresh, room, made = world.next_changes(pages, 0.0), np.zeros(PAGES), 0.0, 0
    tokens, a_step = np.zeros(HOSTS), BUDGET * PAGES * STEP
    for step in range(1, round(DAYS / STEP) + 1):
        now = step * STEP
        named = world.hinted(step)
        if len(named):
            policy.on_hints(named, now)
        room = min(room + a_step, 5 * a_step)
        tokens[world.limited] = np.minimum(tokens[world.limited] + world.limits[world.limited] * STEP, 2.0)
        chosen = choose(policy.values(now), int(room), world, tokens)
        room -= len(chosen)
        made += len(chosen) * (now > FIRST)
        fresh[chosen] += np.maximum(
            np.minimum(changes[chosen], now) - np.maximum(visited[chosen], FIRST), 0.0
        )
        policy.saw(chosen, now, changes[chosen] <= now)
        visited[chosen] = now
        changes[chosen] = world.next_changes(chosen, now)
    fresh += np.maximum(np.minimum(changes, DAYS) - np.maximum(visited, FIRST), 0.0)
    share = float((fresh * world.weights).sum() / world.weights.sum() / (DAYS - FIRST))
    return share, made / (BUDGET * PAGES * (DAYS - FIRST))


def choose(values: np.ndarray, most: int, world: World, tokens: np.ndarray) -> np.ndarray:
    """The *most* pages that are worth most; of a host with a limit one at a time, and if it may be asked."""
    for host in world.limited.tolist():
        best = host + HOSTS * int(np.argmax(values[host::HOSTS]))
        value, values[host::HOSTS] = values[best], -inf
        if tokens[host] >= 1:
            values[best] = value
    due = np.flatnonzero(values > -inf)
    if len(due) > most:
        due = due[np.argpartition(-values[due], most)[:most]] if most else due[:0]
    np.subtract.at(tokens, world.hosts[due], world.limits[world.hosts[due]] < inf)
    return due


def one(case: tuple[str, int, float, str]) -> tuple[float, float]:
    kind, seed, sigma, name = case
    world = World(kind, seed, sigma)
    return run(world, POLICIES[name](world))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1-5", help="the first and the last")
    parser.add_argument("--sigmas", default="1.0,1.3,1.6")
    parser.add_argument("--only", default=",".join(WORLDS))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    is_good = True
    with ProcessPoolExecutor(options.jobs) as pool:
        for kind in options.only.split(","):
            for sigma in map(float, options.sigmas.split(",")):
                names = options.policies.split(",")
                cases = [(kind, seed, sigma, name) for name in names for seed in seeds]
                found = dict(zip(cases, pool.map(one, cases), strict=True))
                is_good &= tell(kind, sigma, names, list(seeds), found)
    sys.exit(not is_good)


Found = dict[tuple[str, int, float, str], tuple[float, float]]


def tell(kind: str, sigma: float, names: list[str], seeds: list[int], found: Found) -> bool:
    """Print what was found; whether it is as it should be."""
    print(
        f"\n{kind}, sigma {sigma}: share of the importance that is fresh; of the optimum, least; budget used"
    )
    worst = {}
    for name in names:
        runs = [found[kind, seed, sigma, name] for seed in seeds]
        shares = [
            run[0] / found[kind, seed, sigma, "optimum"][0] for seed, run in zip(seeds, runs, strict=True)
        ]
        worst[name] = min(shares)
        fresh = mean(run[0] for run in runs)
        print(f"  {name:13} {fresh:.3f}  {mean(shares):.4f}  {min(shares):.4f}  {runs[0][1]:.3f}", flush=True)
    others = [worst[name] for name in names if name not in ("optimum", "frontier", "index")]
    least = 0.0 if kind == "swap" else LEAST
    return worst.get("frontier", 1.0) >= max([least, *others])


if __name__ == "__main__":
    main()
