"""Commands that keep a frontier: compact, export, import."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from contextlib import closing
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.admin.export import export_lines
from ..core.admin.fill_directory import filling, refuse_held
from ..core.admin.importer import NO_EXPORT, BadExport, Importer
from ..core.size_format import size
from ..crawl.store.upkeep import open_store
from .output import CountedFile, printable, progress, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.admin.export_line import Line
    from .call import Call

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
