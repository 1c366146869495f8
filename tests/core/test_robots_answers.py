"""What an answer to a request for robots.txt means. Section numbers in the names are those of RFC 9309."""

from __future__ import annotations

import pytest

from scrapy_frontier.core.hosts.robots_policy import fresh_for, unreachable, verdict
from scrapy_frontier.core.store.records import Verdict


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((200, 204, 206, 299), Verdict.PARSE),
        ((301, 302, 307, 308, 400, 401, 403, 404, 410, 451, 499), Verdict.ALLOW_ALL),
        ((None, 100, 304, 407, 429, 500, 502, 503, 504, 599, 999), Verdict.POSTPONE),
    ],
)
def test_2_3_1_status_classes(statuses: tuple[int | None, ...], expected: Verdict) -> None:
    assert {verdict(status) for status in statuses} == {expected}


def test_2_3_1_4_a_host_that_cannot_be_asked_waits_uses_its_copy_or_is_given_up_on() -> None:
    month = 30 * 86_400.0
    assert (
        unreachable(has_copy=True, seconds=1.0)
        is unreachable(has_copy=True, seconds=2 * month)
        is Verdict.PARSE
    )
    assert unreachable(has_copy=False, seconds=month - 1) is Verdict.POSTPONE
    assert unreachable(has_copy=False, seconds=month) is Verdict.ALLOW_ALL


@pytest.mark.parametrize(
    ("headers", "age", "seconds"),
    [
        ((), 0.0, 86_400.0),
        (("public, max-age=7200",), 0.0, 7_200.0),
        (("public", 'max-age="7200"'), 600.0, 6_600.0),
        (("max-age=31536000",), 0.0, 86_400.0),
        (("max-age=0",), 0.0, 3_600.0),
        (("no-cache, max-age=80000",), 0.0, 3_600.0),
        (("s-maxage=7200",), 0.0, 86_400.0),
        (("max-age=soon",), 0.0, 86_400.0),
    ],
)
def test_2_4_a_copy_is_good_for_a_day_at_most(headers: tuple[str, ...], age: float, seconds: float) -> None:
    assert fresh_for(headers, age) == seconds
