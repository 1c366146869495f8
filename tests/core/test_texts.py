"""Pages known by the texts of their URLs; no crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openings import NOW, let_go, page, start  # noqa: F401 - `let_go` works by being here

from scrapy_frontier.core.pages import discovery

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_all_parts_of_a_page_are_one_page_and_few_texts_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "LATELY", 40)
    frontier = start(tmp_path, part=4)  # of so many shards in the process
    for number in range(100):
        link = page(number)
        link.text = f"{link.url}#top"
        frontier.discover([link], NOW)
        assert all(frontier.recognize(link.url + part) for part in ("", "#", "#top", "#a#b"))
        assert not frontier.recognize(f"{link.url}?b#top")
    assert sum(frontier.recognize(page(number).url) for number in range(100)) <= 10
    frontier.close()
