"""A crawl frontier for Scrapy: best first, polite, crash-proof.

Settings and spiders name what they need as ``scrapy_frontier.NAME``, wherever it lies. The names below are
imported when they are first used: a command like ``scrapy version`` loads this package too, and must not pay
for LevelDB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .addon import Addon
    from .core.errors import (
        FrontierDamaged,
        FrontierError,
        FrontierLocked,
        FrontierUnreadable,
        FrontierUnwritable,
        FrontierVersion,
    )
    from .core.ranking.default_scorer import Mixed
    from .core.ranking.other_scorers import Cash, Fifo, Hits, Lifo, LinkScore, PageRank
    from .core.ranking.scorer import Scorer
    from .crawl.scheduler import FrontierScheduler
    from .downloadermiddlewares.address import AddressMiddleware
    from .downloadermiddlewares.conditional import ConditionalMiddleware
    from .downloadermiddlewares.cooldown import CooldownMiddleware
    from .downloadermiddlewares.directives import DirectivesMiddleware
    from .downloadermiddlewares.private_network import PrivateNetworkMiddleware
    from .downloadermiddlewares.redirect import MetaRefreshMiddleware, RedirectMiddleware
    from .downloadermiddlewares.robotstxt import FrontierRobotsTxtMiddleware
    from .downloadermiddlewares.sitemaps import SitemapsMiddleware
    from .downloadermiddlewares.unchanged import UnchangedMiddleware
    from .extensions.ranking import RankingExtension
    from .settings import FrontierSetting
    from .spidermiddlewares.directives_and_links import FrontierSpiderMiddleware
    from .spidermiddlewares.duplicates import DuplicatesMiddleware
    from .spiders import FrontierSpider

__version__ = "0.1.0"
__all__ = [
    "Addon",
    "FrontierScheduler",
    "FrontierSpider",
    "FrontierSpiderMiddleware",
    "DuplicatesMiddleware",
    "FrontierRobotsTxtMiddleware",
    "RedirectMiddleware",
    "MetaRefreshMiddleware",
    "DirectivesMiddleware",
    "SitemapsMiddleware",
    "CooldownMiddleware",
    "ConditionalMiddleware",
    "UnchangedMiddleware",
    "PrivateNetworkMiddleware",
    "AddressMiddleware",
    "RankingExtension",
    "Scorer",
    "PageRank",
    "Hits",
    "Cash",
    "LinkScore",
    "Fifo",
    "Lifo",
    "Mixed",
    "FrontierError",
    "FrontierLocked",
    "FrontierVersion",
    "FrontierUnreadable",
    "FrontierDamaged",
    "FrontierUnwritable",
    "FrontierSetting",
]

_MODULES = {
    "Addon": "addon",
    "FrontierScheduler": "crawl.scheduler",
    "FrontierSpider": "spiders",
    "FrontierSpiderMiddleware": "spidermiddlewares.directives_and_links",
    "DuplicatesMiddleware": "spidermiddlewares.duplicates",
    "FrontierRobotsTxtMiddleware": "downloadermiddlewares.robotstxt",
    "RedirectMiddleware": "downloadermiddlewares.redirect",
    "MetaRefreshMiddleware": "downloadermiddlewares.redirect",
    "DirectivesMiddleware": "downloadermiddlewares.directives",
    "SitemapsMiddleware": "downloadermiddlewares.sitemaps",
    "CooldownMiddleware": "downloadermiddlewares.cooldown",
    "ConditionalMiddleware": "downloadermiddlewares.conditional",
    "UnchangedMiddleware": "downloadermiddlewares.unchanged",
    "PrivateNetworkMiddleware": "downloadermiddlewares.private_network",
    "AddressMiddleware": "downloadermiddlewares.address",
    "RankingExtension": "extensions.ranking",
    "Scorer": "core.ranking.scorer",
    "PageRank": "core.ranking.other_scorers",
    "Hits": "core.ranking.other_scorers",
    "Cash": "core.ranking.other_scorers",
    "LinkScore": "core.ranking.other_scorers",
    "Fifo": "core.ranking.other_scorers",
    "Lifo": "core.ranking.other_scorers",
    "Mixed": "core.ranking.default_scorer",
    "FrontierError": "core.errors",
    "FrontierLocked": "core.errors",
    "FrontierVersion": "core.errors",
    "FrontierUnreadable": "core.errors",
    "FrontierDamaged": "core.errors",
    "FrontierUnwritable": "core.errors",
    "FrontierSetting": "settings",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
