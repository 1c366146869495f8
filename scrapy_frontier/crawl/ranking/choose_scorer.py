"""The scorer of a crawl, of ours or of the user's own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import build_from_crawler

from ...settings import NEED_LINKS, SCORERS, FrontierSetting, function

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from ... import Scorer

logger = logging.getLogger(__name__)


def make_scorer(name: str, crawler: Crawler, has_links: bool) -> Scorer | None:
    """A new scorer as `FRONTIER_SCORER` names it; None for first in, first out, and where it would see no
    link. Raises `FrontierSetting`."""
    if name == "fifo" or (name in NEED_LINKS and not has_links):
        if name != "fifo":
            logger.info("FRONTIER_SCORER = %r needs links, and none are kept: first in, first out", name)
        return None
    return load_scorer(name, crawler)


def load_scorer(name: str, crawler: Crawler) -> Scorer:
    """A new scorer, of ours or the user's own; raises `FrontierSetting` for a path that leads to none."""
    from ... import Scorer  # loads NumPy and SciPy

    path, wanted = SCORERS.get(name, name), "a subclass of scrapy_frontier.Scorer"
    cls = function("FRONTIER_SCORER", path, wanted)
    if not (isinstance(cls, type) and issubclass(cls, Scorer)):
        raise FrontierSetting(f"FRONTIER_SCORER = {path!r}: set {wanted}")
    scorer = build_from_crawler(cls, crawler)
    return scorer if name in SCORERS else _guarded(scorer, path)


def _guarded(scorer: Scorer, path: str) -> Scorer:
    """A *scorer* of the user's own that raises nothing where pages are discovered and end, or links would be
    lost: what it fails for counts as it does for its base class, and is told once."""
    was_told = False

    def guarded(verb: Callable[..., Any], read: Callable[[Any], Any], instead: Any) -> Callable[..., Any]:
        def call(*values: Any, **more: Any) -> Any:
            nonlocal was_told
            try:
                return read(verb(*values, **more))
            except Exception:
                if not was_told:
                    was_told = True
                    words = "FRONTIER_SCORER = %r fails, and a page counts as average: mend it (said once)"
                    logger.error(words, path, exc_info=True)
                return instead

        return call

    for name, read, instead in _GUARDED:
        setattr(scorer, name, guarded(getattr(scorer, name), read, instead))
    return scorer


def _changes(found: Any) -> list[tuple[int, float]]:
    return [(int(page), float(score)) for page, score in found]


def _as_it_is(found: Any) -> Any:
    return found


_GUARDED: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
    ("discovered", float, 1.0),
    ("opened", float, 1.0),
    ("closed", _as_it_is, None),
    ("parsed", _changes, ()),
    ("judged", _as_it_is, None),
    ("current_scores", _as_it_is, None),
)
