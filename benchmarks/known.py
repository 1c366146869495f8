"""How many known links a second a `FrontierSpider` takes in, from the page's tree to the edges of the graph.

    python benchmarks/known.py [--links 2000] [--pages 30]

A crawl on loopback whose pages all link the same pages. Taken is the processor's time for the links of a
page, in the middle: all of it, the parsing of the page, and the rest.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerProcess

from scrapy_frontier import FrontierSpider
from scrapy_frontier.crawl import link_extractor
from scrapy_frontier.crawl.bulk_follow import PageFollowing

if TYPE_CHECKING:
    from collections.abc import Iterator

taken: dict[str, list[float]] = {"all": [], "parsing": []}


class Site(BaseHTTPRequestHandler):
    body = b""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class Known(FrontierSpider):
    name = "known"


def watch() -> None:
    """Have the time of each page noted."""
    end, root = PageFollowing.end, link_extractor.tree_of

    def timed_end(self: PageFollowing) -> Iterator[None]:
        begin = time.thread_time()
        yield from end(self)
        taken["all"].append(time.thread_time() - begin)

    def timed_root(response: Any) -> Any:
        begin = time.thread_time()
        found = root(response)
        taken["parsing"].append(time.thread_time() - begin)
        return found

    PageFollowing.end = timed_end  # type: ignore[method-assign]
    link_extractor.tree_of = timed_root


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--links", type=int, default=2000)
    parser.add_argument("--pages", type=int, default=30)
    given = parser.parse_args()
    Site.body = "".join(f'<p><a href="/a/page-{n}.html">x {n}</a></p>' for n in range(given.links)).encode()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    watch()
    settings = {"LOG_LEVEL": "ERROR", "CONCURRENT_REQUESTS": 1, "CLOSESPIDER_PAGECOUNT": given.pages}
    settings.update(TELNETCONSOLE_ENABLED=False, REMOTE_CONTROL_ENABLED=False)
    with tempfile.TemporaryDirectory() as directory:
        process = AsyncCrawlerProcess({**settings, "JOBDIR": directory})
        process.crawl(Known, start_urls=[f"http://127.0.0.1:{server.server_address[1]}/a/index.html"])
        process.start()
    server.shutdown()
    whole, parsing = (statistics.median(taken[name][3:]) for name in ("all", "parsing"))
    print(f"parsing {parsing * 1e6:.0f} us a page, the rest {(whole - parsing) * 1e6:.0f} us")
    print(f"{given.links / (whole - parsing):.0f} known links a second")


if __name__ == "__main__":
    main()
