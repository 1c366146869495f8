"""The extension that serves the small web for as long as it is crawled."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from scrapy import signals

from demo_project.server import WebServer

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from demo_project.web import Web


class DemoWeb:
    """Serves the spider's ``web``, if it has one; where that fails, the spider's ``refusal`` says why."""

    def __init__(self) -> None:
        self.server: WebServer | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls()
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        web: Web | None = getattr(spider, "web", None)
        if web is None:
            return
        try:
            self.server = WebServer(web)
        except OSError as error:
            spider.refusal = _explain(error, web)  # type: ignore[attr-defined]
        else:
            self.server.start()

    def spider_closed(self) -> None:
        if self.server is not None:
            self.server.stop()


def _explain(error: OSError, web: Web) -> str:
    reason = "is taken (another demo?)" if error.errno == errno.EADDRINUSE else f"fails: {error.strerror}"
    other = web.port + 10
    return f"Cannot serve the demo web: port {web.port} {reason}. Choose another with -s DEMO_PORT={other}"
