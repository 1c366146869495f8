"""Pages known by the texts of their URLs; no crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_frontier.core.pages import discovery
from scrapy_frontier.core.pages.discovery import UrlCache

if TYPE_CHECKING:
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
