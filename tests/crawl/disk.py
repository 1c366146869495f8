"""A disk that is full, for the process that asks for it, and has space again."""

from __future__ import annotations

import resource
from pathlib import Path


def fill() -> None:
    """No file may grow beyond the log of the frontier's database, in the crawl's directory.

    The log of the crawl is a file too, and has to stay smaller.
    """
    most = max(file.stat().st_size for file in Path("frontier/leveldb").glob("*.log"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def clear() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
