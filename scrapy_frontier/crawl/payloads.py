"""Payloads that are changed, and no request is made of them; `codec` makes them.

What the user writes into a ``meta``: numbers, also as text, are read; else it is told what to set.

None and False say nothing. What is told is told once a value, for many requests may have it.

Requests with a pattern, or that force a visit: what the links of their pages inherit.

A page asked for with a pattern leads only to links in whose URL it is found, and they carry it on: a site, or
a part of one, is crawled and nothing else. `FORCE` is a time, so that it ends: what was visited since is not
fetched again.

What the frontier keeps of a request beside its payload, and what commands read in payloads.
"""

from __future__ import annotations

import json
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
from .codec import TAG, dump
from .meta_keys import FORCE, LASTMOD, PATTERN, REFRESH, SHELF_LIFE, SITEMAP, START, UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request

    from ..core.store.records import Page

logger = logging.getLogger(__name__)


def seconds(key: str, value: Any) -> float | None:
    """The *value* of *key* as seconds above 0, infinite ones too; None where it says nothing, or is told."""
    number = _number(value)
    if number is None or number > 0:
        return number
    not_obeyed(key, value, "seconds above 0, or inf")
    return None


def posix_time(key: str, value: Any) -> float | None:
    """The *value* of *key* as a time in POSIX seconds; None where it says nothing, or is told."""
    number = _number(value)
    if number is None or isfinite(number):
        return number
    not_obeyed(key, value, "a time in POSIX seconds, as of time.time()")
    return None


def not_obeyed(key: str, value: Any, wanted: str) -> None:
    """Say that the *value* of *key* is none that it may have, and what is *wanted*."""
    _say(key, reprlib.repr(value), wanted)


@lru_cache(maxsize=100)
def _say(key: str, value: str, wanted: str) -> None:
    words = "%s = %s in the meta of a request is not obeyed: set %s"
    logger.warning(words, key, value, wanted)


def _number(value: Any) -> float | None:
    """*value* as a number; NaN where it is none."""
    if value is None or value is False:
        return None
    if value is True or not isinstance(value, int | float | str):
        return nan
    try:
        return float(value)
    except (ValueError, OverflowError):  # a whole number may be any
        return nan


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


_METHOD, _BODY, _CLASS = b'"method"', b'"body"', b'"class"'
_MEMORY = b'{"!":"memory"'  # so begins the payload of a request that only one process has
_ANOTHER_PAGE = (_METHOD, _BODY, _CLASS, b'"verbatim_url"', _MEMORY)
# Meta by which `facts_of` a GET differ from those of an ordinary link.
TOLD_BY_META = frozenset((START, SITEMAP, PATTERN, SHELF_LIFE, REFRESH, LASTMOD))


def facts_of(request: Request, is_stored: bool = True) -> RequestFacts:
    """What the frontier keeps of *request* beside its payload; only this process has it unless it
    *is_stored*. A span in its meta that is none is told."""
    meta, is_unsafe = request.meta, request.method not in ("GET", "HEAD") or bool(request.body)
    if is_stored and not (is_unsafe or request.dont_filter) and TOLD_BY_META.isdisjoint(meta):
        return NO_FACTS
    return RequestFacts(
        is_seed=START in meta,
        insists=request.dont_filter,
        is_sitemap=meta.get(SITEMAP) not in UNSET,
        has_pattern=meta.get(PATTERN) not in UNSET,
        is_unsafe=is_unsafe,
        is_in_memory=not is_stored,
        shelf_life=seconds(SHELF_LIFE, meta.get(SHELF_LIFE)),
        refresh=seconds(REFRESH, meta.get(REFRESH)),
    )


def facts_of_listed(meta: Mapping[str, Any]) -> RequestFacts:
    """What the frontier keeps of a plain GET for a URL that a sitemap lists, with this *meta*."""
    is_sitemap, has_pattern = (meta.get(key) not in UNSET for key in (SITEMAP, PATTERN))
    if not (is_sitemap or has_pattern):
        return NO_FACTS
    return RequestFacts(is_sitemap=is_sitemap, has_pattern=has_pattern)


def lastmod_of(meta: Mapping[str, Any]) -> int | None:
    """When a sitemap says that the page changed last (POSIX seconds), by the *meta* of its request."""
    lastmod = meta.get(LASTMOD)
    return lastmod if isinstance(lastmod, int) else None


# What `Outcome.visit_payload` and `Page.visit_payload` say of a plain GET, which is more than nothing.
_PLAIN = b"{}"


def other_payload(payload: bytes, page_payload: bytes) -> bytes:
    """The *payload* of a single visit of a page with *page_payload*; b"" where they are the same."""
    return b"" if payload == page_payload else payload or _PLAIN


def memory_payload(fingerprint: bytes) -> bytes:
    """The payload of a request that only this process has: its *fingerprint*."""
    return b'%s,"fingerprint":"%s"}' % (_MEMORY, fingerprint.hex().encode())


def _fields(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _meta_in(fields: dict[str, Any]) -> dict[str, Any]:
    meta = fields.get("meta")
    if not isinstance(meta, dict) or TAG not in meta:
        return meta if isinstance(meta, dict) else {}
    try:  # pairs: not all keys are text
        return {key: value for key, value in meta["v"] if isinstance(key, str)}
    except (LookupError, ValueError, TypeError):
        return {}


def meta_of(payload: bytes) -> dict[str, Any]:
    """The ``meta`` of the request, as it is written, where its keys are text: 10 us and more. Empty where it
    cannot be read."""
    return _meta_in(_fields(payload))


def proxy_in(payload: bytes) -> dict[str, str]:
    """What the ``meta`` of a request has to say to go by the proxy that this one names; empty where it names
    none."""
    proxy = meta_of(payload).get("proxy")
    return {"proxy": proxy} if isinstance(proxy, str) else {}


def names_class(payload: bytes) -> bool:
    """Whether the request, or something in it, is of a class of somebody's own."""
    return _CLASS in payload


def is_plain_get(payload: bytes) -> bool:
    """Whether the request is for the page that a plain GET of its URL is for."""
    return not any(word in payload for word in _ANOTHER_PAGE)


def kept_fingerprint(payload: bytes) -> bytes | None:
    """The fingerprint of a request that only one process has; None for any other. Raises `ValueError` and
    `KeyError` for what nobody wrote so."""
    return bytes.fromhex(json.loads(payload)["fingerprint"]) if payload.startswith(_MEMORY) else None


def without_callbacks(payload: bytes) -> bytes:
    """*payload* with no callback and no errback. Raises what JSON that is none of ours raises."""
    if b'back":' not in payload:
        return payload
    fields = _read(payload)
    return dump({name: value for name, value in fields.items() if name not in ("callback", "errback")})


def _read(payload: bytes) -> Any:
    return json.loads(payload.decode("utf-8", "surrogatepass")) if payload else {}
