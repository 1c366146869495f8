"""Commands that keep a frontier sound and carry it elsewhere: check, export, import."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import UsageError

from ..core.admin import database_files
from ..core.admin.check import KINDS, Check
from ..core.admin.export import NO_EXPORT, BadExport, export_lines, import_lines, joined_lines
from ..core.errors import FrontierDamaged, size
from ..core.store import keys
from ..crawl.directory import open_store
from .old_queues import take_along
from .output import printable, progress, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.admin.check import Finding
    from ..core.admin.export import Line
    from ..core.pages.edits import FingerprintOf
    from ..core.store.leveldb import Store
    from .call import Call
    from .project import Project

_SHOWN = 10  # findings of a kind that are told one by one
_LEVEL = 6  # of gzip
_LONGEST_LINE = 64 << 20  # characters of an export: a few kilobytes of gzip can stand for gigabytes


class _Examined(NamedTuple):
    """What a check found: rows read, findings by kind, how many are mended, and the first of each kind."""

    rows: int
    found: Counter[str]
    mended: int
    shown: list[Finding]


def check(call: Call) -> int:
    """Checks the frontier; ``--repair`` mends it, damaged files too. Exit code 1 if something stays wrong."""
    project, repair, kept = call.project, bool(call.options.repair), None
    try:
        examined = _examine(project, repair)
    except FrontierDamaged:
        if not repair:
            raise
        print("Files are damaged: repairing a copy ...", file=sys.stderr)
        kept = database_files.repair(project.directory, project.user, project.now)
        examined = _examine(project, repair, is_salvaged=True)
    left = examined.found.total() - examined.mended
    call.output.document(
        {
            "rows": examined.rows,
            "found": examined.found.total(),
            "mended": examined.mended,
            "kinds": dict(examined.found),
            "findings": [finding._asdict() for finding in examined.shown],
            "damaged_files": str(kept) if kept else None,
        }
    )
    _print_findings(call, examined)
    call.output.text(_verdict(examined, left, repair))
    if kept is not None:
        call.output.text(
            "Files of the database were damaged; LevelDB's repair of a copy is in their place now. Pages "
            "that are lost "
            "come back when a page that links them is read again (`scrapy frontier requeue --state done`), "
            "as seeds, "
            f"or by `scrapy frontier add`; orders may be lost. Remove {kept} when you need it no more."
        )
    return 1 if left else 0


def _examine(project: Project, repair: bool, is_salvaged: bool = False) -> _Examined:
    found: Counter[str] = Counter()
    shown: list[Finding] = []
    mended = 0
    rows = 0
    with project.parts(restore=repair) as parts:
        for n, store in parts:
            checking = Check(store, _fingerprint_of(project, store), project.now, repair)
            for finding in progress(checking.run(), "things found"):
                found[finding.kind] += 1
                mended += finding.is_mended
                if found[finding.kind] <= _SHOWN:
                    of_shard = f" of shard {n}" if project.shared else ""
                    shown.append(finding._replace(subject=finding.subject + of_shard))
            rows += checking.rows
            if is_salvaged:  # last visits may be lost: the next crawl takes every host for visited just now
                store.write({keys.CLEAN: None}, sync=True)
    return _Examined(rows, found, mended, shown)


def _fingerprint_of(project: Project, store: Store) -> FingerprintOf | None:
    stored = (store.get(keys.SCHEME) or b"").decode(errors="replace")
    return project.fingerprint_of if stored in ("", project.identities.scheme) else None


def _print_findings(call: Call, examined: _Examined) -> None:
    for kind in [kind for kind in KINDS if kind in examined.found]:
        call.output.text(f"{kind}: {examined.found[kind]:,} (repair: {KINDS[kind]})")
        for finding in examined.shown:
            if finding.kind == kind:
                detail = f": {finding.detail}" if finding.detail else ""
                label = "  mended" if finding.is_mended else "  found"
                call.output.fields([(label, finding.subject + detail)])
        if examined.found[kind] > _SHOWN:
            call.output.text(f"  and {examined.found[kind] - _SHOWN:,} more")


def _verdict(examined: _Examined, left: int, repair: bool) -> str:
    rows, wrong = examined.rows, examined.found.total()
    if not wrong:
        return f"Nothing is wrong: {rows:,} rows read."
    if not left:
        return f"Read {rows:,} rows, found {wrong:,} things wrong, and mended them."
    remedy = "" if repair else "; `scrapy frontier check --repair` mends what it can"
    return f"Read {rows:,} rows, found {wrong:,} things wrong, {left:,} of them not mended{remedy}."


# -- export and import -------------------------------------------------------------------------------------


def export(call: Call) -> None:
    """Writes the frontier, or the part of ``--host``, into one gzipped file of JSON lines; the file that was
    there stays until that is written."""
    target, pages = Path(call.arguments[0]), 0
    with call.project.parts(call.options.host) as parts, replacing(target) as partial:
        store, now, shared = parts[0].store, call.project.now, call.project.shared
        lines = export_lines(store, now, call.host(store))
        if shared is not None and len(parts) > 1:
            lines = joined_lines([part.store for part in parts], shared.shard_of, now)
        with gzip.open(partial, "wt", _LEVEL, encoding="ascii") as file:
            for line in progress(lines, "lines written"):
                file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
                pages += "page" in line
        written = partial.stat().st_size
    text = f"Exported {pages:,} pages to {target} ({size(written)})."
    call.output.answer({"file": str(target), "pages": pages, "bytes": written}, text)


def import_(call: Call) -> int | None:
    """Fills the project's directory, which must hold no frontier, from an export; nothing is left there if
    that fails. Or takes an old queue along. Raises `BadExport`, `NoOldQueue`, or `FrontierLocked` while a
    process has a frontier there open."""
    options = call.options
    is_old_queue = options.jobdir is not None or options.redis is not None
    if len(call.arguments) != (options.jobdir is None) or None not in (options.jobdir, options.redis):
        raise UsageError("write one of: import FILE, import --jobdir DIR, import --redis URL KEY")
    if is_old_queue:
        return take_along(call)
    source, project = Path(call.arguments[0]), call.project
    project.refuse_shared()
    if project.exists:
        database_files.refuse_held(project.directory, project.user)
        raise BadExport(
            f"{project.directory} holds a frontier already: write --dir DIR, or `scrapy frontier reset` first"
        )
    scheme = project.own_scheme()
    with (
        source.open("rb"),
        database_files.filling(project.directory) as empty,
        closing(open_store(empty, scheme)) as store,
    ):
        try:
            lines = progress(_lines(source), "lines read")
            done = import_lines(store, lines, project.fingerprint_of, project.now)
        except BadExport as error:
            raise BadExport(f"cannot import {source}: {error}") from error
        store.flush()
    call.output.document({"directory": str(project.directory), **done._asdict()})
    call.output.text(f"Imported {done.pages:,} pages of {done.hosts:,} hosts into {project.directory}.")
    if done.merged:
        call.output.text(f"{done.merged:,} pages are one with another by this project's fingerprinter.")
    if done.not_rebuilt:
        call.output.text(
            f"{done.not_rebuilt:,} pages have a request that this project cannot rebuild: `scrapy frontier "
            "check` names them, and a link finds them as new pages."
        )
    return None


def _lines(source: Path) -> Iterator[Line]:
    """Yields the lines of a file. Raises `BadExport` if it is no gzip, or no JSON, or a line is too long."""
    try:
        with gzip.open(source, "rt", encoding="ascii") as file:
            while text := file.readline(_LONGEST_LINE):
                if len(text) == _LONGEST_LINE:
                    raise ValueError(f"a line of more than {size(_LONGEST_LINE)}")
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise BadExport(NO_EXPORT)
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise BadExport(f"{NO_EXPORT}; or it is damaged ({printable(str(error))[:200]})") from error
