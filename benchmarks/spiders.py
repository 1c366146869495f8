"""What a spider costs as it is: Scrapy's own scheduler and ours, in turn, by the time of the processor.

    python benchmarks/spiders.py [--ways memory,jobdir,scheduler,addon,follow] [--pages 2000] [--rounds 3]
    python benchmarks/spiders.py --folder DIR --sites a,b,c --links extractor --pages 0     # real pages, all

Generated pages of 20 hosts on loopback, 50 links each, nine tenths of them known; the same spider for all,
which yields a `Request` a link (``--links css``: by a selector; ``extractor``: by Scrapy's `LinkExtractor`).
Or real ones: DIR/manifest.json names sites (``ip``, ``seeds``; ``sets`` of them) and the ``port`` to serve
them on, DIR/www has a folder of files for each. Every crawl is a process of its own, pinned to the first
processor, and the server to the second. The ways:

- memory, jobdir: Scrapy's scheduler
- plain: Scrapy's with `ScrapyPriorityQueue` and a ``JOBDIR``
- redis: scrapy-redis, where it is installed and a ``redis-server`` can be started
- scheduler: ``SCHEDULER`` is ours, with a ``JOBDIR``
- addon: the add-on, with a ``JOBDIR``: states, link graph, ranking, directives
- follow: the same, and a `FrontierSpider`: no request a link

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
from contextlib import ExitStack
from importlib.util import find_spec
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from scrapy_frontier import FrontierSpider

HOSTS = 20
LINKS = 50
SITE = 10_000  # pages there are
WORDS = ("river", "stone", "garden", "window", "paper", "summer", "market", "letter", "engine", "mirror")
ADDON = {"ADDONS": {"scrapy_frontier.Addon": 500}}
REDIS_PORT = 16379
WAYS: dict[str, tuple[bool, dict[str, Any]]] = {  # with a JOBDIR, settings
    "memory": (False, {}),
    "jobdir": (True, {}),
    "scheduler": (True, {"SCHEDULER": "scrapy_frontier.FrontierScheduler"}),
    "addon": (True, ADDON),
    "follow": (True, ADDON),
    "plain": (True, {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}),
    "redis": (
        False,
        {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "REDIS_URL": f"redis://127.0.0.1:{REDIS_PORT}",
            "SCHEDULER_FLUSH_ON_START": True,
        },
    ),
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
    rng = random.Random(page)
    parts = [f"<html><head><title>Page {page}</title></head><body>"]
    for _ in range(LINKS):
        target = rng.randrange(SITE)
        if rng.random() < 0.875:
            target = target // HOSTS * HOSTS + page % HOSTS
        href = url_of(target, port)
        href = href if target % HOSTS != page % HOSTS else "/" + href.split("/", 3)[3]
        text = " ".join(rng.choices(WORDS, k=20))
        parts.append(f'<div class="entry"><p>{text} <a href="{href}">{text[:20]}</a> {text}</p></div>')
    return "".join([*parts, "</body></html>"]).encode()


class Server(asyncio.Protocol):
    """Answers every GET with the page its path ends on, or with a file of the site its host names."""

    port = 0
    kept: dict[int, bytes] = {}
    sites: dict[str, Path] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, self.received = self.received.split(b"\r\n\r\n", 1)
            path = head.split(b" ", 2)[1].decode()
            found = self.file(head, path) if self.sites else self.made(path)
            status, kind, body = found or (b"404 Not Found", b"text/html", b"")
            head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
            self.transport.write(head % (status, kind, len(body)) + body)

    def made(self, path: str) -> tuple[bytes, bytes, bytes] | None:
        if not path.endswith(".html"):
            return None
        page = int(path.rpartition("-")[2][:-5])
        if page not in self.kept:
            self.kept[page] = body_of(page, self.port)
        return b"200 OK", b"text/html; charset=utf-8", self.kept[page]

    def file(self, head: bytes, path: str) -> tuple[bytes, bytes, bytes] | None:
        host = head.lower().partition(b"\nhost: ")[2].partition(b":")[0].decode()
        name = unquote(path.partition("?")[0]).lstrip("/")
        file = self.sites[host] / name
        if file.is_dir():
            file /= "index.html"
        if not file.is_file():
            return None
        return b"200 OK", (guess_type(file.name)[0] or "application/octet-stream").encode(), file.read_bytes()


def chosen_sites(given: argparse.Namespace) -> list[dict[str, Any]]:
    """The sites of the manifest that are asked for, by name or by the name of a set."""
    manifest = json.loads((given.folder / "manifest.json").read_text(encoding="utf-8"))
    names = manifest.get("sets", {}).get(given.sites) or given.sites.split(",")
    return [site for site in manifest["sites"] if given.sites == "all" or site["name"] in names]


async def serve(given: argparse.Namespace) -> None:
    port = 0
    if given.folder:
        sites = chosen_sites(given)
        Server.sites = {site["ip"]: given.folder / "www" / site["name"] for site in sites}
        port = json.loads((given.folder / "manifest.json").read_text(encoding="utf-8"))["port"]
        port = given.port or port
    server = await asyncio.get_running_loop().create_server(Server, "0.0.0.0", port)
    Server.port = server.sockets[0].getsockname()[1]
    print(Server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever began it is gone


class Timed(scrapy.Spider):
    """Takes the time of the processor, from the first callback to the last."""

    name = "site"
    seeds: list[str] = []
    items = False
    begin: tuple[float, int] | None = None
    end = (0.0, 0)
    seen = 0

    async def start(self) -> Any:
        for url in self.seeds:
            yield scrapy.Request(url)

    def parse(self, response: Any, **arguments: Any) -> Any:
        self.seen += 1
        self.end = (time.process_time(), self.seen)
        self.begin = self.begin or self.end
        if self.items:
            yield {"url": response.url}


class Site(Timed):
    """Yields a request for each link."""

    links = "css"
    extractor = LinkExtractor()

    def parse(self, response: Any, **arguments: Any) -> Any:
        yield from super().parse(response)
        if not isinstance(response, HtmlResponse):
            return
        if self.links == "extractor":
            for link in self.extractor.extract_links(response):
                yield scrapy.Request(link.url)
        else:
            for href in response.css("a::attr(href)").getall():
                yield scrapy.Request(response.urljoin(href))


class Followed(Timed, FrontierSpider):
    """Has them followed."""


def crawl(way: str, port: int, given: argparse.Namespace) -> None:
    """Crawl in this process and print milliseconds a page."""
    keeps, settings = WAYS[way]
    settings = {**SETTINGS, "CLOSESPIDER_PAGECOUNT": given.pages, **settings}
    settings.update(pair.split("=", 1) for pair in given.set)
    directory = tempfile.mkdtemp(prefix="spiders-")
    if keeps:
        settings["JOBDIR"] = directory
    told: dict[str, Any] = {"items": given.items, "seeds": [url_of(page, port) for page in range(HOSTS)]}
    if given.folder:
        sites = chosen_sites(given)
        told["seeds"] = [f"http://{site['ip']}:{port}{seed}" for site in sites for seed in site["seeds"]]
        told["allowed_domains"] = [site["ip"] for site in sites]
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Followed if way == "follow" else Site)
    process.crawl(crawler, links=given.links, **told)
    process.start()
    shutil.rmtree(directory)
    spider = crawler.spider
    assert isinstance(spider, Timed)
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
    parser.add_argument("--ways", default="memory,jobdir,scheduler,addon,follow")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--sites", default="all")
    parser.add_argument("--port", type=int, default=0, help="of the real sites, instead of the manifest's")
    parser.add_argument("--links", choices=("css", "extractor"), default="css")
    parser.add_argument("--items", action="store_true", help="yield an item a page as well")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--crawl", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.server:
        asyncio.run(serve(given))
        return
    if given.crawl:
        crawl(given.crawl[0], int(given.crawl[1]), given)
        return
    real = ["--folder", str(given.folder), "--sites", given.sites] if given.folder else []
    with ExitStack() as ends:
        ways = [way for way in given.ways.split(",") if way != "redis" or begin_redis(ends)]
        server = subprocess.Popen(
            pinned((os.cpu_count() or 2) - 1, "--server", *real, "--port", str(given.port)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        ends.callback(server.wait, 10)
        ends.callback(server.stdin.close)
        port = server.stdout.readline().decode().strip()
        compare(ways, port, given, real)


def begin_redis(ends: ExitStack) -> bool:
    """Start a redis-server until *ends*; false, and a line that says so, where scrapy-redis cannot run."""
    if find_spec("scrapy_redis") is None or shutil.which("redis-server") is None:
        print("redis: left out, scrapy-redis or a redis-server is not installed", flush=True)
        return False
    command = ["redis-server", "--port", str(REDIS_PORT), "--bind", "127.0.0.1", "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    ends.callback(server.wait, 10)
    ends.callback(server.terminate)
    time.sleep(1)
    return True


def compare(ways: list[str], port: str, given: argparse.Namespace, real: list[str]) -> None:
    taken: dict[str, list[float]] = {way: [] for way in ways}
    options = ["--pages", str(given.pages), "--links", given.links, *real]
    options += [f"--set={pair}" for pair in given.set] + ["--items"] * given.items
    for number in range(1 if real else 0, given.rounds + 1):  # 0 makes the server's pages, and does not count
        line = []
        for way in ways:
            command = pinned(0, "--crawl", way, port, *options)
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            if number:
                taken[way].append(found["ms"])
                over = taken[ways[0]][-1] / found["ms"]
                line.append(f"{way} {found['ms']:.2f} ms ({over:.2f}) {found['MB']} MB")
                line[-1] += "" if given.pages else f" {found['pages']} pages"
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
