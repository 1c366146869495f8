"""Who owns what, decided from looks alone: tables, and a simulation of processes that come, die and go."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.shared.database import Look, Shard
from scrapy_frontier.shared.ownership import SETTLING, STRANGE, Ownership

LEASE, PATIENCE = 240.0, 60.0
ME, OTHER = UUID(int=1), UUID(int=2)
MINE = UUID(int=9)


def shard(n: int, owner: UUID | None = None, copy: UUID | None = None) -> Shard:
    return Shard(n, owner, copy, 0, False, "{}")


def look(shards: list[Shard], beats: dict[UUID, int] | None = None) -> Look:
    return Look(1, True, False, {ME: 1} if beats is None else beats, shards)


def test_a_process_is_dead_after_a_lease_of_looks_without_a_gap() -> None:
    ownership = Ownership(ME, 0, LEASE, PATIENCE)
    shards = [shard(0, OTHER, UUID(int=5))]
    for second in range(int(LEASE)):
        assert not ownership.decide(look(shards, {ME: second, OTHER: 7}), second, (), ()).bury
    assert ownership.decide(look(shards, {ME: 1, OTHER: 7}), LEASE, (), ()).bury == [(OTHER, 7)]


def test_a_beat_or_a_gap_of_its_own_begins_the_watch_anew() -> None:
    for begins_anew in ("beat", "gap"):
        ownership, now, beat = Ownership(ME, 0, LEASE, PATIENCE), 0.0, 7
        while now < LEASE - 2:
            assert not ownership.decide(look([shard(0, OTHER)], {ME: 1, OTHER: beat}), now, (), ()).bury
            now += 1
        beat += begins_anew == "beat"
        now += 60 if begins_anew == "gap" else 1
        for _ in range(int(LEASE)):
            assert not ownership.decide(look([shard(0, OTHER)], {ME: 1, OTHER: beat}), now, (), ()).bury
            now += 1
        assert ownership.decide(look([shard(0, OTHER)], {ME: 1, OTHER: beat}), now, (), ()).bury


def test_a_copy_at_hand_is_taken_at_once_others_later() -> None:
    at_hand = shard(0, OTHER, MINE)  # its owner is still listed, but the copy is not open
    elsewhere, never_had = shard(1, None, UUID(int=5)), shard(2)
    ownership, taken = Ownership(ME, 0, LEASE, PATIENCE), {}
    for second in range(20):
        decisions = ownership.decide(look([at_hand, elsewhere, never_had]), second, (), {MINE})
        for each in decisions.take:
            taken.setdefault(each.n, second)
    assert taken == {0: SETTLING, 2: SETTLING, 1: SETTLING + STRANGE}


def test_no_more_than_its_part_and_what_is_over_is_handed_over() -> None:
    ownership = Ownership(ME, -10, LEASE, PATIENCE)
    free = [shard(n) for n in range(5)]
    assert [each.n for each in ownership.decide(look(free, {ME: 1, OTHER: 1}), 0, (), ()).take] == [0, 1, 2]
    all_mine = [shard(n, ME, UUID(int=n)) for n in range(5)]
    decisions = ownership.decide(look(all_mine, {ME: 1, OTHER: 1}), 1, range(5), ())
    assert (decisions.take, decisions.hand_over) == ([], [3, 4])


def test_who_joins_gets_a_part_of_what_divides_evenly() -> None:
    """Sixteen shards of four: a fifth process gets three of them."""
    processes = [UUID(int=number) for number in range(1, 6)]
    shards = [shard(n, processes[n // 4], UUID(int=100 + n)) for n in range(16)]
    given = []
    for process in processes[:4]:
        mine = [row.n for row in shards if row.owner == process]
        ownership = Ownership(process, -10, LEASE, PATIENCE)
        given += ownership.decide(look(shards, dict.fromkeys(processes, 1)), 0, mine, ()).hand_over
    assert len(given) == 3
    freed = [row._replace(owner=None) if row.n in given else row for row in shards]
    at_hand = {row.copy for row in freed if row.owner is None}
    ownership = Ownership(processes[4], -10, LEASE, PATIENCE)
    taken = ownership.decide(look(freed, dict.fromkeys(processes, 1)), 0, (), at_hand).take
    assert [row.n for row in taken] == given


def test_a_process_whose_copies_are_all_closed_has_no_part() -> None:
    """It was killed on this machine just now: others do not wait until its beat stood still for long."""
    shards = [shard(n, OTHER if n < 2 else ME, UUID(int=n)) for n in range(4)]
    closed = {UUID(int=0), UUID(int=1)}
    ownership = Ownership(ME, -10, LEASE, PATIENCE)
    assert not ownership.decide(look(shards, {ME: 1, OTHER: 1}), 0, {2, 3}, {UUID(int=0)}).take
    assert len(ownership.decide(look(shards, {ME: 2, OTHER: 1}), 1, {2, 3}, closed).take) == 2


def test_what_another_took_is_lost() -> None:
    ownership = Ownership(ME, -10, LEASE, PATIENCE)
    decisions = ownership.decide(look([shard(0, OTHER), shard(1, ME)], {ME: 1, OTHER: 1}), 0, {0, 1}, ())
    assert decisions.lost == {0}


def test_what_it_has_and_does_not_work_on_is_taken_again() -> None:
    """Its load was in vain, or the answer to its taking did not come: else nobody would ever work on it."""
    mine = [shard(0, ME, MINE), shard(1, ME, UUID(int=5))]
    assert Ownership(ME, -10, LEASE, PATIENCE).decide(look(mine), 0, {1}, ()).take == mine[:1]


@given(data=st.data(), shards=st.integers(1, 8), processes=st.integers(1, 4))
def test_shards_settle_evenly_and_only_the_silent_are_buried(
    data: st.DataObject, shards: int, processes: int
) -> None:
    """Every process looks each second; some die for good, the others share what is there."""
    ids = [UUID(int=number + 1) for number in range(processes)]
    beats = dict.fromkeys(ids, 0)
    rows = [shard(n) for n in range(shards)]
    alive = {each: Ownership(each, 0, LEASE, PATIENCE) for each in ids}
    dying = data.draw(st.dictionaries(st.sampled_from(ids[1:]), st.integers(1, 300))) if ids[1:] else {}
    for second in range(700):
        for each in [each for each, when in dying.items() if when == second]:
            alive.pop(each, None)
        for each, ownership in alive.items():
            beats[each] += 1
            mine = {row.n for row in rows if row.owner == each}
            decisions = ownership.decide(look(list(rows), dict(beats)), second, mine, ())
            assert not decisions.lost  # none of the living loses anything
            for dead, beat in decisions.bury:
                assert dead not in alive
                assert beats.pop(dead) == beat
                rows = [row._replace(owner=None) if row.owner == dead else row for row in rows]
            for row in decisions.take:
                assert rows[row.n].owner is None
                rows[row.n] = row._replace(owner=each, copy=UUID(int=100))
            for n in decisions.hand_over:
                rows[n] = rows[n]._replace(owner=None)
    held = [sum(row.owner == each for row in rows) for each in alive]
    assert sum(held) == shards
    assert max(held) - min(held) <= 1
