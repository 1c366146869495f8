"""What the gate keeps in memory has a bound, in number and in bytes."""

from __future__ import annotations

import pytest

from scrapy_frontier.crawl import robots_sites as robots_sites
from scrapy_frontier.crawl.robots_sites import LruCache


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> LruCache[str, str]:
    monkeypatch.setattr(robots_sites, "SITES_KEPT", 3)
    monkeypatch.setattr(robots_sites, "BYTES_KEPT", 10)
    return LruCache(len)


def test_the_oldest_goes_when_there_are_too_many(shelf: LruCache[str, str]) -> None:
    for name in "abcd":
        shelf.keep(name, "x")
    assert list(shelf) == ["b", "c", "d"]


def test_the_oldest_go_when_they_are_too_large(shelf: LruCache[str, str]) -> None:
    shelf.keep("a", "x" * 4)
    shelf.keep("b", "x" * 4)
    shelf.keep("a", "x" * 2)
    assert list(shelf) == ["b", "a"]
    shelf.keep("c", "x" * 8)
    assert list(shelf) == ["a", "c"]
    shelf.drop("a")
    shelf.keep("d", "x" * 2)
    assert list(shelf) == ["c", "d"]


def test_one_that_is_too_large_for_all_is_kept_alone(shelf: LruCache[str, str]) -> None:
    shelf.keep("a", "x")
    shelf.keep("b", "x" * 50)
    assert list(shelf) == ["b"]
