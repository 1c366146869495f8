"""Frontiers with budgets, for tests that open one again and again; their stores are closed behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.misc import load_object

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.settings import SCORERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_frontier.core.pages.traps import TrapLimits

NOW = 1_700_000_000.0

opened: list[Store] = []


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    """Close what a failed test leaves open, lest its warning hits the next one."""
    yield
    while opened:
        opened.pop().close()


def domain_of(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def start(
    directory: Path,
    traps: TrapLimits | None = None,
    loaded: bool = True,
    scorer: str | None = None,
    host_pages: int = 0,
    part: int = 1,
) -> Frontier:
    opened.append(Store(directory))
    found = None if scorer is None or scorer == "fifo" else load_object(SCORERS[scorer])()
    frontier = Frontier(
        opened[-1],
        NOW,
        FrontierOptions(traps=traps, host_pages=host_pages, domain_of=domain_of, scorer=found, part=part),
    )
    while loaded and not frontier.load(NOW, 2):
        pass
    return frontier


def page(number: int, host: str = "a.example", **kept: Any) -> Link:
    url = f"http://{host}/{number}"
    return Link(url.encode().rjust(40, b"."), url, host, **kept)
