"""What is kept of a robots.txt, when it is asked for again, and what holds meanwhile."""

import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.errors import UnreadableRow
from scrapy_frontier.core.hosts.host import FOREVER, Trouble
from scrapy_frontier.core.hosts.robots_policy import (
    FIRST_PAUSE,
    FRESH_FLOOR,
    FRESH_LIMIT,
    LONGEST_PAUSE,
    LONGEST_REST,
    Answer,
    AtDownload,
    AtHandOut,
    asked_directly,
    at_download,
    at_hand_out,
    is_current,
    is_proxy_to_blame,
    learnt,
    robots_status,
    trouble_with,
    whole_lines,
    why_not_awaited,
)
from scrapy_frontier.core.parse.robots_txt import BODY_LIMIT, decode
from scrapy_frontier.core.store.keys import robots_key
from scrapy_frontier.core.store.records import RobotsCopy, Verdict, decode_copy, encode_copy

NOW = 1_700_000_000.0
DAY = 86_400.0
FILE = b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\n"
COPIES = st.builds(
    RobotsCopy,
    st.sampled_from(Verdict),
    st.integers(0, 999),
    st.floats(0, 1e11),
    st.floats(0, 1e11),
    st.floats(0, 1e11),
    st.integers(0, 255),
    st.binary(max_size=300),
    st.text(st.characters(max_codepoint=255), max_size=40),
    st.text(st.characters(max_codepoint=255), max_size=40),
)


def failing(
    times: int, before: RobotsCopy | None = None, status: int | None = 503, every: float = 0.0
) -> RobotsCopy:
    copy = before
    for turn in range(times):
        copy = learnt(copy, Answer(status), NOW + turn * every)
    assert copy is not None
    return copy


# -- answers -----------------------------------------------------------------------------------------------


def test_a_file_is_obeyed_for_a_day_and_then_asked_for_again() -> None:
    copy = learnt(None, Answer(200, FILE), NOW)
    assert is_current(copy, NOW + FRESH_LIMIT - 1)
    assert not is_current(copy, NOW + FRESH_LIMIT)
    found = robots_status(copy, NOW, "mybot")
    assert not found.rules.allowed("http://a.example/private/x")
    assert found.held_until(NOW) == 0.0
    assert found.delay(NOW, DAY) == 2.0


def test_a_304_renews_the_copy_and_its_age() -> None:
    copy = learnt(None, Answer(200, FILE, etag='"one"', modified="then"), NOW)
    later = NOW + 2 * DAY
    renewed = learnt(failing(3, copy), Answer(304, was_conditional=True), later)
    assert renewed == copy._replace(status=304, fetched=later, ask_at=later + FRESH_LIMIT)
    assert learnt(copy, Answer(304, etag='"two"', was_conditional=True), later).etag == '"two"'
    assert learnt(copy, Answer(200, b""), later).etag == ""


@pytest.mark.parametrize("before", [None, learnt(None, Answer(404), NOW), failing(2)])
def test_a_304_that_nobody_asked_for_is_no_answer(before: RobotsCopy | None) -> None:
    copy = learnt(before, Answer(304), NOW)
    assert robots_status(copy, NOW, "mybot").held_until(NOW) == copy.ask_at > NOW
    assert copy.failures == (before.failures if before else 0) + 1


def test_while_nobody_asked_for_a_304_an_old_copy_holds_as_it_was() -> None:
    old = learnt(None, Answer(200, FILE), NOW - 2 * DAY)
    copy = learnt(old, Answer(304), NOW)
    assert (copy.body, copy.fetched, copy.failures) == (old.body, old.fetched, 1)
    assert not robots_status(copy, NOW, "mybot").rules.allowed("http://a.example/private")


def test_a_validator_without_end_is_not_kept() -> None:
    assert learnt(None, Answer(200, FILE, etag="x" * 100_000), NOW) == learnt(None, Answer(200, FILE), NOW)


def test_cache_control_shortens_the_day_to_an_hour_at_least() -> None:
    assert learnt(None, Answer(200, FILE, ["max-age=7200"], age=200.0), NOW).ask_at == NOW + 7000.0
    assert learnt(None, Answer(200, FILE, ["no-store"]), NOW).ask_at == NOW + FRESH_FLOOR


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 300, 301])
def test_no_file_allows_everything(status: int) -> None:
    copy = learnt(None, Answer(status, b"User-agent: *\nDisallow: /"), NOW)
    assert copy.body == b""
    found = robots_status(copy, NOW, "mybot")
    assert found.held_until(NOW) == 0.0
    assert found.rules.allowed("http://a.example/private")


@pytest.mark.parametrize("status", [None, 304, 429, 500, 503, 599])
def test_a_file_that_cannot_be_reached_keeps_the_host_waiting(status: int | None) -> None:
    copy = learnt(None, Answer(status), NOW)
    assert robots_status(copy, NOW, "mybot").held_until(NOW) == copy.ask_at == NOW + FIRST_PAUSE


def test_the_pause_doubles_up_to_a_day_and_ends_with_the_first_answer() -> None:
    pauses = [failing(times).ask_at - NOW for times in range(1, 14)]
    assert pauses[:4] == [60.0, 120.0, 240.0, 480.0]
    assert pauses[-1] == LONGEST_PAUSE
    assert failing(1, learnt(failing(9), Answer(404), NOW)).ask_at == NOW + FIRST_PAUSE


def test_retry_after_wins_over_a_shorter_pause_up_to_a_day() -> None:
    assert learnt(None, Answer(503, retry_after=600.0), NOW).ask_at == NOW + 600.0
    assert learnt(None, Answer(503, retry_after=5.0), NOW).ask_at == NOW + FIRST_PAUSE
    assert learnt(None, Answer(503, retry_after=1e9), NOW).ask_at == NOW + DAY


def test_an_old_copy_holds_while_the_file_cannot_be_reached() -> None:
    """RFC 9309 2.3.1.4; it is asked for again and again all the same."""
    copy = failing(3, learnt(None, Answer(200, FILE), NOW - DAY))
    found = robots_status(copy, NOW + 90 * DAY, "mybot")
    assert found.held_until(NOW) == 0.0
    assert not found.rules.allowed("http://a.example/private")
    assert not is_current(copy, copy.ask_at)


def test_that_there_was_no_file_is_no_copy() -> None:
    copy = failing(1, learnt(None, Answer(404), NOW - DAY))
    assert robots_status(copy, NOW, "mybot").held_until(NOW) == copy.ask_at


def test_after_thirty_days_of_failures_the_host_counts_as_one_without() -> None:
    copy = failing(5, every=DAY)
    assert robots_status(copy, NOW + 29 * DAY, "mybot").verdict is Verdict.POSTPONE
    assert robots_status(copy, NOW + 30 * DAY, "mybot").verdict is Verdict.ALLOW_ALL


def test_a_file_asks_its_host_to_rest_only_while_an_old_copy_lets_pages_through() -> None:
    old = RobotsCopy(Verdict.PARSE)
    assert trouble_with(Answer(429, retry_after=9.0), old) == Trouble("HTTP 429 for robots.txt", 9.0)
    assert trouble_with(Answer(503), old) == Trouble("HTTP 503 for robots.txt", 0.0)
    assert trouble_with(Answer(429), RobotsCopy()) is None
    assert [trouble_with(Answer(status), old) for status in (None, 200, 404, 500)] == [None] * 4


def test_a_redirect_is_waited_for_unless_it_rests_too_long_or_is_blocked() -> None:
    assert (
        why_not_awaited("b.example", FOREVER, is_cooling=False) == "it leads to b.example, which is blocked"
    )
    assert why_not_awaited("b.example", 61, True) == "it leads to b.example, which rests after trouble"
    assert why_not_awaited("b.example", LONGEST_REST, is_cooling=True) == ""
    assert why_not_awaited("b.example", 3600, is_cooling=False) == "", "its own delay"


@pytest.mark.parametrize(
    ("statuses", "is_blamed"),
    [
        ((200, 204, 301, 304, 404, 410), False),
        ((None, 100, 400, 401, 402, 403, 407, 429, 451, 500, 502, 503, 504), True),
    ],
)
def test_what_a_proxy_may_have_answered_itself(statuses: tuple[int | None, ...], is_blamed: bool) -> None:
    assert {is_proxy_to_blame(status) for status in statuses} == {is_blamed}


def test_the_direct_answer_counts_and_where_there_is_none_the_pause_asked_for_by_proxy() -> None:
    by_proxy, none = Answer(429, retry_after=600.0), Answer(None, error="refused", failure=OSError())
    for answer in (Answer(200, FILE, retry_after=9.0), Answer(404)):
        assert asked_directly(by_proxy, answer) == answer
    busy = asked_directly(by_proxy, Answer(503, retry_after=9.0))
    assert (busy.status, busy.retry_after) == (503, 9.0)
    assert busy.words == "HTTP 429 by the proxy that its page names, HTTP 503 directly"
    silent = asked_directly(by_proxy, none)
    assert (silent.status, silent.retry_after, silent.failure) == (None, 600.0, none.failure)
    assert silent.words == "HTTP 429 by the proxy that its page names, refused directly"


def test_a_clock_that_was_set_back_does_not_make_a_copy_last() -> None:
    assert not is_current(learnt(None, Answer(200, FILE), NOW + 400 * DAY), NOW)


def test_visit_time_holds_until_it_begins() -> None:
    midnight = NOW - NOW % DAY
    copy = learnt(None, Answer(200, b"User-agent: *\nVisit-time: 0200-0400\n"), midnight)
    found = robots_status(copy, midnight, "mybot")
    assert found.held_until(midnight) == midnight + 7200.0
    assert found.held_until(midnight + 3 * 3600.0) == 0.0
    assert found.held_until(midnight + 5 * 3600.0) == midnight + DAY + 7200.0


def test_why_pages_wait_is_told_by_the_file_that_holds() -> None:
    """Who waits for the hours of an old copy does not wait for the file, and is not given up with it."""
    error = OSError("refused")
    waiting = robots_status(failing(3), NOW, "mybot").trouble("http://a.example", error)
    assert waiting.reason == "robots.txt of http://a.example cannot be read"
    assert (waiting.times, waiting.failure) == (3, error)
    old = learnt(None, Answer(200, b"User-agent: *\nVisit-time: 0200-0400\n"), NOW)
    for copy in (old, failing(3, old)):
        waiting = robots_status(copy, NOW, "mybot").trouble("http://a.example", error)
        assert waiting.reason == "robots.txt of http://a.example asks for other hours"
        assert (waiting.times, waiting.failure) == (0, None)


def test_a_rate_with_hours_holds_during_them() -> None:
    midnight = NOW - NOW % DAY
    copy = learnt(
        None, Answer(200, b"User-agent: *\nCrawl-delay: 1\nRequest-rate: 1/10s 0800-1200\n"), midnight
    )
    found = robots_status(copy, midnight, "mybot")
    assert [found.delay(midnight + hour * 3600.0, DAY) for hour in (7, 9, 13)] == [1.0, 10.0, 1.0]
    assert found.delay(midnight + 9 * 3600.0, 5.0) == 5.0


# -- the body ----------------------------------------------------------------------------------------------


@given(st.integers(-50, 50), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_what_is_kept_of_a_long_file_reads_the_same(shift: int, end: bytes) -> None:
    head = b"User-agent: *" + end + b"Disallow: /a" + end
    filler = b"#" * (BODY_LIMIT + shift - len(head) - len(end)) + end
    body = head + filler + b"Disallow: /crosses" + end + b"Disallow: /beyond" + end * 3
    assert decode(whole_lines(body)) == decode(body)


def test_half_a_line_at_the_end_of_what_was_read_is_no_rule() -> None:
    body = b"User-agent: *\n".ljust(BODY_LIMIT - 5, b"#") + b"\nDisallow: /private-no"
    assert whole_lines(body) == body[: BODY_LIMIT - 5]
    assert whole_lines(b"x" * (3 * BODY_LIMIT)) == b""


# -- the row -----------------------------------------------------------------------------------------------


@given(COPIES)
def test_a_row_comes_back_as_it_was(copy: RobotsCopy) -> None:
    assert decode_copy(encode_copy(copy)) == copy


def test_golden_bytes() -> None:
    assert robots_key("https://a.example:8443") == b"rhttps://a.example:8443"
    copy = RobotsCopy(Verdict.POSTPONE, 503, 1.0, NOW, 2.5, 3)
    golden = "02 01f7 3ff0000000000000 41d954fc40000000 4004000000000000 03"
    assert encode_copy(copy).hex() == golden.replace(" ", "") + "0000"
    assert encode_copy(copy._replace(body=b"x"))[30:] == zlib.compress(b"x")
    validated = copy._replace(etag='W/"1"', modified="now", body=b"x")
    assert encode_copy(validated)[28:] == b'\x05W/"1"\x03now' + zlib.compress(b"x")
    assert [(verdict.name, int(verdict)) for verdict in Verdict] == [
        ("ALLOW_ALL", 0),
        ("PARSE", 1),
        ("POSTPONE", 2),
    ]


@given(st.binary(max_size=60))
def test_any_other_bytes_are_unreadable_and_nothing_worse(data: bytes) -> None:
    with contextlib.suppress(UnreadableRow):
        assert isinstance(decode_copy(data), RobotsCopy)


def test_a_bomb_is_unreadable() -> None:
    head = encode_copy(RobotsCopy())
    with pytest.raises(UnreadableRow):
        decode_copy(head + zlib.compress(bytes(50_000_000)))
    with pytest.raises(UnreadableRow):
        decode_copy(head + zlib.compress(b"x" * 100)[:-3])


@pytest.mark.parametrize(
    ("is_known", "wait", "is_allowed", "is_own_queue", "is_new_delay", "becomes"),
    [
        (True, 0.0, True, True, False, AtHandOut.GOES),
        (True, -1e9, True, False, False, AtHandOut.GOES),
        # The middleware finds out.
        (True, 0.0, None, True, False, AtHandOut.GOES),
        # Whoever made the request hears of it, and its host does not.
        (True, 0.0, False, True, False, AtHandOut.UNVISITED),
        (True, 0.0, False, False, False, AtHandOut.UNVISITED),
        # The host waits for its site, but not a queue that others share.
        (True, 9.0, None, True, False, AtHandOut.HELD),
        (True, 9.0, None, False, False, AtHandOut.UNVISITED),
        # A delay counts from the first page on that is asked for, also where this one is not.
        (True, 0.0, True, True, True, AtHandOut.DELAYED),
        (True, 0.0, False, True, True, AtHandOut.DELAYED),
        (True, 9.0, None, False, True, AtHandOut.DELAYED),
        (True, 9.0, None, True, True, AtHandOut.HELD),
        # Of what nobody has read nothing counts.
        (False, 0.0, None, True, False, AtHandOut.UNKNOWN),
        (False, 9.0, False, False, True, AtHandOut.UNKNOWN),
    ],
)
def test_what_becomes_of_a_page_at_its_hand_out(
    is_known: bool,
    wait: float,
    is_allowed: bool | None,
    is_own_queue: bool,
    is_new_delay: bool,
    becomes: AtHandOut,
) -> None:
    assert at_hand_out(is_known, wait, is_allowed, is_own_queue, is_new_delay) is becomes


SILENT = Trouble("nobody answers", failure=TimeoutError())
OTHER = Trouble("it refuses")


@pytest.mark.parametrize(
    ("is_known", "wait", "is_allowed", "given_up", "becomes"),
    [
        (True, 0.0, True, None, AtDownload.PASSES),
        (True, -1.0, True, None, AtDownload.PASSES),
        (True, 0.0, False, None, AtDownload.FORBIDDEN),
        (True, 9.0, None, None, AtDownload.WAITS),
        (False, 0.0, None, None, AtDownload.UNKNOWN),
        # What is forbidden is so whatever its host does.
        (True, 0.0, False, SILENT, AtDownload.FORBIDDEN),
        (True, 0.0, False, OTHER, AtDownload.FORBIDDEN),
        # Nobody waits for a site that is given up.
        (True, 9.0, None, SILENT, AtDownload.GIVEN_UP),
        (False, 0.0, None, SILENT, AtDownload.GIVEN_UP),
        (False, 0.0, None, OTHER, AtDownload.GIVEN_UP),
        # Where nobody answers the cooldown ends what may be fetched, with the failure that was met.
        (True, 0.0, True, SILENT, AtDownload.PASSES),
        (True, 0.0, True, OTHER, AtDownload.GIVEN_UP),
    ],
)
def test_what_becomes_of_a_page(
    is_known: bool, wait: float, is_allowed: bool | None, given_up: Trouble | None, becomes: AtDownload
) -> None:
    assert at_download(is_known, wait, is_allowed, given_up) is becomes
