"""The figures of a crawl, and the summary made of them."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy.settings import BaseSettings

HOSTS = 8  # in the summary
FIRST = 5  # pages in the summary
LAST = 16  # requests of a host that a gap is measured to; they are not seen in the order they were sent

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
        self.gaps: dict[str, float] = {}  # the smallest by host
        self._sent: dict[str, list[float]] = {}  # by host, sorted

    def sent(self, url: str, when: float) -> None:
        """A request for *url* was sent at *when*."""
        host = host_of(url)
        times = self._sent.setdefault(host, [])
        place = bisect(times, when)
        gaps = [abs(when - other) for other in times[max(place - 1, 0) : place + 1]]
        if gaps:
            self.gaps[host] = min([*gaps, self.gaps.get(host, gaps[0])])
        times.insert(place, when)
        del times[:-LAST]

    def item(self, item: Any) -> None:
        if len(self.first) < FIRST:
            self.first.append(f"{item['url']}  {item['title']}")

    def line(self, now: float, pending: int) -> str:
        """``pages 120  hosts 8  pending 34  13.1 pages/s``"""
        return f"pages {self.pages.total()}  hosts {len(self.pages)}  pending {pending}  {self._rate(now)}"

    def _rate(self, now: float) -> str:
        return f"{self.pages.total() / max(now - self.began, 0.001):.1f} pages/s"

    def summary(
        self, now: float, reason: str, stats: Mapping[str, Any], titles: Mapping[str, str]
    ) -> Iterator[str]:
        """The lines of the summary of a crawl that ended for *reason*; *titles* are those of known hosts."""
        how = "Finished" if reason == "finished" else f"Stopped ({reason})"
        pages, hosts = self.pages.total(), len(self.pages)
        of = "1 host" if hosts == 1 else f"{hosts} hosts"
        yield f"{how} after {now - self.began:.1f} s: {pages} pages of {of}, {self._rate(now)}"
        yield ", ".join(f"{number} {state}" for state, number in self._states(stats).items())
        if not pages:
            return
        yield ""
        yield f"{'host':<47}{'pages':>8}{'smallest gap':>16}"
        most = sorted(self.pages.items(), key=lambda item: (-item[1], item[0]))[:HOSTS]
        for host, pages in most:
            gap = f"{self.gaps[host]:.3f} s" if host in self.gaps else "-"
            yield f"{f'{host}  {titles.get(host, str())}'[:46]:<47}{pages:>8}{gap:>16}"
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
    directory = settings["FRONTIER_DIR"] or (f"{jobdir}/frontier" if jobdir else None)
    if directory is None:
        return (
            "The frontier was temporary. Run with  -s JOBDIR=crawls/demo  to keep it: then",
            "stop the crawl whenever you like, and the same command goes on where it was.",
        )
    if reason == "finished":
        return f"Frontier: {directory}", "The same command again visits only what is new."
    return f"Frontier: {directory}", "Run the same command again: it goes on where this run stopped."
