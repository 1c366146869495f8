"""The command check: is everything as it must be, and mending it, damaged files too."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ..core.admin.check import Check
from ..core.admin.check_notes import KINDS
from ..core.admin.salvage import copied, discard, finish, mend, put_in_place
from ..core.errors import FrontierDamaged, FrontierUnreadable, UnreadableRecord
from ..core.store import keys, meta_rows
from ..core.store.directory import REPAIRED, REPAIRING, Lock
from ..core.store.leveldb import Store, repair_files
from .output import Column, progress

if TYPE_CHECKING:
    from pathlib import Path

    from ..core.admin.check_notes import Finding
    from ..core.admin.salvage import Damage
    from ..core.store.meta_rows import Counts
    from .call import Call
    from .project import Project

SHOWN = 10  # findings of a kind that are told one by one

# The rows of a frontier by the first byte of their keys, in the words of docs/internals/format.md.
ROWS = {
    b"p": "page",
    b"f": "index",
    b"q": "queue",
    b"w": "waiting",
    b"d": "deferred",
    b"h": "host",
    b"g": "links",
    b"s": "segment",
    b"o": "orders",
    b"t": "cooldown",
    b"r": "robots",
    b"l": "listing",
    b"b": "body",
    b"v": "column",
    b"c": "content",
    b"x": "aside",
}
# Rows that follow from others, and the finding by which a check makes each anew.
_FOLLOW = {
    b"f": "page without an index row",
    b"q": "queued page without a row",
    b"d": "deferred page without a row",
}
_ROW_COLUMNS = [Column("ROW", 9), Column("NOW", 12, True), Column("LOST", 0)]


class Examined(NamedTuple):
    """What a check found, by kind, how much of it is mended, and the first of each kind."""

    rows: int
    found: Counter[str]
    mended: int
    shown: list[Finding]

    @property
    def left(self) -> int:
        return self.found.total() - self.mended


class Salvaged(NamedTuple):
    """What came of damaged files: where the originals are now, what they lost, how many rows there are now by
    the first byte of their keys, how many are lost (None: nobody knows; at least so many unless *is_exact*),
    and the check of the copy."""

    kept: Path
    damage: Damage
    rows: Counter[bytes]
    lost: dict[bytes, int | None]
    is_exact: bool
    examined: Examined


def check(call: Call) -> int:
    """Exit code 1 where something is wrong and not mended."""
    project, repair = call.project, bool(call.options.repair)
    salvaged: Salvaged | None = None
    if repair:
        _finish(project)
    try:
        with project.open(restore=repair) as store:
            examined = _examine(project, store, repair)
    except FrontierDamaged:
        if not repair:
            raise
        salvaged = _salvage(project)
        examined = salvaged.examined
        if not call.output.as_json:
            _tell_salvaged(call, salvaged)
    if call.output.as_json:
        call.output.document(_as_json(examined, salvaged))
    else:
        _tell(call, examined)
        call.output.text(_verdict(examined, repair))
        if salvaged is not None:
            _tell_next(call, salvaged)
    return 1 if examined.left else 0


def _examine(project: Project, store: Store, repair: bool) -> Examined:
    scheme = (store.get(keys.SCHEME) or b"").decode(errors="replace")
    fingerprint_of = project.fingerprint_of if project.identifies(scheme) else None
    checking = Check(store, fingerprint_of, project.now, repair)
    found: Counter[str] = Counter()
    mended = 0
    shown: list[Finding] = []
    for finding in progress(checking.run(), "things found"):
        found[finding.kind] += 1
        mended += finding.is_mended
        if found[finding.kind] <= SHOWN:
            shown.append(finding)
    return Examined(checking.rows, found, mended, shown)


# -- damaged files -----------------------------------------------------------------------------------------


def _finish(project: Project) -> None:
    """Put the copy in place that an interrupted repair has left, if it was whole."""
    if (project.directory / REPAIRED).exists():
        with closing(Lock(project.directory, project.user)):
            finish(project.directory)


def _salvage(project: Project) -> Salvaged:
    """Save what is legible into a copy, and put that in place; with a `FrontierError` nothing is changed."""
    directory = project.directory
    with closing(Lock(directory, project.user)):
        try:
            for _ in progress(enumerate(copied(directory), 1), "files copied", reached=itemgetter(0)):
                pass
            print("Saving what is legible into a copy ...", file=sys.stderr)
            damage = mend(directory, repair_files)
            rows, lost, examined = _mend_copy(project, damage)
        except BaseException:
            discard(directory)
            raise
        is_exact = _can_count(damage, examined.found)
        return Salvaged(put_in_place(directory, project.now), damage, rows, lost, is_exact, examined)


def _mend_copy(project: Project, damage: Damage) -> tuple[Counter[bytes], dict[bytes, int | None], Examined]:
    directory = project.directory
    with closing(Store(directory / REPAIRING, "", project.scheme, project.user)) as store:
        if not store.keys_of(keys.PAGE, b"", 1):
            raise FrontierUnreadable(
                f"{directory}: not one page is legible: nothing was changed; restore it from a copy, or "
                f"remove {directory} to begin anew"
            )
        before = _counts(store)
        examined = _examine(project, store, repair=True)
        _take_for_killed(store)
        lost = _lost(damage, before, meta_rows.read_counts(store), examined.found)
        return store.count_rows(), lost, examined


def _counts(store: Store) -> Counts | None:
    try:
        return meta_rows.read_counts(store)
    except UnreadableRecord:
        return None


def _take_for_killed(store: Store) -> None:
    """The last visits of hosts may be lost: the next crawl must take every host for visited just now."""
    batch = store.batch()
    batch.delete(keys.CLEAN)
    store.write(batch, sync=True)


def _lost(damage: Damage, before: Counts | None, now: Counts, found: Counter[str]) -> dict[bytes, int | None]:
    """Rows lost by the first byte of their keys. Pages and hosts are known by the counts, or by rows that
    lead to them; of others nobody knows how many there were."""
    can_count = _can_count(damage, found)
    is_known = damage.is_all_known or not found
    lost: dict[bytes, int | None] = {
        prefix: 0 if is_known and not damage.touches(prefix) else None
        for prefix in ROWS
        if prefix not in _FOLLOW
    }
    counted = before or now
    pages = max(sum(counted.states) - sum(now.states), found["index row that leads nowhere"])
    hosts = max(counted.hosts - now.hosts, 0) + found["missing host row"]
    for prefix, count in ((keys.PAGE, pages), (keys.HOST, hosts)):
        lost[prefix] = count if can_count or count else None
    return lost | {prefix: found[kind] for prefix, kind in _FOLLOW.items()}


def _can_count(damage: Damage, found: Counter[str]) -> bool:
    """Whether the counts are the newest there were: else they may be those of a time with fewer pages."""
    return not damage.has_newest(keys.COUNTS) and (damage.is_all_known or not found)


# -- what is told ------------------------------------------------------------------------------------------


def _as_json(examined: Examined, salvaged: Salvaged | None) -> dict[str, object]:
    answer: dict[str, object] = {
        "rows": examined.rows,
        "found": examined.found.total(),
        "mended": examined.mended,
        "kinds": dict(examined.found),
        "findings": [finding._asdict() for finding in examined.shown],
    }
    if salvaged is not None:
        rows = {
            name: {"now": salvaged.rows[prefix], "lost": salvaged.lost[prefix]}
            for prefix, name in ROWS.items()
        }
        files = [
            {"file": name, "lost": lost, "of": of} for name, (lost, of) in salvaged.damage.files().items()
        ]
        about = {"kept": str(salvaged.kept), "files": files, "rows": rows}
        answer["salvaged"] = {**about, "is_exact": salvaged.is_exact}
    return answer


def _tell_salvaged(call: Call, salvaged: Salvaged) -> None:
    out, files = call.output, salvaged.damage.files()
    if files:
        out.text("Files of the database were damaged. What they have lost, in bytes:")
        out.record((name, f"{lost:,} of {of:,}" if of else "all") for name, (lost, of) in files.items())
    else:
        out.text("Files of the database were damaged, but none that holds rows.")
    out.line()
    told = [prefix for prefix in ROWS if salvaged.rows[prefix] or salvaged.lost[prefix]]
    out.table(_ROW_COLUMNS, (_row(salvaged, prefix) for prefix in told))
    silent = [ROWS[prefix] for prefix in ROWS if prefix not in told and salvaged.lost[prefix] is None]
    if silent:
        out.text(f"Not one is there of these, and nobody knows whether any were: {', '.join(silent)}.")
    out.line()


def _row(salvaged: Salvaged, prefix: bytes) -> tuple[object, ...]:
    lost = salvaged.lost[prefix]
    told = "perhaps some" if lost is None else f"{lost:,}"
    if lost and prefix in _FOLLOW:
        told += ", made anew"
    elif lost and not salvaged.is_exact:
        told = f"at least {told}"
    return ROWS[prefix], f"{salvaged.rows[prefix]:,}", told


def _tell_next(call: Call, salvaged: Salvaged) -> None:
    out, lost = call.output, salvaged.lost
    out.line()
    out.text(
        "The repaired copy is in place: start the crawl again. The damaged files are kept in "
        f"{salvaged.kept}; remove them when you need them no more."
    )
    if lost[keys.PAGE] != 0:
        count = "Perhaps some" if lost[keys.PAGE] is None else f"{lost[keys.PAGE]:,}"
        out.text(
            f"{count} pages are known no more. A page comes back when one that links it is read "
            "again (`scrapy frontier requeue --state done`), as a seed, or by `scrapy frontier add`."
        )
    if lost[b"o"] is None:
        out.text(
            "Orders may be lost: see in `scrapy frontier hosts --json` what is blocked, and block again."
        )


def _tell(call: Call, examined: Examined) -> None:
    found = examined.found
    for kind in [kind for kind in KINDS if kind in found]:
        call.output.text(f"{kind}: {found[kind]:,} ({KINDS[kind]})")
        for finding in examined.shown:
            if finding.kind == kind:
                detail = f": {finding.detail}" if finding.detail else ""
                call.output.record(
                    [("  mended" if finding.is_mended else "  found", finding.subject + detail)]
                )
        if found[kind] > SHOWN:
            call.output.text(f"  and {found[kind] - SHOWN:,} more")


def _verdict(examined: Examined, repair: bool) -> str:
    rows, wrong, left = examined.rows, examined.found.total(), examined.left
    if not wrong:
        return f"All is as it must be: {rows:,} rows read."
    if not left:
        return f"Read {rows:,} rows, found {wrong:,} things wrong, and mended them."
    remedy = "" if repair else "; `scrapy frontier check --repair` mends what it can"
    return f"Read {rows:,} rows, found {wrong:,} things wrong, {left:,} of them not mended{remedy}."
