"""Payloads that are changed, and no request is made of them; `codec` makes them.

What the user writes into a ``meta``: numbers, also as text, are read; else it is told what to set.

None and False say nothing. What is told is told once a value, for many requests may have it.

Requests with a pattern, or that force a visit: what the links of their pages inherit.

A page asked for with a pattern leads only to links in whose URL it is found, and they carry it on: a site, or
a part of one, is crawled and nothing else. `FORCE` is a time, so that it ends: what was visited since is not
fetched again.

What a payload says of its request, of which none is made; `codec` writes payloads, and here they are read.

Most say none of this, so bytes are looked for first, and JSON is read where they are found.
"""

from __future__ import annotations

import json
import logging
import re
import reprlib
from functools import lru_cache
from itertools import product
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from ..core import reasons
from ..core.pages.entered_again import after_visits_until, was_visited_before
from ..core.reasons import LONGEST_URL
from ..core.revisits.plans import NO_FACTS, PayloadFacts
from ..core.store.records import IN_MEMORY
from .codec import OWN_PAYLOAD, TAG, dump, from_plain
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


_OURS = b'"frontier_'  # so begins what the frontier has in a ``meta``
_METHOD, _BODY, _CLASS = b'"method"', b'"body"', b'"class"'
_DEPTH, _PROXY = b'"depth":', b'"proxy"'  # which a comma follows where not all keys are text
_OTHER_KEYS = f'{{"meta":{{"{TAG}":'.encode()
_START, _SITEMAP, _LASTMOD = (f'"{key}"'.encode() for key in (START, SITEMAP, LASTMOD))
_READ = (_METHOD, _BODY, f'"{SHELF_LIFE}"'.encode(), f'"{REFRESH}"'.encode())
_ANOTHER_PAGE = (_METHOD, _BODY, _CLASS, b'"verbatim_url"', IN_MEMORY)
_NOTHING_ELSE = {found: PayloadFacts(None, None, True, *found) for found in product((False, True), repeat=2)}
_lastmod = re.compile(_LASTMOD + rb"[:,](-?[0-9]+)").search
_sitemap, _pattern = (  # a comma stands behind the key where not all are text; see `meta_keys.UNSET`
    re.compile(rf'"{key}"[:,](?!null|false|0[,}}\]])'.encode()).search for key in (SITEMAP, PATTERN)
)


def read(payload: bytes) -> PayloadFacts:
    """What a payload says of revisits, for `Frontier`: 0.2 us for most, 10 and more where JSON has to be
    read. Of one that makes no request what can be found; a span that is none is told."""
    if _OURS not in payload and _METHOD not in payload and _BODY not in payload:
        return NO_FACTS
    of_sitemaps = _SITEMAP in payload and is_sitemap(payload), _LASTMOD in payload
    if not any(word in payload for word in _READ):
        return _NOTHING_ELSE[of_sitemaps]
    fields = _fields(payload)
    is_plain = fields.get("method", "GET") in ("GET", "HEAD") and not fields.get("body")
    meta = _meta_in(fields)
    refresh, shelf_life = (seconds(key, _as_given(meta.get(key))) for key in (REFRESH, SHELF_LIFE))
    return PayloadFacts(refresh, shelf_life, is_plain, *of_sitemaps)


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


def _as_given(value: Any) -> Any:
    """The *value* in a ``meta`` that is written so; itself where nothing can be made of it."""
    try:
        return from_plain(value)
    except Exception:  # anybody may have written it
        return value


def meta_of(payload: bytes) -> dict[str, Any]:
    """The ``meta`` of the request, as it is written, where its keys are text: 10 us and more. Empty where it
    cannot be read."""
    return _meta_in(_fields(payload))


def is_sitemap(payload: bytes) -> bool:
    """Whether the page is read as a sitemap."""
    return _sitemap(payload) is not None


def lastmod_of(payload: bytes) -> int | None:
    """When a sitemap says that the page changed last (POSIX seconds); None where none does."""
    found = _lastmod(payload)
    return None if found is None else int(found[1])


def proxy_in(payload: bytes) -> dict[str, str]:
    """What the ``meta`` of a request has to say to go by the proxy that this one names; empty where it names
    none."""
    proxy = meta_of(payload).get("proxy") if _PROXY in payload else None
    return {"proxy": proxy} if isinstance(proxy, str) else {}


def is_seed(payload: bytes) -> bool:
    """Whether the request was one that the spider starts with."""
    return _START in payload


def is_bare(payload: bytes) -> bool:
    """Whether there is nothing but ``meta``, as of what is added by command; the link of a page has its
    ``Referer`` besides, or its depth."""
    return payload.startswith(b'{"meta":') and _DEPTH not in payload and not payload.startswith(_OTHER_KEYS)


def has_pattern(payload: bytes) -> bool:
    """Whether only some links of the page are followed: those in whose URL its pattern is found."""
    return _pattern(payload) is not None


def names_class(payload: bytes) -> bool:
    """Whether the request, or something in it, is of a class of somebody's own."""
    return _CLASS in payload


def is_plain_get(payload: bytes) -> bool:
    """Whether the request is for the page that a plain GET of its URL is for."""
    return not any(word in payload for word in _ANOTHER_PAGE)


def kept_fingerprint(payload: bytes) -> bytes | None:
    """The fingerprint of a request that only one process has; None for any other. Raises `ValueError` and
    `KeyError` for what nobody wrote so."""
    return bytes.fromhex(json.loads(payload)["fingerprint"]) if payload.startswith(IN_MEMORY) else None


_INSISTS = b'"dont_filter":true'
_HAS_OWN = f'"{OWN_PAYLOAD}":'.encode()  # stands in every payload with another one to go back to


def with_meta(payload: bytes, meta: dict[str, Any]) -> bytes | None:
    """*payload* with plain *meta* besides, which wins, also in what it goes back to; None where that cannot
    be, since only a process has the request, or it cannot be read."""
    try:
        fields = _read(payload)
        if TAG in fields:  # only a process has it
            return None
        changed = dump({**fields, "meta": _with(fields.get("meta", {}), meta)})
    except (ValueError, LookupError, AttributeError, TypeError):
        return None
    own = own_of(payload)
    return changed if own is payload else renewed(changed, with_meta(own, meta) or own)


def without_meta(payload: bytes, key: str) -> bytes:
    """*payload*, whose ``meta`` says nothing of *key*; as it is where it cannot be read."""
    if f'"{key}"'.encode() not in payload:
        return payload
    try:
        fields = _read(payload)
        meta = _without(fields["meta"], [key])
    except (ValueError, LookupError, AttributeError, TypeError):
        return payload
    if not (meta.get("v") if TAG in meta else meta):
        del fields["meta"]
        return dump(fields)
    return dump({**fields, "meta": meta})


def _with(meta: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """*meta* as it is written with *more*, which wins; pairs behind a tag where not all keys are text."""
    if TAG not in meta:
        return {**meta, **more}
    kept = _without(meta, list(more))
    return {**kept, "v": [*kept["v"], *map(list, more.items())]}


def _without(meta: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """*meta* as it is written without *keys*."""
    if TAG not in meta:
        return {key: value for key, value in meta.items() if key not in keys}
    return {**meta, "v": [pair for pair in meta["v"] if pair[0] not in keys]}


def without_callbacks(payload: bytes) -> bytes:
    """*payload* with no callback and no errback. Raises what JSON that is none of ours raises."""
    if b'back":' not in payload:
        return payload
    fields = _read(payload)
    return dump({name: value for name, value in fields.items() if name not in ("callback", "errback")})


def with_own(payload: bytes, before: bytes) -> bytes:
    """*payload*, of a request that is tried once more, with what its page had *before* it was tried first:
    on its way out middlewares put into a request what is for one visit, a password, say."""
    own = own_of(before)
    if payload == own or own.startswith(IN_MEMORY):
        return payload
    return dump({**_read(payload), OWN_PAYLOAD: own.decode("utf-8", "surrogatepass")})


def renewed(stored: bytes, payload: bytes) -> bytes:
    """What a page with the *stored* payload has where it comes back by *payload* from now on: that; or if it
    is to be tried once more, as the last try left it, that to go back to."""
    return payload if stored == own_of(stored) else with_own(stored, payload)


def own_of(payload: bytes) -> bytes:
    """What the page of *payload* had before it was tried first (`with_own`); *payload* itself where it has
    not been tried, or that cannot be read."""
    if _HAS_OWN not in payload:
        return payload
    try:
        own = _read(payload)[OWN_PAYLOAD]
    except (ValueError, LookupError, TypeError):
        return payload
    return own.encode("utf-8", "surrogatepass") if isinstance(own, str) else payload


def insists(payload: bytes) -> bool:
    """Whether the page asks for its request whatever is known (``dont_filter``), and not only one that it is
    tried once more with."""
    return _INSISTS in own_of(payload)


def _read(payload: bytes) -> Any:
    return json.loads(payload.decode("utf-8", "surrogatepass")) if payload else {}
