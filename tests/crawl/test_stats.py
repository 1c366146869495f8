"""What stats collectors of others are told: what counts as a counter, what is measured as a gauge."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.engine import get_engine_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

COUNTERS = (
    "scheduler/enqueued",
    "scheduler/enqueued/disk",
    "scheduler/enqueued/memory",
    "scheduler/unserializable",
    "scheduler/dequeued",
    "scheduler/dequeued/disk",
    "scheduler/dequeued/memory",
    "dupefilter/filtered",
)
GAUGES = "frontier/pending", "frontier/hosts", "frontier/pages/done"
WAYS = pytest.mark.parametrize("addons", [{}, {"scrapy_frontier.Addon": 500}], ids=["scheduler", "addon"])


class Strict(MemoryStatsCollector):
    """As one of scrapy-prometheus: what was counted once is no gauge, and the other way round. What it was
    told is in the stats, too."""

    def open_spider(self, spider: Any = None) -> None:
        self.gauges: set[str] = set()
        self.counted: defaultdict[str, list[int]] = defaultdict(list)

    def set_value(self, key: str, value: Any, spider: Any = None) -> None:
        assert key not in self.counted, key
        self.gauges.add(key)
        super().set_value(key, value)

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Any = None) -> None:
        assert key not in self.gauges, key
        self.counted[key].append(count)
        super().inc_value(key, count, start)

    def get_stats(self, spider: Any = None) -> dict[str, Any]:
        told = {"counted": dict(self.counted), "gauges": sorted(self.gauges)}
        return {**super().get_stats(), **told} if hasattr(self, "counted") else super().get_stats()


class TellingSpider(Spider):
    """Goes on as long as the stats are brought up to date some times; has a request that cannot be stored."""

    name = "telling"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url + "0")

    def parse(self, response: Response) -> Iterator[Request]:
        number = int(response.url.rpartition("/")[2])
        yield Request(self.url + "0")
        if number < 9:
            yield Request(self.url + str(number + 1))
        if number == 3:
            yield Request(self.url + "20", lambda response: None)


@WAYS
def test_what_only_grows_is_counted_by_what_came_since(
    web: Web, run: Callable[..., Crawl], addons: dict[str, int]
) -> None:
    """A collector of metrics that took them for gauges added nothing up."""
    settings = {"STATS_CLASS": f"{__name__}.Strict", "DOWNLOAD_DELAY": 0.05, "ADDONS": addons}
    crawl = run(TellingSpider, settings, url=web.url("/"))
    expected = dict(zip(COUNTERS, (11, 10, 1, 1, 11, 10, 1, 10), strict=True))
    assert {name: crawl.stats[name] for name in COUNTERS} == expected
    counted = crawl.stats["counted"]
    assert {name: sum(counted[name]) for name in COUNTERS} == expected
    assert all(number > 0 for name in COUNTERS for number in counted[name])
    assert set(GAUGES) <= set(crawl.stats["gauges"])
    assert "Traceback" not in crawl.log


def test_a_collector_that_keeps_nothing_does_no_harm(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = run(
        TellingSpider, {"STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector"}, url=web.url("/")
    )
    assert len(web.visits) == 11
    assert "Traceback" not in crawl.log


class StatusSpider(Spider):
    """Asks for the status of the engine as ``est()`` of the telnet console does."""

    name = "status"

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        yield {"status": dict(get_engine_status(self.crawler.engine))}


def test_the_telnet_console_shows_the_queues(web: Web, run: Callable[..., Crawl], tmp_path: Path) -> None:
    run(
        StatusSpider, {"FEEDS": {str(tmp_path / "items.json"): {"format": "json"}}}, start_urls=[web.url("/")]
    )
    (item,) = json.loads((tmp_path / "items.json").read_text())
    assert [test for test, value in item["status"].items() if "exception" in str(value)] == []
    assert [value for test, value in item["status"].items() if "dqs" in test or "mqs" in test] == [0, 0]
