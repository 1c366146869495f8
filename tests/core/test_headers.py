"""Headers that lead elsewhere or ask to wait, as browsers and the RFCs read them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vectors import NOW, cases, clock

from scrapy_frontier.core.parse.headers import (
    MOST_SECONDS,
    Led,
    Refresh,
    location,
    parse_refresh,
    retry_after,
    timestamp,
)


@pytest.mark.parametrize("case", cases("retry_after", "cases"))
def test_retry_after_vectors(case: dict[str, Any]) -> None:
    assert retry_after(case["values"][0], clock(case)) == case["delay"]


@pytest.mark.parametrize("case", cases("redirects", "location"))
def test_location_vectors(case: dict[str, Any]) -> None:
    assert location(case["location"], case["base"]) == case["expected"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0;URL = 'a b'", Refresh(0, "a b")),
        (".9 , /x", Refresh(0, "/x")),
        ("3.7.1; url=x", Refresh(3, "x")),
        ("5; url", Refresh(5, "url")),
        ("5; url=", Refresh(5, "")),
        ("5; 'x'y", Refresh(5, "x")),
        ("5; url='x", Refresh(5, "x")),
        ("9" * 5_000, Refresh(MOST_SECONDS, "")),
        ("", None),
        (";url=x", None),
        ("x", None),
        ("5x", None),
        ("\xa05; url=x", None),
    ],
)
def test_a_refresh_is_read_as_browsers_read_it(value: str, expected: Refresh | None) -> None:
    assert parse_refresh(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/b", "https://h/b#here"),
        ("/b#there", "https://h/b#there"),
        ("/b#", "https://h/b#"),
        ("?q", "https://h/dir/a?q#here"),
        ("//other", "https://other/#here"),
        ("  /\u00fc ", "https://h/%C3%BC#here"),
        ("ftp://h/x", None),
        ("javascript:0", None),
        ("http://", None),
    ],
)
def test_a_location_starts_from_the_request_and_inherits_its_fragment(
    value: str, expected: str | None
) -> None:
    assert location(value, "https://h/dir/a?x#here") == expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("\t007 ", 7.0),
        ("0", 0.0),
        ("9" * 6_000, float(MOST_SECONDS)),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60.0),
        ("Tue Nov 14 22:14:20 2023", 60.0),
        ("Tue, 14 Nov 2023 23:14:20 +0100", 60.0),
        ("Wed, 9 Nov 2033 22:14:20 UTC", timestamp("2033-11-09T22:14:20Z") - NOW),  # type: ignore[operator]
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", float(MOST_SECONDS)),
        ("-5", None),
        ("+5", None),
        ("1.5", None),
        ("5 seconds", None),
        ("0x10", None),
        ("\u0665", None),
        ("", None),
        ("tomorrow", None),
        ("Tue, 31 Feb 2023 00:00:00 GMT", None),
        ("Tue, 14 Nov 2023 25:00:00 GMT", None),
        ("2023-11-14", None),
    ],
)
def test_retry_after_is_a_number_a_date_or_nothing(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text(max_size=40))
def test_no_text_makes_anyone_wait_less_than_nothing_or_for_ever(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or 0.0 <= seconds <= MOST_SECONDS


@pytest.mark.parametrize("is_nofollow", [False, True])
@pytest.mark.parametrize("status", [200, 404])
def test_a_page_that_is_left_within_a_second_is_shown_to_nobody(status: int, is_nofollow: bool) -> None:
    """So it has moved, whatever it says of links; a later refresh is one of them, but of no error page."""
    at_once, later = ((Led.MOVED, Led.LINK), (Led.BESIDE, Led.BESIDE))[status >= 400]
    later = Led.FORBIDDEN if is_nofollow else later
    found = [Refresh(seconds, "/x").led(status, is_nofollow) for seconds in (0, 1, 2)]
    assert found == [at_once, at_once, later]
