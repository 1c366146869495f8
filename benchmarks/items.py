"""Items that a spider finds soon, with and without ``FRONTIER_REWARD = "items"``: real pages, in Scrapy.

The spider knows nothing of us: it follows every link and yields an item for each page about the topic.
Both crawls stop after the same number of pages, each a process of its own; ratios are of their items.

    python benchmarks/items.py FOLDER [--sites small] [--pages 761] [--delay 0] [TOPIC ...]

FOLDER as for ``real_pages.py``, which has the topics too; ``spiders.py`` serves it, on the port of its
manifest. A tenth of the pages are 761 of the set ``small``, and 6,277 of all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import scrapy
from real_pages import TOPICS
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from spiders import ADDON, SETTINGS, chosen_sites

SERVER = Path(__file__).with_name("spiders.py")


class Finder(scrapy.Spider):
    """Yields an item for each page about the topic."""

    name = "finder"
    topic = ""
    extractor = LinkExtractor()

    def parse(self, response: Any) -> Any:
        if not isinstance(response, HtmlResponse):
            return
        least, phrases = TOPICS[self.topic]
        texts = response.xpath("//text()[not(parent::script or parent::style)]").getall()
        text = " ".join(" ".join(texts).lower().split())
        if sum(map(text.count, phrases)) >= least:
            yield {"url": response.url}
        for link in self.extractor.extract_links(response):
            yield scrapy.Request(link.url)


def crawl(given: argparse.Namespace, port: int) -> None:
    """Crawl in this process and print the number of items."""
    with tempfile.TemporaryDirectory(prefix="items-") as directory:
        settings = {**SETTINGS, **ADDON, "CLOSESPIDER_PAGECOUNT": given.pages, "JOBDIR": directory}
        settings |= {"FRONTIER_REWARD": given.reward, "DOWNLOAD_DELAY": given.delay}
        process = AsyncCrawlerProcess(settings)
        crawler = process.create_crawler(Finder)
        sites = chosen_sites(given)
        seeds = [f"http://{site['ip']}:{port}{seed}" for site in sites for seed in site["seeds"]]
        hosts = [site["ip"] for site in sites]
        process.crawl(crawler, topic=given.topics[0], start_urls=seeds, allowed_domains=hosts)
        process.start()
    assert crawler.stats is not None
    print(crawler.stats.get_value("item_scraped_count", 0))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--sites", default="small")
    arguments.add_argument("--pages", type=int, default=761)
    arguments.add_argument("--delay", type=float, default=0.0)
    arguments.add_argument("--reward", default="", help=argparse.SUPPRESS)
    arguments.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    arguments.add_argument("topics", nargs="*", default=["regular expressions", "deprecated", "transactions"])
    given = arguments.parse_intermixed_args()
    if given.reward:
        crawl(given, given.port)
        return
    command = [sys.executable, str(SERVER), "--server", "--folder", str(given.folder), "--sites", given.sites]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = server.stdout.readline().decode().strip()
        options = ["--sites", given.sites, "--pages", str(given.pages), "--delay", str(given.delay)]
        for topic in given.topics:
            items = []
            for reward in ("score", "items"):
                command = [sys.executable, __file__, str(given.folder), *options, "--port", port]
                command += ["--reward", reward, topic]
                items.append(int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
            ratio = items[1] / max(items[0], 1)
            print(f"{topic:20} without {items[0]:5}  with {items[1]:5}  {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
