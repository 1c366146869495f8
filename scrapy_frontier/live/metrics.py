"""The stats of a crawl for Prometheus, read when they are asked for. Needs ``prometheus_client``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Stats that have one value for each of something: the metric, and the label for what is behind the prefix.
_FAMILIES = {
    "frontier/live/hosts/": ("frontier_live_hosts", "kind"),
    "frontier/pages/": ("frontier_pages", "state"),
    "frontier/reasons/": ("frontier_reasons", "code"),
    "downloader/response_status_count/": ("scrapy_responses", "status"),
    "downloader/request_method_count/": ("scrapy_requests", "method"),
    "downloader/exception_type_count/": ("scrapy_download_errors", "type"),
    "log_count/": ("scrapy_log_lines", "level"),
}
# Stats that may fall, by their beginning; all others only grow in a run.
_GAUGES = (
    *("frontier/pages/", "frontier/pending", "frontier/hosts", "frontier/live/"),
    *("frontier/rank/pages", "frontier/rank/seconds", "memusage/", "elapsed_time_seconds"),
    *("request_depth_max", "items_per_minute", "responses_per_minute"),
)


def exposition(stats: Mapping[str, Any], live: Mapping[str, float]) -> bytes:
    """Returns the numbers among *stats* in the text format of Prometheus, and those of *live*, gauges, as
    ``frontier_live_...``. About 10 us a stat."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Stats({**stats, **{f"frontier/live/{name}": value for name, value in live.items()}}))
    return generate_latest(registry)


class _Stats:
    """A collector of *stats* by name: one metric a stat, or a labelled one for those of a family."""

    def __init__(self, stats: Mapping[str, Any]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for stat, value in sorted(self._stats.items()):
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            prefix = next((each for each in _FAMILIES if stat.startswith(each)), "")
            name, label = _FAMILIES.get(prefix, (_name(stat), ""))
            kind = GaugeMetricFamily if stat.startswith(_GAUGES) else CounterMetricFamily
            if name not in families:
                about = f"The stats {prefix}*" if prefix else f"The stat {stat}"
                families[name] = kind(name, about, labels=[label] if label else [])
            families[name].add_metric([stat.removeprefix(prefix)] if label else [], value)  # type: ignore[attr-defined]
        yield from families.values()


def _name(stat: str) -> str:
    """Returns the name of the metric for a stat; what is not ours begins with ``scrapy_``."""
    name = re.sub(r"\W", "_", stat)
    return name if name.startswith("frontier_") else f"scrapy_{name}"
