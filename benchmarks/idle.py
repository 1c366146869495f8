"""What an hour costs in which nothing is due: a crawl that waits for what falls due, and Scrapy that waits.

    python benchmarks/idle.py [--minutes 3] [--pages 1000] [--ways scrapy interval adaptive]

Each way crawls a site of PAGES pages on loopback, then has nothing to do: with the add-on and
``FRONTIER_REVISIT_HORIZON = "inf"`` nothing is due for a week; Scrapy's own scheduler is kept open by
``DontCloseSpider``. When all pages have come, and half a minute has passed, the processor time of the process
is read, and again MINUTES later; all ways wait at once. Seconds of processor an hour are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import scrapy
from scrapy import signals
from scrapy.exceptions import DontCloseSpider

SETTLED = 30.0  # seconds
ADDON = {"ADDONS": {"scrapy_frontier.Addon": 500}, "FRONTIER_REVISIT_HORIZON": "inf"}
WAYS: dict[str, dict[str, Any]] = {
    "scrapy": {},
    "interval": {**ADDON, "FRONTIER_REVISIT": "interval"},
    "adaptive": {**ADDON, "FRONTIER_REVISIT": "adaptive"},
}


class Handler(BaseHTTPRequestHandler):
    """Each page links ten others."""

    protocol_version = "HTTP/1.1"
    pages = 0

    def do_GET(self) -> None:
        name = self.path.strip("/")
        number = int(name) if name.isdigit() else self.pages  # robots.txt: an empty one
        links = range(10 * number + 1, min(10 * number + 11, self.pages))
        body = "".join(f"<a href='/{link}'>{link}</a>" for link in links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class Follow(scrapy.Spider):
    """Follows all links, and writes down what it has cost so far when it is asked by a signal."""

    name = "follow"

    def __init__(self, url: str, told: str) -> None:
        self.start_urls, self._told, self._pages = [url], told, 0
        signal.signal(signal.SIGUSR1, self._tell)
        Path(told).touch()  # from now on signals find somebody

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Follow:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if not crawler.settings.getdict("ADDONS"):
            crawler.signals.connect(spider.stay, signals.spider_idle)
        return spider

    def stay(self) -> None:
        raise DontCloseSpider

    def _tell(self, *_: Any) -> None:
        line = f"{time.process_time()} {time.monotonic()} {self._pages}\n"
        with open(self._told, "a") as file:
            file.write(line)

    def parse(self, response: Any) -> Any:
        self._pages += 1
        yield from response.follow_all(css="a")


class Waiting:
    """A crawl that soon has nothing to do."""

    def __init__(self, url: str, directory: Path, way: str) -> None:
        self._told, self._asked = directory / f"{way}.told", 0
        settings = {"LOG_LEVEL": "INFO", "FRONTIER_DIR": str(directory / way), **WAYS[way]}
        if way == "scrapy":
            settings["JOBDIR"] = settings.pop("FRONTIER_DIR")
        command = [
            sys.executable,
            "-m",
            "scrapy",
            "runspider",
            str(Path(__file__).resolve()),
            "-a",
            f"url={url}",
        ]
        command += ["-a", f"told={self._told}"]
        for name, value in settings.items():
            command += ["-s", f"{name}={json.dumps(value) if isinstance(value, dict) else value}"]
        with (directory / f"{way}.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)  # no project's

    def tell(self) -> tuple[float, float, int]:
        """Seconds of processor, seconds of the clock, pages."""
        while not self._told.exists():
            time.sleep(0.1)
        self._asked += 1
        os.kill(self.process.pid, signal.SIGUSR1)
        while len(lines := self._told.read_text().splitlines()) < self._asked:
            time.sleep(0.1)
        processor, clock, pages = lines[-1].split()
        return float(processor), float(clock), int(pages)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    args = parser.parse_args()
    Handler.pages = args.pages
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/0"
    with tempfile.TemporaryDirectory() as name:
        waiting = {way: Waiting(url, Path(name), way) for way in args.ways}
        try:
            for crawl in waiting.values():
                while crawl.tell()[2] < args.pages:
                    time.sleep(1)
            time.sleep(SETTLED)
            before = {way: crawl.tell() for way, crawl in waiting.items()}
            time.sleep(60 * args.minutes)
            for way, crawl in waiting.items():
                begin, end = before[way], crawl.tell()
                hour = (end[0] - begin[0]) / (end[1] - begin[1]) * 3600
                print(f"{way}: {hour:.2f} s of processor an hour", flush=True)
        finally:
            for crawl in waiting.values():
                crawl.process.kill()
                crawl.process.wait()


if __name__ == "__main__":
    main()
