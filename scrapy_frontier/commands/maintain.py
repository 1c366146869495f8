"""Commands that keep a frontier: compact, export, import.

The command check: is everything as it must be, and mending it, damaged files too.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from contextlib import closing
from functools import partial
from io import BufferedWriter
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.admin.check import (
    KINDS,
    MADE_ANEW,
    ROW_NAMES,
    SHOWN,
    examine,
    finish_interrupted,
    mended_copy,
    salvaging,
)
from ..core.admin.export import NO_EXPORT, BadExport, Importer, export_lines
from ..core.admin.salvage import copied, filling, mend, put_in_place, refuse_held
from ..core.errors import FrontierDamaged, size
from ..crawl.directory import forget_filter, open_store, repair_files
from .output import Column, CountedFile, printable, progress, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.admin.check import Examined, Salvaged
    from ..core.admin.page_visits import Line
    from ..core.store.leveldb import Store
    from .call import Call
    from .project import Project

_ROW_COLUMNS = [Column("ROW", 9), Column("NOW", 12, True), Column("LOST", 0)]


def check(call: Call) -> int:
    """Check the frontier, and with ``--repair`` mend it, damaged files too. Exit code 1 where something is
    wrong and not mended."""
    project, repair = call.project, bool(call.options.repair)
    salvaged: Salvaged | None = None
    if repair:
        finish_interrupted(project.directory, project.user)
    try:
        with project.open(restore=repair) as store:
            if repair:  # it may forget pages
                forget_filter(project.directory)
            examined = _examine(project, store, repair)
    except FrontierDamaged:
        if not repair:
            raise
        salvaged = _salvage(project)
        examined = salvaged.examined
        _print_salvaged(call, salvaged)
    call.output.document(_as_json(examined, salvaged))
    _print(call, examined)
    call.output.text(_verdict(examined, repair))
    if salvaged is not None:
        _print_next(call, salvaged)
    return 1 if examined.left else 0


def _examine(project: Project, store: Store, repair: bool) -> Examined:
    reading = partial(progress, doing="things found")
    return examine(store, project.identities.scheme, project.fingerprint_of, project.now, repair, reading)


def _salvage(project: Project) -> Salvaged:
    """Save what is legible into a copy, and put that in place; with a `FrontierError` nothing is changed."""
    directory = project.directory
    with salvaging(directory, project.user) as copy:
        for _ in progress(enumerate(copied(directory), 1), "files copied", reached=itemgetter(0)):
            pass
        print("Saving what is legible into a copy ...", file=sys.stderr)
        damage = mend(directory, repair_files)
        with closing(open_store(copy, "", project.identities.named_scheme, project.user)) as store:
            salvaged = mended_copy(store, directory, damage, lambda: _examine(project, store, repair=True))
        return salvaged._replace(kept=put_in_place(directory, project.now))


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
            for prefix, name in ROW_NAMES.items()
        }
        files = [
            {"file": name, "lost": lost, "of": of} for name, (lost, of) in salvaged.damage.files().items()
        ]
        about = {"kept": str(salvaged.kept), "files": files, "rows": rows}
        answer["salvaged"] = {**about, "is_exact": salvaged.is_exact}
    return answer


def _print_salvaged(call: Call, salvaged: Salvaged) -> None:
    out, files, rows, lost = call.output, salvaged.damage.files(), salvaged.rows, salvaged.lost
    if files:
        out.text("Files of the database were damaged. What they have lost, in bytes:")
        out.fields((name, f"{gone:,} of {of:,}" if of else "all") for name, (gone, of) in files.items())
    else:
        out.text("Files of the database were damaged, but none that holds rows.")
    out.line()
    shown = [prefix for prefix in ROW_NAMES if rows[prefix] or lost[prefix]]
    out.table(_ROW_COLUMNS, (_row(salvaged, prefix) for prefix in shown))
    silent = [ROW_NAMES[prefix] for prefix in ROW_NAMES if not rows[prefix] and lost[prefix] is None]
    if silent:
        out.text(f"Not one is there of these, and nobody knows whether any were: {', '.join(silent)}.")
    out.line()


def _row(salvaged: Salvaged, prefix: bytes) -> tuple[object, ...]:
    lost = salvaged.lost[prefix]
    number = "perhaps some" if lost is None else f"{lost:,}"
    if lost and prefix in MADE_ANEW:
        number += ", made anew"
    elif lost and not salvaged.is_exact:
        number = f"at least {number}"
    return ROW_NAMES[prefix], f"{salvaged.rows[prefix]:,}", number


def _print_next(call: Call, salvaged: Salvaged) -> None:
    out, lost = call.output, salvaged.lost
    out.line()
    out.text(
        "The repaired copy is in place: start the crawl again. The damaged files are kept in "
        f"{salvaged.kept}; remove them when you need them no more."
    )
    if (pages := lost[b"p"]) != 0:
        count = "Perhaps some" if pages is None else f"{pages:,}"
        out.text(
            f"{count} pages are known no more. A page comes back when one that links it is read "
            "again (`scrapy frontier requeue --state done`), as a seed, or by `scrapy frontier add`."
        )
    if lost[b"o"] is None:
        out.text(
            "Orders may be lost: see in `scrapy frontier hosts --json` what is blocked, and block again."
        )


def _print(call: Call, examined: Examined) -> None:
    found = examined.found
    for kind in [kind for kind in KINDS if kind in found]:
        call.output.text(f"{kind}: {found[kind]:,} ({KINDS[kind]})")
        for finding in examined.shown:
            if finding.kind == kind:
                detail = f": {finding.detail}" if finding.detail else ""
                label = "  mended" if finding.is_mended else "  found"
                call.output.fields([(label, finding.subject + detail)])
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


_LEVEL = 6  # of gzip


def compact(call: Call) -> None:
    """Rewrite all files without what was deleted, and tell bytes before and now; about 1 s for 30 MB."""
    with call.project.open() as store:
        before = store.size()
        print(f"Compacting {size(before)} ...", file=sys.stderr)
        store.compact()
        after = store.size()
    text = f"{size(before)} before, {size(after)} now."
    call.output.answer({"bytes_before": before, "bytes": after}, text)


# -- export and import -------------------------------------------------------------------------------------


def export(call: Call) -> None:
    """Write all of the frontier into one gzipped file, a JSON object a line; what was there stays until
    that is written."""
    target = Path(call.arguments[0])
    count = 0
    call.output.make_way_for(target)
    with (
        call.project.open() as store,
        replacing(target) as partial,
        CountedFile(partial, "w") as counted,
        BufferedWriter(counted) as out,
        gzip.open(out, "wt", _LEVEL, encoding="ascii") as file,
    ):
        for line in progress(export_lines(store, call.project.now), "lines written"):
            file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
            count += "page" in line
    text = f"Exported {count:,} pages to {target} ({size(counted.written)})."
    call.output.answer({"file": str(target), "pages": count, "bytes": counted.written}, text)


def import_(call: Call) -> None:
    """Fill the project's directory, which must hold no frontier, from an export; it gets nothing where that
    fails. Raises `BadExport`, or `FrontierLocked` where a process has a frontier there open."""
    source, project = Path(call.arguments[0]), call.project
    if project.exists:
        refuse_held(project.directory, project.user)
        raise BadExport(
            f"{project.directory} holds a frontier already: write --dir DIR, or `scrapy frontier reset` first"
        )
    scheme = project.own_scheme("import")
    with (
        source.open("rb"),
        filling(project.directory) as empty,
        closing(open_store(empty, scheme)) as store,
    ):
        try:
            done = Importer(store, project.fingerprint_of).run(progress(_lines(source), "lines read"))
        except BadExport as error:
            raise BadExport(f"cannot import {source}: {error}") from error
        store.flush()
    project.claim()
    call.output.document({"directory": str(project.directory), **done._asdict()})
    unfit = "pages have a request that this project cannot rebuild; they are kept as they are"
    call.output.text(f"Imported {done.pages:,} pages of {done.hosts:,} hosts into {project.directory}.")
    for count, what in (
        (done.merged, "pages are one with another under this project's fingerprinter"),
        (done.not_rebuilt, unfit),
        (done.unknown, "lines are of kinds unknown to this version, and were left out"),
    ):
        if count:
            call.output.text(f"{count:,} {what}.")


def _lines(source: Path) -> Iterator[Line]:
    try:
        with gzip.open(source, "rt", encoding="ascii") as file:
            for text in file:
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise BadExport(NO_EXPORT)
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
        raise BadExport(f"{NO_EXPORT}; or it is damaged ({printable(str(error))})") from error
