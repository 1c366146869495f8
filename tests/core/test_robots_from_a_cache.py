"""What an answer to a request for robots.txt says that a cache kept, and for how long."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from scrapy_frontier.core.hosts.robots_policy import (
    FRESH_FLOOR,
    FRESH_LIMIT,
    Answer,
    given_at,
    is_current,
    learnt,
    with_cached,
)
from scrapy_frontier.core.store.records import RobotsCopy, Verdict

NOW, HOUR = 1_700_000_000.0, 3600.0
FILE = b"User-agent: *\nDisallow: /private\n"


@pytest.mark.parametrize("status", [200, 404])
def test_it_holds_for_a_day_from_when_it_was_given(status: int) -> None:
    copy = with_cached(None, Answer(status, FILE, cached_at=NOW - HOUR))
    assert copy is not None
    assert is_current(copy, NOW)
    assert copy == learnt(None, Answer(status, FILE), NOW - HOUR)
    assert not is_current(copy, NOW - HOUR + FRESH_LIMIT)


def test_it_holds_as_long_as_its_headers_say() -> None:
    copy = with_cached(None, Answer(200, FILE, ["no-cache"], cached_at=NOW - FRESH_FLOOR))
    assert copy is not None
    assert not is_current(copy, NOW)
    assert copy.body == FILE


@pytest.mark.parametrize("status", [None, 304, 429, 503])
@pytest.mark.parametrize("before", [None, learnt(None, Answer(200, FILE), NOW - FRESH_LIMIT)])
def test_what_says_nothing_changes_nothing(before: RobotsCopy | None, status: int | None) -> None:
    assert with_cached(before, Answer(status, cached_at=NOW)) is before


def test_the_later_of_two_counts_and_a_file_before_none_at_all() -> None:
    before = learnt(None, Answer(200, b""), NOW)
    assert with_cached(before, Answer(200, FILE, cached_at=NOW - 1)) is before
    later = with_cached(before, Answer(200, FILE, cached_at=NOW + 1))
    assert later is not None
    assert later.body == FILE
    found = with_cached(learnt(None, Answer(503), NOW), Answer(200, FILE, cached_at=0.0))
    assert found is not None
    assert found.verdict is Verdict.PARSE
    assert not is_current(found, NOW)


def test_a_date_that_is_none_or_yet_to_come_makes_it_old() -> None:
    assert given_at(formatdate(NOW, usegmt=True), NOW) == NOW
    assert [given_at(date, NOW) for date in ("", "today", formatdate(NOW + 1, usegmt=True))] == [0.0] * 3
