"""Dates: what sitemaps, feeds and HTTP headers hold, and what is none."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vectors import NOW, cases

from scrapy_frontier.core.parse.headers import http_date, timestamp


@pytest.mark.parametrize("case", cases("sitemaps", "lastmod_w3c") + cases("sitemaps", "rss_dates"))
def test_date_vectors(case: dict[str, Any]) -> None:
    assert timestamp(case["input"]) == (timestamp(case["expected"]) if case["expected"] else None)


@pytest.mark.parametrize("case", cases("retry_after", "http_dates"))
def test_http_date_vectors(case: dict[str, Any]) -> None:
    expected = timestamp(case["expected"]) if case["expected"] else None
    assert http_date(case["input"], NOW) == expected


# --- sitemaps and feeds -----------------------------------------------------------------------------------


@given(st.integers(0, 4 * 10**9), st.integers(0, 999_999), st.sampled_from([0, 90, -330]))
def test_a_date_is_what_it_was_before_it_was_written(second: int, micro: int, zone: int) -> None:
    date = datetime.fromtimestamp(second, timezone(timedelta(minutes=zone))).replace(microsecond=micro)
    assert timestamp(date.isoformat()) == pytest.approx(second + micro / 1e6, abs=1e-6)
    assert timestamp(date.strftime("%a, %d %b %Y %H:%M:%S %z")) == second


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2024-05-06Z", "2024-05-06T00:00"),  # a date of the sitemap schema (xsd:date) may have a zone
        ("2024-05-06+02:00", "2024-05-05T22:00"),
        ("2024-05-06T24:00:00Z", "2024-05-07T00:00"),  # the end of a day (xsd:dateTime)
        ("Mon, 06 May 2024 07:08:00 +02:00", "2024-05-06T05:08"),
        ("Mon May 06 2024 07:08:00 GMT+0200 (Central European Summer Time)", "2024-05-06T05:08"),
        ("Mon May  6 07:08:00 +0200 2024", "2024-05-06T05:08"),
        ("Mon, 06 May 2024 07:08:00 PDT", "2024-05-06T14:08"),
        ("Mon, 06 May 2024 07:08:00 CEST", "2024-05-06T07:08"),  # no zone of RFC 822: nobody knows
        ("May 6, 2024 7:08:00 PM", "2024-05-06T19:08"),
        ("6 May 2024 12:08 a.m. GMT", "2024-05-06T00:08"),
        ("Mon, 06 May 2024", "2024-05-06T00:00"),
        ("May 6, 2024", "2024-05-06T00:00"),
    ],
)
def test_dates_are_read_as_they_are_written_in_the_wild(text: str, iso: str) -> None:
    assert timestamp(text) == datetime.fromisoformat(iso + "+00:00").timestamp()


@pytest.mark.parametrize(
    "text",
    [
        *("2024-01-01T24:00:01Z", "2024-01-01T00:00+25:00", "Mon, 01 Jan 2024 00:00:00 +9999"),
        *("2024-01-01T24:30", "12:30", "May", "Mon, 06 May", "1714979280", "06/05/2024"),
    ],
)
def test_what_could_be_any_moment_is_no_date(text: str) -> None:
    assert timestamp(text) is None


@pytest.mark.parametrize(
    "text", ["", "0", "2024-13", "2024-02-30", "2024-01-01T25:00", "next year", "20240101", "9" * 200]
)
def test_no_date_is_no_date(text: str) -> None:
    assert timestamp(text) is None


# --- HTTP -------------------------------------------------------------------------------------------------


def test_a_two_digit_year_is_never_more_than_fifty_years_ahead() -> None:
    assert http_date("Sunday, 14-Nov-73 00:00:00 GMT", NOW) == timestamp("2073-11-14")
    assert http_date("Sunday, 14-Nov-74 00:00:00 GMT", NOW) == timestamp("1974-11-14")


def test_fifty_years_are_counted_from_the_moment_and_not_from_the_year() -> None:
    """NOW is 2023-11-14T22:13:20Z."""
    assert http_date("Tuesday, 14-Nov-73 22:13:20 GMT", NOW) == timestamp("2073-11-14T22:13:20Z")
    assert http_date("Tuesday, 14-Nov-73 22:13:21 GMT", NOW) == timestamp("1973-11-14T22:13:21Z")
    assert http_date("Sunday, 31-Dec-73 00:00:00 GMT", NOW) == timestamp("1973-12-31")
    assert http_date("Thursday, 29-Feb-24 00:00:00 GMT", timestamp("2024-02-29") or 0) == timestamp(
        "2024-02-29"
    )


@pytest.mark.parametrize("second", [61, 75, 99])
def test_a_minute_has_no_more_seconds_than_a_leap_second_makes(second: int) -> None:
    for form in (
        "Sun, 06 Nov 1994 08:49:{} GMT",
        "Sunday, 06-Nov-94 08:49:{} GMT",
        "Sun Nov  6 08:49:{} 1994",
    ):
        assert http_date(form.format(second), NOW) is None
        assert http_date(form.format(59), NOW) == timestamp("1994-11-06T08:49:59Z")
    assert timestamp(f"1994-11-06T08:49:{second}Z") is None
    assert timestamp(f"Sun, 06 Nov 1994 08:49:{second} GMT") is None


@given(
    st.one_of(
        st.text(max_size=40),
        st.text(st.sampled_from("0123456789:-+/,. TZGMJanFebPMpm\ud800"), max_size=40),
        st.lists(
            st.sampled_from(
                ["Mon", ",", " ", "31", "Feb", "2024", "99", "24:00:60", "+9999", "-0", "PM", "GMT", ":"]
            ),
            max_size=8,
        ).map("".join),
    ),
    st.floats(0, 4e9),
)
def test_no_text_breaks_the_readers(text: str, now: float) -> None:
    assert isinstance(timestamp(text), float | None)
    assert isinstance(http_date(text, now), float | None)


def test_a_leap_second_is_a_second() -> None:
    assert http_date("Sat, 31 Dec 2016 23:59:60 GMT", NOW) == timestamp("2017-01-01")
