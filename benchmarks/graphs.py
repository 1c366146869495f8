"""Real graphs for the benchmarks: load one, and number its pages in the order a crawl discovers them."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "shared/data/graphs"  # beside the checkout


class WebGraph(NamedTuple):
    """Page i links to ``indices[indptr[i]:indptr[i + 1]]``; ``hosts`` are numbers, None where unknown."""

    name: str
    indptr: np.ndarray
    indices: np.ndarray
    hosts: np.ndarray | None


def names(folder: str | Path = FOLDER) -> list[str]:
    return sorted(path.stem for path in Path(folder).glob("*.npz"))


def chosen(description: str) -> tuple[Path, list[str]]:
    """The folder and the names of the graphs that the command line asks for: all if it names none."""
    arguments = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument("--folder", type=Path, default=FOLDER)
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    return options.folder, options.names or names(options.folder)


def load(name: str, folder: str | Path = FOLDER) -> WebGraph:
    file = np.load(Path(folder) / f"{name}.npz")
    degrees = file["outdegree"].astype(np.int64)
    indptr = np.concatenate(([0], np.cumsum(degrees)))
    links = file["links"].astype(np.int64)
    if json.loads(bytes(file["header"]))["links"] == "gap":
        total = np.cumsum(links)
        links = total - np.repeat(np.concatenate(([0], total))[indptr[:-1]], degrees)
    return WebGraph(name, indptr, links, _hosts(Path(folder) / f"{name}.urls.gz", len(degrees)))


def _hosts(path: Path, pages: int) -> np.ndarray | None:
    if not path.exists():
        return None
    with gzip.open(path, "rt") as lines:
        urls = [line.strip() for line in lines][:pages]
    numbers: dict[str, int] = {}
    hosts = [urlsplit(url if "//" in url else f"//{url}").netloc for url in urls]
    return np.array([numbers.setdefault(host, len(numbers)) for host in hosts])


def discovery_order(graph: WebGraph, draw: int = 0) -> np.ndarray:
    """Pages in the order a breadth-first crawl from drawn starts discovers them; all are reached."""
    pages = len(graph.indptr) - 1
    indptr, links = graph.indptr.tolist(), graph.indices.tolist()
    seen = bytearray(pages)
    order: list[int] = []
    at = 0
    for start in np.random.default_rng(draw).permutation(pages).tolist():
        if not seen[start]:
            seen[start] = 1
            order.append(start)
        while at < len(order):
            page = order[at]
            at += 1
            for target in links[indptr[page] : indptr[page + 1]]:
                if not seen[target]:
                    seen[target] = 1
                    order.append(target)
    return np.array(order)


def renumbered(graph: WebGraph, order: np.ndarray) -> WebGraph:
    """The same graph with ids in *order*, links of a page ascending."""
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    degrees = np.diff(graph.indptr)
    sources = np.repeat(new, degrees)
    targets = new[graph.indices]
    sort = np.lexsort((targets, sources))
    indptr = np.concatenate(([0], np.cumsum(degrees[order])))
    hosts = None if graph.hosts is None else graph.hosts[order]
    return WebGraph(graph.name, indptr, targets[sort], hosts)
