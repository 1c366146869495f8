"""The link graph as files for other programs: streamed, so that memory grows neither with links nor pages.

Nodes are page ids. Files that hold nothing but links have the URLs beside them, a line a page (`write_urls`).
Each writer answers with the number of links.
"""

from __future__ import annotations

import csv
import gzip
import zipfile
from functools import partial
from itertools import repeat
from typing import IO, TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np

from ..core.admin import facts
from ..core.admin.links_in_chunks import every_link, flag_names
from .output import printable, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import DTypeLike, NDArray

    from ..core.ranking.graph import Links
    from ..core.store.leveldb import Store

_LEVEL = 1  # of gzip and zip: 6 takes three times as long and saves a tenth

_AT_A_TIME = 4096  # numbers

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="url" for="node" attr.name="url" attr.type="string"/>
<key id="state" for="node" attr.name="state" attr.type="string"/>
<key id="flags" for="edge" attr.name="flags" attr.type="string"><default></default></key>
<key id="weight" for="edge" attr.name="weight" attr.type="double"><default>1</default></key>
<graph id="frontier" edgedefault="directed">
"""


def write_urls(store: Store, file: Path) -> None:
    """The URL of page n in line n + 1, gzipped; empty lines for ids without a page. One pass over the
    pages."""
    with gzip.open(file, "wt", _LEVEL, encoding="utf-8") as lines:
        for url, _ in _nodes(store):
            lines.write(f"{url}\n")


def write_graphml(store: Store, file: Path) -> int:
    """A node for each id, with URL and state, then the edges; a weight of 1 and no flags are left out. How
    many links there are."""
    count = 0
    with file.open("w", encoding="utf-8") as out:
        out.write(_HEAD)
        for page_id, (url, state) in enumerate(_nodes(store)):
            about = f'<data key="url">{escape(url)}</data><data key="state">{state}</data>' if state else ""
            out.write(f'<node id="n{page_id}">{about}</node>\n')
        for source, target, flags, weight in _links(store):
            about = f'<data key="flags">{" ".join(flag_names(flags))}</data>' if flags else ""
            if weight != 1:
                about += f'<data key="weight">{weight:.6g}</data>'
            out.write(f'<edge source="n{source}" target="n{target}">{about}</edge>\n')
            count += 1
        out.write("</graph>\n</graphml>\n")
    return count


def write_text(store: Store, file: Path) -> int:
    """A line a link: source and target, with a space between; a comment first. How many links there are."""
    count = 0
    with file.open("w", encoding="ascii") as out:
        out.write("# source target: page ids, the URLs are in the file beside this one\n")
        for links in _blocks(store):
            pairs = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
            out.writelines(f"{source} {target}\n" for source, target in pairs)
            count += len(links.sources)
    return count


def write_csv(store: Store, file: Path, delimiter: str = ",") -> int:
    """A line a link: source, target, flags in words, weight; *delimiter* between them. How many links there
    are."""
    count = 0
    with file.open("w", encoding="ascii", newline="") as out:
        rows = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        rows.writerow(("source", "target", "flags", "weight"))
        for source, target, flags, weight in _links(store):
            rows.writerow((source, target, " ".join(flag_names(flags)), f"{weight:.6g}"))
            count += 1
    return count


def write_npz(store: Store, file: Path) -> int:
    """A matrix for `scipy.sparse.load_npz`: ``indptr``, ``indices``, ``data`` (weights), and ``flags``.

    Four passes over the links.
    """
    pages = facts.known(store)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        _put(archive, "format", np.array(b"csr"))
        _put(archive, "shape", np.array([pages, pages]))
        with _array(archive, "indptr", np.int64, pages + 1) as out:
            count = _write_ends(store, pages, out)
        for name, part, kind in (
            ("indices", "targets", np.int32 if pages < 1 << 31 else np.int64),
            ("data", "weights", np.float32),
            ("flags", "flags", np.uint8),
        ):
            with _array(archive, name, kind, count) as out:
                for links in _blocks(store, f"{part} written, of pages"):
                    out.write(getattr(links, part).astype(kind).tobytes())
    return count


def _write_ends(store: Store, pages: int, out: IO[bytes]) -> int:
    """Write where the links of each page end among all, after a first 0; how many links there are."""
    count = done = 0
    out.write(bytes(8))

    def write_empty(until: int) -> None:
        for first in range(done, until, _AT_A_TIME):
            out.write(np.full(min(_AT_A_TIME, until - first), count).tobytes())

    for links in _blocks(store, "links counted, of pages"):
        first = int(links.sources[0])
        write_empty(first)
        ends = count + np.cumsum(np.bincount(links.sources - first))
        out.write(ends.tobytes())
        count, done = int(ends[-1]), first + len(ends)
    write_empty(pages)
    return count


def _put(archive: zipfile.ZipFile, name: str, array: NDArray[np.generic]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
        np.lib.format.write_array(out, array, allow_pickle=False)


def _array(archive: zipfile.ZipFile, name: str, kind: DTypeLike, count: int) -> IO[bytes]:
    """The file of an array of *count* numbers that is never in memory as a whole: they are written there."""
    about = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": (count,)}
    out = archive.open(f"{name}.npy", "w", force_zip64=True)
    np.lib.format.write_array_header_1_0(out, about)
    return out


WRITERS: dict[str, Callable[[Store, Path], int]] = {
    ".graphml": write_graphml,
    ".txt": write_text,
    ".tsv": partial(write_csv, delimiter="\t"),
    ".csv": write_csv,
    ".npz": write_npz,
}


# -- what is written ---------------------------------------------------------------------------------------


def _nodes(store: Store) -> Iterator[tuple[str, str]]:
    """URL and state of every id, in order; empty for an id without a page."""
    total = facts.known(store)
    done = 0
    for page_id, page in progress(facts.pages(store, with_visits=False), "pages written", total):
        yield from repeat(("", ""), page_id - done)
        yield printable(page.url), page.state.name.lower()
        done = page_id + 1
    yield from repeat(("", ""), total - done)


def _blocks(store: Store, doing: str = "links written, of pages") -> Iterator[Links]:
    total = facts.known(store)
    filled = (links for links in every_link(store) if len(links.sources))
    return progress(filled, doing, total, lambda links: int(links.sources[-1]) + 1)


def _links(store: Store) -> Iterator[tuple[int, int, int, float]]:
    for links in _blocks(store):
        yield from zip(*(part.tolist() for part in links), strict=True)
