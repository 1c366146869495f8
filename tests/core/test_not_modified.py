"""What a 304 comes to: it ends the visit, or the page is asked for once more, or nobody gets to see it. And
what the same content comes to."""

from __future__ import annotations

import pytest

from scrapy_frontier.core import reasons
from scrapy_frontier.core.pages.leases import Lease, Outcome
from scrapy_frontier.core.pages.revisit_endings import False304s, judge_same
from scrapy_frontier.core.parse.directives import NO_CONSEQUENCES, Consequences
from scrapy_frontier.core.revisits.policy import Fetched, Result, Served, after_content, after_unmodified
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import Page, Validators, Visits
from scrapy_frontier.core.transitions import Event

TAG, NOTHING = (b'"1"', b"Mon"), (b"", b"")
SAME = b"0000\x02"  # a digest
NOINDEX, ALIAS = reasons.NOINDEX(), reasons.ALIAS(url="http://a.example/b")
FAILED = Outcome(Event.FAILED, 304, "HTTP 304")
ONCE_MORE = Outcome(Event.POSTPONED, 304, reasons.NOT_ASKED())


def lease(comes_back: bool = True, status: int = 200, is_last: bool = False, page_id: int = 7) -> Lease:
    state = State.DONE if comes_back else State.QUEUED
    visits = Visits(1, 1, visits=1, digest=SAME, validators=Validators(*TAG))
    page = Page("http://a.example/", state, status=status, target=5, reason=ALIAS, visits=visits)
    return Lease(
        "a.example", page, 0.0, page_id, 0.0, {}, None, comes_back=comes_back, is_last=is_last, node=page_id
    )


@pytest.mark.parametrize("received", [NOTHING, TAG, (b'W/"1"', b""), (b"", b"Tue")])
def test_a_304_about_what_is_kept_ends_the_visit_and_names_validators(
    received: tuple[bytes, bytes],
) -> None:
    outcome = False304s().judge_304(lease(), TAG, received, NO_CONSEQUENCES)
    assert outcome == Outcome(
        Event.FETCHED, 304, ALIAS, 5, result=Result.UNCHANGED, fetched=Fetched(*received)
    ), "and its alias stands"


def test_a_noindex_needs_no_page_and_news_of_its_links_do() -> None:
    noindex, none = Consequences(drops_items=True), Consequences(drops_items=True, is_nofollow=True)
    outcome = False304s().judge_304(lease(), TAG, NOTHING, noindex)
    assert (outcome.result, outcome.reason) == (Result.NOINDEX, f"{NOINDEX}; {ALIAS}")
    assert False304s().judge_304(lease(), TAG, NOTHING, none) == ONCE_MORE
    last = False304s().judge_304(lease(is_last=True), TAG, NOTHING, none)
    assert (last.event, last.result) == (Event.FETCHED, Result.NOINDEX), "nobody waits any longer"


def test_what_is_known_of_a_page_is_no_news() -> None:
    known = Consequences(alias_of="http://a.example/b")
    outcome = False304s().judge_304(lease(), TAG, NOTHING, known)
    assert (outcome.result, outcome.reason) == (Result.UNCHANGED, ALIAS)
    begins_alike = Consequences(alias_of="http://a.example/")
    assert False304s().judge_304(lease(), TAG, NOTHING, begins_alike) == ONCE_MORE


@pytest.mark.parametrize(("sent", "received"), [(TAG, (b'"2"', b"")), (NOTHING, NOTHING), (NOTHING, TAG)])
def test_a_304_about_anything_else_is_asked_once_more_without_validators(
    sent: tuple[bytes, bytes], received: tuple[bytes, bytes]
) -> None:
    false_304s = False304s()
    assert false_304s.validators(lease()) == TAG
    assert false_304s.judge_304(lease(), sent, received, NO_CONSEQUENCES) == ONCE_MORE
    assert false_304s.validators(lease()) == NOTHING
    assert false_304s.validators(lease(page_id=8)) == TAG
    assert false_304s.judge_304(lease(), NOTHING, received, NO_CONSEQUENCES) == FAILED
    false_304s.note("a.example", 7, 0)
    assert false_304s.validators(lease()) == TAG, "that visit has ended"
    assert false_304s.judge_304(lease(is_last=True), sent, received, NO_CONSEQUENCES) == FAILED


def test_a_page_that_was_never_fetched_is_asked_once_more() -> None:
    """Its record says what it was answered; nothing else is kept of it."""
    false_304s = False304s()
    for status, outcome in ((0, ONCE_MORE), (304, FAILED)):
        first = lease(comes_back=False, status=status)
        assert false_304s.judge_304(first, NOTHING, NOTHING, NO_CONSEQUENCES) == outcome
    assert false_304s.validators(lease()) == TAG


def test_a_host_that_lied_about_three_pages_is_not_believed() -> None:
    lied = after_content(after_unmodified(0), Served(b'"a"', b"", b"1"), Served(b'"a"', b"", b"2"), False)
    false_304s = False304s()
    for page_id, trust in enumerate((lied, 0, lied, 0x30)):
        false_304s.note("a.example", page_id, trust)
        false_304s.note("a.example", 0, lied)  # again and again
    assert not false_304s.are_many("a.example")
    false_304s.note("a.example", 9, lied)
    assert false_304s.are_many("a.example")
    assert not false_304s.are_many("b.example")


@pytest.mark.parametrize(
    ("digest", "has_changed"), [(b"0000\x02", False), (b"1111\x02", True), (b"", None), (b"0000\x03", None)]
)
def test_content_is_as_it_was_or_another_or_nobody_can_tell(digest: bytes, has_changed: bool | None) -> None:
    before = lease()
    assert before.has_changed(digest) is has_changed
    outcome = judge_same(before, 200, Fetched(digest=digest), (ALIAS,))
    assert (outcome is not None) == (has_changed is False)
    assert lease(comes_back=False).has_changed(digest) is None, "it has not ended yet"


def test_a_page_that_is_as_it_was_ends_as_its_record_says() -> None:
    fetched = Fetched(etag=b"new", digest=SAME)
    outcome = judge_same(lease(), 203, fetched, (ALIAS,))
    assert outcome == Outcome(Event.FETCHED, 203, ALIAS, 5, result=Result.UNCHANGED, fetched=fetched), (
        "its alias stands, and validators are the new ones"
    )
    assert judge_same(lease(), 203, fetched, None) == outcome, "a sitemap, whose record has other notes"


@pytest.mark.parametrize("notes", [(), (NOINDEX, ALIAS), (reasons.ALIAS(url="http://a.example/c"),)])
def test_the_same_content_with_other_directives_is_read(notes: tuple[str, ...]) -> None:
    assert judge_same(lease(), 200, Fetched(digest=SAME), notes) is None
