"""A crawl frontier for Scrapy: best first, polite, crash-proof.

Settings and spiders name what they need as ``scrapy_frontier.NAME``, wherever it lies. The names below are
imported when they are first used: a command like ``scrapy version`` loads this package too, and must not pay
for LevelDB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .addon import Addon as Addon
    from .core.errors import FrontierDamaged as FrontierDamaged
    from .core.errors import FrontierError as FrontierError
    from .core.errors import FrontierLocked as FrontierLocked
    from .core.errors import FrontierUnreadable as FrontierUnreadable
    from .core.errors import FrontierUnwritable as FrontierUnwritable
    from .core.errors import FrontierVersion as FrontierVersion
    from .core.ranking.default_scorer import Mixed as Mixed
    from .core.ranking.other_scorers import Cash as Cash
    from .core.ranking.other_scorers import Fifo as Fifo
    from .core.ranking.other_scorers import Hits as Hits
    from .core.ranking.other_scorers import PageRank as PageRank
    from .core.ranking.scorer import Scorer as Scorer
    from .crawl.scheduler import FrontierScheduler as FrontierScheduler
    from .downloadermiddlewares.address import AddressMiddleware as AddressMiddleware
    from .downloadermiddlewares.conditional import ConditionalMiddleware as ConditionalMiddleware
    from .downloadermiddlewares.conditional import UnchangedMiddleware as UnchangedMiddleware
    from .downloadermiddlewares.cooldown import CooldownMiddleware as CooldownMiddleware
    from .downloadermiddlewares.directives import DirectivesMiddleware as DirectivesMiddleware
    from .downloadermiddlewares.private_network import PrivateNetworkMiddleware as PrivateNetworkMiddleware
    from .downloadermiddlewares.redirect import MetaRefreshMiddleware as MetaRefreshMiddleware
    from .downloadermiddlewares.redirect import RedirectMiddleware as RedirectMiddleware
    from .downloadermiddlewares.robotstxt import FrontierRobotsTxtMiddleware as FrontierRobotsTxtMiddleware
    from .downloadermiddlewares.side_requests import SideRequestsMiddleware as SideRequestsMiddleware
    from .downloadermiddlewares.sitemaps import SitemapsMiddleware as SitemapsMiddleware
    from .extensions.ranking import RankingExtension as RankingExtension
    from .settings import FrontierSetting as FrontierSetting
    from .spidermiddlewares.directives_and_links import FrontierSpiderMiddleware as FrontierSpiderMiddleware
    from .spiders import FrontierSpider as FrontierSpider

__version__ = "0.1.0"

# Where each public name lies.
_MODULES = {
    name: module
    for module, names in {
        "addon": "Addon",
        "crawl.scheduler": "FrontierScheduler",
        "spiders": "FrontierSpider",
        "spidermiddlewares.directives_and_links": "FrontierSpiderMiddleware",
        "downloadermiddlewares.robotstxt": "FrontierRobotsTxtMiddleware",
        "downloadermiddlewares.redirect": "RedirectMiddleware MetaRefreshMiddleware",
        "downloadermiddlewares.directives": "DirectivesMiddleware",
        "downloadermiddlewares.sitemaps": "SitemapsMiddleware",
        "downloadermiddlewares.cooldown": "CooldownMiddleware",
        "downloadermiddlewares.conditional": "ConditionalMiddleware UnchangedMiddleware",
        "downloadermiddlewares.private_network": "PrivateNetworkMiddleware",
        "downloadermiddlewares.side_requests": "SideRequestsMiddleware",
        "downloadermiddlewares.address": "AddressMiddleware",
        "extensions.ranking": "RankingExtension",
        "core.ranking.scorer": "Scorer",
        "core.ranking.other_scorers": "PageRank Hits Cash Fifo",
        "core.ranking.default_scorer": "Mixed",
        "core.errors": "FrontierError FrontierLocked FrontierVersion FrontierUnreadable FrontierDamaged "
        "FrontierUnwritable",
        "settings": "FrontierSetting",
    }.items()
    for name in names.split()
}
__all__ = list(_MODULES)


if not TYPE_CHECKING:  # they would take any name for one that is there

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
