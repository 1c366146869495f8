"""What a server sees of Scrapy's own scheduler and of the frontier, side by side.

    python benchmarks/politeness.py

Three crawls over loopback, each with both schedulers, one process a crawl:

mixed  17 hosts with a delay of 10 s and 3 without, 12 s: pages fetched, and how many from the fast hosts
six    six pages of one host with DOWNLOAD_DELAY = 1: seconds from first to last, smallest gap
one    100 pages of one host with CONCURRENT_REQUESTS_PER_DOMAIN = 1: most requests under way at once
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LATENCY = 0.05  # seconds
PAGE = b"<html>a page</html>"
HOSTS = [f"127.9.0.{number}" for number in range(1, 21)]
SLOW = HOSTS[:17]
CRAWLS: dict[str, dict[str, Any]] = {
    "mixed": {
        "DOWNLOAD_SLOTS": {host: {"delay": 10.0, "concurrency": 8} for host in SLOW},
        "CLOSESPIDER_TIMEOUT": 12,
    },
    "six": {"DOWNLOAD_DELAY": 1},
    "one": {"CONCURRENT_REQUESTS_PER_DOMAIN": 1},
}
SCHEDULERS = {"stock": "scrapy.core.scheduler.Scheduler", "frontier": "scrapy_frontier.FrontierScheduler"}


class Web:
    """Servers on one port of several loopback addresses; they stop with the process."""

    def __init__(self, hosts: list[str]) -> None:
        self.visits: list[tuple[float, str]] = []
        self.most = 0
        self._live: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.port = 0
        for host in hosts:
            server = ThreadingHTTPServer((host, self.port), self._handler())
            server.daemon_threads = True
            self.port = server.server_port
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def _handler(web) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                host = self.server.server_address[0]
                web.arrive(str(host), 1)
                time.sleep(LATENCY)
                web.arrive(str(host), -1)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(PAGE)))
                self.end_headers()
                self.wfile.write(PAGE)

            def log_message(self, *values: Any) -> None:
                pass

        return Handler

    def arrive(self, host: str, change: int) -> None:
        with self._lock:
            if change > 0:
                self.visits.append((time.monotonic(), host))
            self._live[host] += change
            self.most = max(self.most, self._live[host])


class PagesSpider(scrapy.Spider):
    name = "pages"

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for url in self.urls:
            yield scrapy.Request(url)

    def parse(self, response: Any) -> None:
        pass


def crawl(name: str, scheduler: str) -> str:
    hosts = HOSTS if name == "mixed" else HOSTS[:1]
    web = Web(hosts)
    pages = {"mixed": 200, "six": 6, "one": 100}[name]
    process = AsyncCrawlerProcess(
        CRAWLS[name]
        | {"SCHEDULER": SCHEDULERS[scheduler], "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False}
    )
    urls = [f"http://{host}:{web.port}/{page}" for page in range(pages) for host in hosts]
    process.crawl(PagesSpider, urls=urls)
    process.start()
    times = [when for when, _ in web.visits]
    if name == "mixed":
        seen = [host for when, host in web.visits if when - times[0] <= 12]
        return f"{len(seen)} pages in 12 s, {sum(host not in SLOW for host in seen)} from the fast hosts"
    if name == "six":
        gaps = [later - earlier for earlier, later in pairwise(times)]
        return f"{times[-1] - times[0]:.2f} s from first to last, smallest gap {min(gaps):.3f} s"
    return f"{web.most} requests under way at once"


def main() -> None:
    if len(sys.argv) == 3:
        print(f"{sys.argv[1]:6} {sys.argv[2]:9} {crawl(sys.argv[1], sys.argv[2])}")
        return
    for name in CRAWLS:
        for scheduler in SCHEDULERS:
            subprocess.run([sys.executable, __file__, name, scheduler], check=True, timeout=120)


if __name__ == "__main__":
    main()
