"""SIGKILL at random moments: nothing accepted is lost, nothing finished is fetched again."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, FrontierOptions
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.ranking.graph import find_row
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000.0
KILLS = 6
IN_FLIGHT = 8
AT_RISK = 16

# Crawls for ever: up to IN_FLIGHT pages are leased, each links three that are new. Each line is printed
# when what it says is true: "accepted" pages are durable at the next "done", which follows its commit, of
# which there is one for several pages where more may be at risk than are in flight.
# With a scorer pages are ranked now and then, and their rows are moved while the crawl goes on.
CRAWL = """
import sys
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.core.store.leveldb import Store

def link(number):
    host = "h%d.example" % (number % 13)
    url, payload = "http://%s/%d" % (host, number), b"x" * (number % 50)
    return Link(number.to_bytes(20, "big"), url, host, payload=payload)

def say(word, number):
    print(word, number, flush=True)

now = float(sys.argv[2])
in_flight = int(sys.argv[3])
scorer = None
if sys.argv[4] != "none":
    from scrapy.utils.misc import load_object
    from scrapy_frontier.settings import SCORERS
    scorer = load_object(SCORERS[sys.argv[4]])()
store = Store(sys.argv[1])
options = FrontierOptions(max_attempts=1000, scorer=scorer, max_uncommitted_pages=int(sys.argv[5]))
frontier = Frontier(store, now, options)
ends = []

def tell():
    if not frontier._batch.ends:
        for end in ends:
            say(*end)
        ends.clear()

def rank():
    run = frontier.rank_now()
    yield from frontier.rank_steps(run, run.compute(bool, lambda: 0.0), lambda: now, 30)
    run.close()

while not frontier.load(now, 5):
    pass
say("opened", frontier.pending)
leases = []
number = 0
steps = None
for answer in frontier.discover([link(0)], now):
    if answer.is_taken:
        say("accepted", 0)
while True:
    now += 0.001
    if steps is None and frontier._scores.is_due():
        steps = rank()
    if steps is not None and next(steps, None) is None:
        steps = None
    while len(leases) < in_flight and (lease := frontier.lease(now)) is not None:
        leases.append(lease)
        tell()
        say("leased", int(lease.page.url.rpartition("/")[2]))
    lease = leases.pop(len(leases) // 2)
    number = int(lease.page.url.rpartition("/")[2])
    children = [3 * number + step for step in (1, 2, 3)]
    for child, answer in zip(children, frontier.discover([link(child) for child in children], now, lease)):
        if answer.is_taken:
            say("accepted", child)
    if lease.page.attempts == 0 and number % 10 == 9:
        outcome = Outcome(Event.RETRIED, 503, delay=0.005)
        ends.append(("retried", number))
    else:
        outcome = Outcome(Event.FETCHED, 200, has_links=True)
        ends.append(("done", number))
    frontier.release(lease, outcome, now)
    tell()
"""


@pytest.mark.parametrize(
    ("seed", "scorer", "at_risk"),
    [
        (1, "none", 0),
        (3, "mixed", AT_RISK),
        *(
            pytest.param(*more, 0, marks=pytest.mark.slow)
            for more in ((2, "none"), (4, "cash"), (5, "mixed"))
        ),
        pytest.param(6, "none", AT_RISK, marks=pytest.mark.slow),
    ],
)
def test_a_killed_crawl_goes_on_where_it_was(tmp_path: Path, seed: int, scorer: str, at_risk: int) -> None:
    rng = random.Random(seed)
    durable: set[int] = set()
    done: set[int] = set()
    retried: Counter[int] = Counter()
    leased: Counter[int] = Counter()

    for run in range(KILLS):
        lines = crawl_and_kill(tmp_path, NOW + 100 * run, rng.randrange(1, 1500), scorer, at_risk)
        accepted: list[int] = []
        for word, number in lines:
            if word == "accepted":
                accepted.append(number)
            elif word == "leased":
                assert number not in done, "a finished page is not leased again"
                leased[number] += 1
            elif word in ("retried", "done"):
                durable.update(accepted)
                accepted.clear()
                if word == "retried":
                    retried[number] += 1
                else:
                    done.add(number)
        check(tmp_path, durable, done)

    repeated = leased - Counter(dict.fromkeys(leased, 1)) - retried
    assert repeated.total() <= KILLS * max(IN_FLIGHT, at_risk), "only pages at risk are leased again"
    assert len(done) > 100


def crawl_and_kill(
    directory: Path, now: float, after_lines: int, scorer: str = "none", at_risk: int = 0
) -> list[tuple[str, int]]:
    """What a crawl said before it was killed; it is some lines ahead of what we read when it dies."""
    command = [sys.executable, "-c", CRAWL, str(directory), str(now), str(IN_FLIGHT), scorer, str(at_risk)]
    return [(word, int(number)) for word, number in said_before_the_kill(command, after_lines)]


def said_before_the_kill(command: list[str], after_lines: int) -> list[list[str]]:
    """The words of each whole line that *command* printed; it was killed when *after_lines* had come."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as crawl:
        assert crawl.stdout is not None
        said = [crawl.stdout.readline() for _ in range(after_lines)]
        crawl.kill()
        said += crawl.stdout.readlines()
    assert crawl.returncode == -9
    return [line.split() for line in said if line.endswith("\n")]


def check(directory: Path, durable: set[int], done: set[int]) -> None:
    """The files as the kill left them hold everything; looking at a copy would do, and opening is one more
    test. Nothing is marked as clean, and all that must always be true is."""
    store = Store(directory)
    assert list(Check(store, None, NOW).run()) == []
    frontier = Frontier(store, NOW)
    for number in durable | done:
        page_id = frontier.find(number.to_bytes(20, "big"))
        assert page_id is not None, f"{number} was accepted and is lost"
        page = frontier.page(page_id)
        assert page is not None
        assert (page.state is State.DONE) or number not in done
        if number in done:
            children = [frontier.find((3 * number + step).to_bytes(20, "big")) for step in (1, 2, 3)]
            assert [edge.target for edge in find_row(page_id, frontier._batch.get)] == sorted(children)
    store.close()


def test_a_killed_crawl_can_be_finished(tmp_path: Path) -> None:
    """Every page that was accepted is fetched in the end, each exactly once from then on."""
    lines = crawl_and_kill(tmp_path, NOW, after_lines=700)
    done = {number for word, number in lines if word == "done"}

    frontier = Frontier(Store(tmp_path), NOW + 100, FrontierOptions(default_politeness=Politeness(0.0, 1)))
    while not frontier.load(NOW + 100):
        pass
    assert not frontier.was_clean
    known, waiting = frontier._batch.counts.next_page, frontier.pending
    fetched = []
    while (lease := frontier.lease(NOW + 100)) is not None:
        fetched.append(int(lease.page.url.rpartition("/")[2]))
        frontier.release(lease, Outcome(Event.FETCHED, 200), NOW + 100)
    assert len(fetched) == len(set(fetched)) == waiting
    assert done.isdisjoint(fetched)
    assert frontier._batch.counts.states[State.DONE] == known
    assert frontier.pending == 0
    frontier.close()
