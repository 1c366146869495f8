"""Commands that look: what they say, as text within 80 columns and as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from scrapy.exceptions import UsageError
from stores import NOW, Frontiers, change, crawl, fetch, link, order, pages, rows, start

from scrapy_frontier.core.admin import explain
from scrapy_frontier.core.hosts.host import Trouble
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.keys import State, robots_key
from scrapy_frontier.core.store.records import ROBOTS, Page, RobotsCopy, Verdict
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from pathlib import Path

LONG = "http://h1.example/" + "long/" * 40 + "end"


@pytest.fixture
def frontier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    crawl(tmp_path)
    return Frontiers(tmp_path, capsys)


LOOKS = [
    ("stats",),
    ("hosts",),
    ("queue",),
    ("find", "."),
    ("why", LONG),
    ("why", "http://h1.example/31"),
    ("why", "http://nobody.example/"),
    ("check",),
]


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
def test_text_fits_80_columns_and_looking_changes_nothing(frontier: Frontiers, command: tuple[str]) -> None:
    frontier("add", LONG, "--priority", "9")
    frontier("requeue", "--state", "done")
    before = rows(frontier.directory)
    said = frontier(*command)
    assert said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert rows(frontier.directory) == before


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
def test_json_is_json(frontier: Frontiers, command: tuple[str]) -> None:
    said = frontier(*command, "--json")
    assert all(isinstance(line, dict) for line in said.lines)
    if command[0] not in ("hosts", "queue", "find"):
        assert len(said.lines) == 1


def test_hosts_come_with_most_queued_pages_first(frontier: Frontiers) -> None:
    found = frontier("hosts", "--json").lines
    assert [host["queued"] for host in found] == sorted((host["queued"] for host in found), reverse=True)
    assert len(frontier("hosts", "--limit", "2", "--json").lines) == 2
    everything = frontier("hosts", "--limit", "0", "--json").lines
    assert [host["host"] for host in everything] == [f"h{number}.example" for number in range(5)]


def test_hosts_tell_their_delay_and_where_it_comes_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(tmp_path)
    slots = {"h2.example": {"delay": 9}}
    frontier = Frontiers(tmp_path, capsys, DOWNLOAD_DELAY=3, DOWNLOAD_SLOTS=slots)
    frontier("delay", "h1.example", "20")
    frontier("block", "h3.example")
    by_name = {host["host"]: host for host in frontier("hosts", "--json").lines}
    told = [(by_name[f"h{n}.example"]["delay"], by_name[f"h{n}.example"]["delay_from"]) for n in range(3)]
    assert told == [(3, "DOWNLOAD_DELAY"), (20, "operator"), (9, "DOWNLOAD_SLOTS")]
    assert by_name["h1.example"]["ready_at"] == NOW + 20
    text = frontier("hosts").out
    assert line_of(text, "h1.example")[-1] == "20"
    assert line_of(text, "h3.example")[-1] == "blocked"


def line_of(text: str, name: str) -> list[str]:
    """The cells of the line of a host; the unit of a time left out."""
    (line,) = (line.split() for line in text.splitlines() if line.startswith(name))
    return [cell for cell in line if cell != "s"]


@pytest.mark.parametrize(
    "command", [None, ("requeue", "--state", "gone"), ("forget", "--host", "h1.example")]
)
def test_hosts_and_stats_count_the_same(frontier: Frontiers, command: tuple[str, ...] | None) -> None:
    """As the states of the pages are: redirected pages and excluded ones are not errors, nor done twice."""
    if command is not None:
        frontier(*command)
    stats, hosts = frontier("stats", "--json").json, frontier("hosts", "--json").lines
    states = Counter(page.state.name.lower() for page in pages(frontier.directory).values())
    assert {state: count for state, count in stats["states"].items() if count} == states
    wanted = {
        "queued": states["queued"],
        "ok": states["done"] + states["redirected"],
        "errors": states["gone"] + states["failed"],
        "excluded": states["excluded"],
    }
    assert {name: sum(host[name] for host in hosts) for name in wanted} == wanted
    assert (stats["ok"], stats["errors"]) == (wanted["ok"], wanted["errors"])

    text = frontier("stats").out
    assert re.search(
        rf"^ok +{wanted['ok']} \({states['done']} done, {states['redirected']} redirected\)$",
        text,
        re.MULTILINE,
    )


def test_trouble_and_strikes_of_a_host_are_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host that has just rested may be visited now, and its strikes still count for half an hour."""
    found = start(tmp_path)
    found.discover([link("http://a.example/"), link("http://b.example/")], NOW)
    fetch(found)
    lease = found.lease(NOW)
    assert lease is not None
    rest = found.record_cooldown(
        lease.host, Trouble("HTTP 503", 120, sent=NOW, page_id=lease.page_id), NOW
    ).cooldown
    found.release(lease, Outcome(Event.POSTPONED, 503, "HTTP 503"), NOW)
    found.close()

    def told(when: float) -> list[str]:
        frontier = Frontiers(tmp_path, capsys, FRONTIER_CLOCK=lambda: when)
        return line_of(frontier("hosts").out, lease.host)

    assert told(rest.until - 50) == [lease.host, "1", "0", "0", "0", "50", "1", "HTTP", "503"]
    assert told(rest.until) == [lease.host, "1", "0", "0", "0", "now", "1", "HTTP", "503"]
    assert told(rest.until + 1800) == [lease.host, "1", "0", "0", "0", "now"]
    other = next(name for name in ("a.example", "b.example") if name != lease.host)
    text = Frontiers(tmp_path, capsys)("hosts").out
    assert line_of(text, other) == [other, "0", "1", "0", "0", "-"], "nothing of it is queued"


@pytest.mark.parametrize("delay", [0, 3])
def test_queue_is_the_order_of_the_crawl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], delay: float
) -> None:
    crawl(tmp_path, pages=300, hosts=6, ended=40)
    frontier = Frontiers(tmp_path, capsys, DOWNLOAD_DELAY=delay)
    frontier("delay", "h2.example", "7")
    frontier("block", "h5.example")
    told = frontier("queue", "--limit", "0", "--json").lines
    expected = order(tmp_path, 1000, delay=delay)
    assert sorted(turn["url"] for turn in told) == sorted(expected)
    assert all(earlier["at"] <= later["at"] for earlier, later in pairwise(told))
    kept = {page.url: page.priority for page in pages(tmp_path).values()}
    assert told[0]["priority"] == kept[expected[0]]
    for number in range(5):
        times = [turn["at"] for turn in told if turn["host"] == f"h{number}.example"]
        assert all(later - earlier >= delay for earlier, later in pairwise(times))


def test_queue_of_one_host(frontier: Frontiers) -> None:
    told = frontier("queue", "--host", "h2.example", "--limit", "0", "--json").lines
    assert {turn["host"] for turn in told} == {"h2.example"}
    assert len(frontier("queue", "--limit", "3").out.splitlines()) == 4
    assert frontier("queue", "--host", "nobody.example", "--json").out == ""


def test_find_searches_urls(frontier: Frontiers) -> None:
    assert {page["url"] for page in frontier("find", r"h1.*/\d$", "--json").lines} == {
        "http://h1.example/1",
        "http://h1.example/6",
    }
    assert len(frontier("find", ".", "--limit", "4").out.splitlines()) == 5
    assert len(frontier("find", ".", "--limit", str(10**20)).out.splitlines()) == 62, "all"
    assert frontier("find", "nothing-like-it").code == 1
    with pytest.raises(UsageError, match="no regular expression"):
        frontier("find", "(")


def test_page_tells_the_path_from_its_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frontier = start(tmp_path)
    for number in range(4):
        parent = number - 1 if number else None
        frontier.discover([link(f"http://a.example/{number}", parent=parent)], NOW)
    fetch(frontier)
    frontier.close()
    told = Frontiers(tmp_path, capsys)("why", "http://a.example/3", "--json").json
    assert told["path"] == [f"http://a.example/{number}" for number in range(3)]
    assert told["queue"] == {"ahead": 2, "is_far": False, "waits_until": None, "bucket": 0x8000}


def test_a_page_far_back_in_its_queue_is_not_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier = start(tmp_path)
    frontier.discover([link(f"http://a.example/{number}") for number in range(5)], NOW)
    lease = frontier.lease(NOW)
    assert lease is not None
    frontier.release(lease, Outcome(Event.RETRIED, 503, "HTTP 503", delay=60.0), NOW)
    frontier.close()
    monkeypatch.setattr(explain, "FAR", 2)
    command = Frontiers(tmp_path, capsys)
    far, near = "http://a.example/3", "http://a.example/2"
    assert "It is queued: more than 2 of the pages of a.example come before it" in " ".join(
        command("why", far).out.split()
    )
    told = command("why", far, "--json").json["queue"]
    assert told == {"ahead": 2, "is_far": True, "waits_until": None, "bucket": None}
    assert command("why", near, "--json").json["queue"]["ahead"] == 1
    assert "It waits until" in command("why", "http://a.example/0").out  # is found behind them


def test_what_the_web_wrote_does_not_steer_the_terminal(frontier: Frontiers) -> None:
    url = "http://h1.example/\x1b[2J\ud800"
    change(frontier.directory, {keys.page_key(3): records.encode_page(Page(url, State.DONE))})
    found = frontier("find", "2J")
    assert "\\x1b[2J\\ud800" in found.out
    assert frontier("find", "2J", "--json").lines[0]["url"] == url


def test_stats_tell_of_the_last_ranking(frontier: Frontiers) -> None:
    assert frontier("stats", "--json").json["ranking"] is None
    assert "not counted" in frontier("stats").out
    about = {"at": NOW, "pages": 1200, "links": 34000, "error_bound": 3.2e-5, "moved": 56}
    change(frontier.directory, {keys.RANKING: json.dumps(about).encode()})
    assert "2023-11-14 22:13:20 UTC, 1,200 pages, 34,000 links" in " ".join(frontier("stats").out.split())
    assert "34,000 at the last ranking" in frontier("stats").out
    assert frontier("stats", "--json").json["ranking"] == about
    change(frontier.directory, {keys.RANKING: b"{"})
    assert frontier("stats", "--json").json["ranking"] is None


@pytest.mark.parametrize("other", [None, Verdict.ALLOW_ALL], ids=["one site", "two sites"])
def test_one_time_is_given_for_a_host_whose_robots_txt_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: Verdict | None
) -> None:
    """By `hosts`, `queue` and `why`; it may be visited now if another site of it can be."""
    found = start(tmp_path)
    found.discover([link("http://a.example/"), link("https://a.example/")], NOW)
    found.close()
    failing = RobotsCopy(Verdict.POSTPONE, 503, 0.0, NOW + 51, NOW - 60, 2)
    change(tmp_path, {robots_key("http://a.example"): ROBOTS.encode(failing)})
    if other is not None:
        change(
            tmp_path,
            {robots_key("https://a.example"): ROBOTS.encode(RobotsCopy(other, 404, NOW, NOW + 9999))},
        )
    frontier = Frontiers(tmp_path, capsys, ROBOTSTXT_OBEY=True)
    text = " ".join(frontier("why", "http://a.example/").out.split())
    assert "has not been readable" in text
    assert "(in 51 s)" in text
    when = "51" if other is None else "now"
    assert line_of(frontier("hosts").out, "a.example")[-1] == when
    assert frontier("queue", "--json").lines[0]["in"] == pytest.approx(51 if other is None else 0)
    assert ("in 51 s" in frontier("queue").out) == (other is None)
