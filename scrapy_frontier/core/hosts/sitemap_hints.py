"""How honest the hints of a host are: sitemaps' word that a page has changed, believed as far as it was true.

All values are frozen; change is a new value.
"""

from __future__ import annotations

from typing import NamedTuple

_MEMORY = 1 - 1 / 64  # of what proved so far, a visit


class HintAccuracy(NamedTuple):
    """How true the hints of a host have proved, as ``lastmod`` in its sitemaps; the older, the fainter.

    ``hinted`` pages, each counted by the chance that it had not changed anyway; how many more of them were
    ``right`` than had to be expected; of the ``changes`` that were found how many were ``hinted_changes``.
    """

    hinted: float = 0.0
    right: float = 0.0
    changes: float = 0.0
    hinted_changes: float = 0.0

    @property
    def precision(self) -> float:
        """The chance that a hint tells of a change, 0 to 1; 1/2 where nothing is known."""
        return min(max((self.right + 1.0) / (self.hinted + 2.0), 0.0), 1.0)

    @property
    def is_trusted(self) -> bool:
        """Whether a hint makes a page due: at least every second one is right, which holds where nothing is
        known."""
        return self.precision >= 0.5

    @property
    def recall(self) -> float:
        """The share of changes that is hinted, 0 to less than 1; 0 where hints are not to be trusted.

        Two changes that nobody told of are added: a host that tells all is visited without a hint too.
        """
        return self.hinted_changes / (self.changes + 2.0) if self.is_trusted else 0.0


def judged(hints: HintAccuracy, is_hinted: bool, has_changed: bool, expected: float) -> HintAccuracy:
    """What is known of a host's hints after a visit of a page that was hinted since the last, or not.

    *expected* is the chance that it had changed anyway, by its rate. Generators stamp now on everything: what
    is hinted then has changed as often as anything has, which is not worth a hint.
    """
    if not is_hinted and not has_changed:
        return hints
    hinted, right, changes, hinted_changes = hints
    if is_hinted:
        expected = min(max(expected, 0.0), 1.0)
        hinted = _MEMORY * hinted + 1.0 - expected
        right = _MEMORY * right + has_changed - expected
    if has_changed:
        changes = _MEMORY * changes + 1.0
        hinted_changes = _MEMORY * hinted_changes + is_hinted
    return HintAccuracy(hinted, right, changes, hinted_changes)
