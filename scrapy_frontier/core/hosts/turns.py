"""Hosts that sleep: a third of a host is kept of each while thousands of others come before it.

Of a million hosts few are asked soon. A host may sleep that can be asked now, is alone in its domain, has
nothing under way, knows which of its pages comes next, and about which there is nothing else to know than its
row. It keeps the sort keys it has: one that had to read its queue again would take its turn in 90 us instead
of 30. And it keeps its place in the order: its head, and the round in which it is due. Whoever means it wakes
it (`Hosts.find`), and so does its turn.

How fast pages of a domain come: those handed out, each forgotten exponentially, and what follows.

A host that spawns sub-domains without end gets a queue and a clock for each of them; together they take what
many hosts should share. Every hand-out adds one to the recent pages of the registered domain; their number
decays with a time constant of `BURST` / rate, so that at exactly that rate it stays at `BURST`. Above the
soft rate the domain's pages come after those of all others, above the hard rate nothing of it is leased until
enough are forgotten. `order_of_hosts.Turns` has the order; here is the clock that says which domain is at
which level.

Pages are counted at hand-out, in double precision, and in memory only. Of earlier runs it is known when each
host was visited last: then its domain is taken to have had as many as it has at exactly the rate. So a crawl
that starts has no second burst for it, and no run in a row is faster than one.

The host that is asked next, of those that may be: best score first, equals by domain, nobody never.

Registered domains have turns, and `domain` says which of its hosts has one. Of those with a host that may be
asked, none above its rate, the longest overdue is next. Where none is due it is by the first of these in
which they differ (`domain.Offer`):

1. its level (`domain_rates`): above the soft rate after all others, above the hard rate not at all;
2. priority and score of the best page of its hosts;
3. whether it has yet to let others have a turn: a domain of several hosts that had one yields for as many
   hand-outs as there are other domains. As equals of all others, hosts that one domain spawned without end
   had 3,506 of 3,973 requests of a crawl;
4. how many requests to it are under way: fewest first;
5. which of the best pages was found first.

Best first alone would let those with poor pages, or with a retry of a low priority, wait for ever beside one
that has always something better to offer. So age counts too, in virtual time, as in fair queueing (Demers,
Keshav and Shenker, "Analysis and simulation of a fair queueing algorithm", 1989). A *round* is as many
hand-outs as there are domains that may be asked. A domain that had its turn, or may be asked from now on, is
due after `FIRST_ROUNDS`, and as many more for each page it was asked for so far, `MOST_ROUNDS` at the most;
it waits for no more than `MOST_ROUNDS` + 1.

For example, two domains, of which one always has the better page: a round is two hand-outs. The other is due
after 2 rounds and has the 5th hand-out, is due 4 rounds later and has the 14th, then the 27th, the 44th, and
in the end one in 65.

Owns the domains, their heap, and the virtual time. What has become wrong is left in the heaps and skipped
when it surfaces.
"""

from __future__ import annotations

import heapq
import marshal
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from ..store.queue_keys import SCORE_BYTES
from ..store.records import HostRow, decode_host, encode_host
from .host import HEADS, NORMAL, OVER_HARD, OVER_SOFT, READY, Domain, HostState, by_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .host import Host, Member, Offer

BURST = 10  # pages that may come at once before the rate holds
# Between two hand-outs at exactly the rate the number swings half a page around BURST: what waits until it is
# half a page below comes at the rate, 0.1 % slower at most.
_LIMIT = BURST - 0.5
_STEADY = _LIMIT + 1  # right after a hand-out
_FORGOTTEN = 0.5  # pages; a domain with fewer is as good as unknown
_MOMENT = 1e-3  # seconds; the clock's own grain at 1.7e9 would let a domain wait for ever


class DomainRates(NamedTuple):
    """Pages a second of one registered domain, 0 for no limit. Above ``soft`` its pages come after those of
    others, above ``hard`` none comes."""

    soft: float
    hard: float


class RecentPages:
    """The recent pages of a domain by one *rate* (a second, 0: no limit), as of ``since`` (POSIX seconds)."""

    __slots__ = ("rate", "since", "value")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.value = self.since = 0.0

    def at(self, now: float) -> float:
        """How many there are at *now*: those handed out, of which a share is forgotten, 1/e left after
        `BURST` / rate seconds."""
        return self.value * exp(-max(now - self.since, 0.0) * self.rate / BURST)

    def add(self, now: float, pages: float = 1.0) -> None:
        """A page is handed out at *now*; -1: one that was is none after all."""
        if self.rate:
            self.value, self.since = max(self.at(now) + pages, 0.0), max(now, self.since)

    def assume(self, when: float, now: float) -> None:
        """Hand-outs until *when* are not known: there were then as many as at a steady rate, if more."""
        if self.rate and _STEADY * exp(-max(now - when, 0.0) * self.rate / BURST) > self.at(now):
            self.value, self.since = _STEADY, when

    def wait(self, now: float) -> float:
        """Seconds from *now* until the rate is no longer exceeded if no page is handed out; 0 where it is
        not."""
        pages = self.at(now)
        return log(pages / _LIMIT) * BURST / self.rate + _MOMENT if pages > _LIMIT else 0.0


class _Domain:
    """A registered domain, whether it has hosts in memory or not."""

    __slots__ = ("hard", "level", "soft")

    def __init__(self, rates: DomainRates) -> None:
        self.soft, self.hard = RecentPages(rates.soft), RecentPages(rates.hard)
        self.level = NORMAL

    def judge(self, now: float) -> float:
        """Set the level; seconds until it may be another, 0 for `NORMAL`."""
        hard = self.hard.wait(now)
        soft = 0.0 if hard else self.soft.wait(now)
        self.level = OVER_HARD if hard else OVER_SOFT if soft else NORMAL
        return hard or soft

    def is_forgotten(self, now: float) -> bool:
        return self.soft.at(now) < _FORGOTTEN and self.hard.at(now) < _FORGOTTEN


class DomainRateLimiter:
    """The rates of registered domains by name. Those with no recent page are dropped; O(log domains) each."""

    def __init__(self, rates: DomainRates) -> None:
        self._rates = rates
        self._domains: dict[str, _Domain] = {}
        self._over: list[tuple[float, str]] = []  # when a domain may be of a lower level
        self._most = 64  # domains, before those with no recent page are dropped

    def level(self, name: str) -> int:
        """`NORMAL`, `OVER_SOFT` or `OVER_HARD`, as of the last call that said when it is; a domain nobody
        knows is normal."""
        domain = self._domains.get(name)
        return NORMAL if domain is None else domain.level

    def hand_out(self, name: str, now: float, pages: float = 1.0) -> int:
        """A page of the domain is handed out, with -1 *pages* none after all; its level from now on."""
        domain = self._domain(name, now)
        domain.soft.add(now, pages)
        domain.hard.add(now, pages)
        return self._judge(name, domain, now)

    def assume(self, name: str, when: float, now: float) -> int:
        """An earlier run visited the domain last at *when* (0: never), as often as it might; the level at
        *now*."""
        slowest = min(filter(None, self._rates), default=0.0)
        if not when or _STEADY * exp(-max(now - when, 0.0) * slowest / BURST) < _FORGOTTEN:
            return self.level(name)
        domain = self._domain(name, now)
        domain.soft.assume(when, now)
        domain.hard.assume(when, now)
        return self._judge(name, domain, now)

    def changed_levels(self, now: float) -> list[tuple[str, int]]:
        """Domains whose level has changed by *now*, and that level, each told once; O(1) where there is
        none."""
        found = []
        over = self._over
        while over and over[0][0] <= now:
            name = heapq.heappop(over)[1]
            domain = self._domains.get(name)
            if domain is None:
                continue
            before = domain.level
            wait = domain.judge(now)
            if wait:
                heapq.heappush(over, (now + wait, name))
            if domain.level != before:
                found.append((name, domain.level))
        return found

    def next_change(self) -> float | None:
        """When the first domain may be of a lower level (POSIX seconds); None: all are normal. O(1)."""
        return self._over[0][0] if self._over else None

    def _judge(self, name: str, domain: _Domain, now: float) -> int:
        before = domain.level
        wait = domain.judge(now)
        if before == NORMAL and wait:
            heapq.heappush(self._over, (now + wait, name))
        return domain.level

    def _domain(self, name: str, now: float) -> _Domain:
        domain = self._domains.get(name)
        if domain is None:
            if len(self._domains) >= self._most:
                self._tidy(now)
            domain = self._domains[name] = _Domain(self._rates)
        return domain

    def _tidy(self, now: float) -> None:
        for name, domain in list(self._domains.items()):
            if domain.level == NORMAL and domain.is_forgotten(now):
                del self._domains[name]
        self._most = 64 + 2 * len(self._domains)


FIRST_ROUNDS = 2  # rounds until a domain is due, for each page it was asked for
MOST_ROUNDS = 32  # rounds until a domain is due, however many these were


class Turns:
    """*by_name* are the hosts in memory.

    *domain_of* gives the registered domain of a host, which never has fewer than its last two labels. It is
    asked only for hosts that share these: most are alone with them, and reading the list of public suffixes
    takes 75 ms. *level_of* tells the level of a domain, where domains have any: then all hosts are asked for.
    """

    def __init__(
        self,
        by_name: Mapping[str, Member],
        domain_of: Callable[[str], str],
        level_of: Callable[[str], int] | None = None,
    ) -> None:
        self._by_name = by_name
        self._domain_of = domain_of
        self._level_of = level_of
        self._domains: dict[str, Domain] = {}
        self._shared: set[str] = set()  # last two labels that several hosts have, or had
        self._heap: list[Offer] = []
        self._yielding: list[tuple[int, str]] = []
        self._handed_out = 0
        # The last hand-out: its domain, `yields_until` and `due_round`, the round, the host's line before.
        self._last: tuple[Domain, int, float, float, int] | None = None
        self._active = 0  # domains with a ready host
        self._round = 0.0  # the virtual time
        # No later than when the domain is due; one that is too early is put right when it surfaces.
        self._due_rounds: list[tuple[float, str]] = []

    # -- a host has changed ----------------------------------------------------------------------------

    def update(self, host: Member) -> None:
        """Take note of a host that has changed in any way, and count the hand-out if one more is under way;
        O(log hosts)."""
        domain = host.domain
        if domain is None:
            domain = self._join(host)
        change = host.in_flight - host.in_flight_before
        if change:
            host.in_flight_before = host.in_flight
            domain.in_flight += change
            if change > 0:
                self._hand_out(domain, host)
        if domain.sole:
            self._offer_sole(domain, host)
        else:
            domain.put(host, self._by_name, change > 0)
            self._offer(domain)

    def _join(self, host: Member) -> Domain:
        name = self._domain_name(host.name)
        domain = self._domains.get(name)
        if domain is None:
            level = NORMAL if self._level_of is None else self._level_of(name)
            domain = self._domains[name] = Domain(name, level, sole=host.name)
        elif domain.sole:
            domain.share(self._by_name[domain.sole])
        domain.hosts += 1
        domain.handed += host.fetched
        host.domain = domain
        return domain

    def _domain_name(self, name: str) -> str:
        """The domain of a host; its last two labels while it is alone with them."""
        if self._level_of is not None:
            return self._domain_of(name)
        end = _last_labels(name)
        if end not in self._shared:
            domain = self._domains.get(end)
            if domain is None or domain.sole == name:
                return end
            self._shared.add(end)
            self._rename(domain, self._domain_of(domain.sole))
        return self._domain_of(name)

    def domain_name(self, name: str) -> str:
        """The domain that a host of that name has, or would have if it were alone with its last labels."""
        end = _last_labels(name)
        return self._domain_of(name) if self._level_of is not None or end in self._shared else end

    def _rename(self, domain: Domain, name: str) -> None:
        del self._domains[domain.name]
        self._domains[name] = domain
        domain.name = name
        if domain.offered is not None:
            self._push(domain, (*domain.offered[:5], name))
        if domain.is_listed:
            self._enlist(domain)

    def leave(self, host: Member) -> None:
        """Forget a host that is no longer ready, and its domain with the last one; nothing for one it never
        met."""
        domain, host.domain = host.domain, None
        if domain is not None:
            domain.hosts -= 1
            if not domain.hosts:
                self._active -= domain.is_active
                del self._domains[domain.name]

    def _hand_out(self, domain: Domain, host: Member) -> None:
        self._last = domain, domain.yields_until, domain.due_round, self._round, host.line_number
        self._handed_out += 1
        self._round += 1 / (self._active or 1)
        domain.handed += 1
        domain.due_round = self._round + _patience(domain)
        if not domain.sole:
            domain.yields_until = max(domain.yields_until, self._handed_out) + max(self._active - 1, 0)
            heapq.heappush(self._yielding, (domain.yields_until, domain.name))

    def take_back(self, host: Member) -> None:
        """The last hand-out, to *host*, was none after all; `update` has to follow. Nothing if it was
        another's."""
        if self._last is not None and self._last[0] is host.domain:
            domain = self._last[0]
            _, domain.yields_until, domain.due_round, self._round, line_number = self._last
            domain.take_back(host, line_number)
            self._handed_out -= 1
            self._last = None
            if not domain.is_active:  # it had nothing else to offer, and its page is about to come back
                domain.is_active = True
                self._active += 1
            self._enlist(domain)

    def set_level(self, name: str, level: int) -> None:
        """The domain *name*, in memory or not, is of *level* from now on; one with no hosts is asked for when
        it gets one."""
        domain = self._domains.get(name)
        if domain is None or domain.level == level:
            return
        domain.level = level
        if domain.is_active and level == NORMAL:
            self._wait(domain)
        if domain.sole:
            domain.offered = None
            self._offer_sole(domain, self._by_name[domain.sole])
        else:
            self._offer(domain)

    # -- hosts that sleep ------------------------------------------------------------------------------

    def put_to_sleep(self, host: Member) -> Domain | None:
        """Forget a host that goes to sleep, and its domain, which goes on counting as one that may be asked;
        None where it has to stay awake."""
        domain = host.domain
        if domain is None or not domain.sole or not domain.is_active or domain.level != NORMAL:
            return None
        del self._domains[domain.name]
        host.domain = None
        return domain

    def wake(self, host: Member, sleeper: SleepingHost) -> None:
        """Undo `put_to_sleep`: *host*, which is ready, and its domain stand where they did, due in the same
        round."""
        domain = self._domains[sleeper[1]] = host.domain = Domain(sleeper[1])
        domain.sole, domain.hosts, domain.handed = host.name, 1, host.fetched
        domain.due_round, domain.is_active = sleeper[3], True
        self._enlist(domain)
        self._offer_sole(domain, host)

    def sleeper(self, asleep: SleepingHosts) -> SleepingHost | None:
        """Whose turn it is, if that is one of those asleep; None if it is a host's that is awake. Wakes
        nobody."""
        late, domain = asleep.overdue(self._round), self._overdue()
        if late is not None and (domain is None or (late[3], late[1]) < (domain.due_round, domain.name)):
            return late
        first = asleep.first() if domain is None else None
        if first is None:
            return None
        head, name = first[:2]
        if self._best_domain() is None or (NORMAL, head[:SCORE_BYTES], False, 0, head, name) < self._heap[0]:
            return first
        return None

    # -- whose turn it is ------------------------------------------------------------------------------

    def best(self) -> str | None:
        """The name of the ready host whose turn it is, or None; O(log hosts), O(1) when there is none."""
        domain = None
        if self._due_rounds and self._due_rounds[0][0] <= self._round:
            domain = self._overdue()
        if domain is None:
            domain = self._best_domain()
        if domain is None:
            return None
        return domain.sole or domain.chosen(self._by_name)

    def _best_domain(self) -> Domain | None:
        while self._yielding and self._yielding[0][0] <= self._handed_out:
            domain = self._domains.get(heapq.heappop(self._yielding)[1])
            if domain is not None:
                self._offer(domain)
        heap = self._heap
        while heap:
            offer = heap[0]
            domain = self._domains.get(offer[5])
            if domain is not None and domain.sole:
                if domain.offered is offer:  # which every change of its host keeps true
                    return domain
                heapq.heappop(heap)
                continue
            if domain is not None and self._best_offer(domain) == offer:
                return domain
            heapq.heappop(heap)
            if domain is not None and domain.offered == offer:
                domain.offered = None
                self._offer(domain)
        return None

    def _offer_sole(self, domain: Domain, host: Member) -> None:
        """`_offer` for a domain of one host: what it offers is what holds, or nothing."""
        if host.state is not READY or domain.level == OVER_HARD:
            domain.offered = None
            self._set_active(domain, False)
            return
        head, offered = host.heads[0], domain.offered
        if offered is not None and offered[4] == head and offered[3] == domain.in_flight:
            return
        self._set_active(domain, True)
        self._push(domain, (domain.level, head[:SCORE_BYTES], False, domain.in_flight, head, domain.name))

    def _offer(self, domain: Domain) -> None:
        offer = self._best_offer(domain)
        self._set_active(domain, offer is not None)
        if offer is not None and offer != domain.offered:
            self._push(domain, offer)

    def _best_offer(self, domain: Domain) -> Offer | None:
        best = None if domain.level == OVER_HARD else domain.first(self._by_name)
        if best is None:
            return None
        is_yielding = domain.yields_until > self._handed_out
        return domain.level, best[0], is_yielding, domain.in_flight, best[2], domain.name

    def _set_active(self, domain: Domain, is_active: bool) -> None:
        if is_active is domain.is_active:
            return
        domain.is_active = is_active
        self._active += 1 if is_active else -1
        if is_active:
            self._wait(domain)

    def _push(self, domain: Domain, offer: Offer) -> None:
        domain.offered = offer
        heapq.heappush(self._heap, offer)
        if len(self._heap) > 64 + 4 * len(self._domains):
            self._drop_stale()

    def _drop_stale(self) -> None:
        self._heap = []
        for domain in self._domains.values():
            if not domain.sole:
                domain.offered = self._best_offer(domain)
            if domain.offered is not None:
                self._heap.append(domain.offered)
        heapq.heapify(self._heap)

    # -- age -------------------------------------------------------------------------------------------

    def _wait(self, domain: Domain) -> None:
        """A domain may be asked from now on; O(log domains)."""
        domain.due_round = self._round + _patience(domain)
        if not domain.is_listed:
            self._enlist(domain)

    def _enlist(self, domain: Domain) -> None:
        """Have a domain among those that will be due; again where its name or its time changed."""
        domain.is_listed = True
        heapq.heappush(self._due_rounds, (domain.due_round, domain.name))
        if len(self._due_rounds) > 64 + 4 * len(self._domains):
            self._due_rounds = [
                (each.due_round, each.name) for each in self._domains.values() if each.is_listed
            ]
            heapq.heapify(self._due_rounds)

    def _overdue(self) -> Domain | None:
        """The domain that is due for the longest time; O(1) where there is none."""
        due_rounds = self._due_rounds
        while due_rounds and due_rounds[0][0] <= self._round:
            domain = self._domains.get(due_rounds[0][1])
            if domain is None or not domain.is_active or domain.level != NORMAL:
                heapq.heappop(due_rounds)
                if domain is not None:
                    domain.is_listed = False
            elif domain.due_round > self._round:  # it had turns since
                heapq.heapreplace(due_rounds, (domain.due_round, domain.name))
            else:
                return domain
        return None


def _last_labels(name: str) -> str:
    return name if name.count(".") < 2 else ".".join(name.rsplit(".", 2)[1:])


def _patience(domain: Domain) -> int:
    return min(FIRST_ROUNDS * (1 + domain.handed), MOST_ROUNDS)


AWAKE = 10_000  # hosts, before any sleeps: 15 MB, and 25 ms whenever the garbage collector walks all
GROWTH = 1.25  # times as many as stayed awake, before all are looked at again
LOOKED_AT_ONCE = 64  # hosts looked at by one verb, 1 us each
_SKIPPED_AT_ONCE = 1000  # places of hosts that woke, 2 us each; there are as many of them as hosts at most

# Head, domain, name, the round in which it is due, and what else there is: its row and its sort keys in one
# piece, which takes a third of a tuple of them; nothing for a host that was never asked, with one page. A
# plain tuple: the garbage collector soon walks it no more.
SleepingHost = tuple[bytes, str, str, float, bytes]

_UNASKED = HostRow(queued=1)


def may_sleep(host: Host) -> bool:
    """Whether nothing but the row and the heads of *host* has to be kept, as far as it knows itself."""
    return (
        host.state is HostState.READY
        and not (host.in_flight or host.leased or host.waited)
        and _knows_its_head(host)
        and host.asked is by_settings(host.delay)
        and host.cooldown is None
        and not (host.is_doubted or host.suspects or host.origins or host.given_up)
        and host.trouble is None
        and host.held_for is None
        and host.given_up_for is None
        and host.is_kept
    )


def _knows_its_head(host: Host) -> bool:
    """Whether all it has is in memory, or the best of it. Of those with more on disk one to which pages come
    back stays awake: their share is given to hosts in memory."""
    if host.more:
        return not (host.queued_again or host.needs_sort_keys())
    return len(host.heads) == host.queued


def _pack(row: bytes, heads: list[bytes], cursor: bytes) -> bytes:
    # A copy, since `marshal` shortens a longer buffer in place: that would lie among LevelDB's blocks for as
    # long as the host sleeps, and the memory around it could not be used again.
    return bytes(memoryview(marshal.dumps((row, heads, cursor))))


def _unpack(sleeper: SleepingHost) -> tuple[bytes, list[bytes], bytes]:
    """The row, the heads, and the cursor of a host with more pages on disk."""
    found: tuple[bytes, list[bytes], bytes] = marshal.loads(sleeper[4])  # noqa: S302 - of `_pack`
    return found


class SleepingHosts:
    """The hosts that sleep, by their domains, and how many ``pages`` they have queued. In memory only.

    What has become wrong is left in the heaps, and skipped when it surfaces.
    """

    def __init__(self) -> None:
        self.by_domain: dict[str, SleepingHost] = {}
        self.pages = 0
        self._heap: list[SleepingHost] = []  # the best head first
        self._due: list[tuple[float, str]] = []  # the domain that is due first

    def __len__(self) -> int:
        return len(self.by_domain)

    def put(self, host: Host, domain: str, due_round: float) -> None:
        """Have *host* sleep, the only one of its *domain* that does. The domain is due in *due_round*.
        O(log hosts)."""
        heads = host.heads
        is_unasked = host.queued == 1 and not (
            host.visited or host.done or host.failed or host.deferred or host.response_time
        )
        rest = b"" if is_unasked else _pack(encode_host(host), heads, host.cursor if host.more else b"")
        heapq.heappush(self._due, (due_round, domain))
        sleeper = self.by_domain[domain] = heads[0], domain, host.name, due_round, rest
        self.pages += host.queued
        self._push(sleeper)

    def _push(self, sleeper: SleepingHost) -> None:
        heapq.heappush(self._heap, sleeper)
        if max(len(self._heap), len(self._due)) > 64 + 2 * len(self.by_domain):
            self._heap = list(self.by_domain.values())
            self._due = [(each[3], each[1]) for each in self._heap]
            heapq.heapify(self._heap)
            heapq.heapify(self._due)

    def take(self, sleeper: SleepingHost) -> tuple[HostRow, list[bytes], bytes]:
        """Forget one that wakes, and tell its row, its heads, and its cursor where more of its pages are on
        disk, b"" where not. O(1), no store read."""
        del self.by_domain[sleeper[1]]
        if not sleeper[4]:
            self.pages -= 1
            return _UNASKED, [sleeper[0]], b""
        stored, heads, cursor = _unpack(sleeper)
        row = decode_host(stored)
        self.pages -= row.queued
        return row, heads, cursor

    def rekey(self, sleeper: SleepingHost, moved: Sequence[tuple[bytes, bytes]]) -> bool:
        """Rows of its pages moved, each from an old sort key to a new one; false where nothing is changed,
        and it has to wake to read which page comes first now."""
        head, domain, name, due_round, rest = sleeper
        row, heads, cursor = _unpack(sleeper) if rest else (b"", [head], b"")
        kept = {*heads}.difference(old for old, _ in moved)
        kept.update(new for _, new in moved if not cursor or new <= cursor)
        if not kept:
            return False
        heads = sorted(kept)
        if len(heads) > 2 * HEADS:
            del heads[HEADS:]
            cursor = heads[-1]
        rest = _pack(row, heads, cursor) if rest else b""
        again = self.by_domain[domain] = heads[0], domain, name, due_round, rest
        self._push(again)
        return True

    def first(self) -> SleepingHost | None:
        """The one with the best head, None if none sleeps; it goes on sleeping."""
        heap = self._heap
        while heap and self.by_domain.get(heap[0][1]) is not heap[0]:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def overdue(self, now: float) -> SleepingHost | None:
        """The one that is due for the longest time in round *now* (virtual time, see `order_of_hosts.Turns`);
        None if none is, or if too much is to be skipped before it at once: the next call goes on."""
        due = self._due
        for _ in range(_SKIPPED_AT_ONCE):
            if not due or due[0][0] > now:
                break
            sleeper = self.by_domain.get(due[0][1])
            if sleeper is not None and sleeper[3] == due[0][0]:
                return sleeper
            heapq.heappop(due)
        return None

    def names(self) -> Iterable[str]:
        """Their names, in no order."""
        return (sleeper[2] for sleeper in self.by_domain.values())
