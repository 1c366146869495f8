"""One spider for both webs: the small one of the demo, and the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.utils.defer import deferred_from_coro

from demo_project.server import has_loopbacks
from demo_project.web import SITES, Web
from scrapy_frontier.crawl.scrapy_internals import fail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure
    from typing_extensions import Self


class DemoSpider(Spider):
    """Follows every link and yields an item a page.

    ``-a seeds=URL[,URL]`` starts from these pages instead of the demo's own web, and stays on their hosts
    (and subdomains of these) unless ``-a offsite=1``.
    """

    name = "demo"
    web: Web | None = None  # the demo's own, where that is crawled
    refusal = ""  # why this crawl cannot be; it ends before its first request then

    def __init__(self, seeds: str | None = None, offsite: str = "0", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.seeds = [] if seeds is None else [seed.strip() for seed in seeds.split(",")]
        self.links = LinkExtractor()
        bad = next((seed for seed in self.seeds if not _host(seed)), None)
        if bad is not None:
            self.refusal = f"{bad!r} is not a URL. Write -a seeds=https://example.com/[,URL]"
        elif offsite.lower() in ("", "0", "no", "false"):
            self.allowed_domains = sorted({_host(seed) for seed in self.seeds})

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if not spider.seeds:
            one_address = crawler.settings.getbool("DEMO_ONE_ADDRESS") or not has_loopbacks()
            web = spider.web = Web(crawler.settings.getint("DEMO_PORT"), one_address)
            spider.seeds = [web.url("hub/")]
            spider.allowed_domains = sorted({_host(web.url(f"{site.name}/")) for site in SITES})
        return spider

    async def start(self) -> AsyncIterator[Request]:
        for seed in [] if self.refusal else self.seeds:
            yield Request(seed, dont_filter=True, errback=self.missed)
        if self.refusal:
            self.logger.error(self.refusal)
            fail(self.crawler)
            engine = self.crawler.engine
            assert engine is not None
            deferred_from_coro(engine.close_spider_async(reason="refused"))

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Request]:
        links = self.links.extract_links(response) if isinstance(response, HtmlResponse) else []
        yield {
            "url": response.url,
            "title": _title(response),
            "depth": response.meta.get("depth", 0),
            "links": len(links),
        }
        for link in links:
            yield Request(link.url, errback=self.missed)

    def missed(self, failure: Failure) -> None:
        """Say in a line what Scrapy would say in a traceback; the summary counts it."""
        self.logger.info("Missed %s: %s", failure.request.url, failure.getErrorMessage())  # type: ignore[attr-defined]


def _title(response: Response) -> str:
    if not isinstance(response, HtmlResponse):
        return ""
    return " ".join((response.css("title::text").get() or "").split())


def _host(url: str) -> str:
    """The host of an http(s) URL; empty if *url* is none."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in ("http", "https") and parts.port != 0 else ""
    except ValueError:
        return ""
