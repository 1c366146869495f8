"""Pages known by the texts of their URLs; no crawl."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.pages import discovery
from scrapy_frontier.core.pages.discovery import UrlCache
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

URL = "http://example.com/a"


def test_all_parts_of_a_page_are_one_page() -> None:
    pages = UrlCache()
    pages.put(f"{URL}#top", 7)
    assert [pages.find(URL + part) for part in ("", "#", "#top", "#a#b", "#!x")] == [7] * 5
    assert pages.find(f"{URL}?b#top") is None


def test_what_is_met_again_stays_and_the_rest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LATELY", 10)
    pages = UrlCache()
    pages.put(URL, 1)
    pages.put(f"{URL}/once", 2)
    for number in range(3, 103):
        pages.put(f"{URL}/{number}", number)
        assert pages.find(f"{URL}#{number}") == 1
        assert len(pages.latest) < 10
    assert pages.find(f"{URL}/once") is None
    assert pages.find(f"{URL}/102") == 102


def test_what_is_recent_is_recognized_also_when_texts_were_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "LATELY", 4)
    with closing(Frontier(Store(tmp_path), 0.0)) as frontier:
        is_recent = frontier.is_recent  # kept by whoever asks for each link
        urls = [f"{URL}/{number}" for number in range(10)]
        for number, url in enumerate(urls):
            link = Link(bytes([number]) * 20, url, "example.com", text=url)
            frontier.discover([link], 0.0)
            recent = list(filter(is_recent, urls))
            assert url in recent or not recent  # the younger generation is full, and begins anew
            assert all(map(frontier.recognize, [*recent, url]))
        for _ in frontier.forget_host("example.com", lambda page: bytes([int(page.url[-1])]) * 20, 0.0):
            pass
        assert not any(map(is_recent, urls))
