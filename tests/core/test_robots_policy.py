"""What an answer to a request for robots.txt means, when it is asked for again, and what holds meanwhile.

Section numbers in the names are those of RFC 9309.
"""

import pytest

from scrapy_frontier.core.hosts.host import FOREVER, Trouble
from scrapy_frontier.core.hosts.robots_policy import (
    FIRST_PAUSE,
    FRESH_FOR,
    LONGEST_PAUSE,
    LONGEST_REST,
    Answer,
    after_answer,
    is_current,
    robots_status,
    trouble_with,
    unasked,
    verdict,
    why_not_awaited,
)
from scrapy_frontier.core.store.records import RobotsCopy, Verdict

DAY = 86_400.0
NOW = 1_700_000_000.0 // DAY * DAY  # a midnight
FILE = b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\n"
OLD = after_answer(None, Answer(200, FILE), NOW - 2 * DAY)


def failing(
    times: int, before: RobotsCopy | None = None, status: int | None = 503, every: float = 0.0
) -> RobotsCopy:
    copy = before
    for turn in range(times):
        copy = after_answer(copy, Answer(status), NOW + turn * every)
    assert copy is not None
    return copy


@pytest.mark.parametrize(
    ("statuses", "by_proxy", "expected"),
    [
        ((200, 204, 206, 299), False, Verdict.PARSE),
        ((301, 302, 307, 308, 400, 401, 403, 404, 410, 451, 499), False, Verdict.ALLOW_ALL),
        ((None, 100, 304, 407, 429, 500, 502, 503, 504, 599, 999), False, Verdict.POSTPONE),
        ((200, 299), True, Verdict.PARSE),
        ((301, 400, 404, 410, 451), True, Verdict.ALLOW_ALL),
        ((None, 401, 403, 407, 429, 500, 502, 503), True, Verdict.POSTPONE),
    ],
)
def test_2_3_1_status_classes(statuses: tuple[int | None, ...], by_proxy: bool, expected: Verdict) -> None:
    assert {verdict(status, by_proxy) for status in statuses} == {expected}
    body = b"User-agent: *\nDisallow: /"
    for status in statuses:
        copy = after_answer(None, Answer(status, body, by_proxy=by_proxy), NOW)
        found = robots_status(copy, NOW, "mybot")
        assert found.rules.allowed("http://a.example/") is (expected is not Verdict.PARSE)
        assert found.held_until(NOW) == (NOW + FIRST_PAUSE if expected is Verdict.POSTPONE else 0.0)


def test_2_4_a_file_is_obeyed_for_a_day_and_then_asked_for_again() -> None:
    copy = after_answer(None, Answer(200, FILE), NOW)
    assert is_current(copy, NOW + FRESH_FOR - 1)
    assert not is_current(copy, NOW + FRESH_FOR)
    assert not is_current(after_answer(None, Answer(200, FILE), NOW + 400 * DAY), NOW), (
        "the clock was set back"
    )
    found = robots_status(copy, NOW, "mybot")
    assert not found.rules.allowed("http://a.example/private/x")
    assert (found.held_until(NOW), found.delay(NOW)) == (0.0, 2.0)


@pytest.mark.parametrize(
    ("answer", "pauses"),
    [
        (Answer(503), [1, 2, 240, 480]),
        (Answer(503, retry_after=5.0), [5, 5, 240, 480]),
        (Answer(429), [60, 120, 240, 480]),
        (Answer(429, retry_after=5.0), [5, 5, 240, 480]),
    ],
)
def test_what_a_request_waits_for_is_asked_for_again_within_seconds_at_first(
    answer: Answer, pauses: list[float]
) -> None:
    copy: RobotsCopy | None = None
    for pause in pauses:
        copy = after_answer(copy, answer, NOW, soon=2)
        assert copy.ask_at == NOW + pause
    assert after_answer(OLD, answer, NOW, soon=2).ask_at >= NOW + 60, "an old copy serves"


@pytest.mark.parametrize("before", [None, after_answer(None, Answer(404), NOW - 2 * DAY), failing(2), OLD])
def test_a_304_to_a_plain_request_is_no_answer(before: RobotsCopy | None) -> None:
    copy = after_answer(before, Answer(304), NOW)
    assert copy.failures == (before.failures if before else 0) + 1
    found = robots_status(copy, NOW, "mybot")
    if before is OLD:
        assert not found.rules.allowed("http://a.example/private"), "the old copy holds"
    else:
        assert found.held_until(NOW) == copy.ask_at > NOW


def test_the_pause_doubles_up_to_a_day_and_ends_with_the_first_answer() -> None:
    pauses = [failing(times).ask_at - NOW for times in range(1, 14)]
    assert pauses[:4] == [60.0, 120.0, 240.0, 480.0]
    assert pauses[-1] == LONGEST_PAUSE
    assert failing(1, after_answer(failing(9), Answer(404), NOW)).ask_at == NOW + FIRST_PAUSE


@pytest.mark.parametrize(("asked", "pause"), [(600.0, 600.0), (5.0, FIRST_PAUSE), (1e9, DAY)])
def test_retry_after_wins_over_a_shorter_pause_up_to_a_day(asked: float, pause: float) -> None:
    assert after_answer(None, Answer(503, retry_after=asked), NOW).ask_at == NOW + pause


def test_2_3_1_4_an_old_copy_holds_while_the_file_cannot_be_reached() -> None:
    copy = failing(3, OLD)
    found = robots_status(copy, NOW + 90 * DAY, "mybot")
    assert found.held_until(NOW) == 0.0
    assert not found.rules.allowed("http://a.example/private")
    assert not is_current(copy, copy.ask_at), "and it is asked for again all the same"


def test_2_3_1_4_without_a_copy_pages_wait_for_thirty_days() -> None:
    for before in (None, after_answer(None, Answer(404), NOW - DAY)):  # that there was no file is no copy
        copy = failing(5, before, every=DAY)
        assert robots_status(copy, NOW + 29 * DAY, "mybot").held_until(NOW) == copy.ask_at
        assert robots_status(copy, NOW + 30 * DAY, "mybot").verdict is Verdict.ALLOW_ALL


@pytest.mark.parametrize(
    ("before", "is_allowed"), [(None, True), (failing(3), True), (OLD, False), (failing(3, OLD), False)]
)
def test_of_a_file_that_the_project_refuses_to_ask_for_an_old_copy_holds(
    before: RobotsCopy | None, is_allowed: bool
) -> None:
    copy = unasked(before, NOW)
    assert is_current(copy, NOW)
    assert robots_status(copy, NOW, "mybot").rules.allowed("http://a.example/private") is is_allowed


def test_a_file_asks_its_host_to_rest_only_while_an_old_copy_lets_pages_through() -> None:
    assert trouble_with(Answer(429, retry_after=9.0), OLD) == Trouble("HTTP 429 for robots.txt", 9.0)
    assert trouble_with(Answer(503), OLD) == Trouble("HTTP 503 for robots.txt", 0.0)
    assert trouble_with(Answer(429), RobotsCopy()) is None
    assert [trouble_with(Answer(status), OLD) for status in (None, 200, 404, 500)] == [None] * 4


@pytest.mark.parametrize(
    ("wait", "is_cooling", "words"),
    [
        (FOREVER, False, "blocked"),
        (LONGEST_REST + 1, True, "rests"),
        (LONGEST_REST, True, ""),
        (3_600.0, False, ""),  # its own delay
    ],
)
def test_a_host_is_waited_for_unless_it_rests_too_long_or_is_blocked(
    wait: float, is_cooling: bool, words: str
) -> None:
    why = why_not_awaited("b.example", wait, is_cooling)
    assert words in why
    assert bool(why) is bool(words)


def test_visit_time_holds_until_it_begins() -> None:
    copy = after_answer(None, Answer(200, b"User-agent: *\nVisit-time: 0200-0400\n"), NOW)
    found = robots_status(copy, NOW, "mybot")
    begins = {0: NOW + 7_200.0, 3: 0.0, 5: NOW + DAY + 7_200.0}
    assert {hour: found.held_until(NOW + hour * 3_600.0) for hour in begins} == begins


def test_why_pages_wait_is_told_by_the_file_that_holds() -> None:
    """Pages that wait for the hours of an old copy do not wait for the file, and are not given up with it."""
    error = OSError("refused")
    waiting = robots_status(failing(3), NOW, "mybot").trouble("http://a.example", error)
    assert "cannot be read" in waiting.reason
    assert (waiting.times, waiting.failure) == (3, error)
    old = after_answer(None, Answer(200, b"User-agent: *\nVisit-time: 0200-0400\n"), NOW)
    for copy in (old, failing(3, old)):
        waiting = robots_status(copy, NOW, "mybot").trouble("http://a.example", error)
        assert "other hours" in waiting.reason
        assert (waiting.times, waiting.failure) == (0, None)
