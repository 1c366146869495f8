"""Commands on the link graph: links, top, rank, graph.

The link graph as files for other programs: streamed, so that memory grows neither with links nor pages.

Nodes are page ids. Files that hold nothing but links have the URLs beside them, a line a page (`write_urls`).
Each writer answers with the number of links.
"""

from __future__ import annotations

import csv
import gzip
import time
import zipfile
from contextlib import closing
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np
from scrapy.exceptions import UsageError

from ..core.admin import facts
from ..core.admin import scores as tops
from ..core.admin.facts import every_link, flag_names, links_out, links_to, readable
from ..core.errors import UnreadableRow, size
from .output import Column, printable, progress, replacing
from .page import LINES, MISSING, find_or_fail, limit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import DTypeLike, NDArray

    from ..core.frontier import Frontier, PageId, RankRun
    from ..core.ranking.graph import Links
    from ..core.store.leveldb import Store
    from ..core.store.link_rows import Edge
    from ..core.store.records import LastRanking
    from .call import Call

_LEVEL = 1  # of gzip and zip: 6 takes three times as long and saves a tenth

_AT_A_TIME = 4096  # numbers

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="url" for="node" attr.name="url" attr.type="string"/>
<key id="state" for="node" attr.name="state" attr.type="string"/>
<key id="flags" for="edge" attr.name="flags" attr.type="string"><default></default></key>
<key id="weight" for="edge" attr.name="weight" attr.type="double"><default>1</default></key>
<graph id="frontier" edgedefault="directed">
"""


def write_urls(store: Store, file: Path) -> None:
    """The URL of page n in line n + 1, gzipped; empty lines for ids without a page. One pass over the
    pages."""
    with gzip.open(file, "wt", _LEVEL, encoding="utf-8") as lines:
        for url, _ in _nodes(store):
            lines.write(f"{url}\n")


def write_graphml(store: Store, file: Path) -> int:
    """A node for each id, with URL and state, then the edges; a weight of 1 and no flags are left out. How
    many links there are."""
    count = 0
    with file.open("w", encoding="utf-8") as out:
        out.write(_HEAD)
        for page_id, (url, state) in enumerate(_nodes(store)):
            about = f'<data key="url">{escape(url)}</data><data key="state">{state}</data>' if state else ""
            out.write(f'<node id="n{page_id}">{about}</node>\n')
        for source, target, flags, weight in _links(store):
            about = f'<data key="flags">{" ".join(flag_names(flags))}</data>' if flags else ""
            if weight != 1:
                about += f'<data key="weight">{weight:.6g}</data>'
            out.write(f'<edge source="n{source}" target="n{target}">{about}</edge>\n')
            count += 1
        out.write("</graph>\n</graphml>\n")
    return count


def write_text(store: Store, file: Path) -> int:
    """A line a link: source and target, with a space between; a comment first. How many links there are."""
    count = 0
    with file.open("w", encoding="ascii") as out:
        out.write("# source target: page ids, the URLs are in the file beside this one\n")
        for links in _blocks(store):
            pairs = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
            out.writelines(f"{source} {target}\n" for source, target in pairs)
            count += len(links.sources)
    return count


def write_csv(store: Store, file: Path, delimiter: str = ",") -> int:
    """A line a link: source, target, flags in words, weight; *delimiter* between them. How many links there
    are."""
    count = 0
    with file.open("w", encoding="ascii", newline="") as out:
        rows = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        rows.writerow(("source", "target", "flags", "weight"))
        for source, target, flags, weight in _links(store):
            rows.writerow((source, target, " ".join(flag_names(flags)), f"{weight:.6g}"))
            count += 1
    return count


def write_npz(store: Store, file: Path) -> int:
    """A matrix for `scipy.sparse.load_npz`: ``indptr``, ``indices``, ``data`` (weights), and ``flags``.

    Four passes over the links.
    """
    pages = facts.known(store)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        _put(archive, "format", np.array(b"csr"))
        _put(archive, "shape", np.array([pages, pages]))
        with _array(archive, "indptr", np.int64, pages + 1) as out:
            count = _write_ends(store, pages, out)
        for name, part, kind in (
            ("indices", "targets", np.int32 if pages < 1 << 31 else np.int64),
            ("data", "weights", np.float32),
            ("flags", "flags", np.uint8),
        ):
            with _array(archive, name, kind, count) as out:
                for links in _blocks(store, f"{part} written, of pages"):
                    out.write(getattr(links, part).astype(kind).tobytes())
    return count


def _write_ends(store: Store, pages: int, out: IO[bytes]) -> int:
    """Write where the links of each page end among all, after a first 0; how many links there are."""
    count = done = 0
    out.write(bytes(8))

    def write_empty(until: int) -> None:
        for first in range(done, until, _AT_A_TIME):
            out.write(np.full(min(_AT_A_TIME, until - first), count).tobytes())

    for links in _blocks(store, "links counted, of pages"):
        first = int(links.sources[0])
        write_empty(first)
        ends = count + np.cumsum(np.bincount(links.sources - first))
        out.write(ends.tobytes())
        count, done = int(ends[-1]), first + len(ends)
    write_empty(pages)
    return count


def _put(archive: zipfile.ZipFile, name: str, array: NDArray[np.generic]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
        np.lib.format.write_array(out, array, allow_pickle=False)


def _array(archive: zipfile.ZipFile, name: str, kind: DTypeLike, count: int) -> IO[bytes]:
    """The file of an array of *count* numbers that is never in memory as a whole: they are written there."""
    about = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": (count,)}
    out = archive.open(f"{name}.npy", "w", force_zip64=True)
    np.lib.format.write_array_header_1_0(out, about)
    return out


WRITERS: dict[str, Callable[[Store, Path], int]] = {
    ".graphml": write_graphml,
    ".txt": write_text,
    ".tsv": partial(write_csv, delimiter="\t"),
    ".csv": write_csv,
    ".npz": write_npz,
}


# -- what is written ---------------------------------------------------------------------------------------


def _nodes(store: Store) -> Iterator[tuple[str, str]]:
    """URL and state of every id, in order; empty for an id without a page."""
    total = facts.known(store)
    done = 0
    for page_id, page in progress(facts.pages(store, with_visits=False), "pages written", total):
        yield from repeat(("", ""), page_id - done)
        yield printable(page.url), page.state.name.lower()
        done = page_id + 1
    yield from repeat(("", ""), total - done)


def _blocks(store: Store, doing: str = "links written, of pages") -> Iterator[Links]:
    total = facts.known(store)
    filled = (links for links in every_link(store) if len(links.sources))
    return progress(filled, doing, total, lambda links: int(links.sources[-1]) + 1)


def _links(store: Store) -> Iterator[tuple[int, int, int, float]]:
    for links in _blocks(store):
        yield from zip(*(part.tolist() for part in links), strict=True)


_TOP_COLUMNS = [Column("SCORE", 8, True), Column("STATE", 10), Column("URL", 0)]
_LINK_COLUMNS = [Column("STATE", 10), Column("FLAGS", 18), Column("WEIGHT", 6, True), Column("URL", 0)]


# -- links of a page ---------------------------------------------------------------------------------------


def links(call: Call) -> int:
    """Tell of the links on a page and to it, up to ``--limit`` each; those to it take a pass over all links.
    Exit code 1 where the page is not known."""
    wants_in, wants_out = (bool(getattr(call.options, name)) for name in ("in", "out"))
    with call.project.open(identified=True) as store:
        found = find_or_fail(call, store)
        if found is None:
            return MISSING
        page_id, page = found
        if wants_out or not wants_in:
            count = _show_links(call, store, "out", links_out(store, page_id))
            unread = "" if count or page.status else ": it was not read yet"
            call.output.text(f"{count:,} link{'' if count == 1 else 's'} on it{unread}.")
            call.output.line()
        if wants_in or not wants_out:
            count = _show_links(call, store, "in", links_to(store, page_id))
            call.output.text(f"{count:,} page{' links' if count == 1 else 's link'} to it.")
            call.output.line()
    return 0


def _show_links(call: Call, store: Store, direction: str, edges: Iterable[Edge]) -> int:
    """Print up to ``--limit`` links as they come; how many there are."""

    def document(edge: Edge) -> dict[str, object]:
        url, state = _end(store, edge.target)
        about = {"direction": direction, "id": edge.target, "url": url, "state": state}
        return {**about, "flags": flag_names(edge.flags), "weight": edge.weight}

    def row(edge: Edge) -> tuple[object, ...]:
        url, state = _end(store, edge.target)
        name = url if url is not None else f"page {edge.target}"
        return state, " ".join(flag_names(edge.flags)), f"{edge.weight:.3g}", name

    rest = iter(edges)
    shown = call.output.listing(islice(rest, limit_of(call, 0)), document, _LINK_COLUMNS, row)
    return shown + sum(1 for _ in rest)


def _end(store: Store, page_id: PageId) -> tuple[str | None, str]:
    """URL and state of the page at the other end of a link."""
    try:
        page = facts.read_page(store, page_id)
    except UnreadableRow:
        return None, "unreadable"
    return (None, "forgotten") if page is None else (page.url, page.state.name.lower())


# -- what matters most -------------------------------------------------------------------------------------


def top(call: Call) -> None:
    """Tell of the ``--limit`` best pages by ``--by``; a ranking by ``pagerank``, ``authority`` or ``hub`` is
    computed now, and kept nowhere."""
    by = call.options.by or "score"
    with call.project.open() as store:
        host = call.host(store)
        found = tops.scores(store, by, time.perf_counter)
        leaders = islice(tops.leaders(store, found.values, host), limit_of(call, LINES))
        call.output.listing(leaders, _about_leader, _TOP_COLUMNS, _top_row)
        call.output.text(_how(by, found))


def _about_leader(leader: tops.Leader) -> dict[str, object]:
    return {"score": leader.score, **facts.describe(leader.page_id, leader.page)}


def _top_row(leader: tops.Leader) -> tuple[object, ...]:
    return f"{leader.score:.4g}", leader.page.state.name.lower(), leader.page.url


def _how(by: str, found: tops.Scores) -> str:
    """What the scores are, in a sentence."""
    if found.ranking is None:
        kept = f"handed on by {found.links:,} links" if found.links else "as the crawl kept it"
        return f"{by}, {kept}; 1 is {'what a seed begins with' if by == 'cash' else 'an average page'}."
    ranking, pages = found.ranking, len(found.values)
    return (
        f"{by} of {pages:,} pages by {found.links:,} links, times the average: {ranking.iterations} "
        f"iterations, error {ranking.error}, {found.seconds:.2f} s."
    )


def rank(call: Call) -> None:
    """Rank all pages, move the queue rows, keep the ranking, and tell the best ten. Raises `UsageError` for a
    scorer that needs no ranking."""
    with call.project.open() as store:
        kept = str((facts.summary(store).ranking or {}).get("scorer", "")).lower()
        scorer = call.project.scorer(call.options.scorer, kept)
        if not scorer.needs_ranking:
            raise UsageError("this scorer needs no ranking: write --scorer mixed, pagerank or hits")
        with call.project.frontier(store, scorer) as frontier:
            run = _ranked(frontier, call)
            best = list(islice(tops.leaders(store, run.scores, None), 10))
            about = facts.summary(store).ranking or {}
    call.output.document({**about, "top": list(map(_about_leader, best))})
    call.output.fields(_about_lines(about))
    call.output.line()
    call.output.table(_TOP_COLUMNS, map(_top_row, best))


def _ranked(frontier: Frontier, call: Call) -> RankRun:
    """Rank, move the queue rows, keep the ranking, pack the links."""
    while not frontier.load(call.project.now):
        pass
    with closing(frontier.rank_now()) as run, readable():
        computed = run.compute(bool, time.perf_counter)
        for _ in progress(frontier.rank_steps(run, computed, lambda: call.project.now), "steps"):
            pass
    return run


def _about_lines(about: LastRanking) -> Iterator[tuple[str, object]]:
    yield "scorer", about["scorer"].lower()
    for name in ("pages", "links", "iterations"):
        yield name, f"{about[name]:,}"
    error = about["error_bound"]
    yield "error bound", "not known" if error is None else f"{error:.1e}"
    yield "converged", "yes" if about["converged"] else "no"
    yield "seconds", f"{about['seconds']:.2f}"
    yield "rows moved", f"{about['moved']:,}"


# -- the graph for other programs --------------------------------------------------------------------------


def graph(call: Call) -> None:
    """Write the link graph into a file, by its suffix, and its URLs beside it where the format has none.
    Raises `UsageError` for another suffix; what was there stays until all is written."""
    target = Path(call.arguments[0])
    write = WRITERS.get(target.suffix.lower())
    if write is None:
        raise UsageError(f"which format is {target.name}? Write FILE with one of {', '.join(WRITERS)}")
    beside = None if write is write_graphml else target.with_name(f"{target.name}.urls.gz")
    call.output.make_way_for(target)
    with call.project.open() as store, replacing(target) as partial:
        if beside is not None:
            with replacing(beside) as urls_partial:
                write_urls(store, urls_partial)
        pages, count = facts.known(store), write(store, partial)
        written = partial.stat().st_size
    urls = f", their URLs to {beside.name}" if beside else ""
    text = f"Wrote {count:,} links of {pages:,} pages to {target} ({size(written)}){urls}."
    about = {"file": str(target), "urls": str(beside) if beside else None, "pages": pages}
    call.output.answer({**about, "links": count, "bytes": written}, text)
