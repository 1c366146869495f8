"""The scorer of a crawl, of ours or of the user's own."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from scrapy.utils.misc import build_from_crawler

from ..settings import NEED_LINKS, SCORERS, FrontierSetting, function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler

    from .. import Scorer

logger = logging.getLogger(__name__)


def make_scorer(name: str, crawler: Crawler, has_links: bool) -> Scorer | None:
    """Make the scorer that `FRONTIER_SCORER` names; None for first in, first out, or if no links are kept.

    Raises `FrontierSetting` for a path that leads to none.
    """
    if name == "fifo":
        return None
    if name in NEED_LINKS and not has_links:
        logger.info("FRONTIER_SCORER = %r needs links, and none are kept: first in, first out", name)
        return None
    from .. import Scorer  # loads NumPy and SciPy

    path, wanted = SCORERS.get(name, name), "a subclass of scrapy_frontier.Scorer"
    cls = function("FRONTIER_SCORER", path, wanted)
    if not (isinstance(cls, type) and issubclass(cls, Scorer)):
        raise FrontierSetting(f"FRONTIER_SCORER = {path!r}: set {wanted}")
    scorer: Scorer = build_from_crawler(cls, crawler)
    if name in SCORERS:
        return scorer
    return cast("Scorer", _Guard(scorer, path))


class _Guard:
    """Asks a *scorer* of the user's own, and raises nothing, or links would be lost: once it fails it is
    replaced by one for which all pages are average, and the error is logged."""

    def __init__(self, scorer: Scorer, path: str) -> None:
        self._scorer, self._path = scorer, path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._scorer, name)
        return partial(self._ask, name) if callable(found) else found

    def _ask(self, name: str, *values: Any, **named: Any) -> Any:
        try:
            found = getattr(self._scorer, name)(*values, **named)
            return _READ[name](found) if name in _READ else found
        except Exception:
            if name in _IN_A_THREAD:  # the ranking fails, and says so
                raise
            words = "FRONTIER_SCORER = %r fails, and all pages count as average from now on: mend it"
            logger.exception(words, self._path)
            from .. import Scorer

            self._scorer = Scorer()
            return getattr(self._scorer, name)(*values, **named)


def _changes(found: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(int(page), float(score)) for page, score in found]


_IN_A_THREAD = ("rank", "prepare")
_READ: dict[str, Callable[[Any], Any]] = {"discovered": float, "opened": float, "parsed": _changes}
