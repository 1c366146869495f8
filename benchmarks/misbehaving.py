"""A crawl beside hosts that do everything wrong: does it end, stay small, and leave the good hosts alone?

    python benchmarks/misbehaving.py [--seconds 600] [--only slow,wide] [--no-stock] [--set NAME=VALUE]

Thirty hosts on loopback misbehave, each in a way of its own (`hostile.TRICKS`), three behave. The good ones
are crawled alone first, then beside the others, with the add-on, FRONTIER_SITEMAPS and a budget of 300 pages
a host and domain (a calendar without end is endless without one), in a process of its own; then the same
with Scrapy's own scheduler and nothing of ours, for a minute each at most.
Printed: how each crawl ended (*by itself* is what is wanted; after --seconds it is stopped), its peak of
memory, what each host saw, what was fetched that must not be, and how much later the good hosts' pages came.
The exit code is 0 where the crawl ended by itself, below 400 MB, with every good page and nothing forbidden.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import scrapy
from hostile import GOOD_PAGES, TOLD_NOT_TO, TRICKS, Web, address_of
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.defer import Deferred, succeed

GOOD = [f"127.9.1.{number}" for number in range(1, 4)]
MOST_MEMORY = 400  # MB
STOCK_SECONDS = 60
SETTINGS = {
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
    "DOWNLOAD_TIMEOUT": 10,
    "DOWNLOAD_DELAY": 0.1,  # or one processor is what the hosts share, whoever schedules them
    "DOWNLOAD_MAXSIZE": 10_000_000,  # Scrapy's default, 1 GiB, is a whole crawl's memory in one page
    "DOWNLOAD_WARNSIZE": 0,
    "RETRY_TIMES": 1,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "LOG_LEVEL": "ERROR",
    "DNS_RESOLVER": "misbehaving.Resolver",
}
OURS = {
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "FRONTIER_SITEMAPS": True,
    "FRONTIER_HOST_PAGES": 300,
    "FRONTIER_END_WAIT": 30,  # or it takes four minutes longer
}


class Resolver(CachingThreadedResolver):
    """Knows where the sub-domains without end are served, and asks nobody."""

    def getHostByName(self, name: str, timeout: Any = ()) -> Deferred[str]:  # noqa: N802 - Twisted's name
        return succeed(address_of(name))


class EagerSpider(scrapy.Spider):
    """Follows every link of every page."""

    name = "eager"

    def parse(self, response: scrapy.http.Response) -> Any:
        if isinstance(response, scrapy.http.TextResponse):
            for href in response.css("a::attr(href)").getall():
                with contextlib.suppress(ValueError):  # no URL
                    yield response.follow(href)


def child(urls: list[str], settings: dict[str, Any]) -> None:
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(EagerSpider)
    process.crawl(crawler, start_urls=urls)
    process.start()
    assert crawler.stats
    print(json.dumps({**crawler.stats.get_stats(), "cpu": time.process_time()}, default=str))


def peak_of(pid: int) -> float:
    """The most memory a process had so far, in MB; 0 where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if "VmHWM" in line), 0.0)


def crawl(web: Web, hosts: list[str], seconds: float, more: dict[str, Any]) -> dict[str, Any]:
    """Crawl *hosts* in a process of its own; what became of it."""
    del web.visits[:]
    with tempfile.TemporaryDirectory() as directory:
        settings = {**SETTINGS, "FRONTIER_DIR": f"{directory}/f", "CLOSESPIDER_TIMEOUT": seconds, **more}
        urls = [f"http://{host}:{web.port}/" for host in hosts]
        command = [sys.executable, __file__, "--child", json.dumps([urls, settings])]
        log = Path(directory) / "log"
        begin = time.monotonic()
        with log.open("wb") as errors, (Path(directory) / "stats").open("w+") as stats:
            process = subprocess.Popen(command, stdout=stats, stderr=errors, env=os.environ)
            peak = 0.0
            for _ in itertools.takewhile(lambda _: process.poll() is None, itertools.count()):
                peak = max(peak, peak_of(process.pid))
                if time.monotonic() - begin > seconds + 60:
                    process.kill()
                time.sleep(0.1)
            stats.seek(0)
            lines = stats.read().splitlines()
        found = json.loads(lines[-1]) if lines else {"finish_reason": f"exit code {process.returncode}"}
        errors_logged = log.read_text(errors="replace").count("Traceback")
    return {
        "reason": found["finish_reason"],
        "seconds": time.monotonic() - begin,
        "peak": peak,
        "tracebacks": errors_logged,
        "stats": found,
        "visits": list(web.visits),
    }


def good_times(result: dict[str, Any]) -> tuple[int, float]:
    """Pages the good hosts were asked for, and the seconds from the first to the last."""
    times = [
        when for when, name, path in result["visits"] if name in GOOD and not path.endswith(("txt", "xml"))
    ]
    return len(times), max(times, default=0.0) - min(times, default=0.0)


def summary(name: str, alone: dict[str, Any], beside: dict[str, Any]) -> None:
    for title, result in ((f"{name}, good hosts alone", alone), (f"{name}, all hosts", beside)):
        ended = "by itself" if result["reason"] == "finished" else f"stopped ({result['reason']})"
        cpu = result["stats"].get("cpu", 0.0)
        print(f"{title:34}{ended}, {result['seconds']:.1f} s ({cpu:.1f} s CPU), peak {result['peak']:.0f} MB")
    (before, seconds_before), (after, seconds_after) = good_times(alone), good_times(beside)
    ratio = seconds_after / seconds_before if seconds_before else 0.0
    times = f"{before} in {seconds_before:.1f} s alone, {after} in {seconds_after:.1f} s beside"
    print(f"{name + ', good pages':34}{times}: {ratio:.1f} times as long")


def report(beside: dict[str, Any], web: Web) -> bool:
    """What each host saw, and the facts; whether all of them are as wanted."""
    print(f"{'host':15}{'requests':>9}  {'told not to':>11}  first paths")
    forbidden = 0
    for name in web.hosts:
        paths = [path for _, visited, path in beside["visits"] if visited == name]
        wrong = len(TOLD_NOT_TO[name](paths)) if name in TOLD_NOT_TO else 0
        forbidden += wrong
        print(f"{name:15}{len(paths):>9}  {wrong:>11}  {' '.join(path[:24] for path in paths[:5])}")
    pages = len(GOOD) * GOOD_PAGES
    facts = {
        "ended by itself": beside["reason"] == "finished",
        f"peak {beside['peak']:.0f} MB, below {MOST_MEMORY}": beside["peak"] < MOST_MEMORY,
        f"{forbidden} requests that were forbidden": not forbidden,
        f"{good_times(beside)[0]} of {pages} good pages": good_times(beside)[0] == pages,
        f"{beside['stats'].get('frontier/errors', 0)} errors of the frontier": not beside["stats"].get(
            "frontier/errors"
        ),
    }
    for fact, is_so in facts.items():
        print(f"{'ok  ' if is_so else 'FAIL'}  {fact}")
    return all(facts.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600, help="stop a crawl that has not ended by then")
    parser.add_argument("--only", default=",".join(TRICKS), help=f"of {', '.join(TRICKS)}")
    parser.add_argument("--no-stock", action="store_true", help="do not crawl with Scrapy's own scheduler")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a Scrapy setting")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*json.loads(options.child))
        return
    web = Web(options.only.split(","), GOOD)
    more = dict(pair.split("=", 1) for pair in options.set)
    every = [*web.hosts.values(), *GOOD]
    alone = crawl(web, GOOD, options.seconds, {**OURS, **more})
    beside = crawl(web, every, options.seconds, {**OURS, **more})
    summary("frontier", alone, beside)
    if not options.no_stock:
        stock = crawl(web, GOOD, STOCK_SECONDS, more)
        summary("Scrapy", stock, crawl(web, every, STOCK_SECONDS, more))
    if not report(beside, web):
        sys.exit(1)


if __name__ == "__main__":
    main()
