"""The add-on: names the components in the settings, at add-on priority, and keeps what the user set."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

SCHEDULER = "scrapy_frontier.FrontierScheduler"
SETTINGS = {"FRONTIER_SESSION_IDS": "strip"}
SPIDER_MIDDLEWARES = {
    "scrapy_frontier.FrontierSpiderMiddleware": 950,
    "scrapy_frontier.duplicates.DuplicatesMiddleware": 960,
}


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
        for name, value in SETTINGS.items():
            settings.set(name, value, "addon")
        for path, order in SPIDER_MIDDLEWARES.items():
            settings.setdefault_in_component_priority_dict("SPIDER_MIDDLEWARES", load_object(path), order)


def _is_ours(scheduler: object, ours: type) -> bool:
    found = load_object(scheduler) if isinstance(scheduler, str) else scheduler
    return isinstance(found, type) and ours in found.__mro__
