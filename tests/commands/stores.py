"""Real stores for the tests of commands, and commands run in this process or as a user runs them."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nursery import nursery
from scrapy import Request
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from scrapy.utils.request import RequestFingerprinter

import scrapy_frontier
from scrapy_frontier.commands import Command
from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.parse.urls import host_of
from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import INTERNAL, NOFOLLOW, REDIRECT, Edge
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.crawl import fingerprints
from scrapy_frontier.settings import SCORERS

if TYPE_CHECKING:
    import pytest

    from scrapy_frontier.core.admin.check import Finding
    from scrapy_frontier.core.store.keys import State
    from scrapy_frontier.core.store.records import Page

NOW = 1_700_000_000.0
FETCHED = Outcome(Event.FETCHED, 200)
CLOCK = {"FRONTIER_CLOCK": lambda: NOW}

_fingerprinter = RequestFingerprinter()
_kind = RequestFingerprinter
SCHEME = fingerprints.key_scheme(_fingerprinter.fingerprint, f"{_kind.__module__}.{_kind.__qualname__}")


def fingerprint(url: str) -> bytes:
    return _fingerprinter.fingerprint(Request(url))


def fingerprint_of(page: Page) -> bytes | None:
    try:
        return fingerprint(page.url)
    except ValueError:
        return None


def link(url: str, **kept: Any) -> Link:
    return Link(fingerprint(url), url, kept.pop("host", host_of(url)), **kept)


def start(directory: Path, now: float = NOW, **options: Any) -> Frontier:
    frontier = Frontier(Store(directory, SCHEME), now, FrontierOptions(**options))
    while not frontier.load(now):
        pass
    return frontier


def fetch(frontier: Frontier, outcome: Outcome = FETCHED, now: float = NOW) -> str:
    """Lease the next page and release it; its URL."""
    lease = frontier.lease(now)
    assert lease is not None
    frontier.release(lease, outcome, now)
    return lease.page.url


def order(directory: Path, count: int, now: float = NOW, delay: float = 1.0) -> list[str]:
    """The next URLs as a crawl gets them, over virtual time; nothing is kept of it."""
    store = Store(directory, SCHEME)
    frontier = Frontier(store, now, FrontierOptions(default_politeness=Politeness(delay, 1)))
    while not frontier.load(now):
        pass
    found: list[str] = []
    while len(found) < count:
        lease = frontier.lease(now)
        if lease is not None:
            found.append(lease.page.url)
            frontier.on_response(lease, now)
            continue
        wake = frontier.wake_at()
        if wake is None or wake > now + 1800:  # only leases are left to wait for
            break
        now = max(now, wake)
    store.close()
    return found


ENDINGS = [
    FETCHED,
    Outcome(Event.GONE, 404, "HTTP 404"),
    Outcome(Event.FAILED, 500, "HTTP 500"),
    Outcome(Event.EXCLUDED, 0, "Forbidden by robots.txt"),
    Outcome(Event.RETRIED, 503, "HTTP 503", delay=60.0),
    Outcome(Event.RETRIED, 503, "HTTP 503"),
]


def crawl(directory: Path, pages: int = 60, hosts: int = 5, ended: int = 24) -> None:
    """A frontier in every state: pages on some hosts, some of them ended in each way there is."""
    frontier = start(directory)
    urls = [f"http://h{number % hosts}.example/{number}" for number in range(pages)]
    links = [link(url, priority=number % 3) for number, url in enumerate(urls[1:], 1)]
    assert [each.page_id for each in frontier.discover([link(urls[0])], NOW)] == [0]
    fetch(frontier)
    frontier.discover([replace(each, parent=0) for each in links], NOW)
    for number in range(ended):
        fetch(frontier, ENDINGS[number % len(ENDINGS)], NOW)
    target = frontier.find(fingerprint(urls[-1]))
    fetch(frontier, Outcome(Event.REDIRECTED, 301, f"led to {urls[-1]}", target=target))
    frontier.discover([link(urls[0], again=True)], NOW)  # a revisit
    frontier.close()


REDIRECTED = Outcome(Event.REDIRECTED, 301, "led on")


def crawl_web(
    directory: Path, pages: int = 300, read: int = 120, scorer: str | None = "mixed", packed: int = 0
) -> dict[int, list[Edge]]:
    """A frontier with a link graph: *read* of *pages* are read, in the order of *scorer*, and each links
    pages drawn from all, the low numbers most; the links, by page. The first *packed* pages read have
    theirs in segments."""
    rng = random.Random(7)
    frontier = start(directory, scorer=load_object(SCORERS[scorer])() if scorer else None)
    frontier.discover([link(web_url(0))], NOW)
    written: dict[int, list[Edge]] = {}
    for number in range(read):
        lease = frontier.lease(NOW + number)
        assert lease is not None
        targets = {int(pages * rng.random() ** 3) for _ in range(8)} | {(lease.page_id * 2 + 1) % pages}
        urls = [web_url(target) for target in sorted(targets)]
        frontier.discover([link(url, parent=lease.page_id) for url in urls], NOW + number)
        ids = [frontier.find(fingerprint(url)) for url in urls]
        edges = [
            Edge(found, rng.choice((0, 0, INTERNAL, NOFOLLOW | INTERNAL)), rng.choice((1.0, 1.0, 0.5)))
            for found in ids
            if found is not None
        ]
        outcome = FETCHED
        if number == 5:
            edges, outcome = [Edge(edges[0].target, REDIRECT)], REDIRECTED._replace(target=edges[0].target)
        lease.edges.extend(edges)
        worth = 2.0 if number % 7 == 0 else 1.0
        frontier.release(lease, outcome._replace(has_links=True, content_score=worth), NOW + number)
        written[lease.page_id] = sorted(edges)
        if number == packed - 1:
            frontier.commit()
            run = frontier.rank_now()
            for each in run.repack(bool):
                for _ in frontier._scores.put_in_place(each):
                    pass
            run.close()
    frontier.close()
    return written


def crawl_on(directory: Path, count: int, scorer: str, pages: int = 300) -> list[str]:
    """The next *count* URLs that a crawl with *scorer* reads, each of which links two pages and is ranked
    half-way; nothing is kept clean."""
    frontier = start(directory, scorer=load_object(SCORERS[scorer])())
    found: list[str] = []
    for number in range(count):
        lease = frontier.lease(NOW + 1000 + number)
        if lease is None:
            break
        found.append(lease.page.url)
        urls = [web_url((lease.page_id * factor + 3) % pages) for factor in (5, 11)]
        frontier.discover([link(url, parent=lease.page_id) for url in urls], NOW)
        edges = [Edge(page_id) for url in urls if (page_id := frontier.find(fingerprint(url))) is not None]
        lease.edges.extend(edges)
        frontier.release(lease, FETCHED._replace(has_links=True), NOW + 1000 + number)
    frontier.close()
    return found


def web_url(number: int) -> str:
    return f"http://h{number % 5}.example/{number}"


# -- rows --------------------------------------------------------------------------------------------------


def rows(directory: Path) -> dict[bytes, bytes]:
    store = Store(directory)
    try:
        return dict(store.scan(b""))
    finally:
        store.close()


def change(directory: Path, put: dict[bytes, bytes] | None = None, delete: tuple[bytes, ...] = ()) -> None:
    """Damage a store."""
    store = Store(directory)
    store.write({**(put or {}), **dict.fromkeys(delete)})
    store.close()


def check(directory: Path, repair: bool = False) -> list[Finding]:
    store = Store(directory)
    try:
        return list(Check(store, fingerprint_of, NOW, repair).run())
    finally:
        store.close()


def pages(directory: Path) -> dict[int, Page]:
    return {
        int.from_bytes(key[1:], "big"): records.decode_page(value)
        for key, value in rows(directory).items()
        if key[:1] == keys.PAGE
    }


def first(directory: Path, state: State) -> int:
    """The id of the oldest page in *state*."""
    return next(page_id for page_id, page in pages(directory).items() if page.state is state)


# -- commands ----------------------------------------------------------------------------------------------


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Frontiers:
    """``scrapy frontier ... --dir`` *directory*, in this process; None for that of the settings. Time stands
    still at NOW."""

    def __init__(self, directory: Path | None, capsys: pytest.CaptureFixture[str], **settings: Any) -> None:
        self.directory = directory
        self._capsys = capsys
        self._settings = {**CLOCK, **settings}

    def __call__(self, *arguments: str | Path) -> Said:
        command, parser = Command(), argparse.ArgumentParser(conflict_handler="resolve")
        command.settings = Settings({**self._settings})
        command.settings.setdict(command.default_settings, priority="command")
        command.add_options(parser)
        line = [str(argument) for argument in arguments]
        if "--dir" not in line and self.directory is not None:
            line += ["--dir", str(self.directory)]
        options, args = parser.parse_known_args(line)
        command.process_options(args, options)
        self._capsys.readouterr()
        command.run(args, options)
        said = self._capsys.readouterr()
        return Said(command.exitcode, said.out, said.err)


def environment(directory: Path) -> dict[str, str]:
    """Where a new process finds the package and its entry point, installed or not."""
    paths = [str(Path(scrapy_frontier.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    if not any(each.name == "frontier" for each in entry_points(group="scrapy.commands")):
        about = directory / "entry" / "frontier_entry-0.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: frontier-entry\nVersion: 0\n")
        (about / "entry_points.txt").write_text(
            "[scrapy.commands]\nfrontier = scrapy_frontier.commands:Command\n"
        )
        paths.insert(0, str(about.parent))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONWARNINGS": "ignore"}


def scrapy_command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "scrapy", *map(str, arguments)]


def run_scrapy(directory: Path, *arguments: str | Path, env: dict[str, str] | None = None) -> Said:
    """``scrapy ...`` as a user runs it, in *directory*."""
    done = nursery.run(
        ["-m", "scrapy", *map(str, arguments)], {**environment(directory), **(env or {})}, directory
    )
    return Said(done.returncode, done.stdout, done.stderr)
