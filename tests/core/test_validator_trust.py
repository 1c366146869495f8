"""Servers that lie about what has changed: their tags are not sent, their 304s not believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.revisits.policy import (
    Served,
    after_content,
    after_unmodified,
    had_false_304,
    may_send,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATE = b"Sat, 29 Oct 1994 19:43:31 GMT"


class Server:
    """Answers visits 1, 2, ...: *content* and *tag* by the visit; *false_304s* with 304 whatever it has."""

    def __init__(
        self,
        content: Callable[[int], int],
        tag: Callable[[int], bytes],
        date: bytes = b"",
        false_304s: bool = False,
    ) -> None:
        self.content, self.tag, self.date, self.false_304s = content, tag, date, false_304s

    def told(self, visit: int) -> Served:
        return Served(self.tag(visit), self.date, b"%d" % self.content(visit))

    def is_unmodified(self, visit: int, sent: tuple[bytes, bytes]) -> bool:
        if self.false_304s and any(sent):
            return True
        tag, date = sent
        return tag == self.tag(visit) if tag else bool(date) and date == self.date


def visits(server: Server, count: int, page_id: int = 1) -> Iterator[tuple[int, bool, tuple[bytes, bytes]]]:
    """Trust after each revisit, whether it was answered 304, and what was sent."""
    kept, trust = server.told(0), 0
    for visit in range(1, count + 1):
        sent = may_send(trust, page_id, kept.etag, kept.last_modified)
        is_unmodified = server.is_unmodified(visit, sent)
        if is_unmodified:
            trust = after_unmodified(trust)
        else:
            trust = after_content(trust, kept, server.told(visit), any(sent))
            kept = server.told(visit)
        assert 0 <= trust < 256
        yield trust, is_unmodified, sent


def never(visit: int) -> int:
    return 0


def always(visit: int) -> int:
    return visit


def noise(visit: int) -> bytes:
    return b'"%d"' % visit


def test_an_honest_server_is_asked_for_everything_about_every_tenth_time() -> None:
    server = Server(never, lambda visit: b'"a"', DATE)
    bodies = [
        sum(not is_unmodified for _, is_unmodified, _ in visits(server, 600, page_id)) for page_id in range(6)
    ]
    assert min(bodies) >= 600 / 15
    assert max(bodies) <= 600 / 10
    assert len(set(bodies)) == 6  # not all pages at the same visit


@given(st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_an_honest_tag_is_always_sent_and_nearly_never_doubted(contents: list[int]) -> None:
    server = Server(lambda visit: contents[visit], lambda visit: b'"%d"' % contents[visit])
    for trust, _, sent in visits(server, 39):
        assert not had_false_304(trust)
        assert sent[0] or not trust & 0xF0


def test_a_tag_that_changed_three_times_under_equal_content_is_no_longer_sent() -> None:
    server = Server(never, noise, DATE)
    sent = [sent for _, _, sent in visits(server, 6)]
    assert [bool(tag) for tag, _ in sent] == [True, True, True, False, False, False]
    assert [is_unmodified for _, is_unmodified, _ in visits(server, 6)] == [False] * 3 + [True] * 3
    assert all(date == DATE for _, date in sent)


def test_a_tag_that_is_itself_again_is_sent_again() -> None:
    server = Server(never, lambda visit: b'"%d"' % min(visit, 4))
    assert [bool(tag) for _, _, (tag, _) in visits(server, 6)] == [True] * 3 + [False, False, True]


@pytest.mark.parametrize("date", [b"", DATE])
def test_the_same_tag_on_other_content_proves_a_false_304(date: bytes) -> None:
    server = Server(always, lambda visit: b'"a"', date)
    seen = list(visits(server, 30))
    first = next(number for number, (trust, _, _) in enumerate(seen) if had_false_304(trust))
    assert not seen[first][1]  # the full visit
    assert not any(any(sent) or is_unmodified for _, is_unmodified, sent in seen[first + 1 :])


def test_the_same_date_on_other_content_proves_it_where_there_is_no_tag() -> None:
    server = Server(always, lambda visit: b"", DATE)
    assert had_false_304(list(visits(server, 30))[-1][0])


def test_who_answers_304_to_everything_is_found_out_although_his_tags_are_honest() -> None:
    server = Server(always, noise, false_304s=True)
    seen = list(visits(server, 30))
    first = next(number for number, (trust, _, _) in enumerate(seen) if had_false_304(trust))
    assert first <= 20
    assert not any(is_unmodified for _, is_unmodified, _ in seen[first + 1 :])


def test_one_change_found_by_a_full_visit_is_no_lie() -> None:
    server = Server(lambda visit: visit >= 12, lambda visit: b'"%d"' % (visit >= 12), DATE)
    assert not any(had_false_304(trust) for trust, _, _ in visits(server, 200))


def test_content_that_nobody_compared_says_nothing() -> None:
    trust = after_unmodified(after_unmodified(0))
    assert after_content(trust, Served(b'"a"'), Served(b'"a"', b"", b"1"), True) == 0
