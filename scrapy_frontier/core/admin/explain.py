"""Explains in one sentence why a page is in its state, and what it waits for.

`gather` reads the store into `Facts`; all other functions are pure, and return text, one for each state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..errors import moment, span
from ..hosts.host import OPERATOR, host_of_page
from ..hosts.robots_policy import robots_status
from ..pages.traps import DEEP_PATH, LONG_URL, REPEATED_RUN, trap
from ..parse.urls import origin_of
from ..revisits.change_rates import likeliest_rate
from ..store import queue_keys, records
from ..store.keys import FINISHED, State
from .facts import find_host, redirects_of, robots_copy
from .focus import expectation

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..pages.traps import TrapLimits
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.records import Page
    from .facts import HostView, PauseOf, Trail

BY_FIND = "`scrapy frontier find` lists what was requested otherwise, by POST say."
_NO_REASON = "no reason was kept"
FAR = 10_000  # pages of its host before it; more are not counted


class Facts(NamedTuple):
    """All that explains the state of a page: ``place`` is its place in a queue, ``redirects`` the pages it
    led to; ``leased_at`` is when a running crawl began to fetch it (POSIX seconds)."""

    page: Page
    host: HostView
    place: queue_keys.QueuePlace | None
    redirects: Trail
    max_attempts: int
    now: float
    robots: records.RobotsCopy | None
    agent: str
    expected: str = ""  # what `expectation` says of a queued page
    leased_at: float | None = None


def gather(
    store: Store,
    page_id: PageId,
    page: Page,
    pause_of: PauseOf,
    max_attempts: int,
    now: float,
    agent: str,
    far: int,
) -> Facts:
    """Read the facts of a page; looks at most at *far* rows of the queue of its host. *agent* is the user
    agent for robots.txt, empty if that is not obeyed."""
    name = host_of_page(page)
    is_queued = page.state is State.QUEUED or page.is_due
    place = queue_keys.find_place(store, page_id, name, far) if is_queued else None
    host = find_host(store, name, pause_of, now)
    redirects = redirects_of(store, page)
    robots = robots_copy(store, page.url) if agent else None
    expected = "" if place is None or place.is_far else expectation(store, page, place)
    return Facts(page, host, place, redirects, max_attempts, now, robots, agent, expected)


def why(facts: Facts) -> str:
    """Return a sentence on the state of the page, and another if it comes back."""
    if facts.leased_at is not None:
        for_how_long, attempt = span(max(facts.now - facts.leased_at, 0.0)), facts.page.attempts + 1
        return f"It is being fetched, for {for_how_long} now: attempt {attempt} of {facts.max_attempts}."
    page, now, sentence = facts.page, facts.now, _SENTENCES[facts.page.state](facts)
    due = _when_due(page.visits, now)
    if page.state not in FINISHED or page.visits is None or not due:
        return sentence
    if page.visits.due <= now and (held := _held(facts)):
        due = f"{due[:-1]}, {held}."
    elif facts.place is not None:
        due = f"{due[:-1]}: {_turn(facts, facts.place)}, {_clock(facts)}."
    return f"{sentence} {due}"


def why_unknown(url: str, limits: TrapLimits) -> str:
    """Return a sentence on an unknown *url*: it looks like a trap, or no link to it was accepted."""
    traps = {
        LONG_URL: f"it is longer than URLLENGTH_LIMIT = {limits.length}",
        DEEP_PATH: f"its path has more than {limits.depth} segments; FRONTIER_TRAPS is on",
        REPEATED_RUN: f"its path repeats itself {limits.repeats} times; FRONTIER_TRAPS is on",
    }
    if (kind := trap(url, limits)) is not None:
        return f"It is not known, and links to it are refused, because it looks like a trap: {traps[kind]}."
    return f"No plain GET of it is known: no link to it was accepted, and it is no seed. {BY_FIND}"


def why_unreadable(page_id: PageId) -> str:
    """Return a sentence on a page whose row does not decode."""
    return f"Its record (page {page_id}) cannot be read: `scrapy frontier check --repair` mends it."


# -- one function a state ----------------------------------------------------------------------------------


def _queued(facts: Facts) -> str:
    place = facts.place
    if facts.page.is_in_memory:
        return "It is queued, but its request could not be stored: it ends with the crawl that has it."
    if place is None:
        return "It is queued, but no queue has it: `scrapy frontier check --repair` mends that."
    if held := _held(facts):
        return f"It is queued, {held}."
    attempt = f"attempt {facts.page.attempts + 1} of {facts.max_attempts}"
    if facts.page.reason:
        attempt += f", because the last one ended with: {facts.page.reason}"
    until = _backoff_end(facts, place)
    if until > facts.host.ready_at:
        return f"It waits until {moment(until)} (in {span(until - facts.now)}) for {attempt}."
    again = f"; this will be {attempt}" if facts.page.attempts or until else ""
    expected = f" {facts.expected}" if facts.expected else ""
    return f"It is queued: {_turn(facts, place)}, {_clock(facts)}{again}.{expected}"


def _held(facts: Facts) -> str:
    """Return what keeps the page from being fetched although its turn comes; empty if nothing does."""
    host = facts.host
    if host.blocked is not None:
        return (
            f"but {host.host} is blocked: no page of it is fetched until "
            f"`scrapy frontier unblock {host.host}`"
        )
    if facts.robots is not None and (asked := _asked(facts, facts.robots)):
        return f"but robots.txt of {origin_of(facts.page.url)} {asked}"
    return ""


def _asked(facts: Facts, copy: records.RobotsCopy) -> str:
    """Return why robots.txt keeps a queued page from being fetched; empty if it does not."""
    now = facts.now
    found = robots_status(copy, now, facts.agent)
    if found.verdict is records.Verdict.POSTPONE:
        answer = f"HTTP {copy.status}" if copy.status else "no answer"
        times = f"{copy.failures} time{'s' if copy.failures > 1 else ''}"
        again = "when a crawl runs"
        if copy.ask_at > now:
            again = f"at {moment(copy.ask_at)} (in {span(copy.ask_at - now)})"
        return (
            f"has not been readable since {moment(copy.failing_since)} ({answer}, asked {times}): no page is "
            f"fetched before it is, and it is requested again {again}"
        )
    if (opens := found.held_until(now)) > now:
        return f"asks for other hours: they begin at {moment(opens)} (in {span(opens - now)})"
    if not found.rules.allowed(facts.page.url):
        return f"forbids it ({found.rules.where(facts.page.url)}): it is excluded when its turn comes"
    return ""


def _turn(facts: Facts, place: queue_keys.QueuePlace) -> str:
    ahead, name = place.ahead, facts.host.host or "its host"
    if until := _backoff_end(facts, place):
        return f"its backoff ends at {moment(until)} (in {span(until - facts.now)})"
    if not ahead:
        return f"it is the next page of {name}"
    return f"{'more than ' * place.is_far}{ahead:,} of the pages of {name} come before it"


def _backoff_end(facts: Facts, place: queue_keys.QueuePlace) -> float:
    """Return the end of its backoff (POSIX seconds); 0 if it has none, or that has passed."""
    until, now = place.waits_until or 0.0, facts.now
    return until if now < until else 0.0


def _clock(facts: Facts) -> str:
    host = facts.host
    if host.cooling_until > facts.now:
        until = f"{moment(host.cooling_until)} (in {span(host.cooling_until - facts.now)})"
        return f"but {host.host} rests until {until} after strike {host.strikes}: {host.trouble}"
    if host.ready_at > facts.now:
        return (
            f"and the host may be visited again in {span(host.ready_at - facts.now)} "
            f"(delay {span(host.delay)}, {_source(host)})"
        )
    if host.delay:
        return f"and the host may be visited now, then every {span(host.delay)} ({_source(host)})"
    return "and the host may be visited now"


def _source(host: HostView) -> str:
    return "set by the operator" if host.delay_from == OPERATOR else f"by {host.delay_from}"


def _done(facts: Facts) -> str:
    page = facts.page
    status = f" with HTTP {page.status}" if page.status else ""
    notes = f"; {page.reason}" if page.reason else ""
    visits = page.visits
    if visits is None or visits.visits < 2:
        return f"It was fetched on {_when(page)}{status}, at attempt {max(page.attempts, 1)}{notes}."
    last = f"visited {visits.visits:,} times, last on {moment(visits.last)}{status}"
    return f"It was {last}, and {_how_often(visits)}{notes}."


def _redirected(facts: Facts) -> str:
    page, steps = facts.page, facts.redirects
    if not steps:
        return f"It was redirected on {_when(page)}: {page.reason or _NO_REASON}."
    led = ", which led to ".join(step.url if step else "a page that was forgotten" for step in steps)
    end = f", which is {steps[-1].state.name.lower()}" if steps[-1] else ""
    return f"It led on {_when(page)} to {led}{end}."


def _gone(facts: Facts) -> str:
    page = facts.page
    return f"The server said on {_when(page)} that it does not exist: {page.reason or _NO_REASON}."


def _failed(facts: Facts) -> str:
    page = facts.page
    return f"It failed on {_when(page)}, at attempt {max(page.attempts, 1)}: {page.reason or _NO_REASON}."


def _excluded(facts: Facts) -> str:
    page = facts.page
    return f"It must not be fetched, as was found on {_when(page)}: {page.reason or _NO_REASON}."


def _seen(facts: Facts) -> str:
    reason = facts.page.reason or _NO_REASON
    if facts.page.is_deferred:
        return f"It has waited since {_when(facts.page)} and is not queued: {reason}."
    if reasons.OUT_OF_SCOPE.read(reason) is not None:
        reason = (
            "pages link to it, but the spider follows none of these links, or a filter drops them (allowed "
            "domains, a depth limit, a middleware)"
        )
    return f"It is known but not queued: {reason}."


_SENTENCES: dict[State, Callable[[Facts], str]] = {
    State.SEEN: _seen,
    State.QUEUED: _queued,
    State.LEASED: _queued,  # which is never stored
    State.DONE: _done,
    State.REDIRECTED: _redirected,
    State.GONE: _gone,
    State.FAILED: _failed,
    State.EXCLUDED: _excluded,
}


# -- times in words ----------------------------------------------------------------------------------------


def _when(page: Page) -> str:
    return moment(page.changed) if page.changed else "an unknown day"


def _how_often(visits: records.Visits) -> str:
    """Return how often a page changes, from its second visit on: ``changes about every 9 days, seen 4 of 31
    visits``."""
    if not visits.history.changes:
        return f"no change seen in {visits.visits:,} visits"
    interval = 1.0 / max(likeliest_rate(visits.history), 1e-12)
    return f"changes about every {span(interval)}, seen {visits.changes:,} of {visits.visits:,} visits"


def _when_due(visits: records.Visits | None, now: float) -> str:
    """Return in a sentence when a page comes back, seen from *now* (POSIX seconds); empty if it does not."""
    if visits is None or not visits.due:
        return ""
    if visits.is_queued:
        return "It is due, and queued again."
    if visits.due <= now:
        return f"It has been due since {moment(visits.due)}: the next crawl that comes back fetches it."
    return f"It comes back on {moment(visits.due)} (in {span(visits.due - now)})."
