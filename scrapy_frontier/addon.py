"""The add-on: names the components in the settings, at add-on priority, and keeps what the user set."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares import redirect, robotstxt
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

SCHEDULER = "scrapy_frontier.FrontierScheduler"
SPIDER_MIDDLEWARES = {"scrapy_frontier.FrontierSpiderMiddleware": 950}
_OURS = "scrapy_frontier.downloadermiddlewares"
DOWNLOADER_MIDDLEWARES = {
    f"{_OURS}.address.AddressMiddleware": 60,
    f"{_OURS}.private.PrivateNetworkMiddleware": 90,  # before robots.txt is asked for
    f"{_OURS}.directives.DirectivesMiddleware": 540,
    f"{_OURS}.cooldown.CooldownMiddleware": 610,
}
# Scrapy's own, by what takes their place and where that is.
REPLACED: dict[type, tuple[str, int]] = {
    robotstxt.RobotsTxtMiddleware: ("scrapy_frontier.FrontierRobotsTxtMiddleware", 100),
    redirect.MetaRefreshMiddleware: (f"{_OURS}.redirect.MetaRefreshMiddleware", 580),
    redirect.RedirectMiddleware: (f"{_OURS}.redirect.RedirectMiddleware", 600),
}
_NAME = "DOWNLOADER_MIDDLEWARES"


class Addon:
    """Enable with ``ADDONS = {"scrapy_frontier.Addon": 500}``."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Name our components where the user has not named others.

        A project's own ``SCHEDULER`` is stronger than any add-on: then a warning says so and no more is
        changed.
        """
        from .scheduler import FrontierScheduler

        settings.set("SCHEDULER", SCHEDULER, "addon")
        chosen = settings["SCHEDULER"]
        if not _is_ours(chosen, FrontierScheduler):
            raise NotConfigured(
                f"SCHEDULER is set to {chosen!r} in your settings, which an add-on cannot override: remove "
                f"that line, or set SCHEDULER = {SCHEDULER!r}"
            )
        for path, order in SPIDER_MIDDLEWARES.items():
            settings.setdefault_in_component_priority_dict("SPIDER_MIDDLEWARES", load_object(path), order)
        for path, order in DOWNLOADER_MIDDLEWARES.items():
            settings.setdefault_in_component_priority_dict(_NAME, load_object(path), order)
        for theirs, (path, order) in REPLACED.items():
            _replace(settings, theirs, load_object(path), order)


def _replace(settings: BaseSettings, theirs: type, ours: type, order: int) -> None:
    """Put *ours* in the place of *theirs*, unless the project says anything of either: None switches a
    middleware off, or makes room for the project's own; an order of *theirs* is taken over."""
    components = settings.getdict(_NAME)
    chosen = {load_object(path): place for path, place in components.items()}
    place = chosen.get(ours, chosen.get(theirs, order))
    if place is None:
        return
    kept = {path: each for path, each in components.items() if load_object(path) not in (theirs, ours)}
    # By its path: Scrapy before 2.15 does not see that a class is the same as a path in its own settings.
    settings.set(
        _NAME, {**kept, global_object_name(theirs): None, ours: place}, settings.getpriority(_NAME) or 0
    )


def _is_ours(scheduler: object, ours: type) -> bool:
    found = load_object(scheduler) if isinstance(scheduler, str) else scheduler
    return isinstance(found, type) and ours in found.__mro__
