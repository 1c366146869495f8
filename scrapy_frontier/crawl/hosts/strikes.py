"""A host that met trouble rests, and the strike is counted and logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...core.time_format import span

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from ...core.frontier import Frontier
    from ...core.hosts.cooldown import Trouble
    from ...core.hosts.host_cooldowns import Cooled

logger = logging.getLogger(__name__)


def cool(crawler: Crawler, frontier: Frontier, host: str, trouble: Trouble, now: float) -> Cooled:
    """`Frontier.cool`, and what is new of it is counted and logged. Raises `FrontierUnwritable`."""
    rest = frontier.cool(host, trouble, now)
    if rest.is_new:
        crawler.stats.inc_value("frontier/cooldown/strikes")
        pause, extra = span(rest.cooldown.until - now), {"spider": crawler.spider}
        words = "%s rests for %s after strike %d: %s"
        logger.info(words, host, pause, rest.cooldown.strikes, trouble.reason, extra=extra)
    return rest
