"""Compares what spiders yield and what a server sees, by Scrapy's own scheduler and by the frontier.

    python benchmarks/same_items.py [NAME ...]

Each spider crawls a made site on loopback three times, in a process and a fresh directory of its own: over
Scrapy's scheduler, over ``SCHEDULER`` alone, and with the add-on. Compared are the items and the requests
that arrived, both without their order. Two things that differ on purpose are left out: no page links to a
start URL, which Scrapy would fetch a second time; and no page times out, for which the add-on has the host
rest. The exit code is the number of comparisons that differ.
"""

from __future__ import annotations

import base64
import csv
import dataclasses
import gzip
import io
import json
import multiprocessing
import os
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import scrapy
from scrapy import FormRequest, Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import CloseSpider, DontCloseSpider, DropItem
from scrapy.http import JsonRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, CSVFeedSpider, Rule, SitemapSpider, XMLFeedSpider

WAYS: dict[str, dict[str, Any]] = {
    "scrapy": {},
    "SCHEDULER": {"SCHEDULER": "scrapy_frontier.FrontierScheduler"},
    "add-on": {"ADDONS": {"scrapy_frontier.Addon": 500}},
}
SETTINGS = {
    "FRONTIER_ALLOW_PRIVATE": True,
    "ROBOTSTXT_OBEY": False,
    "LOG_LEVEL": "ERROR",
    "LOG_FILE": "log.txt",
    "RETRY_TIMES": 2,
    "TELNETCONSOLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "FRONTIER_COOLDOWN": 0.5,  # seconds a host rests after a 503,
    "FRONTIER_END_WAIT": 5,  # at most, after which what a host does not answer goes to its errback
}


def page(*links: str, extra: str = "") -> bytes:
    anchors = "".join(f'<a href="{link}">link to {link}</a>' for link in links)
    return f"<html><head><title>t</title></head><body>{extra}{anchors}</body></html>".encode()


class Site(BaseHTTPRequestHandler):
    """Answers by the path alone, but for ``/flaky``, which fails at its first visit."""

    protocol_version = "HTTP/1.1"
    arrived: list[str]
    visits: Counter[str]

    def log_message(self, *_: Any) -> None:
        """Says nothing of each request."""

    def send(self, body: bytes, status: int = 200, kind: str = "text/html", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(self) -> None:  # noqa: C901 - one branch a kind of page
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.arrived.append(f"{self.command} {self.path} {body.decode('latin-1')}")
        self.visits[self.path] += 1
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        top, _, rest = url.path.lstrip("/").partition("/")
        number = int(rest) if rest.isdigit() else 0
        cookie = self.headers.get("Cookie", "")
        if top == "":
            self.send(page(*(f"/a/{n}" for n in range(8))))
        elif top == "a":
            self.send(page(f"/b/{number}", f"/b/{number + 1}", f"/a/{(number + 1) % 8}"))
        elif top == "b":
            self.send(page(extra=f"<p>leaf {number}</p>"))
        elif top == "list":
            at = int(query.get("page", 1))
            self.send(page(f"/b/{at}", *([f"/list?page={at + 1}"] if at < 6 else [])))
        elif top == "api":
            at = json.loads(body)["page"]
            self.send(json.dumps({"page": at, "more": at < 5}).encode(), kind="application/json")
        elif top == "echo":
            said = [self.command, self.path, body.decode("latin-1"), self.headers.get("X-Mark", "")]
            self.send(json.dumps(said).encode(), kind="application/json")
        elif top == "form":
            fields = '<input name="user"><input type="hidden" name="token" value="7">'
            self.send(page(extra=f'<form method="post" action="/login">{fields}</form>'))
        elif top == "login":
            self.send(page("/private/1", "/private/2"), Set_Cookie=f"user={body.decode()[-3:]}; Path=/")
        elif top == "jar":
            self.send(page("/whoami"), Set_Cookie=f"name=n{number}; Path=/")
        elif top in {"private", "whoami"}:
            self.send(page(extra=f"<p>{cookie}</p>"), 200 if cookie else 403)
        elif top == "redirect":
            self.send(b"", 302, Location=f"/b/{number}")
        elif top == "chain":
            self.send(b"", 301, Location=f"/chain/{number - 1}" if number else "/b/0")
        elif top == "refresh":
            self.send(b'<html><head><meta http-equiv="refresh" content="0; url=/b/3"></head></html>')
        elif top == "status":
            self.send(page(extra=f"<p>{number}</p>"), number)
        elif top == "flaky":
            self.send(page(extra="<p>well</p>"), 503 if self.visits[self.path] == 1 else 200)
        elif top == "sitemap.xml":
            kind = '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
            self.send(f"{kind}<sitemap><loc>{self.at('/map.xml.gz')}</loc></sitemap></sitemapindex>".encode())
        elif top == "map.xml.gz":
            rows = "".join(f"<url><loc>{self.at(f'/b/{n}')}</loc></url>" for n in range(6))
            text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'
            self.send(gzip.compress(text.encode()), kind="application/gzip")
        elif top == "feed.xml":
            rows = "".join(f"<item><id>{n}</id><link>/b/{n}</link></item>" for n in range(6))
            self.send(f"<rss><channel>{rows}</channel></rss>".encode(), kind="application/xml")
        elif top == "data.csv":
            text = io.StringIO()
            csv.writer(text).writerows([["id", "link"], *([n, f"/b/{n}"] for n in range(6))])
            self.send(text.getvalue().encode(), kind="text/csv")
        elif top == "file":
            self.send(bytes(range(256)) * (number + 1), kind="application/octet-stream")
        elif top == "auth":
            right = "Basic " + base64.b64encode(b"me:secret").decode()
            self.send(b"in", 200 if self.headers.get("Authorization") == right else 401)
        elif top == "latin":
            self.send("<p>café</p>".encode("latin-1"), kind="text/html; charset=iso-8859-1")
        elif top == "gzip":
            self.send(gzip.compress(page("/b/1", "/b/2")), Content_Encoding="gzip")
        else:
            self.send(b"no such page", 404)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815

    def at(self, path: str) -> str:
        return f"http://{self.headers['Host']}{path}"


class Base(Spider):
    """A spider that starts at ``start`` of the site."""

    start_paths = ("/",)

    def __init__(self, site: str, **arguments: Any) -> None:
        self.site = site
        self.start_urls = [site + path for path in self.start_paths]
        super().__init__(**arguments)

    def of(self, response: Any, **more: Any) -> dict[str, Any]:
        return {"path": response.url.removeprefix(self.site), "status": response.status, **more}


SPIDERS: dict[str, type[Spider]] = {}


def spider(cls: type[Spider]) -> type[Spider]:
    cls.name = cls.__name__.lower()
    SPIDERS[cls.name] = cls
    return cls


@spider
class Follow(Base):
    def parse(self, response: Any) -> Any:
        yield self.of(response, depth=response.meta["depth"] > 0)
        yield from response.follow_all(css="a")


@spider
class FollowXPath(Base):
    def parse(self, response: Any) -> Any:
        yield self.of(response)
        for link in response.xpath("//a/@href"):
            yield response.follow(link, self.parse, meta={"from": response.url.removeprefix(self.site)})


@spider
class Rules(Base, CrawlSpider):
    rules = (
        Rule(LinkExtractor(allow="/a/"), follow=True),
        Rule(LinkExtractor(allow="/b/"), callback="parse_leaf", cb_kwargs={"kind": "leaf"}),
    )

    def parse_leaf(self, response: Any, kind: str) -> Any:
        yield self.of(response, kind=kind, text=response.meta["link_text"], rule=response.meta["rule"])


@spider
class RulesThatProcess(Base, CrawlSpider):
    rules = (
        Rule(LinkExtractor(), "parse_all", follow=True, process_links="fewer", process_request="marked"),
    )

    def fewer(self, links: Any) -> Any:
        return [link for link in links if not link.url.endswith("3")]

    def marked(self, request: Any, response: Any) -> Any:
        return request.replace(headers={"X-Mark": "1"}) if "/b/" in request.url else request

    def parse_all(self, response: Any) -> Any:
        yield self.of(response, mark=response.request.headers.get("X-Mark"))

    parse_start_url = parse_all


@spider
class Sitemap(SitemapSpider):
    sitemap_rules = [("/b/[0-3]", "parse_low"), ("/b/", "parse_high")]

    def __init__(self, site: str) -> None:
        self.sitemap_urls = [site + "/sitemap.xml"]
        super().__init__()

    def parse_low(self, response: Any) -> Any:
        yield {"low": response.css("p::text").get()}

    def parse_high(self, response: Any) -> Any:
        yield {"high": response.css("p::text").get()}


@spider
class Feed(Base, XMLFeedSpider):
    start_paths = ("/feed.xml",)
    itertag = "item"

    def parse_node(self, response: Any, node: Any) -> Any:
        yield {"id": node.xpath("id/text()").get()}
        yield response.follow(node.xpath("link/text()").get(), self.parse_leaf)

    def parse_leaf(self, response: Any) -> Any:
        yield self.of(response)


@spider
class Table(Base, CSVFeedSpider):
    start_paths = ("/data.csv",)

    def parse_row(self, response: Any, row: Any) -> Any:
        yield response.follow(row["link"], self.parse_leaf, cb_kwargs={"row": row})

    def parse_leaf(self, response: Any, row: Any) -> Any:
        yield self.of(response, **row)


@spider
class Pagination(Base):
    start_paths = ("/list",)

    def parse(self, response: Any, at: int = 1) -> Any:
        for link in response.css("a::attr(href)").getall():
            if "list" in link:
                yield response.follow(link, cb_kwargs={"at": at + 1})
            else:
                yield self.of(response, at=at, link=link)


@spider
class Api(Base):
    async def start(self) -> Any:
        yield JsonRequest(self.site + "/api", data={"page": 1})

    def parse(self, response: Any) -> Any:
        said = response.json()
        yield said
        if said["more"]:
            yield JsonRequest(response.url, data={"page": said["page"] + 1})


@spider
class Login(Base):
    start_paths = ("/form",)

    def parse(self, response: Any) -> Any:
        yield FormRequest.from_response(response, formdata={"user": "ann"}, callback=self.inside)

    def inside(self, response: Any) -> Any:
        yield from response.follow_all(css="a", callback=self.private)

    def private(self, response: Any) -> Any:
        yield self.of(response, text=response.css("p::text").get())


@spider
class CookieJars(Base):
    async def start(self) -> Any:
        for n in range(4):
            yield Request(f"{self.site}/jar/{n}", meta={"cookiejar": n})

    def parse(self, response: Any) -> Any:
        jar = {"cookiejar": response.meta["cookiejar"]}
        yield response.follow("/whoami", self.named, meta=jar, dont_filter=True)

    def named(self, response: Any) -> Any:
        yield self.of(response, jar=response.meta["cookiejar"], text=response.css("p::text").get())


@spider
class OwnCookies(Base):
    async def start(self) -> Any:
        for n in range(4):
            yield Request(
                f"{self.site}/whoami?{n}", cookies={"n": str(n)}, meta={"dont_merge_cookies": n > 2}
            )

    def parse(self, response: Any) -> Any:
        yield self.of(response, text=response.css("p::text").get())


class Book(scrapy.Item):
    title = scrapy.Field()
    leaf = scrapy.Field()


@spider
class CarriedItems(Base):
    def parse(self, response: Any) -> Any:
        for n, link in enumerate(response.css("a::attr(href)").getall()):
            book = Book(title=link)
            yield response.follow(f"/b/{n}", self.leaf, cb_kwargs={"book": book}, priority=-n)

    def leaf(self, response: Any, book: Book) -> Any:
        book["leaf"] = response.css("p::text").get()
        yield book


@dataclasses.dataclass
class Leaf:
    number: int
    text: str


@spider
class Dataclasses(Base):
    def parse(self, response: Any) -> Any:
        for n in range(5):
            yield response.follow(f"/b/{n}", self.leaf, meta={"leaf": Leaf(n, "")})

    def leaf(self, response: Any) -> Any:
        leaf = response.meta["leaf"]
        leaf.text = response.css("p::text").get()
        yield leaf


@spider
class Errbacks(Base):
    async def start(self) -> Any:
        for path in ("/status/404", "/status/500", "/b/1", "/status/410"):
            yield Request(self.site + path, errback=self.failed, meta={"mark": path})
        yield Request("http://127.0.0.1:9/", errback=self.failed, meta={"mark": "closed"})

    def parse(self, response: Any) -> Any:
        yield self.of(response)

    def failed(self, failure: Any) -> Any:
        yield {"failed": failure.request.meta["mark"], "with": failure.type.__name__}


@spider
class Statuses(Base):
    start_paths = ("/status/404", "/status/403", "/status/500", "/status/301", "/b/1")
    handle_httpstatus_list = [404, 301]

    def parse(self, response: Any) -> Any:
        yield self.of(response)


@spider
class AllStatuses(Base):
    custom_settings = {"HTTPERROR_ALLOW_ALL": True, "RETRY_ENABLED": False}
    start_paths = ("/status/404", "/status/403", "/status/500", "/status/429", "/b/1")

    def parse(self, response: Any) -> Any:
        yield self.of(response)


@spider
class SameAgain(Base):
    start_paths = ("/b/1",)

    def parse(self, response: Any, left: int = 4) -> Any:
        yield self.of(response, left=left)
        if left:
            yield response.request.replace(dont_filter=True, cb_kwargs={"left": left - 1})


@spider
class OwnRetries(Base):
    def parse(self, response: Any) -> Any:
        again = get_retry_request(response.request, spider=self, reason="not yet")
        yield again or self.of(response, times=response.meta["retry_times"])


@spider
class Flaky(Base):
    start_paths = tuple(f"/flaky/{n}" for n in range(5))

    def parse(self, response: Any) -> Any:
        yield self.of(response)


@spider
class Redirects(Base):
    start_paths = ("/redirect/1", "/redirect/2", "/chain/4", "/refresh")

    def parse(self, response: Any) -> Any:
        was = [url.removeprefix(self.site) for url in response.meta["redirect_urls"]]
        yield self.of(response, was=was, times=response.meta["redirect_times"])


@spider
class NoRedirects(Base):
    async def start(self) -> Any:
        for path in ("/redirect/1", "/chain/2"):
            meta = {"dont_redirect": True, "handle_httpstatus_list": [301, 302]}
            yield Request(self.site + path, meta=meta)

    def parse(self, response: Any) -> Any:
        yield self.of(response, to=response.headers["Location"])


@spider
class Downloads(Base):
    async def parse(self, response: Any) -> Any:
        for n in range(3):
            inner = await self.crawler.engine.download_async(Request(f"{self.site}/b/{n}?inner"))
            yield self.of(inner)


@spider
class AsyncCallback(Base):
    async def parse(self, response: Any) -> Any:
        import asyncio

        await asyncio.sleep(0.01)
        yield self.of(response)
        for link in response.css("a"):
            yield response.follow(link)


@spider
class WhenIdle(Base):
    start_paths = ("/b/0",)

    @classmethod
    def from_crawler(cls, crawler: Any, *arguments: Any, **named: Any) -> Any:
        made = super().from_crawler(crawler, *arguments, **named)
        crawler.signals.connect(made.more, signals.spider_idle)
        made.left = 5
        return made

    def more(self) -> None:
        if self.left:
            self.crawler.engine.crawl(Request(f"{self.site}/b/{self.left}"))
            self.left -= 1
            raise DontCloseSpider

    def parse(self, response: Any) -> Any:
        yield self.of(response)


@spider
class Methods(Base):
    async def start(self) -> Any:
        for method in ("GET", "POST", "PUT", "DELETE"):
            yield Request(self.site + "/echo", method=method, body="x=1", headers={"X-Mark": method})
        yield Request(self.site + "/echo?head", method="HEAD")

    def parse(self, response: Any) -> Any:
        yield self.of(response, method=response.request.method, said=response.text)


@spider
class Forms(Base):
    async def start(self) -> Any:
        for word in ("one", "two", "one"):
            yield FormRequest(self.site + "/echo", formdata={"word": word})

    def parse(self, response: Any) -> Any:
        yield {"said": response.json()}


@spider
class Queries(Base):
    async def start(self) -> Any:
        for query in ("?b=2&a=1", "?a=1&b=2", "?a=1&b=2#part", "?a=", "", "?%7e=%C3%A9"):
            yield Request(self.site + "/echo" + query)

    def parse(self, response: Any) -> Any:
        yield {"a": "a=1" in response.url, "length": len(response.text)}


@spider
class DepthLimit(Base):
    custom_settings = {"DEPTH_LIMIT": 1}

    def parse(self, response: Any) -> Any:
        yield self.of(response, depth=response.meta["depth"])
        yield from response.follow_all(css="a")


class Odd:
    def process_item(self, item: Any) -> Any:
        if item["number"] % 2:
            raise DropItem("odd")
        return item


@spider
class Pipelines(Base):
    custom_settings = {"ITEM_PIPELINES": {Odd: 1}}
    start_paths = tuple(f"/b/{n}" for n in range(8))

    def parse(self, response: Any) -> Any:
        yield {"number": int(response.url.rsplit("/", 1)[1])}


@spider
class Files(Base):
    custom_settings = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": "files",
    }

    def parse(self, response: Any) -> Any:
        yield {"file_urls": [f"{self.site}/file/{n}" for n in range(3)] + [self.site + "/none"]}

    @staticmethod
    def plain(item: Any) -> Any:
        return [(file["checksum"], file["status"]) for file in item["files"]]


@spider
class Closes(Base):
    start_paths = ("/b/1",)

    def parse(self, response: Any) -> Any:
        yield self.of(response)
        raise CloseSpider("enough")


@spider
class Lambdas(Base):
    def parse(self, response: Any) -> Any:
        for n in range(5):
            yield response.follow(f"/b/{n}", callback=lambda response, n=n: iter([self.of(response, n=n)]))


@spider
class Arguments(Base):
    def parse(self, response: Any) -> Any:
        yield self.of(response, lock=threading.Lock().locked())
        yield response.follow("/b/1", self.leaf, meta={"lock": threading.Lock()})

    def leaf(self, response: Any) -> Any:
        yield self.of(response, lock=response.meta["lock"].locked())


@spider
class Offsite(Base):
    allowed_domains = ["127.0.0.1"]

    def parse(self, response: Any) -> Any:
        yield self.of(response)
        yield Request("http://localhost:1/never")
        yield response.follow("/b/1")


@spider
class Authentication(Base):
    start_paths = ("/auth",)
    custom_settings = {"HTTPAUTH_USER": "me", "HTTPAUTH_PASS": "secret", "HTTPAUTH_DOMAIN": None}

    def parse(self, response: Any) -> Any:
        yield self.of(response)


@spider
class Encodings(Base):
    start_paths = ("/latin", "/gzip")

    def parse(self, response: Any) -> Any:
        yield self.of(response, text=response.css("p::text").get(), encoding=response.encoding)
        yield from response.follow_all(css="a")


@spider
class OtherSchemes(Base):
    async def start(self) -> Any:
        yield Request("data:text/html,<p>in line</p>")
        file = Path("page.html").resolve()
        file.write_text("<p>on disk</p>")
        yield Request(file.as_uri())

    def parse(self, response: Any) -> Any:
        yield {"text": response.css("p::text").get()}


@spider
class NotFiltered(Base):
    custom_settings = {"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}

    async def start(self) -> Any:
        for _ in range(3):
            yield Request(self.site + "/b/1")

    def parse(self, response: Any) -> Any:
        yield self.of(response)


@spider
class Inherited(Follow):
    def parse(self, response: Any) -> Any:
        for result in super().parse(response):
            yield {**result, "own": True} if isinstance(result, dict) else result


@spider
class Raises(Base):
    def parse(self, response: Any) -> Any:
        yield self.of(response)
        yield from response.follow_all(css="a")
        raise ValueError("after its links")


def crawl(name: str, site: str, way: str, pipe: Any) -> None:
    folder = tempfile.mkdtemp(prefix="same-items-")
    os.chdir(folder)
    kind, items = SPIDERS[name], []
    process = AsyncCrawlerProcess({**SETTINGS, **WAYS[way]})
    crawler = process.create_crawler(kind)
    plain = getattr(kind, "plain", lambda item: dict(item) if isinstance(item, scrapy.Item | dict) else item)
    crawler.signals.connect(lambda item: items.append(repr(plain(item))), signals.item_scraped, weak=False)
    process.crawl(crawler, site=site)
    process.start()
    pipe.send((Counter(items), crawler.stats.get_value("finish_reason")))


def run(name: str, way: str) -> tuple[Counter[str], Counter[str], str]:
    handler = type("Fresh", (Site,), {"arrived": [], "visits": Counter()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://127.0.0.1:{server.server_port}"
    mine, its = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=crawl, args=(name, site, way, its))
    child.start()
    said = mine.recv() if mine.poll(150) else (Counter({"nothing within 150 s": 1}), "stuck")
    child.kill()
    child.join()
    server.shutdown()
    items = Counter({item.replace(site, ""): n for item, n in said[0].items()})
    return items, Counter(line.replace(site, "") for line in handler.arrived), said[1]


def main() -> int:
    differ = 0
    for name in sys.argv[1:] or SPIDERS:
        items, arrived, reason = run(name, "scrapy")
        words = [f"{name:18s} {items.total():4d} items {arrived.total():4d} requests"]
        for way in ("SCHEDULER", "add-on"):
            now = run(name, way)
            same = now == (items, arrived, reason)
            words.append(f"{way}: {'same' if same else 'DIFFERS'}")
            if not same:
                for old, new, what in ((items, now[0], "items"), (arrived, now[1], "requests")):
                    words.append(f"\n    {what} missing {dict(old - new)} more {dict(new - old)}")
                words.append(f"\n    {reason} {now[2]}")
            differ += not same
        print(*words, flush=True)
    return differ


if __name__ == "__main__":
    sys.exit(main())
