"""What is kept of the visits of a page."""

from pathlib import Path

import pytest

from scrapy_frontier.core.frontier import Frontier, Lease, Link, Outcome
from scrapy_frontier.core.revisits.policy import Fetched, as_given, differ
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import Validators, Visits
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000
PAGE = Fetched(b'"1"', b"Mon", b"diges", "text/html", 7)


def opened(directory: Path, now: float = NOW) -> Frontier:
    frontier = Frontier(Store(directory), now)
    while not frontier.load(now):
        pass
    return frontier


def found(frontier: Frontier, url: str = "http://a.example/") -> int:
    (answer,) = frontier.discover([Link(url.encode(), url, "a.example")], NOW)
    assert answer.page_id is not None
    return answer.page_id


def leased(frontier: Frontier, now: float = NOW) -> Lease:
    lease = frontier.lease(now)
    assert lease is not None
    return lease


def visits_of(frontier: Frontier, page_id: int) -> Visits:
    page = frontier.page(page_id)
    assert page is not None
    assert page.visits is not None
    return page.visits


def test_times_and_validators_of_a_page_are_kept(tmp_path: Path) -> None:
    frontier = opened(tmp_path)
    page_id = found(frontier)
    lease = leased(frontier)
    assert not lease.comes_back
    frontier.release(lease, Outcome(Event.FETCHED, 200, fetched=PAGE._replace(digest=b"")), NOW + 5)
    frontier.close()

    frontier = opened(tmp_path)
    assert visits_of(frontier, page_id) == Visits(
        NOW + 5, NOW + 5, content_type="text/html", length=7, validators=Validators(b'"1"', b"Mon")
    )
    frontier.close()


@pytest.mark.parametrize("event", [Event.RETRIED, Event.FAILED, Event.EXPIRED])
def test_what_is_known_of_a_page_outlasts_a_visit_that_was_none(tmp_path: Path, event: Event) -> None:
    frontier = opened(tmp_path)
    page_id = found(frontier)
    frontier.release(leased(frontier), Outcome(Event.FETCHED, 200, fetched=PAGE), NOW)
    before = visits_of(frontier, page_id)

    assert frontier.requeue(page_id, NOW)
    assert visits_of(frontier, page_id) == before, "queued again, it keeps its record"
    frontier.release(leased(frontier), Outcome(event), NOW + 90)

    assert visits_of(frontier, page_id) == before
    frontier.close()


def test_a_page_that_is_queued_again_and_read_has_two_visits(tmp_path: Path) -> None:
    frontier = opened(tmp_path)
    page_id = found(frontier)
    frontier.release(leased(frontier), Outcome(Event.FETCHED, 200, fetched=PAGE), NOW)
    assert frontier.requeue(page_id, NOW)
    new = PAGE._replace(etag=b'"2"', digest=b"other")
    frontier.release(leased(frontier), Outcome(Event.FETCHED, 200, fetched=new), NOW + 120)

    visits = visits_of(frontier, page_id)
    assert visits == Visits(
        NOW, NOW + 120, NOW + 120, 0, 2, 1, digest=b"other", content_type="text/html", length=7,
        validators=Validators(b'"2"', b"Mon"),
    )  # fmt: skip
    frontier.close()


def test_digests_are_compared_where_they_are_of_the_same_kind_of_content() -> None:
    body, other = b"dige\x02", b"dige\x04"
    assert differ(body, other) is True
    assert differ(body, body) is False
    assert differ(as_given(body), as_given(other)) is True
    assert differ(body, as_given(body)) is None
    assert differ(b"", body) is None
    assert differ(body, b"") is None
