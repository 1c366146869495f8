"""The settings of revisits: how often, as what, and how much of the visits."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Any

from .core.revisits.crawl_value import Bounds
from .core.revisits.plans import DEFAULT_SHELF_LIFE, HUB_SPAN, SEEDS, RevisitRule, is_url
from .setting_values import FrontierSetting, choice, plain, within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

POLICIES = ("never", "interval", "adaptive")
_BOUNDS = Bounds()


def revisit_rule(settings: BaseSettings) -> RevisitRule | None:
    """What the settings ask of revisits, times in seconds; None: pages never come back. All are read and
    judged even then. Raises `FrontierSetting`."""
    policy = choice(settings, "FRONTIER_REVISIT", POLICIES)
    shelf_life, shelf_lives = _shelf_lives(settings, "FRONTIER_SHELF_LIFE")
    rule = RevisitRule(
        policy,
        shelf_life,
        shelf_lives,
        _bounds(settings, "FRONTIER_REVISIT_BOUNDS", shelf_life, shelf_lives),
        _seconds("FRONTIER_REVISIT_HORIZON", settings.get("FRONTIER_REVISIT_HORIZON") or 0.0, least=0.0),
        _share(settings, "FRONTIER_REVISIT_SHARE"),
        _hubs(settings, "FRONTIER_HUBS"),
        _share(settings, "FRONTIER_HUB_SHARE"),
    )
    return None if policy == POLICIES[0] else rule


def _seconds(name: str, value: Any, least: float = 1.0) -> float:
    """At least so many; "inf" is a number too."""
    return within(name, value, float, least, inf, f"seconds, at least {least:g}, or inf")


def _share(settings: BaseSettings, name: str) -> float:
    return within(name, settings.get(name, 0.5), float, 0.0, 1.0, "a share, 0 to 1")


def _shelf_lives(settings: BaseSettings, name: str) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Seconds for all pages, and by pattern; an empty pattern stands for all pages."""
    value = plain(settings.get(name))
    if value is None:
        return DEFAULT_SHELF_LIFE, ()
    if not isinstance(value, dict):
        return _seconds(name, value), ()
    given = _by_pattern(name, value)
    return given.pop("", DEFAULT_SHELF_LIFE), tuple(given.items())


def _hubs(settings: BaseSettings, name: str) -> tuple[tuple[str, float], ...]:
    """Spans by URL, by pattern, or of the seeds; a day for those of a list."""
    value = plain(settings.get(name))
    if not value:
        return ()
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple, set, frozenset)):
        value = dict.fromkeys(value, HUB_SPAN)
    if not isinstance(value, dict):
        raise FrontierSetting(f"{name} = {value!r}: set {SEEDS!r}, URLs or patterns, or seconds by these")
    return tuple(_by_pattern(name, value).items())


def _by_pattern(name: str, value: Mapping[Any, Any]) -> dict[str, float]:
    found = {}
    for pattern, seconds in value.items():
        try:
            if not (isinstance(pattern, str) and is_url(pattern)):
                re.compile(pattern)
        except (re.error, TypeError) as error:
            problem = f"{pattern!r} is no regular expression ({error})"
            raise FrontierSetting(f"{name}: {problem}: set URLs, or patterns for re") from error
        found[pattern] = _seconds(name, seconds)
    return found


def _bounds(
    settings: BaseSettings, name: str, shelf_life: float, shelf_lives: tuple[tuple[str, float], ...]
) -> Bounds:
    """Two numbers of seconds. Where nothing is set, what else the settings ask for lies within them."""
    value = plain(settings.get(name))
    if value is None:
        spans = [shelf_life, *(span for _, span in shelf_lives)]
        longest = max((span for span in spans if span < inf), default=0.0)
        return Bounds(min(_BOUNDS.shortest, *spans), max(_BOUNDS.longest, longest))
    if isinstance(value, str):
        value = value.split(",")
    try:
        shortest, longest = (_seconds(name, each) for each in value)
    except (TypeError, ValueError):
        shortest, longest = 1.0, 0.0
    if not shortest <= longest < inf:
        raise FrontierSetting(f"{name} = {value!r}: set the least and the most seconds between two visits")
    return Bounds(shortest, longest)
