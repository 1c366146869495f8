"""Pages that are handed back, since a middleware waits for something: none of them is the next for ever."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from scrapy_frontier.core.frontier import Event, Frontier, FrontierOptions, Link, Outcome
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1.7e9
HANDED_BACK = Outcome(Event.POSTPONED, reason="handed back by a middleware", is_handed_back=True)


@pytest.mark.parametrize("delay", [0.0, 5.0])
def test_a_page_that_is_handed_back_lets_the_others_of_its_host_come_first(
    tmp_path: Path, delay: float
) -> None:
    options = FrontierOptions(default_politeness=Politeness(delay, 1))
    frontier = Frontier(Store(tmp_path), NOW, options)
    urls = [f"http://a.example/{number}" for number in range(3)]
    frontier.discover([Link(url.encode().rjust(20), url, "a.example") for url in urls], NOW)
    now, found = NOW, []
    while len(found) < 12:
        lease = frontier.lease(now)
        if lease is None:
            now = frontier.wake_at() or now
            continue
        found.append(int(lease.page.url[-1]))
        frontier.release(lease, HANDED_BACK, now)
    assert set(Counter(found).values()) <= {3, 4, 5}
    frontier.close()
