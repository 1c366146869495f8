"""A crawl frontier for Scrapy: best first, polite, crash-proof.

The names below are imported when they are first used: a command like ``scrapy version`` loads this
package too, and must not pay for LevelDB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .addon import Addon
    from .downloadermiddlewares.robotstxt import FrontierRobotsTxtMiddleware
    from .scheduler import FrontierScheduler
    from .spidermiddleware import FrontierSpiderMiddleware

__version__ = "0.1.0"
__all__ = ["Addon", "FrontierRobotsTxtMiddleware", "FrontierScheduler", "FrontierSpiderMiddleware"]

_MODULES = {
    "Addon": "addon",
    "FrontierRobotsTxtMiddleware": "downloadermiddlewares.robotstxt",
    "FrontierScheduler": "scheduler",
    "FrontierSpiderMiddleware": "spidermiddleware",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
