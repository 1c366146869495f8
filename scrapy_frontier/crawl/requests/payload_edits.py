"""Payloads that are changed, and no request is made of them; `codec` makes them."""

from __future__ import annotations

import json
from typing import Any

from ...core.store.meta_rows import IN_MEMORY
from .codec import OWN_PAYLOAD, dump
from .plain_data import TAG

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
