"""What a payload says of its request, of which none is made; `codec` writes payloads, and here they are read.

Most say none of this, so bytes are looked for first, and JSON is read where they are found.
"""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

from ...core.revisits.plans import NO_FACTS, PayloadFacts
from ...core.store.meta_rows import IN_MEMORY
from ..meta_keys import LASTMOD, PATTERN, REFRESH, SHELF_LIFE, SITEMAP, START
from .meta_values import seconds
from .plain_data import TAG, from_plain

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
