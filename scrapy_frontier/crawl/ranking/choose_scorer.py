"""The scorer of a crawl, of ours or of the user's own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.misc import build_from_crawler

from ...settings import NEED_LINKS, SCORERS, FrontierSetting, function

if TYPE_CHECKING:
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
    return build_from_crawler(cls, crawler)
