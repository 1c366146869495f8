"""Requests with a pattern, or that force a visit: what the links of their pages inherit.

A page asked for with a pattern leads only to links in whose URL it is found, and they carry it on: a site, or
a part of one, is crawled and nothing else. `FORCE` is a time, so that it ends: what was visited since is not
fetched again.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...core import reasons
from ...core.pages.entered_again import after_visits_until, was_visited_before
from ...core.reasons import LONGEST_URL
from ..meta_keys import FORCE, PATTERN, UNSET
from .meta_values import posix_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request

    from ...core.store.page_rows import Page

logger = logging.getLogger(__name__)


def _search(pattern: Any) -> Callable[[str], object]:
    """Finds *pattern* in a URL; nothing where it is none, for it was meant to keep the crawl in."""
    try:
        return _compiled(pattern)
    except TypeError:  # it has no hash, as a list
        return _found_nowhere(repr(pattern), "no text")


@lru_cache(maxsize=100)
def _compiled(pattern: Any) -> Callable[[str], object]:
    try:
        search = re.compile(pattern).search
        search("")  # raises for one of bytes
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        return _found_nowhere(repr(pattern), str(error))
    return search


@lru_cache(maxsize=100)
def _found_nowhere(pattern: str, reason: str) -> Callable[[str], object]:
    """What finds nothing, for a *pattern* that is none, which is said once."""
    words = "%s = %s is no regular expression (%s), and no link is followed: set another"
    logger.error(words, PATTERN, pattern, reason)
    return lambda _: None


class PatternAndForce:
    """What the *request* of a page says of the links on it: `PATTERN` and `FORCE` of its meta."""

    def __init__(self, request: Request) -> None:
        self._url = request.url
        pattern = request.meta.get(PATTERN)
        self._pattern = None if pattern in UNSET else pattern
        self._force = request.meta.get(FORCE)

    def hand_on(self, request: Request) -> str:
        """Have a *request* from the page inherit what it is to; why it is not to be queued, or empty.

        Without a pattern nothing is inherited but by new pages, which are fetched anyhow: a link to a known
        one must not force it, or all would be fetched again.
        """
        if self._pattern is None:
            if self._force is not None and request.meta.get(FORCE) == self._force:
                del request.meta[FORCE]  # which the spider copied with the page's meta
            return ""
        if not self.admits(request.url):
            return reasons.OUTSIDE(pattern=str(self._pattern)[:LONGEST_URL], url=self._url[:LONGEST_URL])
        request.meta[PATTERN] = self._pattern
        if self._force is not None and request.meta.get(FORCE) in UNSET:
            request.meta[FORCE] = self._force
        return ""

    def admits(self, url: str) -> bool:
        """Whether a link to *url* may be followed: the pattern is found in it, or there is none. No link may
        where the pattern is no regular expression."""
        return self._pattern is None or bool(_search(self._pattern)(url))

    @property
    def inherited(self) -> dict[str, Any]:
        """The meta that new links inside the pattern take over; empty without a pattern."""
        given = {PATTERN: self._pattern, FORCE: self._force}
        kept = {name: value for name, value in given.items() if value is not None}
        return kept if PATTERN in kept else {}


def pattern_and_force_of(request: Request | None) -> PatternAndForce | None:
    """What *request* says of the links on its page; None where that is one as any other."""
    if request is None or (PATTERN not in request.meta and FORCE not in request.meta):
        return None
    return PatternAndForce(request)


def meta_to_force(now: float) -> dict[str, Any]:
    """The meta of a request that wants its page fetched, whatever visits it had until *now*. A crawl may
    begin a second later, lest it is taken for one of these."""
    return {FORCE: after_visits_until(now)}


def is_forced(meta: Mapping[str, Any], page: Page) -> bool:
    """Whether a request wants its known *page* fetched, which was visited last before the time it names. What
    is no time is told."""
    force = meta.get(FORCE)
    when = None if force is None else posix_time(FORCE, force)
    return when is not None and was_visited_before(page, when)
