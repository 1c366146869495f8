"""What our keys in the ``meta`` of a request say: times and spans, the pattern and force that links inherit,
and the facts that the frontier keeps beside the payload.

Numbers may be text. None and False say nothing. A value that a key cannot have is logged once and not obeyed.
"""

from __future__ import annotations

import logging
import re
import reprlib
from functools import lru_cache
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from ..core import reasons
from ..core.pages.seed_policy import after_visits_until, was_visited_before
from ..core.reasons import LONGEST_URL
from ..core.store.records import NO_FACTS, RequestFacts
from .meta_keys import FORCE, PATTERN, REFRESH, SHELF_LIFE, SITEMAP, START, UNSET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request

    from ..core.store.records import Page

logger = logging.getLogger(__name__)


# -- numbers -------------------------------------------------------------------------------------------


def seconds(key: str, value: Any) -> float | None:
    """Returns the *value* of *key* as seconds above 0, perhaps infinite; None if it says nothing, or is
    not."""
    number = _number(value)
    if number is None or number > 0:
        return number
    not_obeyed(key, value, "seconds above 0, or inf")
    return None


def posix_time(key: str, value: Any) -> float | None:
    """Returns the *value* of *key* as POSIX seconds; None if it says nothing, or is not a time."""
    number = _number(value)
    if number is None or isfinite(number):
        return number
    not_obeyed(key, value, "a time in POSIX seconds, as of time.time()")
    return None


def not_obeyed(key: str, value: Any, wanted: str) -> None:
    """Logs once that *key* cannot have this *value*, and what is *wanted*."""
    _log(key, reprlib.repr(value), wanted)


@lru_cache(maxsize=100)
def _log(key: str, value: str, wanted: str) -> None:
    words = "%s = %s in the meta of a request is not obeyed: set %s"
    logger.warning(words, key, value, wanted)


def _number(value: Any) -> float | None:
    """Returns *value* as a number, NaN if it is not one."""
    if value is None or value is False:
        return None
    if value is True or not isinstance(value, int | float | str):
        return nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return nan


# -- pattern and force ---------------------------------------------------------------------------------


@lru_cache(maxsize=100)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        words = "%s = %r is no regular expression (%s), and no link is followed: set another"
        logger.error(words, PATTERN, pattern, error)
        return None


class PatternAndForce:
    """What links of a page inherit from its *request*.

    With `PATTERN` only links are followed in whose URL it is found, and they carry it on: a site, or a part
    of one, is crawled and nothing else. `FORCE` is a time: pages are fetched that were visited last before
    it.
    """

    def __init__(self, request: Request) -> None:
        self._url = request.url
        pattern = request.meta.get(PATTERN)
        self._pattern = None if pattern in UNSET else pattern
        self._force = request.meta.get(FORCE)

    def hand_on(self, request: Request) -> str:
        """Has a *request* from the page inherit what it is to; returns why it is not to be queued, or "".

        Without a pattern only new pages inherit, which need no force: else a link to a known page would force
        it, and all would be fetched again.
        """
        if self._pattern is None:
            if self._force is not None and request.meta.get(FORCE) == self._force:
                del request.meta[FORCE]  # the spider has copied it with the meta of the page
            return ""
        if not self.admits(request.url):
            return reasons.OUTSIDE(pattern=str(self._pattern)[:LONGEST_URL], url=self._url[:LONGEST_URL])
        request.meta[PATTERN] = self._pattern
        if self._force is not None and request.meta.get(FORCE) in UNSET:
            request.meta[FORCE] = self._force
        return ""

    def admits(self, url: str) -> bool:
        """Whether a link to *url* may be followed; none may if the pattern is not a regular expression: it
        was meant to keep the crawl in."""
        if self._pattern is None:
            return True
        if not isinstance(self._pattern, str):
            not_obeyed(PATTERN, self._pattern, "a regular expression; no link is followed")
            return False
        compiled = _compiled(self._pattern)
        return compiled is not None and bool(compiled.search(url))

    @property
    def inherited(self) -> dict[str, Any]:
        """The meta that new links inside the pattern take over; empty without a pattern."""
        given = {PATTERN: self._pattern, FORCE: self._force}
        kept = {name: value for name, value in given.items() if value is not None}
        return kept if PATTERN in kept else {}


def pattern_and_force_of(request: Request | None) -> PatternAndForce | None:
    """Returns what links of the page of *request* inherit; None if they inherit nothing."""
    if request is None or (PATTERN not in request.meta and FORCE not in request.meta):
        return None
    return PatternAndForce(request)


def meta_to_force(now: float) -> dict[str, Any]:
    """Returns the meta of a request that wants its page fetched whatever visits it had until *now*."""
    return {FORCE: after_visits_until(now)}


def is_forced(meta: Mapping[str, Any], page: Page) -> bool:
    """Whether the last visit of *page* was before the time that the *meta* of a request names."""
    force = meta.get(FORCE)
    when = None if force is None else posix_time(FORCE, force)
    return when is not None and was_visited_before(page, when)


# -- facts ---------------------------------------------------------------------------------------------

_FACTS = frozenset((START, SITEMAP, PATTERN, SHELF_LIFE, REFRESH))  # meta by which a GET has facts


def facts_of(request: Request, is_stored: bool = True) -> RequestFacts:
    """Returns what the frontier keeps of *request* beside its payload; only this process has the request
    unless it *is_stored*. Most are `NO_FACTS`, that very object."""
    meta, is_unsafe = request.meta, request.method not in ("GET", "HEAD") or bool(request.body)
    if is_stored and not (is_unsafe or request.dont_filter) and _FACTS.isdisjoint(meta):
        return NO_FACTS
    return RequestFacts(
        is_seed=START in meta and "depth" not in meta,  # which a callback may have copied
        insists=request.dont_filter,
        is_sitemap=meta.get(SITEMAP) not in UNSET,
        has_pattern=meta.get(PATTERN) not in UNSET,
        is_unsafe=is_unsafe,
        is_in_memory=not is_stored,
        shelf_life=seconds(SHELF_LIFE, meta.get(SHELF_LIFE)),
        refresh=seconds(REFRESH, meta.get(REFRESH)),
    )
