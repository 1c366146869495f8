"""The filter in front of the index: it may say "perhaps known" of a new page, never "new" of a known one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from answers import ids
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.store.batch import BloomFilter
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from pathlib import Path


@given(st.lists(st.binary(max_size=20)), st.binary(max_size=20))
def test_what_was_added_is_never_new(added: list[bytes], other: bytes) -> None:
    seen = BloomFilter()
    seen.complete()
    for fingerprint in added:
        seen.add(fingerprint)
    assert not any(map(seen.is_new, added))
    assert other in added or seen.is_new(other)


def test_incomplete_filter_vouches_for_nothing() -> None:
    assert not BloomFilter().is_new(b"anything")


def test_pages_of_earlier_runs_are_known_before_and_after_the_filter_has_learned_them(tmp_path: Path) -> None:
    links = [Link(b"%020d" % number, f"http://a.example/{number}", "a.example") for number in range(1000)]
    frontier = Frontier(Store(tmp_path), 1.0)
    frontier.discover(links, 1.0)
    frontier.close()

    frontier = Frontier(Store(tmp_path), 2.0)
    calls = 0
    while not frontier.load(2.0):
        calls += 1
        assert ids(frontier.discover(links, 2.0)) == [None] * 1000
    assert calls > 1, "some at a time"
    assert ids(frontier.discover(links, 2.0)) == [None] * 1000
    assert ids(frontier.discover([Link(b"new", "http://a.example/new", "a.example")], 2.0)) == [1000]
    frontier.close()
