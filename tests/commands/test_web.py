"""Commands on the link graph: links of a page, what matters most, a ranking, files for other programs."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from stores import Frontiers, change, crawl, crawl_web, pages, rows, web_url

from scrapy_frontier.core import graph
from scrapy_frontier.core.adjacency import Edge
from scrapy_frontier.core.walk import flag_names

if TYPE_CHECKING:
    from pathlib import Path

Written = dict[int, list[Edge]]


@pytest.fixture(params=[0, 90], ids=["loose", "packed"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    return crawl_web(tmp_path, packed=request.param)


@pytest.fixture
def frontier(tmp_path: Path, written: Written, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    return Frontiers(tmp_path, capsys)


def url_of(frontier: Frontiers, page_id: int) -> str:
    return pages(frontier.directory)[page_id].url


def sources_of(written: Written, page_id: int) -> set[int]:
    return {source for source, edges in written.items() if any(edge.target == page_id for edge in edges)}


def most_linked(written: Written) -> int:
    targets = {edge.target for edges in written.values() for edge in edges}
    return max(targets, key=lambda target: len(sources_of(written, target)))


# -- links -------------------------------------------------------------------------------------------------


def test_links_on_a_page_come_with_flags_and_weights(frontier: Frontiers, written: Written) -> None:
    kept = pages(frontier.directory)
    for page_id in (0, max(written), 7):
        told = frontier("links", kept[page_id].url, "--out", "--json").lines
        assert [(each["id"], each["flags"], each["weight"]) for each in told] == [
            (edge.target, flag_names(edge.flags), edge.weight) for edge in written.get(page_id, [])
        ]
        assert all(each["url"] == kept[each["id"]].url for each in told)
        assert all(each["state"] == kept[each["id"]].state.name.lower() for each in told)
    assert "nofollow internal" in frontier("links", web_url(0)).out
    assert any("redirect" in flag_names(edge.flags) for edges in written.values() for edge in edges)


def test_links_to_a_page_are_found_wherever_they_are(frontier: Frontiers, written: Written) -> None:
    page_id = most_linked(written)
    told = frontier("links", url_of(frontier, page_id), "--in", "--json").lines
    assert [each["id"] for each in told] == sorted(sources_of(written, page_id))
    assert all(each["direction"] == "in" for each in told)
    text = frontier("links", url_of(frontier, page_id), "--limit", "2").out
    assert f"{len(told)} pages link to it." in text
    assert len(text.splitlines()) < 12, "the others are counted, not shown"
    assert max(map(len, text.splitlines())) <= 80


def test_a_page_that_was_not_read_says_so(frontier: Frontiers, written: Written) -> None:
    unread = next(page_id for page_id in pages(frontier.directory) if page_id not in written)
    assert "0 links on it: it was not read yet." in frontier("links", url_of(frontier, unread)).out
    said = frontier("links", "http://nobody.example/")
    assert (said.code, "never seen" in said.out) == (1, True)


def test_other_ends_that_were_forgotten_are_named_by_number(frontier: Frontiers, written: Written) -> None:
    target = written[0][1].target
    frontier("forget", url_of(frontier, target))
    assert f"page {target}" in frontier("links", web_url(0), "--out").out
    (told,) = [
        each for each in frontier("links", web_url(0), "--out", "--json").lines if each["id"] == target
    ]
    assert (told["url"], told["state"]) == (None, "forgotten")


def test_dump_gives_every_link(frontier: Frontiers, written: Written) -> None:
    told = frontier("dump", "--what", "links").lines
    expected = [(source, *edge) for source in sorted(written) for edge in written[source]]
    assert [(each["source"], each["target"], each["weight"]) for each in told] == [
        (source, target, weight) for source, target, _, weight in expected
    ]
    assert [each["flags"] for each in told] == [flag_names(flags) for _, _, flags, _ in expected]
    table = list(csv.DictReader(io.StringIO(frontier("dump", "--what", "links", "--format", "csv").out)))
    assert [int(row["target"]) for row in table] == [target for _, target, _, _ in expected]
    assert {row["flags"] for row in table} == {"", "internal", "nofollow internal", "redirect"}


def test_without_links_there_is_nothing_and_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(tmp_path)
    frontier = Frontiers(tmp_path, capsys)
    assert "0 pages link to it." in frontier("links", "http://h1.example/1").out
    assert frontier("dump", "--what", "links").out == ""


def test_damaged_links_end_in_a_sentence(frontier: Frontiers) -> None:
    change(frontier.directory, {graph.row_key(3): b"\xff"})
    for command in (("links", web_url(0), "--in"), ("dump", "--what", "links")):
        said = frontier(*command)
        assert said.code == 1
        assert "the link graph cannot be read" in said.err
        assert "scrapy frontier check" in said.err


def test_looking_at_links_changes_nothing(frontier: Frontiers) -> None:
    before = rows(frontier.directory)
    frontier("links", web_url(0))
    frontier("dump", "--what", "links")
    assert rows(frontier.directory) == before
