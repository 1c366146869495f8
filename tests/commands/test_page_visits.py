"""What commands tell of the visits of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from stores import NOW, Frontiers, change, fetch, link, pages, start

from scrapy_frontier.core.frontier import Outcome
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.revisits.policy import Fetched
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import (
    BadVisits,
    History,
    Validators,
    Visits,
    due_key,
    encode_page,
)
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400
READ = Outcome(Event.FETCHED, 200, fetched=Fetched(b"", b"", b"abcde", "text/html"))
LAST = int(NOW) - 3600
NEWS = Visits(
    LAST - 30 * DAY,
    LAST,
    changed=LAST - 2 * DAY,
    due=LAST + 5 * DAY,
    visits=31,
    changes=4,
    history=History(30.0, 4.0, 26.0 * DAY, 4.0 * DAY),
    digest=b"abcde",
    content_type="text/html",
    length=12_345,
    bad=BadVisits(1, 4, LAST - 120),
    validators=Validators(b'W/"a"', b"Tue, 14 Nov 2023 00:00:00 GMT"),
    unmodified=1,
)


@pytest.fixture
def frontier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """A page that came back many times, one new and one gone for an hour, and one that waits."""
    found = start(tmp_path)
    found.discover(
        [link(f"http://a.example/{name}") for name in ("news", "new", "gone", "waits")], NOW - 9000
    )
    for _ in range(3):
        fetch(found, now=LAST)
    found.close()
    kept = {page.url.rpartition("/")[2]: (page_id, page) for page_id, page in pages(tmp_path).items()}
    for name, changed in (
        ("news", {"visits": NEWS, "discovered": NEWS.first, "changed": LAST}),
        ("new", {"visits": Visits(LAST, LAST)}),
        ("gone", {"state": State.GONE, "status": 404, "visits": NEWS._replace(due=0)}),
    ):
        page_id, page = kept[name]
        change(tmp_path, {keys.page_key(page_id): encode_page(page._replace(**changed))})  # type: ignore[arg-type]
    page_id, _ = kept["news"]
    change(tmp_path, {due_key(NEWS.due, page_id): b""})
    return Frontiers(tmp_path, capsys)


def test_page_tells_how_often_it_changes_and_what_it_is_asked_with(frontier: Frontiers) -> None:
    answer = frontier("why", "http://a.example/news", "--json").json
    assert (answer["visits"], answer["changes"], answer["etag"]) == (31, 4, 'W/"a"')
    assert answer["last_modified"] == "Tue, 14 Nov 2023 00:00:00 GMT"
    assert answer["due"] == NEWS.due
    assert frontier("why", "http://a.example/waits", "--json").json["last_visit"] is None


def test_why_says_when_a_page_comes_back(frontier: Frontiers) -> None:
    told = frontier("why", "http://a.example/news", "--json").json["why"]
    assert "visited 31 times" in told
    assert "changes about every 7 days, seen 4 of 31 visits" in told
    assert "It comes back on " in told
    assert "comes back" not in frontier("why", "http://a.example/gone").out


@pytest.fixture
def returning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """Pages that come back after a week: one is queued again, one due, and one only tomorrow."""
    rule = RevisitRule(shelf_life=7 * DAY)
    found = start(tmp_path, now=NOW - 20 * DAY, revisits=rule)
    for name, ago in (("queued", 9), ("due", 8), ("tomorrow", 5.5)):
        found.discover([link(f"http://a.example/{name}")], NOW - ago * DAY)
        fetch(found, READ, now=NOW - ago * DAY)
    found.close()
    found = start(tmp_path, now=NOW - 2.6 * DAY, revisits=rule)
    lease = found.lease(NOW - 2.6 * DAY)
    assert lease is not None
    assert lease.page.url.endswith("/queued")
    found.put_back(lease, NOW - 2.6 * DAY)
    found.close()
    return Frontiers(tmp_path, capsys)


def test_why_tells_what_comes_back_and_when(returning: Frontiers) -> None:
    assert [line["url"] for line in returning("queue", "--json").lines] == ["http://a.example/queued"]
    for name, words in (
        ("queued", "It is due, and queued again: it is the next page of a.example"),
        ("due", "It has been due since"),
        ("tomorrow", "It comes back on"),
    ):
        assert words in returning("why", f"http://a.example/{name}", "--json").json["why"]
    assert returning("why", "http://a.example/queued", "--json").json["queue"]["ahead"] == 0


def test_why_says_what_holds_a_page_that_is_due(returning: Frontiers) -> None:
    returning("block", "a.example")
    for name, due in (("queued", "and queued again"), ("due", "fetches it")):
        said = " ".join(returning("why", f"http://a.example/{name}").out.split())
        assert f"{due}, but a.example is blocked: " in said
    assert "blocked" not in returning("why", "http://a.example/tomorrow").out
