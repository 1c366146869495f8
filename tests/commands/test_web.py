"""Commands on the link graph: links of a page, what matters most, files for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest
from link_arrays import from_pairs
from stores import Frontiers, change, check, crawl_web, pages, rows, web_url

from scrapy_frontier.commands import look
from scrapy_frontier.core.admin.facts import flag_names
from scrapy_frontier.core.ranking.pagerank import hits, pagerank
from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.keys import bucket
from scrapy_frontier.core.store.link_rows import NOFOLLOW, Edge
from scrapy_frontier.core.store.records import encode_page

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


def test_other_ends_that_were_forgotten_are_named_by_number(frontier: Frontiers, written: Written) -> None:
    target = written[0][1].target
    frontier("forget", url_of(frontier, target))
    assert f"page {target}" in frontier("links", web_url(0), "--out").out
    (told,) = [
        each for each in frontier("links", web_url(0), "--out", "--json").lines if each["id"] == target
    ]
    assert (told["url"], told["state"]) == (None, "forgotten")


def test_damaged_links_end_in_a_sentence(frontier: Frontiers, tmp_path: Path) -> None:
    change(frontier.directory, {keys.link_key(3): b"\xff"})
    for command in (
        ("links", web_url(0), "--in"),
        ("top", "--by", "pagerank"),
        ("links", "--graph", tmp_path / "web.graphml"),
    ):
        said = frontier(*command)
        assert said.code == 1
        assert "the link graph cannot be read" in said.err
        assert "scrapy frontier check" in said.err


def test_page_counts_the_links_to_it_where_they_are_not_too_many(
    frontier: Frontiers, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_id = most_linked(written)
    url, count = url_of(frontier, page_id), len(sources_of(written, page_id))
    assert frontier("why", url, "--json").json["links_in"] == count > 5
    monkeypatch.setattr(look, "_MOST_LINKS", sum(map(len, written.values())) - 1)
    assert frontier("why", url, "--json").json["links_in"] is None


# -- what matters most -------------------------------------------------------------------------------------


def followed(written: Written) -> list[tuple[int, int, float]]:
    """Links that count, in the order of pages."""
    return [
        (source, edge.target, edge.weight)
        for source in sorted(written)
        for edge in written[source]
        if not edge.flags & NOFOLLOW
    ]


def expected_top(written: Written, kept: int, by: str) -> list[tuple[int, float]]:
    """Ids and scores, best first, from the links as they were written."""
    found = followed(written)
    indptr, indices = from_pairs([each[0] for each in found], [each[1] for each in found], kept)
    weights = np.array([weight for _, _, weight in found], np.float32)
    content = np.ones(kept)
    content[list(written)[::7]] = 2  # every seventh page read
    if by == "pagerank":
        scores = pagerank(indptr, indices, weights=weights, preference=content, tolerance=1e-9).scores
    else:
        ranking = hits(indptr, indices, weights=weights, content=content, tolerance=1e-7)
        scores = ranking.scores if by == "authority" else ranking.hubs
        assert scores is not None
    return [(page_id, scores[page_id] * kept) for page_id in np.argsort(-scores)[:20].tolist()]


@pytest.mark.parametrize("by", ["pagerank", "authority", "hub"])
def test_top_is_computed_from_the_links(frontier: Frontiers, written: Written, by: str) -> None:
    told = frontier("top", "--by", by, "--json").lines
    expected = expected_top(written, len(pages(frontier.directory)), by)
    assert [each["score"] for each in told] == pytest.approx([score for _, score in expected], rel=1e-2)
    assert {each["id"] for each in told[:5]} == {page_id for page_id, _ in expected[:5]}
    text = frontier("top", "--by", by, "--limit", "3").out
    assert max(map(len, text.splitlines())) <= 80
    assert f"iterations, error {'at most' if by == 'pagerank' else 'about'}" in " ".join(text.split())


def test_top_by_score_is_what_the_crawl_kept(frontier: Frontiers) -> None:
    told = frontier("top", "--json").lines
    assert [each["score"] for each in told] == sorted((each["score"] for each in told), reverse=True)
    codes = np.frombuffer(rows(frontier.directory)[records.column_key("score", 0)], ">u2")
    assert [bucket(each["score"]) for each in told] == sorted(codes.tolist(), reverse=True)[:20]
    assert "as the crawl kept it" in " ".join(frontier("top").out.split())


# -- files for other programs ------------------------------------------------------------------------------


def written_graph(
    frontier: Frontiers, file: Path
) -> tuple[list[dict[str, str]], list[tuple[int, int, str, float]]]:
    """The pages and links of the graph, as the command writes it."""
    said = frontier("links", "--graph", file)
    assert said.code == 0
    space = "{http://graphml.graphdrawing.org/xmlns}"
    root = ElementTree.parse(file).getroot()
    nodes = root.findall(f"{space}graph/{space}node")
    assert [node.get("id") for node in nodes] == [f"n{page_id}" for page_id in range(len(nodes))]
    about = [{str(data.get("key")): str(data.text) for data in node} for node in nodes]
    found = []
    for edge in root.findall(f"{space}graph/{space}edge"):
        data = {each.get("key"): each.text for each in edge}
        source, target = (int(str(edge.get(end))[1:]) for end in ("source", "target"))
        found.append((source, target, data.get("flags") or "", float(data.get("weight") or 1)))
    assert f"{len(found):,} links of {len(nodes)} pages" in said.out
    return about, found


def test_the_graph_has_every_page_and_link(frontier: Frontiers, written: Written, tmp_path: Path) -> None:
    kept = pages(frontier.directory)
    odd = "http://h1.example/?a=1&b=<2>\x1b\ud800"
    change(frontier.directory, {keys.page_key(9): encode_page(kept[9]._replace(url=odd))})
    frontier("forget", kept[len(kept) - 1].url)
    before = rows(frontier.directory)
    about, found = written_graph(frontier, tmp_path / "web.graphml")
    assert rows(frontier.directory) == before
    assert about[0] == {"url": kept[0].url, "state": "done"}
    assert about[9]["url"] == "http://h1.example/?a=1&b=<2>\\x1b\\ud800"
    assert about[-1] == {}, "it was forgotten, and pages may still link to it"
    links = [(source, *edge) for source in sorted(written) for edge in written[source]]
    assert found == [(s, t, " ".join(flag_names(flags)), w) for s, t, flags, w in links]


def test_a_file_appears_whole_or_not_at_all(frontier: Frontiers, tmp_path: Path) -> None:
    (tmp_path / "web.graphml").write_text("from before")
    change(frontier.directory, {keys.link_key(250): b"\xff"})
    assert frontier("links", "--graph", tmp_path / "web.graphml").code == 1
    assert (tmp_path / "web.graphml").read_text() == "from before"
    assert not list(tmp_path.glob("*.part"))


# -- the links of pages that are forgotten -------------------------------------------------------------------


def test_forgetting_a_page_forgets_the_links_on_it(
    frontier: Frontiers, written: Written, tmp_path: Path
) -> None:
    kept = pages(frontier.directory)
    to_seed = sources_of(written, 0) - {3, 4}
    frontier("forget", kept[3].url)
    frontier("forget", kept[4].url)
    assert {source for source, *_ in written_graph(frontier, tmp_path / "web.graphml")[1]} == set(written) - {
        3,
        4,
    }
    assert {each["id"] for each in frontier("links", web_url(0), "--in", "--json").lines} == to_seed
    assert check(frontier.directory) == []


def test_forgetting_a_host_forgets_its_links(frontier: Frontiers, written: Written, tmp_path: Path) -> None:
    of_host = {page_id for page_id, page in pages(frontier.directory).items() if "//h1." in page.url}
    frontier("forget", "--host", "h1.example")
    assert {source for source, *_ in written_graph(frontier, tmp_path / "web.graphml")[1]} == set(
        written
    ) - of_host
    assert check(frontier.directory) == []
