"""What matters most in a stopped frontier: scores of all pages, kept ones or computed on the spot.

Scores are about 1 for an average page, like those of a scorer, and come as an array over page ids.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import UnreadableRow
from ..hosts.host import is_of_host
from ..pages.rescoring import AVERAGE
from ..pages.score_columns import BLOCK
from ..ranking import graph
from ..ranking.hits import hits
from ..ranking.other_scorers import Cash
from ..ranking.pagerank import pagerank
from ..ranking.scorer import buckets, scores_of
from ..store import column_rows, keys, meta_rows, queue_keys, rate_rows
from . import facts
from .links_in_chunks import whole_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..ranking.matrix import Ranking
    from ..ranking.scorer import Codes, Floats
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.page_rows import Page

_HITS_TOLERANCE = 1e-4  # float32 sees no smaller change


class Scores(NamedTuple):
    """``values`` by page id, about 1 for an average page. ``links`` are those they were computed from, 0
    where they were kept; ``ranking`` is what computed them."""

    values: Floats
    links: int = 0
    ranking: Ranking | None = None
    seconds: float = 0.0  # of the computing


class Leader(NamedTuple):
    """A page with its id and its score, about 1 for an average one."""

    score: float
    page_id: PageId
    page: Page


def scores(store: Store, by: str, clock: Callable[[], float]) -> Scores:
    """Scores of all pages by ``cash`` or ``score``, as they are kept; cash that is not kept is counted again
    from all pages and links, 10 us a page read. By ``pagerank``, ``authority`` or ``hub`` they are computed,
    seconds for millions of links, timed by *clock*. Raises `UnreadableRow`."""
    if by not in ("cash", "score"):
        return _ranked(store, by, clock)
    pages = meta_rows.read_counts(store).next_page
    if by == "score":
        return Scores(kept_scores(store, pages))
    codes = column(store, "cash", pages)
    return _recounted(store) if codes is None else Scores(scores_of(codes))


def leaders(store: Store, values: Floats, host: str | None = None) -> Iterator[Leader]:
    """The pages of *host*, or of all, best first; without those that have no score or no record. A lookup
    each."""
    for page_id in map(int, np.argsort(-values, kind="stable")):
        score = float(values[page_id])
        if not score > 0:
            return
        page = facts.legible_page(store, page_id)
        if page is not None and (host is None or is_of_host(page, host)):
            yield Leader(score, page_id, page)


# -- what is kept ------------------------------------------------------------------------------------------


def column(store: Store, name: str, pages: int, otherwise: int = 0) -> Codes | None:
    """What the scorer keeps of all pages under *name*, as buckets (*otherwise* of such found since); None
    where it keeps nothing."""
    found: Codes | None = None
    for key, value in store.scan(column_rows.column_prefix(name)):
        _, first = column_rows.split_column_key(key) or ("", pages)
        codes = column_rows.decode_codes(value)[: max(pages - first, 0)]
        if found is None:
            found = np.full(pages, otherwise, np.uint16)
        found[first : first + len(codes)] = codes
    return found


def kept_score(store: Store, page_id: PageId) -> float | None:
    """The score of one page as the scorer kept it last, None where it did not; one lookup."""
    first = page_id // BLOCK * BLOCK
    row = store.get(column_rows.column_key("score", first)) or b""
    code = column_rows.decode_codes(row)[page_id - first : page_id - first + 1]
    return float(scores_of(code)[0]) if len(code) else None


def kept_scores(store: Store, pages: int) -> Floats:
    """The scores of the first *pages* that the scorer keeps; after a kill, and where no scorer keeps any,
    what the queue says. One pass over the columns, or the queue too."""
    codes = column(store, "score", pages)
    if codes is None or store.get(keys.CLEAN) is None:
        codes = np.zeros(pages, np.uint16) if codes is None else codes
        queued = (key.partition(b"\0")[2] for key, _ in store.scan(keys.QUEUE))
        for sort_key in chain(queued, (place.sort_key for place in queue_keys.waiting_places(store))):
            page_id = queue_keys.sort_key_id(sort_key)
            if page_id < pages:
                codes[page_id] = queue_keys.sort_key_bucket(sort_key)
    return scores_of(codes)


def content_scores(store: Store, pages: int) -> Floats | None:
    """The content scores of the first *pages*, 1 where there is none; None where all are 1."""
    codes = column(store, "content", pages, AVERAGE)
    found = np.ones(pages, np.float32) if codes is None else scores_of(codes)
    for key, value in store.scan(keys.CONTENT):
        page_id, score = keys.key_id(key), rate_rows.decode_content(value)
        if page_id < pages and score is not None:
            found[page_id] = score
    return found if (found != 1).any() else None


# -- what is computed --------------------------------------------------------------------------------------


def _ranked(store: Store, by: str, clock: Callable[[], float]) -> Scores:
    found = whole_graph(store)
    content, weights = content_scores(store, found.pages), graph.ranking_weights(found)
    how = partial(pagerank, preference=content)
    if by != "pagerank":
        how = partial(hits, content=content, tolerance=_HITS_TOLERANCE, exact=False)
    began = clock()
    try:
        ranking = how(found.indptr, found.indices, weights=weights)
    except ValueError as error:
        raise UnreadableRow(f"the links cannot be ranked: {error}") from error
    seconds = clock() - began
    vector = ranking.scores if by != "hub" or ranking.hubs is None else ranking.hubs
    return Scores((vector * len(vector)).astype(np.float32), len(found.indices), ranking, seconds)


def _recounted(store: Store) -> Scores:
    """Cash handed on again by the pages read, in their order: by the second they ended in, then by id.

    10 us a page read, and 3 us a page.
    """
    found = whole_graph(store)
    weights = graph.ranking_weights(found)
    cash = Cash()
    cash.restore("score", 0, np.zeros(found.pages, np.uint16))
    content = content_scores(store, found.pages)
    if content is not None:
        cash.restore("content", 0, buckets(content))
    for page_id in _read_pages(store, cash):
        links = slice(found.indptr[page_id], found.indptr[page_id + 1])
        shares = None if weights is None else weights[links].tolist()
        cash.parsed(page_id, found.indices[links].tolist(), shares)
    paid = len(found.indices) if weights is None else np.count_nonzero(weights)
    return Scores(scores_of(cash.column("score", 0, found.pages)), int(paid))


def _read_pages(store: Store, cash: Cash) -> list[int]:
    """The pages that were read, in their order; *cash* learns of those that nobody linked."""
    read: list[tuple[int, int]] = []
    for page_id, page in facts.pages(store, with_visits=False):
        if page.parent is None:
            cash.discovered(page_id)
        if page.state in facts.OK:
            read.append((page.changed, page_id))
    read.sort()
    return [page_id for _, page_id in read]
