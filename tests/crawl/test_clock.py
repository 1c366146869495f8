"""The clock of a crawl."""

from __future__ import annotations

import time

import pytest

from scrapy_frontier.crawl import clock


def test_the_clock_of_a_crawl_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "boot_time", iter([1000.0, 1001.0, 30_000.0]).__next__)
    steady = clock.steady_clock()
    before = steady()
    assert abs(before - time.time() - 1) < 600
    assert abs(steady() - before - 28_999.0) < 1e-3


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="a clock of Linux")
def test_the_machine_is_asked_for_a_clock_that_counts_its_sleep() -> None:
    assert clock.boot_time() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=600)
