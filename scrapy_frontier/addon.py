"""The add-on: names the components in the settings, at add-on priority, and keeps what the user set."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object

from .settings import has_our_scheduler

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

SCHEDULER = "scrapy_frontier.FrontierScheduler"
_BUILT_IN = "scrapy.downloadermiddlewares"
# Our middleware, and the one of Scrapy that it replaces.
REPLACED = {
    "scrapy_frontier.FrontierRobotsTxtMiddleware": f"{_BUILT_IN}.robotstxt.RobotsTxtMiddleware",
    "scrapy_frontier.MetaRefreshMiddleware": f"{_BUILT_IN}.redirect.MetaRefreshMiddleware",
    "scrapy_frontier.RedirectMiddleware": f"{_BUILT_IN}.redirect.RedirectMiddleware",
}
SETTINGS: dict[str, Any] = {
    "FRONTIER_SCORER": "mixed",
    # By Scrapy's 5 MB two pages of 3 MB in their callbacks stop all other hosts until one is through. The
    # scheduler counts pages until their callbacks end, so CONCURRENT_REQUESTS already bounds what piles up.
    "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 50_000_000,
}
COMPONENTS = {
    "EXTENSIONS": {"scrapy_frontier.RankingExtension": 0},
    "SPIDER_MIDDLEWARES": {"scrapy_frontier.FrontierSpiderMiddleware": 950},
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy_frontier.UnchangedMiddleware": 530,  # above what reads what a page says to crawlers
        "scrapy_frontier.DirectivesMiddleware": 540,
        # Below retries, redirects and decompression (550 to 600), above what looks at pages.
        "scrapy_frontier.SitemapsMiddleware": 545,
        "scrapy_frontier.CooldownMiddleware": 605,  # above what changes proxies, at 610 and more
        "scrapy_frontier.ConditionalMiddleware": 620,
        "scrapy_frontier.PrivateNetworkMiddleware": 960,  # behind what chooses proxies: these resolve names
        "scrapy_frontier.AddressMiddleware": 970,
        "scrapy_frontier.SideRequestsMiddleware": 990,  # next to the downloader, behind the HTTP cache
    },
}


class Addon:
    """Names all components in the settings. Enable with ``ADDONS = {"scrapy_frontier.Addon": 500}``."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Name our components, unless the user has named others.

        A project's own ``SCHEDULER`` is stronger than any add-on: then it raises `NotConfigured`, which
        Scrapy tells as a warning, and no more is changed.
        """
        settings.set("SCHEDULER", SCHEDULER, "addon")
        if not has_our_scheduler(settings):
            raise NotConfigured(
                f"SCHEDULER is set to {settings['SCHEDULER']!r} in your settings, which an add-on cannot "
                f"override: remove that line, or set SCHEDULER = {SCHEDULER!r}"
            )
        for name, value in SETTINGS.items():
            settings.set(name, value, "addon")
        for path, theirs in REPLACED.items():
            _replace(settings, load_object(theirs), load_object(path))
        for name, components in COMPONENTS.items():
            for path, order in components.items():
                settings.setdefault_in_component_priority_dict(name, load_object(path), order)


def _replace(settings: BaseSettings, theirs: type, ours: type) -> None:
    """Put *ours* in the place of *theirs*, unless the user gave either a place, or none."""
    name = "DOWNLOADER_MIDDLEWARES"
    base, chosen = (
        {load_object(path): order for path, order in settings.getdict(each).items()}
        for each in (f"{name}_BASE", name)
    )
    order = chosen.get(theirs, base.get(theirs))
    if order is None:
        return
    settings.setdefault_in_component_priority_dict(name, ours, order)
    if chosen.get(ours, order) is not None:
        settings.set_in_component_priority_dict(name, theirs, None)
