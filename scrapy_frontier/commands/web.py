"""Commands on the link graph: links, top, rank, graph."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ..core import inspect
from ..core.errors import UnreadableRecord
from ..core.walk import flag_names, links_out, links_to
from .look import find_or_say, limit_of
from .output import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.adjacency import Edge
    from ..core.records import Page
    from ..core.store import Store
    from .call import Call

_MISSING = 1  # exit code for a page that is not known

_LINK_COLUMNS = [Column("STATE", 10), Column("FLAGS", 18), Column("WEIGHT", 6, True), Column("URL", 0)]


# -- links of a page ---------------------------------------------------------------------------------------


def links(call: Call) -> int:
    """Exit code 1 where the page is not known."""
    wants_in, wants_out = (bool(getattr(call.options, name)) for name in ("in", "out"))
    with call.project.open(identified=True) as store:
        found = find_or_say(call, store)
        if found is None:
            return _MISSING
        page_id, page = found
        if wants_out or not wants_in:
            edges = links_out(store, page_id)
            count = _show_links(call, store, "out", edges)
            _say_count(call, f"{_counted(count, 'link')} on it{_unless_read(page, count)}.")
        if wants_in or not wants_out:
            count = _show_links(call, store, "in", links_to(store, page_id))
            _say_count(call, f"{_counted(count, 'page')} link{'s' if count == 1 else ''} to it.")
    return 0


def _show_links(call: Call, store: Store, direction: str, edges: Iterable[Edge]) -> int:
    """Print up to ``--limit`` links as they come; how many there are."""
    count = 0

    def counted() -> Iterator[Edge]:
        nonlocal count
        for edge in edges:
            count += 1
            yield edge

    rest = counted()
    shown = islice(rest, limit_of(call, 0))
    if call.output.as_json:
        for edge in shown:
            url, state = _end(store, edge.target)
            about = {"direction": direction, "id": edge.target, "url": url, "state": state}
            call.output.document({**about, "flags": flag_names(edge.flags), "weight": edge.weight})
    else:
        call.output.table(_LINK_COLUMNS, (_link_row(store, edge) for edge in shown))
    for _ in rest:
        pass
    return count


def _link_row(store: Store, edge: Edge) -> tuple[object, ...]:
    url, state = _end(store, edge.target)
    name = url if url is not None else f"page {edge.target}"
    return state, " ".join(flag_names(edge.flags)), f"{edge.weight:.3g}", name


def _end(store: Store, page_id: int) -> tuple[str | None, str]:
    """URL and state of the page at the other end of a link."""
    try:
        page = inspect.read_page(store, page_id)
    except UnreadableRecord:
        return None, "unreadable"
    return (None, "forgotten") if page is None else (page.url, page.state.name.lower())


def _say_count(call: Call, text: str) -> None:
    if not call.output.as_json:
        call.output.text(text)
        call.output.line()


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _unless_read(page: Page, count: int) -> str:
    return "" if count or page.status else ": it was not read yet"
