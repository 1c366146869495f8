"""How long a host rests: the rule over virtual time, the row, and what the frontier makes of both."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openings import let_go, opened  # noqa: F401 - `let_go` works by being here

from scrapy_frontier.core.errors import UnreadableRow
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import FROM_SETTINGS, OPERATOR, Politeness, Trouble, deciding
from scrapy_frontier.core.hosts.trouble import (
    FIRST_REST,
    JITTER,
    PATIENCE,
    after_trouble,
    asked_pause,
    at_start,
    trouble_at,
)
from scrapy_frontier.core.pages.leases import Lease, Outcome
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import (
    FORGIVEN,
    LONGEST_ASKED,
    Cooldown,
    decode_cooldown,
    encode_cooldown,
)
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000.0
DAY = 86_400.0
RULE = FIRST_REST
FETCHED = Outcome(Event.FETCHED, 200)
POSTPONED = Outcome(Event.POSTPONED)

CHANCES = st.floats(0, 1)
TIMES = st.floats(0, 2e9)
COOLDOWNS = st.builds(
    lambda since, rest, *others: Cooldown(since + rest, others[0], since, *others[1:]),
    TIMES,
    st.floats(0, DAY),
    st.integers(1, 2**31 - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.booleans(),
)


# -- what an answer says ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "line", "trouble"),
    [
        (200, "9", None),
        (404, "9", None),  # it will stay, whatever its header says
        (410, "9", None),
        (403, "", None),
        (403, "9", Trouble("HTTP 403", 9)),
        (413, "9", Trouble("HTTP 413", 9)),
        (429, "", Trouble("HTTP 429", 0)),
        (429, "soon", Trouble("HTTP 429", 0)),
        (429, "9", Trouble("HTTP 429", 9)),
        (500, "", None),
        (500, "0", None),
        (502, "9", Trouble("HTTP 502", 9)),
        (503, "", Trouble("HTTP 503", 0, may_be_page=True)),
        (503, "0", Trouble("HTTP 503", 0, may_be_page=True)),
        (503, "9", Trouble("HTTP 503", 9)),
        (503, "999999", Trouble("HTTP 503", DAY)),
        (600, "9", None),
    ],
)
def test_an_error_is_trouble_of_the_host_if_it_is_said_to_pass(
    status: int, line: str, trouble: Trouble | None
) -> None:
    assert trouble_at(status, line, NOW) == trouble


def test_a_host_is_left_alone_for_a_day_at_most() -> None:
    lines = ["", "soon", "7", "999999", "Tue, 14 Nov 2023 22:14:00 GMT", "Tue, 14 Nov 2023 22:00:00 GMT"]
    assert [asked_pause(line, NOW) for line in lines] == [0, 0, 7, DAY, 40, 0]


# -- the rule --------------------------------------------------------------------------------------------


@given(CHANCES, st.integers(1, 200))
def test_each_strike_doubles_the_rest_up_to_a_day(chance: float, strikes: int) -> None:
    found: Cooldown | None = None
    now = NOW
    for strike in range(1, strikes + 1):
        found = after_trouble(found, RULE, now, Trouble("HTTP 503", sent=now), chance=chance)
        rest = min(60 * 2 ** (strike - 1), DAY)
        assert found.strikes == strike
        assert rest - 1e-6 <= found.until - now <= rest * (1 + JITTER) + 1e-6
        now = found.until


@given(st.floats(-1e12, 1e12) | st.just(float("inf")), CHANCES, st.integers(0, 5))
@example(0.0, 0.0, 0)
@example(0.5, 1.0, 5)
def test_what_the_host_asks_for_wins_within_a_day(asked: float, chance: float, strikes: int) -> None:
    before = Cooldown(NOW - 1, strikes, NOW - 61, "HTTP 503") if strikes else None
    found = after_trouble(before, RULE, NOW, Trouble("HTTP 429", asked=asked, sent=NOW), chance=chance)
    rest = min(asked, LONGEST_ASKED) if asked > 0 else 60 * 2**strikes
    assert rest - 1e-6 <= found.until - NOW <= rest * (1 + JITTER) + 1e-6


@given(COOLDOWNS, st.floats(0, 1), st.none() | st.floats(1, DAY), CHANCES)
def test_a_request_from_before_the_strike_adds_none(
    before: Cooldown, share: float, asked: float | None, chance: float
) -> None:
    """Trouble of the same incident makes the rest no shorter, and longer only by what the host asks for."""
    now = before.since + share * (before.until - before.since)
    found = after_trouble(
        before, RULE, now, Trouble("timed out", asked=asked, sent=before.since), chance=chance
    )
    assert found[1:] == before[1:]
    assert found.until >= before.until
    assert asked is not None or found.until == before.until
    assert asked is None or found.until >= now + asked


def test_strikes_start_over_after_thirty_quiet_minutes() -> None:
    """Counted from the end of the rest: as long as that lasts nobody could tell."""
    before = Cooldown(NOW, 9, NOW - 30_000, "refused", is_answering=True)
    late = after_trouble(before, RULE, NOW + FORGIVEN, Trouble("refused", sent=NOW))
    assert (late.strikes, late.until) == (1, NOW + FORGIVEN + 60)
    soon = after_trouble(before, RULE, NOW + FORGIVEN - 1, Trouble("refused", sent=NOW))
    assert soon.strikes == 10


def test_strikes_go_on_where_the_host_gave_no_answer() -> None:
    before = Cooldown(NOW, 9, NOW - 30_000, "refused")
    assert after_trouble(before, RULE, NOW + 10 * DAY, Trouble("refused", sent=NOW)).strikes == 10


def test_trouble_nobody_knows_the_sending_of_counts_once_a_rest() -> None:
    before = Cooldown(NOW + 60, 1, NOW, "refused")
    assert after_trouble(before, RULE, NOW + 59, Trouble("refused")).strikes == 1
    assert after_trouble(before, RULE, NOW + 61, Trouble("refused")).strikes == 2


# -- the row ---------------------------------------------------------------------------------------------


def test_golden_bytes() -> None:
    row = encode_cooldown(Cooldown(1_700_000_060.5, 3, 1_700_000_000.0, "HTTP 429"))
    assert row.hex() == "41d954fc4f200000" + "00000003" + "41d954fc40000000" + b"HTTP 429".hex()
    row = encode_cooldown(Cooldown(1_700_000_060.5, 3, 1_700_000_000.0, "HTTP 429", is_answering=True))
    assert row.hex() == "41d954fc4f200000" + "80000003" + "41d954fc40000000" + b"HTTP 429".hex()
    assert keys.cooldown_key("a.example").hex() == "74" + b"a.example".hex()


@given(COOLDOWNS)
def test_a_cooldown_comes_back_whole(found: Cooldown) -> None:
    assert decode_cooldown(encode_cooldown(found)) == found


@given(st.binary(max_size=60))
@example(b"")
@example(bytes(20))
@example(b"\xff" * 20)
def test_garbage_is_unreadable_and_nothing_worse(data: bytes) -> None:
    with suppress(UnreadableRow):
        found = decode_cooldown(data)
        assert found.strikes
        assert found.since <= found.until
    assert at_start(data, NOW, RULE).strikes


@given(COOLDOWNS, st.integers(0, 19))
def test_a_torn_row_is_found(found: Cooldown, length: int) -> None:
    with pytest.raises(UnreadableRow, match=f"cooldown row of {length} bytes"):
        decode_cooldown(encode_cooldown(found)[:length])
    assert at_start(encode_cooldown(found)[:length], NOW, RULE).until == NOW + RULE


@given(COOLDOWNS, TIMES)
def test_a_clock_set_back_makes_no_rest_longer(found: Cooldown, opened_at: float) -> None:
    kept = at_start(encode_cooldown(found), opened_at, RULE)
    assert kept.until - max(kept.since, opened_at) <= found.until - found.since + 1e-3
    assert kept == found or found.since > opened_at


# -- the frontier ----------------------------------------------------------------------------------------


class NoChance:
    """No jitter."""

    def random(self) -> float:
        return 0.0


def start(directory: Path, now: float = NOW, **options: Any) -> Frontier:
    opened.append(Store(directory))
    frontier = Frontier(opened[-1], now, FrontierOptions(rng=NoChance(), **options))  # type: ignore[arg-type]
    while not frontier.load(now):
        pass
    return frontier


def kill(frontier: Frontier) -> None:
    frontier._store.close()


def page(name: str, host: str = "a.example", **kept: Any) -> Link:
    return Link(name.encode().rjust(20, b"."), f"http://{host}/{name}", host, **kept)


def take(frontier: Frontier, now: float = NOW) -> Lease:
    lease = frontier.lease(now)
    assert lease is not None
    return lease


def name_of(lease: Lease) -> str:
    return lease.page.url.rpartition("/")[2]


def fetch(frontier: Frontier, now: float) -> str:
    """The name of the next page, which its host answers at once."""
    lease = take(frontier, now)
    frontier.on_response(lease, now, True)
    frontier.release(lease, FETCHED, now)
    return name_of(lease)


def meet(
    frontier: Frontier, lease: Lease, now: float, reason: str = "HTTP 429", seconds: float | None = None
) -> bool:
    """Trouble with a page, which is postponed; whether it keeps its attempts."""
    trouble = Trouble(reason, seconds, reason == "timed out", lease.leased_at, lease.page_id)
    rest = frontier.record_cooldown(lease.host, trouble, now)
    frontier.on_response(lease, now)
    outcome = POSTPONED if rest.keeps_attempts else Outcome(Event.RETRIED, reason=reason)
    frontier.release(lease, outcome, now)
    return rest.keeps_attempts


def test_a_host_in_trouble_is_left_alone_and_others_do_not_notice(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("1"), page("2"), page("3", "b.example")], NOW)
    assert meet(frontier, take(frontier), NOW)
    assert name_of(take(frontier)) == "3"
    assert frontier.lease(NOW + 59) is None
    assert frontier.wake_at() == NOW + 60
    assert frontier.pending == 2
    lease = take(frontier, NOW + 60)
    assert lease.page.attempts == 0
    frontier.close()


@pytest.mark.parametrize("stopped", [Frontier.close, kill])
def test_a_rest_survives_a_restart(tmp_path: Path, stopped: Any) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("1"), page("2")], NOW)
    frontier.record_cooldown("a.example", Trouble("HTTP 429", 600, sent=take(frontier).leased_at), NOW)
    stopped(frontier)

    frontier = start(tmp_path, NOW + 5)
    assert frontier.lease(NOW + 599) is None
    assert frontier.wake_at() == NOW + 600
    stopped(frontier)

    frontier = start(tmp_path, NOW + 601)
    take(frontier, NOW + 601)
    assert frontier.lease(NOW + 601) is None  # one at a time until it answers
    frontier.close()


def test_a_host_that_rests_is_left_alone_when_it_comes_back_with_a_new_page(tmp_path: Path) -> None:
    """Nothing of it was queued, so that only its row remembered."""
    frontier = start(tmp_path)
    frontier.discover([page("1")], NOW)
    lease = take(frontier)
    frontier.record_cooldown("a.example", Trouble("HTTP 503", sent=NOW), NOW)
    frontier.release(lease, Outcome(Event.FAILED, 503, "HTTP 503"), NOW)
    kill(frontier)

    frontier = start(tmp_path, NOW + 5)
    frontier.discover([page("2")], NOW + 5)
    assert frontier.lease(NOW + 59) is None
    take(frontier, NOW + 60)
    frontier.close()


def test_one_incident_is_one_strike(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 3))
    frontier.discover([page(str(number)) for number in range(9)], NOW)
    leases = [take(frontier) for _ in range(3)]
    for second, lease in enumerate(leases):
        assert meet(frontier, lease, NOW + second)
    assert frontier.wake_at() == NOW + 60
    probe = take(frontier, NOW + 60)
    assert frontier.lease(NOW + 60) is None
    assert meet(frontier, probe, NOW + 61)
    assert frontier.lease(NOW + 61 + 119) is None
    assert frontier.lease(NOW + 61 + 120) is not None
    frontier.close()


def test_an_answer_opens_the_host_and_thirty_quiet_minutes_forgive_it(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 2))
    frontier.discover([page(str(number)) for number in range(9)], NOW)
    meet(frontier, take(frontier), NOW)
    fetch(frontier, NOW + 60)
    first, second = take(frontier, NOW + 61), take(frontier, NOW + 61)
    for lease in (first, second):
        frontier.release(lease, POSTPONED, NOW + 61)
    key = keys.cooldown_key("a.example")
    assert frontier._store.get(key) is not None
    fetch(frontier, NOW + 60 + FORGIVEN)
    assert frontier._store.get(key) is None
    meet(frontier, take(frontier, NOW + 60 + FORGIVEN), NOW + 60 + FORGIVEN)
    assert frontier.wake_at() == NOW + 120 + FORGIVEN
    frontier.close()


def test_strikes_are_remembered_when_a_host_left_memory_meanwhile(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    now = NOW
    for strike in range(1, 5):
        frontier.discover([page(str(strike))], now)
        lease = take(frontier, now)
        rest = frontier.record_cooldown("a.example", Trouble("HTTP 429", sent=now), now)
        frontier.release(lease, Outcome(Event.FAILED, 429, "HTTP 429"), now)
        assert rest.cooldown.strikes == strike
        now = rest.cooldown.until + FORGIVEN - 1
        assert frontier.lease(now) is None
        assert frontier.hosts == 0
    frontier.close()


def test_what_was_forgiven_while_the_crawl_was_stopped_is_forgotten(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("1"), page("2")], NOW)
    meet(frontier, take(frontier), NOW)
    fetch(frontier, NOW + 60)
    kill(frontier)
    frontier = start(tmp_path, NOW + 60 + FORGIVEN)
    frontier.commit()
    assert frontier._store.get(keys.cooldown_key("a.example")) is None
    take(frontier, NOW + 60 + FORGIVEN)
    frontier.close()


def test_an_answer_to_a_request_from_before_the_trouble_proves_nothing(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 2))
    frontier.discover([page(str(number)) for number in range(9)], NOW)
    early, other = take(frontier), take(frontier)
    meet(frontier, other, NOW + 1)
    frontier.on_response(early, NOW + 2, True)
    take(frontier, NOW + 61)
    assert frontier.lease(NOW + 61) is None
    frontier.close()


def test_a_page_whose_own_fault_it_is_fails_and_its_host_never_rests_long(tmp_path: Path) -> None:
    """It is the best page of its host and times out always: others ask first whether the host is back."""
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 1), max_attempts=3)
    frontier.discover([page("bad", priority=9), *(page(str(number)) for number in range(9))], NOW)
    now, kept = NOW, []
    for _ in range(4):
        bad = take(frontier, now)
        assert name_of(bad) == "bad"
        kept.append(meet(frontier, bad, now, "timed out"))
        assert frontier.lease(now + 59) is None
        now += 60
        assert fetch(frontier, now) != "bad"
    assert kept == [True, False, False, False]
    found = frontier.page(bad.page_id)
    assert found is not None
    assert (found.state, found.attempts) == (State.FAILED, 3)
    frontier.close()


def test_a_host_that_never_answers_uses_up_attempts_in_the_end(tmp_path: Path) -> None:
    """With nothing but dead hosts a crawl ends by itself; a day is the longest rest."""
    frontier = start(tmp_path, max_attempts=2)
    frontier.discover([page("1")], NOW)
    now, kept = NOW, []
    while (lease := frontier.lease(now)) is not None:
        kept.append(meet(frontier, lease, now, "connection refused"))
        now += min(60 * 2 ** (len(kept) - 1), DAY)
    assert kept == [True] * PATIENCE + [False] * 2
    found = frontier.page(0)
    assert found is not None
    assert found.state is State.FAILED
    frontier.close()


def test_many_incidents_of_a_host_that_answers_charge_nobody(tmp_path: Path) -> None:
    """A server that limits rates: now and then it says so, to whichever page it happens to be."""
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 1))
    frontier.discover([page(str(number)) for number in range(100)], NOW)
    now = NOW
    for _ in range(3 * PATIENCE):
        assert meet(frontier, take(frontier, now), now, seconds=1)
        now += 1
        fetch(frontier, now)
        fetch(frontier, now)
    frontier.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_trouble_of_a_host_nobody_knows_is_remembered(tmp_path: Path, is_killed: bool) -> None:
    frontier = start(tmp_path)
    frontier.record_cooldown("a.example", Trouble("HTTP 429", 30), NOW)
    if is_killed:
        kill(frontier)
        frontier = start(tmp_path, NOW + 1)
    frontier.discover([page("1")], NOW + 1)
    assert frontier.lease(NOW + 29) is None
    take(frontier, NOW + 30)
    frontier.close()


def test_a_delay_set_meanwhile_does_not_end_a_rest(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("1")], NOW)
    meet(frontier, take(frontier), NOW)
    frontier.set_delay("a.example", 1.0, NOW + 1)
    assert frontier.lease(NOW + 59) is None
    take(frontier, NOW + 60)
    frontier.close()


# -- who decides a delay ---------------------------------------------------------------------------------


def test_the_largest_delay_decides_and_the_operator_over_all() -> None:
    asked = {FROM_SETTINGS: 2.0, "http://a.example": 5.0}
    assert deciding(asked) == (5.0, "http://a.example")
    assert deciding({**asked, "http://a.example": 2.0}) == (2.0, FROM_SETTINGS)
    assert deciding({**asked, OPERATOR: 1.0}) == (1.0, OPERATOR)


def test_keys_of_cooldowns_mix_with_no_others() -> None:
    assert keys.COOLDOWN not in [
        keys.INDEX,
        keys.PAGE,
        keys.QUEUE,
        keys.WAITING,
        keys.HOST,
        keys.ASIDE,
        b"m",
        b"o",
    ]
