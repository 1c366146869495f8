"""What a spider costs as it is: Scrapy's own scheduler and ours, in turn, by the time of the processor.

    python benchmarks/spiders.py [--ways memory,jobdir,scheduler,addon] [--pages 2000] [--rounds 3]

Generated pages of 20 hosts on loopback, 50 links each, nine tenths of them known; the same spider for all,
which yields a `Request` a link (``--links css``: by a selector; ``extractor``: by Scrapy's `LinkExtractor`).
Every crawl is a process of its own, pinned to the first processor, and the server to the second. The ways:

- memory, jobdir: Scrapy's scheduler
- scheduler: ``SCHEDULER`` is ours, with a ``JOBDIR``
- addon: the add-on, with a ``JOBDIR``: states, link graph, ranking, directives

Printed for each round: milliseconds of the processor a page, from the first callback to the last, and pages
over those of the first way. The last line has the medians. ``--set NAME=VALUE`` adds a setting to all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.linkextractors import LinkExtractor

HOSTS = 20
LINKS = 50
SITE = 10_000  # pages there are
WORDS = ("river", "stone", "garden", "window", "paper", "summer", "market", "letter", "engine", "mirror")
WAYS: dict[str, tuple[bool, dict[str, Any]]] = {  # with a JOBDIR, settings
    "memory": (False, {}),
    "jobdir": (True, {}),
    "scheduler": (True, {"SCHEDULER": "scrapy_frontier.FrontierScheduler"}),
    "addon": (True, {"ADDONS": {"scrapy_frontier.Addon": 500}}),
}
SETTINGS: dict[str, Any] = {
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
}


def url_of(page: int, port: int) -> str:
    return f"http://127.0.0.{page % HOSTS + 2}:{port}/{WORDS[page % 10]}/{WORDS[page % 7]}-{page}.html"


def body_of(page: int, port: int) -> bytes:
    """A page: an eighth of its links lead to other hosts, the others to its own, each in a sentence."""
    chance = random.Random(page)
    parts = [f"<html><head><title>Page {page}</title></head><body>"]
    for _ in range(LINKS):
        target = chance.randrange(SITE)
        if chance.random() < 0.875:
            target = target // HOSTS * HOSTS + page % HOSTS
        href = url_of(target, port)
        href = href if target % HOSTS != page % HOSTS else "/" + href.split("/", 3)[3]
        text = " ".join(chance.choices(WORDS, k=20))
        parts.append(f'<div class="entry"><p>{text} <a href="{href}">{text[:20]}</a> {text}</p></div>')
    return "".join([*parts, "</body></html>"]).encode()


class Server(asyncio.Protocol):
    """Answers every GET with the page its path ends on."""

    port = 0
    kept: dict[int, bytes] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, self.received = self.received.split(b"\r\n\r\n", 1)
            path = head.split(b" ", 2)[1]
            status, body = b"404 Not Found", b""
            if path.endswith(b".html"):
                page = int(path.rpartition(b"-")[2][:-5])
                if page not in self.kept:
                    self.kept[page] = body_of(page, self.port)
                status, body = b"200 OK", self.kept[page]
            head = b"HTTP/1.1 %b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n"
            self.transport.write(head % (status, len(body)) + body)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "0.0.0.0", 0)
    Server.port = server.sockets[0].getsockname()[1]
    print(Server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever began it is gone


class Site(scrapy.Spider):
    name = "site"
    port = 0
    links = "css"
    items = False
    extractor = LinkExtractor()
    begin: tuple[float, int] | None = None
    end = (0.0, 0)
    seen = 0

    async def start(self) -> Any:
        for page in range(HOSTS):
            yield scrapy.Request(url_of(page, self.port))

    def parse(self, response: Any) -> Any:
        self.seen += 1
        self.end = (time.process_time(), self.seen)
        self.begin = self.begin or self.end
        if self.items:
            yield {"url": response.url}
        if self.links == "extractor":
            for link in self.extractor.extract_links(response):
                yield scrapy.Request(link.url)
        else:
            for href in response.css("a::attr(href)").getall():
                yield scrapy.Request(response.urljoin(href))


def crawl(way: str, port: int, given: argparse.Namespace) -> None:
    """Crawl in this process and print milliseconds a page."""
    keeps, settings = WAYS[way]
    settings = {**SETTINGS, "CLOSESPIDER_PAGECOUNT": given.pages, **settings}
    settings.update(pair.split("=", 1) for pair in given.set)
    directory = tempfile.mkdtemp(prefix="spiders-")
    if keeps:
        settings["JOBDIR"] = directory
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Site)
    process.crawl(crawler, port=port, links=given.links, items=given.items)
    process.start()
    shutil.rmtree(directory)
    spider = crawler.spider
    assert isinstance(spider, Site)
    assert spider.begin is not None
    milliseconds = (spider.end[0] - spider.begin[0]) / (spider.end[1] - spider.begin[1]) * 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"ms": milliseconds, "pages": spider.seen, "MB": peak}))


def pinned(processor: int, *arguments: str) -> list[str]:
    command = [sys.executable, __file__, *arguments]
    return ["taskset", "-c", str(processor), *command] if shutil.which("taskset") else command


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", default="memory,jobdir,scheduler,addon")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--links", choices=("css", "extractor"), default="css")
    parser.add_argument("--items", action="store_true", help="yield an item a page as well")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--crawl", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.server:
        asyncio.run(serve())
        return
    if given.crawl:
        crawl(given.crawl[0], int(given.crawl[1]), given)
        return
    server = subprocess.Popen(
        pinned((os.cpu_count() or 2) - 1, "--server"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    port = server.stdout.readline().decode().strip()
    try:
        compare(given.ways.split(","), port, given)
    finally:
        server.stdin.close()
        server.wait(10)


def compare(ways: list[str], port: str, given: argparse.Namespace) -> None:
    taken: dict[str, list[float]] = {way: [] for way in ways}
    options = ["--pages", str(given.pages), "--links", given.links]
    options += [f"--set={pair}" for pair in given.set] + ["--items"] * given.items
    for number in range(given.rounds + 1):  # the first makes the server's pages, and does not count
        line = []
        for way in ways:
            command = pinned(0, "--crawl", way, port, *options)
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            if number:
                taken[way].append(found["ms"])
                over = taken[ways[0]][-1] / found["ms"]
                line.append(f"{way} {found['ms']:.2f} ms ({over:.2f}) {found['MB']} MB")
            elif way == ways[0]:
                break
        if number:
            print("   ".join(line), flush=True)
    for way in ways:
        ratios = [first / ms for first, ms in zip(taken[ways[0]], taken[way], strict=True)]
        middle = statistics.median(taken[way])
        print(f"{way}: {middle:.2f} ms a page, {statistics.median(ratios):.2f} x {ways[0]}")


if __name__ == "__main__":
    main()
