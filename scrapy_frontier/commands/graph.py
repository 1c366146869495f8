"""Commands on the link graph: links, top; and the file that other programs read it from."""

from __future__ import annotations

import heapq
import time
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from scrapy.exceptions import UsageError

from ..core.admin import facts, scores
from ..core.admin.facts import flag_names
from ..core.errors import UnreadableRow, size
from .look import LINES, MISSING, find_or_fail, limit_of
from .output import Column, printable, progress, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.frontier import PageId
    from ..core.ranking.scorer import Floats
    from ..core.store.leveldb import Store
    from ..core.store.link_rows import Edge
    from .call import Call
    from .project import ShardStore

_TOP_COLUMNS = [Column("SCORE", 8, True), Column("STATE", 10), Column("URL", 0)]
_LINK_COLUMNS = [Column("STATE", 10), Column("FLAGS", 18), Column("WEIGHT", 6, True), Column("URL", 0)]


# -- links of a page ---------------------------------------------------------------------------------------


def links(call: Call) -> int:
    """Prints the links on a page and to it, up to ``--limit`` each, or writes all links with ``--graph``.

    Those to a page take a pass over all links. Exit code 1 if the page is not known.
    """
    if (call.options.graph is None) != bool(call.arguments):
        raise UsageError("write the URL of a page, or --graph FILE")
    if call.options.graph is not None:
        _write_graph(call, Path(call.options.graph))
        return 0
    wants_in, wants_out = (bool(getattr(call.options, name)) for name in ("in", "out"))
    with call.project.joined(identified=True) as [(_, store)]:
        known = find_or_fail(call, store)
        if known is None:
            return MISSING
        _, page_id = known
        page = facts.read_page(store, page_id)
        if wants_out or not wants_in:
            count = _print_links(call, store, "out", facts.links_out(store, page_id))
            unread = "" if count or page is None or page.status else ": it was not read yet"
            call.output.text(f"{count:,} link{'' if count == 1 else 's'} on it{unread}.")
            call.output.line()
        if wants_in or not wants_out:
            count = _print_links(call, store, "in", facts.links_to(store, page_id))
            call.output.text(f"{count:,} page{' links' if count == 1 else 's link'} to it.")
            call.output.line()
    return 0


def _print_links(call: Call, store: Store, direction: str, edges: Iterable[Edge]) -> int:
    """Prints up to ``--limit`` links as they come; returns how many there are."""

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
    """Returns URL and state of the page at the other end of a link."""
    try:
        page = facts.read_page(store, page_id)
    except UnreadableRow:
        return None, "unreadable"
    return (None, "forgotten") if page is None else (page.url, page.state.name.lower())


# -- pages by score ----------------------------------------------------------------------------------------


def top(call: Call) -> None:
    """Prints the ``--limit`` best pages by ``--by``; ``pagerank``, ``authority`` and ``hub`` are computed
    now."""
    by = call.options.by or "score"

    def document(leader: scores.Leader) -> dict[str, object]:
        return {"score": leader.score, **facts.describe(leader.page_id, leader.page)}

    def row(leader: scores.Leader) -> tuple[object, ...]:
        return f"{leader.score:.4g}", leader.page.state.name.lower(), leader.page.url

    def best(part: ShardStore, values: Floats) -> Iterator[scores.Leader]:
        for score, page_id, page in scores.leaders(part.store, values, call.host(part.store)):
            yield scores.Leader(score, *part.public(page_id, page))

    is_kept = by in scores.KEPT
    with call.project.parts(call.options.host) if is_kept else call.project.joined() as parts:
        found = [scores.scores(part.store, by, time.perf_counter) for part in parts]
        leaders = heapq.merge(
            *map(best, parts, (each.values for each in found)), key=lambda best: -best.score
        )
        call.output.listing(islice(leaders, limit_of(call, LINES)), document, _TOP_COLUMNS, row)
    ranked = found[0]
    if ranked.ranking is None:
        units = {"cash": "what a seed begins with", "focus": "a page that is good for certain"}
        call.output.text(f"{by}, as the crawl kept it; 1 is {units.get(by, 'an average page')}.")
    else:
        call.output.text(
            f"{by} of {len(ranked.values):,} pages by {ranked.links:,} links, times the average: "
            f"{ranked.ranking.iterations} iterations, error {ranked.ranking.error}, {ranked.seconds:.2f} s."
        )


# -- the graph for other programs --------------------------------------------------------------------------

_GRAPHML_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="url" for="node" attr.name="url" attr.type="string"/>
<key id="state" for="node" attr.name="state" attr.type="string"/>
<key id="flags" for="edge" attr.name="flags" attr.type="string"><default></default></key>
<key id="weight" for="edge" attr.name="weight" attr.type="double"><default>1</default></key>
<graph id="frontier" edgedefault="directed">
"""


def _write_graph(call: Call, target: Path) -> None:
    """Writes all links as GraphML."""
    with call.project.joined() as [(_, store)], replacing(target) as partial_file:
        pages, count = facts.known(store), write_graphml(store, partial_file)
        written = partial_file.stat().st_size
    text = f"Wrote {count:,} links of {pages:,} pages to {target} ({size(written)})."
    about: dict[str, object] = {"file": str(target), "pages": pages, "links": count, "bytes": written}
    call.output.answer(about, text)


def write_graphml(store: Store, file: Path) -> int:
    """Writes a node for each id with URL and state, then the edges; returns how many links there are."""
    count = 0
    with file.open("w", encoding="utf-8") as out:
        out.write(_GRAPHML_HEAD)
        for page_id, (url, state) in enumerate(_nodes(store)):
            about = f'<data key="url">{escape(url)}</data><data key="state">{state}</data>' if state else ""
            out.write(f'<node id="n{page_id}">{about}</node>\n')
        for count, (source, target, flags, weight) in enumerate(_links(store), 1):  # noqa: B007
            about = f'<data key="flags">{" ".join(flag_names(flags))}</data>' if flags else ""
            if weight != 1:
                about += f'<data key="weight">{weight:.6g}</data>'
            out.write(f'<edge source="n{source}" target="n{target}">{about}</edge>\n')
        out.write("</graph>\n</graphml>\n")
    return count


def _nodes(store: Store) -> Iterator[tuple[str, str]]:
    """Yields URL and state of every id, in order; empty for an id without a page."""
    total = facts.known(store)
    done = 0
    for page_id, page in progress(facts.pages(store, with_visits=False), "pages written", total):
        if page_id >= total:  # a damaged key
            break
        yield from repeat(("", ""), page_id - done)
        yield printable(page.url), page.state.name.lower()
        done = page_id + 1
    yield from repeat(("", ""), total - done)


def _links(store: Store) -> Iterator[tuple[int, int, int, float]]:
    for links in facts.every_link(store):
        yield from zip(*(part.tolist() for part in links), strict=True)
