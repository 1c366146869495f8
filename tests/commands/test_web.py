"""Commands on the link graph: links of a page, what matters most, a ranking, files for other programs."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest
from link_arrays import from_pairs
from scipy import sparse
from scrapy.exceptions import UsageError
from scrapy.utils.misc import load_object
from stores import NOW, Frontiers, change, check, crawl, crawl_web, order, pages, rows, start, web_url

from scrapy_frontier.commands import page as page_module
from scrapy_frontier.core.admin.facts import flag_names
from scrapy_frontier.core.frontier import Frontier, FrontierOptions
from scrapy_frontier.core.ranking.pagerank import hits, pagerank
from scrapy_frontier.core.store import keys, queue_keys, records
from scrapy_frontier.core.store.keys import State, bucket
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import NOFOLLOW, Edge, encode_row
from scrapy_frontier.core.store.records import decode_counts, encode_counts, encode_page
from scrapy_frontier.settings import SCORERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_frontier.core.pages.rankings import RankRun

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
    assert (said.code, "No plain GET of it is known" in said.out) == (1, True)


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
    change(frontier.directory, {keys.link_key(3): b"\xff"})
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


def test_page_counts_the_links_to_it_where_they_are_not_too_many(
    frontier: Frontiers, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_id = most_linked(written)
    url, count = url_of(frontier, page_id), len(sources_of(written, page_id))
    assert frontier("page", url, "--json").json["links_in"] == count > 5
    assert f"links to it   {count}\n" in frontier("page", url).out
    monkeypatch.setattr(page_module, "_MOST_LINKS", sum(map(len, written.values())) - 1)
    assert frontier("page", url, "--json").json["links_in"] is None
    assert "`links URL --in`" in frontier("page", url).out


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


def test_top_of_cash_hands_it_on_in_the_order_of_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The crawl kept cash beside other scores; without them it is computed again, to nearly the same."""
    written = crawl_web(tmp_path)
    frontier = Frontiers(tmp_path, capsys)
    cash = {0: 1.0}
    for number, (source, edges) in enumerate(written.items()):
        paid = [edge for edge in edges if not edge.flags & NOFOLLOW]
        total = sum(edge.weight for edge in paid) or 1
        gives = 0.85 * cash.get(source, 0.0) * (2 if number % 7 == 0 else 1)
        for edge in paid:
            cash[edge.target] = cash.get(edge.target, 0.0) + gives * edge.weight / total
    kept = [key for key in rows(tmp_path) if key[:1] == keys.COLUMN]
    assert records.column_key("cash", 0) in kept
    was_kept = frontier("top", "--by", "cash", "--limit", "0", "--json").lines
    change(tmp_path, delete=(records.column_key("cash", 0),))
    told = frontier("top", "--by", "cash", "--limit", "0", "--json").lines
    assert {each["id"]: each["score"] for each in told} == pytest.approx(cash, rel=2e-3)
    assert {each["id"] for each in was_kept} == {each["id"] for each in told}
    assert "links" in frontier("top", "--by", "cash").out


def test_top_by_score_is_what_the_crawl_kept(frontier: Frontiers) -> None:
    told = frontier("top", "--json").lines
    assert [each["score"] for each in told] == sorted((each["score"] for each in told), reverse=True)
    codes = np.frombuffer(rows(frontier.directory)[records.column_key("score", 0)], ">u2")
    assert [bucket(each["score"]) for each in told] == sorted(codes.tolist(), reverse=True)[:20]
    assert "as the crawl kept it" in " ".join(frontier("top").out.split())


@pytest.mark.parametrize("scorer", [None, "mixed"])
def test_without_kept_scores_the_queue_says_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scorer: str | None
) -> None:
    crawl_web(tmp_path, scorer=scorer)
    change(tmp_path, delete=tuple(key for key in rows(tmp_path) if key[:1] == keys.COLUMN))
    told = Frontiers(tmp_path, capsys)("top", "--limit", "0", "--json").lines
    queued = {page_id for page_id, page in pages(tmp_path).items() if page.state is State.QUEUED}
    assert {each["id"] for each in told} == queued


def test_top_of_one_host(frontier: Frontiers) -> None:
    everything = frontier("top", "--by", "pagerank", "--limit", "0", "--json").lines
    told = frontier("top", "--by", "pagerank", "--host", "h2.example", "--limit", "0", "--json").lines
    assert told == [each for each in everything if each["host"] == "h2.example"]


# -- rank --------------------------------------------------------------------------------------------------


def queue_by_id(directory: Path) -> dict[int, int]:
    """The score bucket of each queued page."""
    queued = (key.partition(b"\0")[2] for key in rows(directory) if key[:1] == keys.QUEUE)
    return {
        queue_keys.sort_key_id(sort_key): 0xFFFF - int.from_bytes(sort_key[4:6], "big") for sort_key in queued
    }


@pytest.mark.parametrize("scorer", ["pagerank", "hits", "mixed"])
def test_rank_puts_the_queue_in_order_and_keeps_the_ranking(
    frontier: Frontiers, written: Written, scorer: str
) -> None:
    before = set(queue_by_id(frontier.directory))
    told = frontier("rank", "--scorer", scorer, "--json").json
    assert told["scorer"].lower() == scorer
    assert (told["pages"], told["links"]) == (len(pages(frontier.directory)), sum(map(len, written.values())))
    assert len(told["top"]) == 10
    assert frontier("stats", "--json").json["ranking"] == {
        name: value for name, value in told.items() if name != "top"
    }
    assert check(frontier.directory) == []
    queued = queue_by_id(frontier.directory)
    assert set(queued) == before
    scores = {each["id"]: each["score"] for each in frontier("top", "--limit", "0", "--json").lines}
    assert all(abs(place - bucket(scores.get(page_id, 0))) <= 97 for page_id, place in queued.items())
    again = frontier("rank", "--scorer", scorer)
    assert "rows moved    0\n" in again.out or scorer == "mixed"
    assert max(map(len, again.out.splitlines())) <= 80


def test_a_ranked_queue_is_handed_out_in_that_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl_web(tmp_path, scorer=None)
    frontier = Frontiers(tmp_path, capsys)
    by_rank = [each["url"] for each in frontier("top", "--by", "pagerank", "--limit", "0", "--json").lines]
    queued = {page.url for page in pages(tmp_path).values() if page.state is State.QUEUED}
    frontier("rank", "--scorer", "pagerank")
    expected = [url for url in by_rank if url in queued]
    handed_out = order(tmp_path, len(queued), delay=0)
    assert set(handed_out) == queued
    assert handed_out[:5] == expected[:5]


def test_rank_takes_the_scorer_of_the_crawl(frontier: Frontiers, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="needs no ranking"):
        frontier("rank")
    for settings in ({"ADDONS": {"scrapy_frontier.Addon": 500}}, {"FRONTIER_SCORER": "mixed"}):
        told = Frontiers(frontier.directory, capsys, **settings)("rank", "--json").json
        assert told["scorer"] == "Mixed"
    frontier("rank", "--scorer", "hits")
    assert frontier("rank", "--json").json["scorer"] == "Hits", "that of the last ranking"
    for name in ("nothing", "nothing.like.it"):
        with pytest.raises(UsageError, match=f"--scorer '{name}' cannot be imported .* one of mixed, page"):
            frontier("rank", "--scorer", name)


def test_rank_leaves_the_clean_mark_as_it_was(frontier: Frontiers) -> None:
    frontier("rank", "--scorer", "pagerank")
    assert keys.CLEAN in rows(frontier.directory)
    change(frontier.directory, delete=(keys.CLEAN,))
    frontier("rank", "--scorer", "pagerank")
    assert keys.CLEAN not in rows(frontier.directory)


def ranked(store: Store) -> tuple[RankRun, Iterator[float]]:
    """A ranking of a stopped frontier, ten rows a step."""
    frontier = Frontier(store, NOW, FrontierOptions(scorer=load_object(SCORERS["pagerank"])()))
    while not frontier.load(NOW):
        pass
    run = frontier.rank_now()
    return run, frontier.rank_steps(run, run.compute(bool, lambda: 0.0), lambda: NOW, 10)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_ranking_that_is_interrupted_leaves_a_sound_frontier(tmp_path: Path, steps: int) -> None:
    crawl_web(tmp_path, scorer=None)
    before = queue_by_id(tmp_path)
    store = Store(tmp_path)
    run, ranking = ranked(store)
    while not run.moved:
        next(ranking)
    for _ in range(steps):
        next(ranking)
    run.close()
    store.close()
    halfway = queue_by_id(tmp_path)
    assert set(halfway) == set(before)
    assert check(tmp_path) == []
    store = Store(tmp_path)
    run, ranking = ranked(store)
    for _ in ranking:
        pass
    run.close()
    store.close()
    after = queue_by_id(tmp_path)
    assert halfway not in (before, after), "it was really interrupted in the middle"


@pytest.mark.parametrize("scorer", ["mixed", "pagerank", "hits"])
@pytest.mark.parametrize(("added", "count"), [(0, 0), (1, 0), (1, 1)], ids=["none", "forgotten", "one"])
def test_the_smallest_frontiers_can_be_ranked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], added: int, count: int, scorer: str
) -> None:
    start(tmp_path).close()
    frontier = Frontiers(tmp_path, capsys)
    if added:
        frontier("add", "http://a.example/")
    if added and not count:
        frontier("forget", "http://a.example/")
    assert frontier("rank", "--scorer", scorer).code == 0
    for by in ("pagerank", "authority", "hub", "cash", "score"):
        assert len(frontier("top", "--by", by, "--json").lines) == count
    assert json.loads(rows(tmp_path)[keys.RANKING])["links"] == 0


# -- files for other programs ------------------------------------------------------------------------------


def every(written: Written) -> list[tuple[int, int, int, float]]:
    return [(source, *edge) for source in sorted(written) for edge in written[source]]


def urls_beside(file: Path) -> list[str]:
    with gzip.open(file.with_name(f"{file.name}.urls.gz"), "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def test_graphml_has_every_page_and_link(frontier: Frontiers, written: Written, tmp_path: Path) -> None:
    kept = pages(frontier.directory)
    odd = "http://h1.example/?a=1&b=<2>\x1b\ud800"
    change(frontier.directory, {keys.page_key(9): encode_page(kept[9]._replace(url=odd))})
    frontier("forget", kept[len(kept) - 1].url)
    said = frontier("graph", tmp_path / "web.graphml")
    assert (said.code, f"{len(every(written)):,} links of {len(kept)} pages" in said.out) == (0, True)
    space = "{http://graphml.graphdrawing.org/xmlns}"
    root = ElementTree.parse(tmp_path / "web.graphml").getroot()
    nodes = root.findall(f"{space}graph/{space}node")
    assert [node.get("id") for node in nodes] == [f"n{page_id}" for page_id in kept]
    about = [{data.get("key"): data.text for data in node} for node in nodes]
    assert about[0] == {"url": kept[0].url, "state": "done"}
    assert about[9]["url"] == "http://h1.example/?a=1&b=<2>\\x1b\\ud800"
    assert about[-1] == {}, "it was forgotten, and pages may still link to it"
    found = []
    for edge in root.findall(f"{space}graph/{space}edge"):
        data = {each.get("key"): each.text for each in edge}
        ends = (int(str(edge.get(end))[1:]) for end in ("source", "target"))
        found.append((*ends, data.get("flags") or "", float(data.get("weight") or 1)))
    assert found == [(s, t, " ".join(flag_names(flags)), w) for s, t, flags, w in every(written)]


def test_edge_lists_have_every_link(frontier: Frontiers, written: Written, tmp_path: Path) -> None:
    kept = pages(frontier.directory)
    for name, delimiter in (("web.csv", ","), ("web.TSV", "\t")):
        frontier("graph", tmp_path / name)
        with (tmp_path / name).open() as file:
            found = list(csv.DictReader(file, delimiter=delimiter))
        assert [
            (int(row["source"]), int(row["target"]), row["flags"], float(row["weight"])) for row in found
        ] == [(s, t, " ".join(flag_names(flags)), w) for s, t, flags, w in every(written)]
    told = frontier("graph", tmp_path / "web.txt", "--json").json
    pairs = np.loadtxt(tmp_path / "web.txt", int)
    assert [tuple(pair) for pair in pairs.tolist()] == [each[:2] for each in every(written)]
    assert (told["pages"], told["links"]) == (len(kept), len(pairs))
    assert urls_beside(tmp_path / "web.txt") == [page.url for page in kept.values()]


def test_npz_is_a_matrix(frontier: Frontiers, written: Written, tmp_path: Path) -> None:
    kept = pages(frontier.directory)
    frontier("graph", tmp_path / "web.npz")
    loaded = sparse.load_npz(tmp_path / "web.npz")
    assert loaded.indices.dtype == loaded.indptr.dtype == np.int32
    matrix = loaded.tocoo()
    assert matrix.shape == (len(kept), len(kept))
    assert list(zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)) == [
        (source, target, weight) for source, target, _, weight in every(written)
    ]
    with np.load(tmp_path / "web.npz") as arrays:
        assert arrays["flags"].tolist() == [flags for *_, flags, _ in every(written)]
        assert (arrays["indices"].dtype, arrays["indptr"].dtype) == (np.int32, np.int64)
    assert urls_beside(tmp_path / "web.npz")[5] == kept[5].url


def test_npz_of_pages_mostly_without_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whole chunks of ids without a link, at the beginning, in between and at the end."""
    start(tmp_path / "store").close()
    links = {5000: [1, 2], 5001: [0], 13_000: [12_999], 20_000: [20_001, 4]}
    counts = decode_counts(rows(tmp_path / "store")[keys.COUNTS])
    counts.next_page = 25_000
    kept = {keys.link_key(page): encode_row(page, map(Edge, targets)) for page, targets in links.items()}
    change(tmp_path / "store", {keys.COUNTS: encode_counts(counts), **kept})
    Frontiers(tmp_path / "store", capsys)("graph", tmp_path / "web.npz")
    matrix = sparse.load_npz(tmp_path / "web.npz")
    assert matrix.shape == (25_000, 25_000)
    found = {
        row: sorted(matrix[[row]].tocoo().col.tolist()) for row in np.flatnonzero(np.diff(matrix.indptr))
    }
    assert found == {page: sorted(targets) for page, targets in links.items()}
    assert {path.name for path in tmp_path.iterdir()} == {"store", "web.npz", "web.npz.urls.gz"}


def test_a_file_appears_whole_or_not_at_all(frontier: Frontiers, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which format is web"):
        frontier("graph", tmp_path / "web.png")
    (tmp_path / "web.txt").write_text("from before")
    change(frontier.directory, {keys.link_key(250): b"\xff"})
    assert frontier("graph", tmp_path / "web.txt").code == 1
    assert (tmp_path / "web.txt").read_text() == "from before"
    assert not list(tmp_path.glob("*.part"))


def test_no_other_file_is_touched(frontier: Frontiers, tmp_path: Path) -> None:
    """Where the name is as long as one may be, too; and who may read any new file may read this one."""
    longest = "w" * 251 + ".txt"
    mine = [tmp_path / name for name in ("web.txt.part", "all.gz.part", "web.txt.urls.gz.part")]
    for file in mine:
        file.write_text("mine")
    (tmp_path / "plain").touch()
    for command, name in (("graph", "web.txt"), ("export", "all.gz"), ("export", longest)):
        assert frontier(command, tmp_path / name).code == 0
        assert (tmp_path / name).stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert [file.read_text() for file in mine] == ["mine"] * 3
    assert sorted(tmp_path.glob("*.part")) == sorted(mine)


@pytest.mark.parametrize("ending", ["graphml", "txt", "tsv", "csv", "npz"])
def test_a_frontier_without_links_makes_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    crawl(tmp_path)
    told = Frontiers(tmp_path, capsys)("graph", tmp_path / f"web.{ending}", "--json").json
    assert (told["pages"], told["links"]) == (60, 0)


# -- the links of pages that are forgotten -------------------------------------------------------------------


def test_forgetting_a_page_forgets_the_links_on_it(frontier: Frontiers, written: Written) -> None:
    kept = pages(frontier.directory)
    to_seed = sources_of(written, 0) - {3, 4}
    frontier("forget", kept[3].url)
    frontier("forget", kept[4].url)
    told = {each["source"] for each in frontier("dump", "--what", "links").lines}
    assert told == set(written) - {3, 4}
    assert {each["id"] for each in frontier("links", web_url(0), "--in", "--json").lines} == to_seed
    frontier("rank", "--scorer", "pagerank")
    assert {each["source"] for each in frontier("dump", "--what", "links").lines} == told
    assert check(frontier.directory) == []


def test_forgetting_a_host_forgets_its_links(frontier: Frontiers, written: Written) -> None:
    of_host = {page_id for page_id, page in pages(frontier.directory).items() if "//h1." in page.url}
    frontier("forget", "--host", "h1.example")
    told = frontier("dump", "--what", "links").lines
    assert {each["source"] for each in told} == set(written) - of_host
    assert check(frontier.directory) == []


def test_page_tells_its_score_and_how_many_links_are_on_it(frontier: Frontiers, written: Written) -> None:
    told = frontier("page", web_url(0), "--json").json
    scores = {each["id"]: each["score"] for each in frontier("top", "--limit", "0", "--json").lines}
    assert told["score"] == pytest.approx(scores[0])
    assert told["links"] == len(written[0])
    assert f"links on it   {len(written[0])}\n" in frontier("page", web_url(0)).out
    change(frontier.directory, {keys.link_key(0): b"\xff"})
    assert "links on it   unreadable" in frontier("page", web_url(0)).out
