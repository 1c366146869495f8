"""The shards that a process owns, behind the verbs of one frontier.

A shard is a `Frontier` with a database of its own, for the registered domains whose hash falls to it. A page
id names the shard in its upper bits; a lease names its shard, and has ids within that. A verb for a shard
that this process does not own, or no longer owns, has no effect.

The target of a link to another shard is known in the shard of the link as a page that is only seen. When it
is new there, the link is posted in the batch that makes it known, and the owner of the other shard takes it
in.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache, partial, wraps
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from ..core import reasons
from ..core.frontier import Discovered, Frontier, FrontierEvents, Link, LinkVerdict, Released
from ..core.hosts.host import host_of_page
from ..core.hosts.trouble import Cooled, Left
from ..core.parse.urls import host_of
from ..core.store.keys import ID_BITS, MAX_ID
from ..core.store.records import SiteSitemaps, Totals, sum_of
from .letters import Ranks, pack, posted_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..core.frontier import Computed, Lease, Outcome, PageId, RankRun
    from ..core.hosts.host import Host
    from ..core.ranking.focus import Focus
    from ..core.store.records import Page
    from .outbox import Outbox

P = ParamSpec("P")
K = TypeVar("K")
R = TypeVar("R")
NOWHERE = -1  # the shard of a lease whose shard was lost
NO_OWNER = "its shard is not of this process"
HEADS_FOR = 0.1  # seconds until the best heads of all shards are looked at again
IN_MEMORY = "it belongs to another shard, and its request cannot be stored"


def shard_of_domain(domain: str, shards: int) -> int:
    """Return the shard of a registered *domain*: the top bits of its BLAKE2b hash."""
    return int.from_bytes(blake2b(domain.encode(), digest_size=8).digest(), "big") * shards >> 64


class Open(NamedTuple):
    """A shard that this process works on."""

    frontier: Frontier
    outbox: Outbox


def _ask(
    find: Callable[[Shards, K], tuple[Frontier | None, K]],
    verb: Callable[Concatenate[Frontier, K, P], R],
    absent: R,
) -> Callable[Concatenate[Shards, K, P], R]:
    """Return a method that has one frontier do *verb*: the one that *find* returns for its first argument,
    with that argument as the frontier knows it. *absent* is the answer if this process has none."""

    @wraps(verb)
    def method(shards: Shards, key: K, /, *arguments: P.args, **named: P.kwargs) -> R:
        frontier, own_key = find(shards, key)
        return absent if frontier is None else verb(frontier, own_key, *arguments, **named)

    return method


class Shards:
    """The *shards* of a crawl of which this process owns some; *domain_of* names the domain of a host.

    ``may_hand_out`` returns false when the database has not answered for too long. ``is_over``: the whole
    crawl has ended.
    """

    def __init__(self, shards: int, domain_of: Callable[[str], str]) -> None:
        self.shards = shards
        self.open: dict[int, Open] = {}  # in the order of their turns
        self.leaving: set[int] = set()  # to be handed over: no page of them is handed out any more
        self.may_hand_out: Callable[[], bool] = lambda: True
        self.is_over = False
        self.shard_of = lru_cache(1 << 16)(lambda host: shard_of_domain(domain_of(host), shards))
        self._is_turn = False
        self._heads: dict[int, bytes | None] = {}  # the best of each shard, looked at when it was leased, too
        self._looked_at = 0.0
        self._held: dict[Lease, dict[bytes, Link]] = {}  # links to other shards, until the page ends

    def add(self, n: int, shard: Open) -> None:
        """Begin to work on shard *n*."""
        self.open[n] = shard

    def remove(self, n: int) -> Open:
        """Stop working on shard *n*: what its leases still report has no effect."""
        self.leaving.discard(n)
        for lease in [lease for lease in self._held if lease.shard == n]:
            del self._held[lease]
        shard = self.open.pop(n)
        for lease in shard.frontier.leases():  # if the shard is taken again, it grants the same ids again
            lease.shard = NOWHERE
        return shard

    # -- what concerns one host, lease or page ---------------------------------------------------------

    def _of_host(self, host: str) -> tuple[Frontier | None, str]:
        shard = self.open.get(self.shard_of(host))
        return (None if shard is None else shard.frontier), host

    def _of_origin(self, origin: str) -> tuple[Frontier | None, str]:
        return self._of_host(host_of(origin))[0], origin

    def _of_lease(self, lease: Lease) -> tuple[Frontier | None, Lease]:
        shard = self.open.get(lease.shard)
        return (None if shard is None else shard.frontier), lease

    def _of_page(self, page_id: PageId) -> tuple[Frontier | None, PageId]:
        shard = self.open.get(page_id >> ID_BITS)
        return (None if shard is None else shard.frontier), page_id & MAX_ID

    set_delay = _ask(_of_host, Frontier.set_delay, None)
    site_delay = _ask(_of_host, Frontier.site_delay, False)
    record_cooldown = _ask(
        _of_host, Frontier.record_cooldown, Cooled(None, is_new=False, keeps_attempts=True)
    )
    is_cooling = _ask(_of_host, Frontier.is_cooling, False)
    hold = _ask(_of_host, Frontier.hold, None)
    # A host of another process may be asked at once: Scrapy's own slots keep its delay.
    begin_side_request = _ask(_of_host, Frontier.begin_side_request, 0.0)
    end_side_request = _ask(_of_host, Frontier.end_side_request, None)

    robots_copy = _ask(_of_origin, Frontier.robots_copy, None)
    keep_robots_copy = _ask(_of_origin, Frontier.keep_robots_copy, None)
    sitemaps_of = _ask(_of_origin, Frontier.sitemaps_of, SiteSitemaps())
    keep_sitemaps = _ask(_of_origin, Frontier.keep_sitemaps, None)

    will_send = _ask(_of_lease, Frontier.will_send, False)
    on_sent = _ask(_of_lease, Frontier.on_sent, None)
    on_response = _ask(_of_lease, Frontier.on_response, None)
    put_back = _ask(_of_lease, Frontier.put_back, None)
    skip_visit = _ask(_of_lease, Frontier.skip_visit, None)
    bind_lease = _ask(_of_lease, Frontier.bind_lease, 0)

    is_of_this_run = _ask(_of_page, Frontier.is_of_this_run, False)
    requeue = _ask(_of_page, Frontier.requeue, False)
    replace_request = _ask(_of_page, Frontier.replace_request, False)
    note_lastmod = _ask(_of_page, Frontier.note_lastmod, None)
    make_due = _ask(_of_page, Frontier.make_due, False)

    # -- what there is ---------------------------------------------------------------------------------

    @property
    def _frontiers(self) -> list[Frontier]:
        return [shard.frontier for shard in self.open.values()]

    def totals(self) -> Totals:
        """What the shards of this process hold together."""
        return sum_of(frontier.totals() for frontier in self._frontiers)

    is_temporary = False  # a shared frontier stays

    @property
    def pending(self) -> int:
        """As `Frontier.pending`."""
        return sum(frontier.pending for frontier in self._frontiers)

    @property
    def withheld(self) -> int:
        """As `Frontier.withheld`."""
        return sum(frontier.withheld for frontier in self._frontiers)

    @property
    def leased(self) -> int:
        """As `Frontier.leased`."""
        return sum(frontier.leased for frontier in self._frontiers)

    @property
    def hosts(self) -> int:
        """As `Frontier.hosts`."""
        return sum(frontier.hosts for frontier in self._frontiers)

    def left_over(self, now: float) -> Left:
        """As `Frontier.left_over`."""
        left = [frontier.left_over(now) for frontier in self._frontiers]
        names = tuple(chain.from_iterable(each.names for each in left))[:5]
        first = min((each.first for each in left if each.pages), default=now)
        return Left(sum(each.pages for each in left), sum(each.hosts for each in left), names, first)

    def find(self, fingerprint: bytes) -> PageId | None:
        """As `Frontier.find`; a page that another shard only leads to is found if there is no other. A lookup
        in each shard."""
        found = None
        for n, (frontier, _) in self.open.items():
            local = frontier.find(fingerprint)
            page = None if local is None else frontier.page(local)
            if page is not None:
                found = _in_shard(n, local)
                if page.reason != reasons.FOREIGN():
                    break
        return found

    def page(self, page_id: PageId) -> Page | None:
        """As `Frontier.page`."""
        frontier, local = self._of_page(page_id)
        page = None if frontier is None else frontier.page(local)
        if page is None:
            return None
        n = page_id >> ID_BITS
        return page._replace(parent=_in_shard(n, page.parent), target=_in_shard(n, page.target))

    @property
    def focus(self) -> Focus | None:
        """That of the shard with the lowest number; None until all have one. Each shard learns from its own
        pages."""
        found = [self.open[n].frontier.focus for n in sorted(self.open)]
        return found[0] if found and None not in found else None

    def begin_focus(self) -> None:
        """As `Frontier.begin_focus`."""
        for frontier in self._frontiers:
            frontier.begin_focus()

    def next_due(self) -> float | None:
        """As `Frontier.next_due`."""
        times = [frontier.next_due() for frontier in self._frontiers]
        return min((when for when in times if when is not None), default=None)

    def load(self, now: float, limit: int = 100) -> bool:
        """As `Frontier.load`, one shard after the other."""
        return all(frontier.load(now, limit) for frontier in self._frontiers)

    def used_by(self, spider: str) -> str | None:
        """None: no shard is open yet when a crawl begins."""
        return None

    def commit(self) -> None:
        """As `Frontier.commit`."""
        for frontier in self._frontiers:
            frontier.commit()

    def awake_hosts(self) -> Iterable[Host]:
        """As `Frontier.awake_hosts`."""
        return chain.from_iterable(frontier.awake_hosts() for frontier in self._frontiers)

    # -- pages in --------------------------------------------------------------------------------------

    def recognize(
        self,
        url: str,
        source: Lease | None = None,
        flags: int = 0,
        weight: float = 1.0,
        only_seen: bool = False,
    ) -> bool:
        """As `Frontier.recognize`, by what the shard of *source* knows."""
        if source is None:
            return any(frontier.recognize(url, None, 0, 1.0, only_seen) for frontier in self._frontiers)
        frontier, _ = self._of_lease(source)
        return frontier is not None and frontier.recognize(url, source, flags, weight, only_seen)

    def discover(self, links: Iterable[Link], now: float, source: Lease | None = None) -> list[Discovered]:
        """As `Frontier.discover`; links to pages of other shards are posted, at the latest when *source*
        ends."""
        return [self.discover_one(link, now, source) for link in links]

    def discover_one(self, link: Link, now: float, source: Lease | None = None) -> Discovered:
        """`discover` for a single link."""
        n = self.shard_of(link.host)
        if source is not None:
            origin = source.shard
        elif link.parent is not None:
            origin = link.parent >> ID_BITS
        else:
            origin = n if n in self.open else min(self.open, default=NOWHERE)
        shard = self.open.get(origin)
        if shard is None:
            return Discovered(LinkVerdict.REFUSED, kind="foreign", reason=NO_OWNER)
        link.parent = (
            None if link.parent is None or link.parent >> ID_BITS != origin else link.parent & MAX_ID
        )
        if n == origin or link.only_seen:
            answer = shard.frontier.discover_one(link, now, source)
            return answer._replace(page_id=_in_shard(origin, answer.page_id))
        if link.facts.is_in_memory:
            return Discovered(LinkVerdict.REFUSED, kind="foreign", reason=IN_MEMORY)
        if source is not None and source.id and not (link.is_named or link.again):
            held = self._held.setdefault(source, {})
            is_known = link.fingerprint in held or shard.frontier.find(link.fingerprint) is not None
            held[link.fingerprint] = link
            return Discovered(LinkVerdict.KNOWN if is_known else LinkVerdict.POSTED)
        return self._post(link, n, origin, now, source)

    def _post(self, link: Link, n: int, origin: int, now: float, source: Lease | None) -> Discovered:
        """Make the page of *link* known in shard *origin* as one that is only seen, and post it to its own
        shard *n* if it is new there, or is wanted again."""
        frontier, outbox = self.open[origin]
        seen = replace(link, only_seen=reasons.FOREIGN(), again=False, visit_payload=link.fingerprint)
        answer = frontier.discover_one(seen, now, source)
        page_id = answer.page_id
        if page_id is None:
            return answer
        is_wanted_again = link.again or link.is_named or link.facts.force is not None
        is_posted = is_wanted_again or answer.verdict is LinkVerdict.POSTED
        if is_posted:
            outbox.post(n, lambda: pack(posted_link(link, frontier.owed(page_id))))
        return Discovered(LinkVerdict.POSTED if is_posted else LinkVerdict.KNOWN, _in_shard(origin, page_id))

    # -- edits -----------------------------------------------------------------------------------------

    def drain_events(self) -> FrontierEvents:
        """As `Frontier.drain_events`."""
        events = [frontier.drain_events() for frontier in self._frontiers]
        return FrontierEvents(
            tuple(chain.from_iterable(each.set_aside for each in events)),
            tuple(chain.from_iterable(each.given_up for each in events)),
        )

    # -- pages out -------------------------------------------------------------------------------------

    def lease(self, now: float) -> Lease | None:
        """As `Frontier.lease`. One page comes by the best head of all shards, the next from the shard whose
        turn it is, so that none waits for ever. O(shards) each `HEADS_FOR`."""
        if not self.may_hand_out():
            return None
        ring = [n for n in self.open if n not in self.leaving]
        self._is_turn = not self._is_turn
        if not self._is_turn:
            if abs(now - self._looked_at) >= HEADS_FOR:
                self._heads = {n: self.open[n].frontier.best_head(now) for n in ring}
                self._looked_at = now
            ring.sort(key=lambda n: self._heads.get(n) or b"\xff")  # stable: in turn among equals
        for n in ring:
            frontier = self.open[n].frontier
            lease = frontier.lease(now)
            if lease is not None:
                lease.shard = n
                self._heads[n] = frontier.best_head(now)
                if self._is_turn:
                    self.open[n] = self.open.pop(n)  # the last to have its turn again
                return lease
        return None

    def wake_at(self) -> float | None:
        """As `Frontier.wake_at`; None while nothing may be handed out, until the engine's heartbeat asks."""
        if not self.may_hand_out():
            return None
        times = [self.open[n].frontier.wake_at() for n in self.open if n not in self.leaving]
        return min((when for when in times if when is not None), default=None)

    def release(self, lease: Lease, outcome: Outcome, now: float) -> Released:
        """As `Frontier.release`; the links of its page to other shards are posted with its end."""
        held, (frontier, _) = self._held.pop(lease, {}), self._of_lease(lease)
        if frontier is None:
            return Released(None, is_late=True)
        for link in held.values():
            self._post(link, self.shard_of(link.host), lease.shard, now, lease)
        if outcome.target is not None:
            is_here = outcome.target >> ID_BITS == lease.shard
            outcome = outcome._replace(target=outcome.target & MAX_ID if is_here else None)
        return frontier.release(lease, outcome, now)

    def ends_at(self, now: float, patience: float) -> float | None:
        """None until the whole crawl is over: other processes may send links at any time."""
        return now if self.is_over else None

    def is_idle(self, n: int, now: float, patience: float) -> bool:
        """Whether shard *n* would end its crawl at *now*, and nothing of it is under way."""
        frontier = self.open[n].frontier
        end = None if frontier.leased else frontier.ends_at(now, patience)
        return end is not None and end <= now

    # -- rankings --------------------------------------------------------------------------------------

    def rank_due(self) -> RankRun | None:
        """As `Frontier.rank_due`, for the first shard where one is due."""
        for n, (frontier, _) in self.open.items():
            run = frontier.rank_due()
            if run is not None:
                run.shard = n
                return run
        return None

    def rank_steps(
        self, run: RankRun, computed: Iterable[Computed | float], clock: Callable[[], float], rows: int = 1000
    ) -> Iterator[float]:
        """As `Frontier.rank_steps`, and posts the ranks of pages of other shards; ends when the shard is
        lost."""
        shard = self.open[run.shard]
        steps = shard.frontier.rank_steps(run, computed, clock, rows)
        for pause in chain(steps, self._post_ranks(run, shard, rows)):
            yield pause
            if self.open.get(run.shard) is not shard:
                return

    def _post_ranks(self, run: RankRun, shard: Open, rows: int) -> Iterator[float]:
        """Post to other shards how the ranking of *run* changed the ranks of their pages: in each step a
        letter to each shard."""
        frontier, outbox = shard
        if frontier.scorer is None or run.ranking is None or not run.is_adopted or self.is_over:
            return
        changes = frontier.scorer.owed_more(run.ranking)
        for first in range(0, len(changes), rows):
            letters: defaultdict[int, dict[str, float]] = defaultdict(dict)
            for page_id, change in changes[first : first + rows]:
                page = frontier.page(page_id)
                if page is not None and page.reason == reasons.FOREIGN():
                    letters[self.shard_of(host_of_page(page))][page.visit_payload.hex()] = round(change, 3)
            for n, changed in letters.items():
                outbox.post(n, partial(pack, Ranks(changed)))
            frontier.commit(is_needed=bool(letters))
            yield 0.0

    def take_ranks(self, n: int, ranks: Ranks) -> None:
        """Have the next ranking of shard *n* count what another shard told of its pages. A lookup each."""
        frontier = self.open[n].frontier
        for fingerprint, change in ranks.changed.items():
            page_id = frontier.find(bytes.fromhex(fingerprint))
            if page_id is not None and frontier.scorer is not None:
                frontier.scorer.paid_more(page_id, change)


def _in_shard(n: int, local: PageId | None) -> PageId | None:
    return None if local is None else n << ID_BITS | local
