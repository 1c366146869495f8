"""The host that is asked next, of those that may be: best score first, equals by domain, nobody never.

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
from typing import TYPE_CHECKING

from ..store.queue_keys import SCORE_BYTES
from .domain import NORMAL, OVER_HARD, READY, Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .domain import Member, Offer
    from .sleeping_hosts import SleepingHost, SleepingHosts

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
