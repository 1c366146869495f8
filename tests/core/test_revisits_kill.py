"""SIGKILL at random moments while pages come back: none is lost, none is visited before it is due."""

import random
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from test_kill import said_before_the_kill

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, FrontierOptions
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.store.leveldb import Store

NOW = 1_700_000_000.0
PAGES = 40
SPAN = 100.0
KILLS = 6

# Visits PAGES pages for ever, each again when it is due. A time is printed before anything is done then: the
# next run must not begin earlier, for what fell due by then may stand in a queue. A visit is printed when it
# is durable.
CRAWL = """
import sys
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.core.revisits.policy import Result
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.revisits.policy import Bounds
from scrapy_frontier.core.revisits.policy import Fetched
from scrapy_frontier.core.store.leveldb import Store

now, pages, span = float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
rule = RevisitRule(shelf_life=span, bounds=Bounds(1.0, 100 * span), horizon=1e9)
frontier = Frontier(Store(sys.argv[1]), now, FrontierOptions(max_attempts=3, revisits=rule))
while not frontier.load(now, 5):
    pass
links = []
for number in range(pages):
    host = "h%d.example" % (number % 7)
    links.append(Link(number.to_bytes(20, "big"), "http://%s/%d" % (host, number), host))
frontier.discover(links, now)
frontier.commit()
leases, step = [], 0
while True:
    now = max(now + 0.5, 0.0 if leases else frontier.wake_at() or 0.0)
    step += 1
    print(now, flush=True)
    while len(leases) < 4 and (lease := frontier.lease(now)) is not None:
        leases.append(lease)
    if not leases:
        continue
    lease = leases.pop(len(leases) // 2)
    number = int(lease.page.url.rpartition("/")[2])
    if step % 7 == 3 and lease.page.attempts == 0:
        frontier.release(lease, Outcome(Event.RETRIED, 503, delay=2.0), now)
        continue
    if lease.comes_back and step % 5 == 2:
        outcome = Outcome(Event.FETCHED, 304, result=Result.UNCHANGED)
    elif lease.comes_back and step % 11 == 4:
        outcome = Outcome(Event.GONE, 404)
    else:
        outcome = Outcome(Event.FETCHED, 200, fetched=Fetched(digest=b"%5d" % (step % 3)))
    frontier.release(lease, outcome, now)
    print(number, outcome.status, lease.leased_at, now, flush=True)
"""


class Visit(NamedTuple):
    page: int
    status: int
    begun: float
    ended: float


def crawl_and_kill(directory: Path, now: float, after_lines: int) -> tuple[list[Visit], float]:
    """The visits of a crawl that began at *now*, and how late it was when it was killed."""
    command = [sys.executable, "-c", CRAWL, str(directory), str(now), str(PAGES), str(SPAN)]
    words = said_before_the_kill(command, after_lines)
    visits = [Visit(int(line[0]), int(line[1]), *map(float, line[2:])) for line in words if len(line) == 4]
    return visits, max(float(line[0]) for line in words if len(line) == 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_crawl_comes_back_to_the_same_pages(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    visited: dict[int, float] = {}
    due: dict[int, int] = {}
    now = NOW
    for _ in range(KILLS):
        visits, now = crawl_and_kill(tmp_path, now, rng.randrange(50, 750))
        for number, status, begun, ended in visits:
            assert begun >= due.get(number, 0.0), "no page comes before it is due"
            due[number] = int(ended + (SPAN / 4 if status == 404 else SPAN))
            if status != 404:
                visited[number] = ended
        store = Store(tmp_path)
        assert list(Check(store, None, now).run()) == []
        frontier = Frontier(store, now, FrontierOptions(revisits=RevisitRule()))
        totals = frontier.totals()
        assert totals.due + totals.queued_again == sum(
            count for state, count in totals.states.items() if state not in ("queued", "seen")
        ), "every page that ended comes back"
        for number, when in visited.items():
            page = frontier.page(number)
            assert page is not None
            assert page.visits is not None
            assert page.visits.last >= int(when), "what was said to be done is done"
        store.close()
    assert len(visited) == PAGES
