"""Traps: what a URL looks like that leads to ever more of its kind."""

from __future__ import annotations

from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.pages.traps import TrapLimits, repeats, trap


def test_a_trap_is_named() -> None:
    limits = TrapLimits(length=200, depth=10, repeats=3)
    assert trap("http://h/?" + "a" * 200, limits) == "length"
    assert trap("http://h/" + "/".join("abcdefghijk"), limits) == "depth"
    assert trap("http://h/calendar/next/next/next", limits) == "repeated_segments"
    assert trap("http://h/a/b/a/b/a/b/index.html", limits) == "repeated_segments"
    assert trap("http://h/a/a/a?b", limits) == "repeated_segments"
    assert trap("http://h/a/a/a/#b", limits) == "repeated_segments"
    assert trap("http://h/a/b?a/a/a/a", limits) is None
    assert trap("http://h/a/a?b", TrapLimits(repeats=2)) == "repeated_segments"
    assert trap("http://h/a/b/a/b/index.html", limits) is None


@given(
    st.lists(st.sampled_from(["a", "b", "", "ab"]), max_size=9),
    st.sampled_from(["", "?", "?a/a/a", "#a/b", "/"]),
    st.sampled_from([TrapLimits(), TrapLimits(depth=4), TrapLimits(0, 0, 2), TrapLimits(0, 0, 3)]),
)
def test_the_short_way_says_the_same(pieces: list[str], end: str, limits: TrapLimits) -> None:
    url = "http://a.example/" + "/".join(pieces) + end
    segments = [each for each in urlsplit(url).path.split("/") if each]
    is_trap = 0 < limits.depth < len(segments) or repeats(segments) >= limits.repeats
    assert (trap(url, limits) is not None) == is_trap


def test_zero_switches_a_check_off() -> None:
    assert trap("http://h/" + "a/" * 3_000, TrapLimits(0, 0, 0)) is None


@given(st.lists(st.sampled_from("ab"), max_size=12))
def test_repeats_is_what_counting_every_run_finds(segments: list[str]) -> None:
    best = 0
    for start in range(len(segments)):
        for period in range(1, len(segments) - start + 1):
            run = segments[start : start + period]
            count = 1
            while segments[start + count * period : start + (count + 1) * period] == run:
                count += 1
            best = max(best, count)
    assert repeats(segments) == best
