"""What commands say of their progress is counted, and no more than there is."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from stores import Frontiers, change, crawl, link, rows, start

from scrapy_frontier.commands import output
from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.link_rows import Edge, encode_row

if TYPE_CHECKING:
    from pathlib import Path

LINKED = [3, 4, 9_000, 17_001]  # pages with links, in three chunks of 4096 of the five there are
PAGES = 20_000


class Step(NamedTuple):
    doing: str
    count: int
    total: int | None


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_PROGRESS_AFTER", 0.0)


def steps(err: str) -> list[Step]:
    found = []
    for line in err.splitlines():
        told = re.fullmatch(r"([a-z, ]+): ([\d,]+)(?: of ([\d,]+) \(\d+ %\))?, \d+ s", line)
        assert told is not None, line
        total = told[3] and int(told[3].replace(",", ""))
        found.append(Step(told[1], int(told[2].replace(",", "")), total))
    return found


@pytest.fixture
def sparse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """Twenty thousand pages, four of them with links."""
    start(tmp_path / "store").close()
    counts = records.decode_counts(rows(tmp_path / "store")[keys.COUNTS])
    counts.next_page = PAGES
    links = {keys.link_key(page_id): encode_row(page_id, [Edge(7)]) for page_id in LINKED}
    change(tmp_path / "store", {keys.COUNTS: records.encode_counts(counts), **links})
    return Frontiers(tmp_path / "store", capsys)


def test_a_graph_counts_the_pages_whose_links_are_written(sparse: Frontiers, tmp_path: Path) -> None:
    for name in ("web.csv", "web.graphml"):
        found = steps(sparse("links", "--graph", tmp_path / name).err)
        assert found == [Step("links written, of pages", reached, PAGES) for reached in (5, 9_001, 17_002)]


def test_export_and_import_count_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages are only a part of these."""
    crawl(tmp_path / "old", pages=900, hosts=7, ended=100)
    exported = steps(Frontiers(tmp_path / "old", capsys)("export", tmp_path / "x.gz").err)
    with gzip.open(tmp_path / "x.gz") as lines:
        lines_in_all = sum(1 for _ in lines)
    imported = steps(Frontiers(tmp_path / "new", capsys)("import", tmp_path / "x.gz").err)
    for found, doing in ((exported, "lines written"), (imported, "lines read")):
        assert {(step.doing, step.total) for step in found} == {(doing, None)}
        assert [step.count for step in found] == list(range(256, lines_in_all, 256))
        assert found[-1].count > 700


def test_forget_counts_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frontier = start(tmp_path)
    for first in range(0, 2500, 100):
        frontier.discover([link(f"http://a.example/{number}") for number in range(first, first + 100)], 0.0)
    frontier.close()
    found = steps(Frontiers(tmp_path, capsys)("forget", "--host", "a.example").err)
    assert found[-1] == Step("pages forgotten", 2500, None)
