"""Commands that steer: what they change is sound, and the crawl obeys."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from scrapy.exceptions import UsageError
from stores import (
    FETCHED,
    NOW,
    Frontiers,
    change,
    check,
    crawl,
    fetch,
    fingerprint_of,
    first,
    link,
    order,
    pages,
    rows,
    start,
)

from scrapy_frontier.core.frontier import Event, Frontier, Outcome
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages import edits
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State, orders_key
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import (
    IN_MEMORY,
    encode_page,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def frontier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    crawl(tmp_path)
    return Frontiers(tmp_path, capsys)


def in_state(frontier: Frontiers, state: State) -> set[str]:
    return {page.url for page in pages(frontier.directory).values() if page.state is state}


# -- add ---------------------------------------------------------------------------------------------------


def test_added_pages_are_queued_by_their_priority(frontier: Frontiers) -> None:
    said = frontier("add", "http://new.example/1", "http://h1.example/31", "--priority", "50", "--json")
    assert (said.json["added"], said.json["known"]) == (1, 1)
    assert check(frontier.directory) == []
    assert order(frontier.directory, 1) == ["http://new.example/1"]
    assert "Added 0; 1 known already" in frontier("add", "http://new.example/1").out


@pytest.mark.parametrize("more", [(), ("--force",), ("--pattern", "/x")], ids=["plain", "force", "pattern"])
def test_a_page_whose_request_went_with_its_crawl_is_asked_for_by_the_one_that_is_added(
    frontier: Frontiers, more: tuple[str, ...]
) -> None:
    url = "http://memory.example/"
    crawling = start(frontier.directory, NOW + 100)
    assert crawling.discover([link(url, priority=99, facts=IN_MEMORY)], NOW + 100)[0].is_taken
    crawling.close()

    assert "Added 1; 0 known already" in frontier("add", url, *more).out

    [page] = [page for page in pages(frontier.directory).values() if page.url == url]
    assert not page.is_in_memory
    assert check(frontier.directory) == []
    assert "Added 0; 1 known already" in frontier("add", url).out
    assert order(frontier.directory, 1) == [url]


def test_what_is_no_url_is_refused_before_anything_is_added(frontier: Frontiers) -> None:
    before = rows(frontier.directory)
    for bad in ("example.com", "http://", "mailto:a@example.com"):
        with pytest.raises(UsageError):
            frontier("add", "http://new.example/", bad)
    with pytest.raises(UsageError, match="write URLs"):
        frontier("add")
    assert rows(frontier.directory) == before


def test_a_file_of_urls_is_utf_8_and_what_is_not_is_refused(frontier: Frontiers, tmp_path: Path) -> None:
    """Line by line: half a character must not become another URL."""
    text = b"\xef\xbb\xbf# seeds\n\nhttp://new.example/first\r\nhttp://new.example/caf\xe9\nhttp://new.example/\xc3\xa9\n"
    (tmp_path / "urls").write_bytes(text)
    said = frontier("add", "--file", tmp_path / "urls", "--json")
    assert (said.code, said.json["added"], said.json["refused"]) == (1, 2, 1)
    added = {url for url in in_state(frontier, State.QUEUED) if "new.example" in url}
    assert added == {"http://new.example/first", "http://new.example/%C3%A9"}


@pytest.mark.parametrize("was_clean", [True, False])
def test_steering_leaves_the_clean_mark_as_it_was(frontier: Frontiers, was_clean: bool) -> None:
    """After a kill a host may have been visited later than its row says; adding a page changes nothing."""
    if not was_clean:
        open_one = start(frontier.directory)
        open_one.discover([link("http://x.example/")], NOW)
        open_one.commit()
        open_one._store.close()
    for command in (
        ("add", "http://new.example/"),
        ("requeue",),
        ("forget", "http://new.example/"),
        ("block", "h1.example"),
    ):
        assert frontier(*command).code == 0
        assert (keys.CLEAN in rows(frontier.directory)) == was_clean


@pytest.fixture
def visited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """A page that was visited a minute ago, and one that waits."""
    pages = start(tmp_path)
    pages.discover([link("http://a.example/read")], NOW - 60)
    fetch(pages, now=NOW - 60)
    pages.discover([link("http://a.example/waits")], NOW - 60)
    pages.close()
    return Frontiers(tmp_path, capsys)


def requests(frontier: Frontiers) -> dict[str, tuple[State, bytes]]:
    found = pages(frontier.directory).values()
    return {page.url.rpartition("/")[2]: (page.state, page.payload) for page in found}


def test_an_added_page_is_entered_with_a_pattern_known_or_not(visited: Frontiers) -> None:
    urls = [f"http://a.example/{name}" for name in ("read", "waits", "new")]
    assert "Added 1; 2 known already" in visited("add", *urls, "--pattern", "/docs/").out
    payload = b'{"meta":{"frontier_pattern":"/docs/"}}'
    assert requests(visited) == {
        "read": (State.DONE, payload),
        "waits": (State.QUEUED, payload),
        "new": (State.QUEUED, payload),
    }
    assert check(visited.directory) == []
    with pytest.raises(UsageError, match="no regular expression"):
        visited("add", urls[0], "--pattern", "(")


def test_an_added_page_is_fetched_again_by_force_once(visited: Frontiers) -> None:
    command = "add", "http://a.example/read", "http://a.example/waits", "--force"
    assert "Added 1; 1 known already" in visited(*command).out
    assert "Added 0; 2 known already" in visited(*command).out
    payload = b'{"meta":{"frontier_force":%d}}' % (NOW + 1)
    assert {payload for _, payload in requests(visited).values()} == {payload}
    assert order(visited.directory, 5) == ["http://a.example/waits", "http://a.example/read"]
    assert check(visited.directory) == []


def test_what_is_queued_again_by_force_keeps_its_request(visited: Frontiers) -> None:
    read = next(page for page in pages(visited.directory).values() if page.state is State.DONE)
    kept = b'{"callback":"parse_page","meta":{"depth":1}}'
    change(visited.directory, {keys.page_key(0): encode_page(read._replace(payload=kept))})
    assert "Queued 1 pages again" in visited("requeue", "--state", "done", "--force").out
    page = pages(visited.directory)[0]
    assert (page.state, page.payload) == (State.QUEUED, kept)
    assert page.facts.force is not None
    assert check(visited.directory) == []


# -- requeue -----------------------------------------------------------------------------------------------


def test_failed_pages_are_queued_again(frontier: Frontiers) -> None:
    failed = in_state(frontier, State.FAILED)
    assert failed
    assert frontier("requeue", "--json").json == {"requeued": len(failed)}
    assert check(frontier.directory) == []
    assert not in_state(frontier, State.FAILED)
    assert failed <= set(order(frontier.directory, 1000))


def test_requeue_takes_states_host_and_pattern(frontier: Frontiers) -> None:
    ended = in_state(frontier, State.GONE) | in_state(frontier, State.EXCLUDED)
    host = min(ended).split("/")[2]
    of_host = {url for url in ended if url.startswith(f"http://{host}/")}
    frontier("requeue", "--state", "gone,excluded", "--host", host)
    assert of_host <= in_state(frontier, State.QUEUED)
    assert not (ended - of_host) & in_state(frontier, State.QUEUED)
    frontier("requeue", "--state", "done", "--match", "/0$")
    assert "http://h0.example/0" in in_state(frontier, State.QUEUED)
    assert check(frontier.directory) == []
    with pytest.raises(UsageError, match="'queued'"):
        frontier("requeue", "--state", "queued")


def test_a_requeued_page_has_all_its_tries_again(frontier: Frontiers) -> None:
    """Its request is as it was before the first, which is what Scrapy counts them in."""
    crawling = start(frontier.directory, NOW)
    crawling.discover([link("http://tried.example/", priority=100, payload=b'{"meta":{"depth":1}}')], NOW)
    fetch(crawling, Outcome(Event.RETRIED, visit_payload=b'{"meta":{"retry_times":2}}'))
    fetch(crawling, Outcome(Event.FAILED))
    crawling.close()
    frontier("requeue", "--host", "tried.example")
    (page,) = (each for each in pages(frontier.directory).values() if each.url == "http://tried.example/")
    assert (page.state, page.payload, page.visit_payload) == (State.QUEUED, b'{"meta":{"depth":1}}', b"")


# -- forget ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.QUEUED, State.DONE, State.GONE, State.FAILED, State.REDIRECTED])
def test_a_forgotten_page_was_never_seen(frontier: Frontiers, state: State) -> None:
    url = pages(frontier.directory)[first(frontier.directory, state)].url
    assert frontier("forget", url).out == "Forgot 1 page.\n"
    assert check(frontier.directory) == []
    assert "No plain GET of it is known" in frontier("why", url).out
    assert frontier("forget", url).code == 1
    assert frontier("add", url, "--json").json["added"] == 1


def test_a_forgotten_host_leaves_nothing_but_its_clock(frontier: Frontiers) -> None:
    others = {page.url for page in pages(frontier.directory).values() if "//h0.example" not in page.url}
    said = frontier("forget", "--host", "h0.example", "--json").json
    assert said["forgotten"] == 12 + 1, "and the revisit"
    assert check(frontier.directory) == []
    assert {page.url for page in pages(frontier.directory).values()} == others
    host = next(each for each in frontier("hosts", "--json").lines if each["host"] == "h0.example")
    assert (host["queued"], host["ok"], host["errors"], host["visited"]) == (0, 0, 0, NOW)


def test_a_host_half_forgotten_is_sound(frontier: Frontiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C or a kill: what was not written yet is still there."""
    monkeypatch.setattr(edits, "_AT_A_TIME", 3)
    before = len(pages(frontier.directory))
    store = Store(frontier.directory)
    next(filter(None, Frontier(store, NOW).forget_host("h2.example", fingerprint_of, NOW)))
    store.close()
    assert 0 < before - len(pages(frontier.directory)) < 12
    assert check(frontier.directory) == []
    frontier("forget", "--host", "h2.example")
    assert check(frontier.directory) == []


# -- hosts -------------------------------------------------------------------------------------------------


def test_the_crawl_obeys_an_ordered_delay(frontier: Frontiers) -> None:
    assert "7 s, set by the operator" in frontier("delay", "h1.example", "7").out
    crawling = start(frontier.directory, NOW + 100, default_politeness=Politeness(0.0, 8))
    times = []
    now = NOW + 100
    while now < NOW + 200:
        lease = crawling.lease(now)
        if lease is None:
            now += 0.5
        else:
            crawling.release(lease, FETCHED, now)
            if lease.host == "h1.example":
                times.append(now)
    crawling.set_delay("h1.example", 0.0, now)  # AutoThrottle does not overrule the operator
    crawling.close()
    assert len(times) > 3
    assert all(later - earlier >= 7 for earlier, later in pairwise(times))
    frontier("delay", "h1.example", "default")
    assert orders_key("h1.example") not in rows(frontier.directory)


def test_the_crawl_leaves_a_blocked_host_alone_and_ends_without_it(frontier: Frontiers) -> None:
    queued = {url for url in in_state(frontier, State.QUEUED) if url.startswith("http://h1.example/")}
    assert f"{len(queued)} pages of it stay queued" in frontier("block", "http://h1.example/x").out

    crawling = start(frontier.directory, NOW + 100)
    crawling.discover([link("http://h1.example/new"), link("http://h1.example/memory", facts=IN_MEMORY)], NOW)
    fetched = set()
    while crawling.lease(NOW + 200) is not None:
        pass
    while crawling.pending:
        fetched.add(fetch(crawling, now=NOW + 4000))
    assert crawling.wake_at() is None or crawling.leased
    crawling.close()
    assert not fetched & queued
    assert check(frontier.directory) == []
    assert queued < in_state(frontier, State.QUEUED)

    assert frontier("unblock", "h1.example").out == "h1.example may be visited.\n"
    assert queued < set(order(frontier.directory, 1000, NOW + 5000))
    assert "was not blocked" in frontier("unblock", "h1.example").out


@pytest.mark.parametrize("name", ["bücher.example", "http://Bücher.example/x", "xn--bcher-kva.example"])
def test_an_order_may_come_before_the_first_page_of_a_host(frontier: Frontiers, name: str) -> None:
    said = frontier("block", name, "--json")
    assert (said.json["host"], "no page of xn--bcher-kva.example is known" in said.err) == (
        "xn--bcher-kva.example",
        True,
    )
    frontier("add", "http://bücher.example/1")
    assert "http://xn--bcher-kva.example/1" not in order(frontier.directory, 100)
    with pytest.raises(UsageError, match="names no host"):
        frontier("block", "file:///x")


@pytest.mark.parametrize("wrong", ["-1", "soon", "inf", "nan"])
def test_a_delay_is_a_number(frontier: Frontiers, wrong: str) -> None:
    with pytest.raises(UsageError, match="is no delay; write a number"):
        frontier("delay", "h1.example", wrong)


# -- reset -------------------------------------------------------------------------------------------------


def test_reset_asks_and_removes(frontier: Frontiers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert frontier("reset").code == 1, "there is nobody to ask"
    for answer, code in (("no\n", 1), ("\n", 1), ("yes\n", 0)):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        assert (frontier.directory / "leveldb").exists()
        said = frontier("reset")
        assert (said.code, "60 pages" in said.err) == (code, True)
    assert not (frontier.directory / "leveldb").exists()
    assert frontier("stats").code == 1
    assert frontier("reset", "--yes").code == 1


class Terminal:
    def __init__(self, answer: str) -> None:
        self._answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._answer


def test_reset_removes_what_cannot_be_opened(frontier: Frontiers) -> None:
    (frontier.directory / "leveldb" / "CURRENT").write_bytes(b"nonsense")
    assert frontier("stats").code == 1
    assert frontier("reset", "--yes").code == 0
    assert not list(frontier.directory.glob("leveldb*"))
