"""Mending a store and saying what came of it: a check that is counted, and damaged files saved into a copy.

Nothing here opens the store. Steps, within `salvaging`: `salvage.copied`, `salvage.mend`, `mended_copy`,
`salvage.put_in_place`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..errors import FrontierUnreadable, lenient
from ..store import keys, meta_rows
from ..store.directory_lock import REPAIRED, REPAIRING, Lock
from .check import Check
from .salvage import discard, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ..pages.edits import FingerprintOf
    from ..store.leveldb import Store
    from ..store.meta_rows import Counts
    from .check_notes import Finding
    from .salvage import Damage

    # How the findings of a check are read, to tell how far it is.
    Reading = Callable[[Iterable[Finding]], Iterable[Finding]]

SHOWN = 10  # findings of a kind that are told one by one

# The rows of a frontier by the first byte of their keys, in the words of docs/internals/format.md.
ROW_NAMES = {
    b"p": "page",
    b"f": "index",
    b"q": "queue",
    b"w": "waiting",
    b"n": "due",
    b"u": "rates",
    b"d": "deferred",
    b"h": "host",
    b"g": "links",
    b"s": "segment",
    b"o": "orders",
    b"t": "cooldown",
    b"r": "robots",
    b"e": "forbidden",
    b"l": "sitemaps",
    b"b": "body",
    b"v": "column",
    b"c": "content",
    b"x": "aside",
}
# Rows that follow from others, and the finding by which a check makes each anew.
MADE_ANEW = {
    b"f": "page without an index row",
    b"q": "queued page without a row",
    b"n": "page without its due row",
    b"d": "deferred page without a row",
}


class Examined(NamedTuple):
    """What a check found, by kind, how much of it is mended, and the first of each kind."""

    rows: int
    found: Counter[str]
    mended: int
    shown: list[Finding]

    @property
    def left(self) -> int:
        """How many things are wrong and not mended."""
        return self.found.total() - self.mended


class Salvaged(NamedTuple):
    """What came of damaged files: what they lost, how many rows there are now by the first byte of their
    keys, how many are lost (None: nobody knows; at least so many unless *is_exact*), the check of the copy,
    and where the originals are kept."""

    damage: Damage
    rows: Counter[bytes]
    lost: dict[bytes, int | None]
    is_exact: bool
    examined: Examined
    kept: Path | None = None


def examine(
    store: Store, scheme: str, fingerprint_of: FingerprintOf, now: float, repair: bool, reading: Reading
) -> Examined:
    """Check *store* at *now* (POSIX seconds), and with *repair* mend it; reads every row.

    *fingerprint_of* is asked where the *scheme* fits what is stored: else index rows that are missing cannot
    be made. *reading* iterates over the findings, and may tell how far the check is. Raises as `Check.run`.
    """
    stored = (store.get(keys.SCHEME) or b"").decode(errors="replace")
    checking = Check(store, fingerprint_of if stored in ("", scheme) else None, now, repair)
    found: Counter[str] = Counter()
    mended = 0
    shown: list[Finding] = []
    for finding in reading(checking.run()):
        found[finding.kind] += 1
        mended += finding.is_mended
        if found[finding.kind] <= SHOWN:
            shown.append(finding)
    return Examined(checking.rows, found, mended, shown)


# -- damaged files -----------------------------------------------------------------------------------------


def finish_interrupted(directory: Path, user: str) -> None:
    """Put the copy in place that an interrupted repair has left, if it was whole. Raises `FrontierLocked`
    where there is one, and somebody has the directory."""
    if (directory / REPAIRED).exists():
        with closing(Lock(directory, user)):
            finish(directory)


@contextmanager
def salvaging(directory: Path, user: str) -> Iterator[Path]:
    """*directory* is ours until the block ends; its copy, which goes where the block raises: then nothing is
    changed. Raises `FrontierLocked`."""
    with closing(Lock(directory, user)):
        try:
            yield directory / REPAIRING
        except BaseException:
            discard(directory)
            raise


def mended_copy(store: Store, directory: Path, damage: Damage, examine: Callable[[], Examined]) -> Salvaged:
    """What came of the copy in *store* once *examine* has mended it, which is not in its place yet.

    Counts all rows, which reads every file. Raises `FrontierUnreadable` where not one page is legible.
    """
    if not store.keys_of(keys.PAGE, b"", 1):
        raise FrontierUnreadable(
            f"{directory}: not one page is legible: nothing was changed; restore it from a copy, or "
            f"remove {directory} to begin anew"
        )
    before = lenient(meta_rows.read_counts, store)
    examined = examine()
    # The last visits of hosts may be lost: the next crawl must take every host for visited just now.
    store.write({keys.CLEAN: None}, sync=True)
    # Exact where the counts are the newest there were: else they may be those of a time with fewer pages.
    is_known = damage.is_all_known or not examined.found
    is_exact = is_known and not any(loss.has(keys.COUNTS) for loss in damage.losses)
    lost = {prefix: 0 if is_known and not damage.touches(prefix) else None for prefix in ROW_NAMES}
    lost |= _lost(before, meta_rows.read_counts(store), examined.found, is_exact)
    return Salvaged(damage, store.count_rows(), lost, is_exact, examined)


def _lost(before: Counts | None, now: Counts, found: Counter[str], is_exact: bool) -> dict[bytes, int | None]:
    """Rows lost by the first byte of their keys. Pages and hosts are known by the counts, or by rows that
    lead to them, and some by the rows they follow from; of others nobody knows how many there were."""
    counted = before or now
    pages = max(sum(counted.states) - sum(now.states), found["index row that leads nowhere"])
    hosts = max(counted.hosts - now.hosts, 0) + found["missing host row"]
    counts = (keys.PAGE, pages), (keys.HOST, hosts)
    lost = {prefix: count if is_exact or count else None for prefix, count in counts}
    return lost | {prefix: found[kind] for prefix, kind in MADE_ANEW.items()}
