"""Commands on the link graph: links, top, rank, graph."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from ..core.admin import facts
from ..core.admin import scores as tops
from ..core.admin.links_in_chunks import flag_names, links_out, links_to, readable
from ..core.errors import UnreadableRow
from ..core.size_format import size
from .graph_files import WRITERS, write_graphml, write_urls
from .output import Column, progress, replacing
from .page import MISSING, find_or_fail
from .show import LINES, limit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.frontier import Frontier, PageId, RankRun
    from ..core.store.leveldb import Store
    from ..core.store.link_rows import Edge
    from ..core.store.meta_rows import LastRanking
    from .call import Call

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
