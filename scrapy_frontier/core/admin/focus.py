"""Explains in a sentence what content a queued page is expected to have, and by which words."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from ..errors import decode_or_none
from ..store import keys

if TYPE_CHECKING:
    from ..store.leveldb import Store
    from ..store.queue_keys import QueuePlace
    from ..store.records import Page

_MOST = 4  # words on each side
_LEAST = 0.05  # the least weight of a word that is named


def expectation(store: Store, page: Page, place: QueuePlace) -> str:
    """Return the sentence, as of the last ranking or clean stop; empty if nothing was learned. The words in
    the text of the link are stored only as codes, and named together as "the text of the link"."""
    stored = store.get(keys.FOCUS)
    if stored is None:
        return ""
    from ..ranking.focus import Focus, names_of  # loads NumPy

    focus = decode_or_none(Focus.decode, stored)
    if focus is None or not focus.has_learned:
        return ""
    weights: dict[str, float] = {}
    for name, code in names_of(page.url, store.get(place.key) or b""):
        weights[name] = weights.get(name, 0.0) + float(focus.weights[code])
    ordered = sorted(weights.items(), key=itemgetter(1))
    against = [(name, weight) for name, weight in ordered if weight < -_LEAST][:_MOST]
    speaking = [(name, weight) for name, weight in reversed(ordered) if weight > _LEAST][:_MOST]
    likely, usual = focus.likely(sum(weights.values())), focus.unknown
    sides = [f"for it {_listed(speaking)}"] if speaking else []
    sides += [f"against it {_listed(against)}"] if against else []
    why = f" ({'; '.join(sides)})" if sides else ""
    return f"Its content is good with probability {likely:.2g}, that of any page with {usual:.2g}{why}."


def _listed(words: list[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {weight:+.1f}" for name, weight in words)
