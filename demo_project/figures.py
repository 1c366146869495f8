"""The figures of a crawl, and the summary made of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy.settings import BaseSettings

HOSTS = 8  # in the summary
FIRST = 5  # pages in the summary

# What the frontier tells as `frontier/pages/<state>`, where another scheduler is set.
STOCK_STATS = {
    "redirected": [f"downloader/response_status_count/{status}" for status in (301, 302, 303, 307, 308)],
    "gone": [f"downloader/response_status_count/{status}" for status in (404, 410)],
    "failed": ["downloader/response_status_count/403", "retry/max_reached"],
    "excluded": ["robotstxt/forbidden"],
}


def host_of(url: str) -> str:
    """Host and port, as the summary names a host."""
    return urlsplit(url).netloc


class Figures:
    """What was fetched and when; times in seconds, by any one clock."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.pages: Counter[str] = Counter()  # by host
        self.first: list[str] = []

    def item(self, item: Any) -> None:
        if len(self.first) < FIRST:
            self.first.append(f"{item['url']}  {item['title']}")

    def line(self, now: float, pending: int) -> str:
        """``pages 120  hosts 8  pending 34  13.1 pages/s``"""
        return f"pages {self.pages.total()}  hosts {len(self.pages)}  pending {pending}  {self._rate(now)}"

    def _rate(self, now: float) -> str:
        return f"{self.pages.total() / max(now - self.began, 0.001):.1f} pages/s"

    def summary(
        self,
        now: float,
        reason: str,
        stats: Mapping[str, Any],
        titles: Mapping[str, str],
        gaps: Mapping[str, float],
    ) -> Iterator[str]:
        """The lines of the summary of a crawl that ended for *reason*. *titles* are those of known hosts,
        *gaps* the least seconds between two requests to each, as it saw them itself."""
        how = "Finished" if reason == "finished" else f"Stopped ({reason})"
        pages, hosts = self.pages.total(), len(self.pages)
        of = "1 host" if hosts == 1 else f"{hosts} hosts"
        yield f"{how} after {now - self.began:.1f} s: {pages} pages of {of}, {self._rate(now)}"
        yield ", ".join(f"{number} {state}" for state, number in self._states(stats).items())
        if not pages:
            return
        yield ""
        yield f"{'host':<47}{'pages':>8}" + f"{'smallest gap':>16}" * bool(gaps)
        most = sorted(self.pages.items(), key=lambda item: (-item[1], item[0]))[:HOSTS]
        for host, pages in most:
            gap = f"{f'{gaps[host]:.3f} s':>16}" if host in gaps else ""
            yield f"{f'{host}  {titles.get(host, str())}'[:46]:<47}{pages:>8}{gap}"
        if hosts > HOSTS:
            yield f"and {hosts - HOSTS} more"
        yield ""
        yield "First pages:"
        yield from (f"  {page}" for page in self.first)

    def _states(self, stats: Mapping[str, Any]) -> dict[str, int]:
        """How many pages are in which state: all the frontier knows, earlier runs included."""
        states = {"done": self.pages.total()}
        states |= {state: sum(stats.get(key, 0) for key in keys) for state, keys in STOCK_STATS.items()}
        states["queued"] = stats.get("scheduler/enqueued", 0) - stats.get("scheduler/dequeued", 0)
        return {state: stats.get(f"frontier/pages/{state}", number) for state, number in states.items()}


def what_next(settings: BaseSettings, reason: str) -> tuple[str, str]:
    """Where the frontier lies, and what to run next, in two lines."""
    jobdir = settings["JOBDIR"]
    directory = settings["FRONTIER_DIR"] or (f"{jobdir}/frontier/demo" if jobdir else None)
    if directory is None:
        return (
            "The frontier was temporary. Run with  -s JOBDIR=crawls/demo  to keep it: then",
            "stop the crawl whenever you like, and the same command goes on where it was.",
        )
    if reason == "finished":
        return f"Frontier: {directory}", "The same command again visits only what is new."
    return f"Frontier: {directory}", "Run the same command again: it goes on where this run stopped."
