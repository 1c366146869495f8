"""The scorer of a crawl, of ours or of the user's own."""

from __future__ import annotations

import logging
from math import isnan
from typing import TYPE_CHECKING, Any, cast

from scrapy.utils.misc import build_from_crawler

from ..settings import NEED_LINKS, SCORERS, FrontierSetting, function

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from .. import Scorer

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
    from .. import Scorer  # loads NumPy and SciPy

    path, wanted = SCORERS.get(name, name), "a subclass of scrapy_frontier.Scorer"
    cls = function("FRONTIER_SCORER", path, wanted)
    if not (isinstance(cls, type) and issubclass(cls, Scorer)):
        raise FrontierSetting(f"FRONTIER_SCORER = {path!r}: set {wanted}")
    scorer: Scorer = build_from_crawler(cls, crawler)
    if name in SCORERS:
        return scorer
    guard = type(cls.__name__, (_Guard,), {})  # by which the last ranking is known
    return cast("Scorer", guard(scorer, path))


class _Guard:
    """Asks a *scorer* of the user's own, and raises nothing where pages are discovered and end, or links
    would be lost: what that fails for counts as it does for its base class, and is told once."""

    def __init__(self, scorer: Scorer, path: str) -> None:
        self._scorer, self._path, self._has_failed = scorer, path, False
        for name, read, instead in _GUARDED:
            setattr(self, name, self._guarded(getattr(scorer, name), read, instead))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scorer, name)

    def _guarded(
        self, verb: Callable[..., Any], read: Callable[..., Any], instead: Any
    ) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            try:
                return read(verb(*values), *values)
            except Exception as error:
                if not self._has_failed:
                    self._has_failed = True
                    words = "FRONTIER_SCORER = %r fails, and a page counts as average: mend it (said once)"
                    logger.error(words, self._path, exc_info=True)
                return error.instead if isinstance(error, _NoNumber) else instead

        return call


class _NoNumber(ValueError):
    """A score is no number; *instead* has that of an average page in its place, and all others."""

    def __init__(self, instead: Any) -> None:
        super().__init__("a score that is no number")
        self.instead = instead


def _score(found: Any, *_: Any) -> float:
    score = float(found)
    if isnan(score):
        raise _NoNumber(1.0)
    return score


def _changes(found: Any, *_: Any) -> list[tuple[int, float]]:
    changes = [(int(page), float(score)) for page, score in found]
    if any(isnan(score) for _, score in changes):
        raise _NoNumber([(page, 1.0 if isnan(score) else score) for page, score in changes])
    return changes


def _scores(found: Any, nodes: Any) -> Any:
    if found is None:
        return None
    import numpy as np

    scores = np.asarray(found, np.float64)
    if scores.shape != np.shape(nodes):
        raise ValueError("current_scores gives no score for each page")
    if (is_none := np.isnan(scores)).any():
        raise _NoNumber(np.where(is_none, 1.0, scores))
    return scores


def _unread(found: Any, *_: Any) -> Any:
    return found


_GUARDED: tuple[tuple[str, Callable[..., Any], Any], ...] = (
    ("discovered", _score, 1.0),
    ("opened", _score, 1.0),
    ("parsed", _changes, ()),
    ("current_scores", _scores, None),
    *((name, _unread, None) for name in ("closed", "judged", "restore", "requeued", "reopened")),
)
