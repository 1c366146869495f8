"""A crawl beside hosts that do everything wrong: does it end, stay small, and leave the good hosts alone?

    python benchmarks/misbehaving.py [--seconds 60] [--only slow,traps] [--set NAME=VALUE ...]

Sixteen hosts on loopback misbehave, each in a way of its own (`TRICKS`), three behave. The good ones are
crawled alone first, then beside the others, with the add-on and FRONTIER_SITEMAPS, in a process of its own.
Printed: how each crawl ended (*by itself* is what is wanted; after --seconds it is stopped), its peak of
memory, what each host saw, what was fetched that must not be, and how much later the good hosts' pages came.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = [f"127.9.1.{number}" for number in range(1, 4)]
GOOD_PAGES = 150
LATENCY = 0.02  # seconds a good host takes to answer
SETTINGS = {
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "FRONTIER_SITEMAPS": True,
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
    "DOWNLOAD_TIMEOUT": 10,
    "DOWNLOAD_MAXSIZE": 20_000_000,  # Scrapy's default, 1 GiB, is a whole crawl's memory in one page
    "DOWNLOAD_WARNSIZE": 0,
    "RETRY_TIMES": 1,
    "FRONTIER_RETRY_DELAY": 0.5,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "LOG_LEVEL": "ERROR",
}


class Visit:
    """A request as a server meets it; a trick answers on *writer* whatever it likes."""

    def __init__(self, host: str, path: str, writer: asyncio.StreamWriter, port: int) -> None:
        self.host, self.path, self.writer, self.port = host, path, writer, port

    @property
    def number(self) -> int:
        """The last number in the path."""
        return int((re.findall(r"\d+", self.path) or ["0"])[-1])

    def url(self, path: str) -> str:
        return f"http://{self.host}:{self.port}{path}"

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes = b"", status: str = "200 OK", **headers: str) -> None:
        given = {"content_type": "text/html", "content_length": str(len(body)), **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items()]
        await self.raw("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body)

    async def link(self, *paths: str) -> None:
        await self.answer("".join(f'<a href="{path}">.</a>' for path in paths).encode())

    async def redirect(self, location: str) -> None:
        await self.answer(status="302 Found", location=location)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


# -- the tricks: each answers one request --------------------------------------------------------------


async def good(visit: Visit) -> None:
    await asyncio.sleep(LATENCY)
    if visit.path in ("/sitemap.xml", "/sitemap_index.xml"):
        await visit.answer(status="404 Not Found")
    else:
        number = visit.number
        await visit.link(*(f"/{n}" for n in (2 * number + 1, 2 * number + 2) if n < GOOD_PAGES))


async def calendar(visit: Visit) -> None:
    """Every day has a next day and a next year."""
    await visit.link(f"/day/{visit.number + 1}", f"/day/{visit.number + 365}")


async def deep(visit: Visit) -> None:
    """Relative links that lead ever deeper, and a directory that repeats itself."""
    path = visit.path.rstrip("/")
    await visit.link(f"{path}/more/", f"{path}/other/", f"/a{path}/")


async def sessions(visit: Visit) -> None:
    """The same three pages under a new session each time."""
    await visit.link(*(f"/page{n}?sid={random.getrandbits(64):x}" for n in range(3)))


async def redirects(visit: Visit) -> None:
    """Circles, a chain without end, one that grows."""
    targets = {"/self": "/self", "/ping": "/pong", "/pong": "/ping"}
    if visit.path in ("/sitemap.xml", "/sitemap_index.xml"):
        await visit.answer(status="404 Not Found")
    elif visit.path == "/":
        await visit.link("/self", "/ping", "/chain/0", "/grow?x=1")
    elif visit.path in targets:
        await visit.redirect(targets[visit.path])
    elif visit.path.startswith("/chain"):
        await visit.redirect(f"/chain/{visit.number + 1}")
    else:
        await visit.redirect(f"{visit.path}&x={visit.number}")


NOWHERE = (
    "", "http://", "http://[::1", "///", "javascript:alert(1)", "mailto:a@b", "http://a b/", "//\x7f\x80",
    "ftp://127.0.0.1/", "file:///etc/passwd", "http://127.9.0.1:99999/", "http://" + "a" * 300 + "/",
    "?" + "x" * 70_000,
)  # fmt: skip


async def nowhere(visit: Visit) -> None:
    """Redirects that lead to no URL."""
    if visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(len(NOWHERE) + 1)))
    elif visit.number < len(NOWHERE):
        location = NOWHERE[visit.number].encode("latin-1")
        await visit.raw(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n")
    else:
        await visit.answer(status="302 Found")


def _bomb() -> bytes:
    deflate = zlib.compressobj(9, wbits=31)
    return b"".join([*(deflate.compress(b"<p>" * 100_000) for _ in range(1_000)), deflate.flush()])


_BOMB = _bomb()


async def bombs(visit: Visit) -> None:
    """300 MB of nothing in 300 kB, as page and as sitemap; a billion laughs."""
    if visit.path == "/":
        await visit.link("/bomb")
    elif visit.path == "/sitemap_index.xml":
        laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
        body = f'<!DOCTYPE urlset [<!ENTITY l0 "lol">{laughs}]><urlset><url><loc>&l11;</loc></url></urlset>'
        await visit.answer(body.encode(), content_type="text/xml")
    elif visit.path == "/sitemap.xml":
        await visit.answer(_BOMB, content_type="application/gzip")
    else:
        await visit.answer(_BOMB, content_encoding="gzip")


async def slow(visit: Visit) -> None:
    """A byte a second, for ever: bodies, headers."""
    if visit.path == "/":
        await visit.link(*(f"/body/{n}" for n in range(5)), *(f"/head/{n}" for n in range(5)))
        return
    if visit.path.startswith("/body"):
        await visit.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n")
    while True:
        await visit.raw(b"x")
        await asyncio.sleep(1)


async def resets(visit: Visit) -> None:
    """RST before the answer, in the headers, in the body; a length that is a lie."""
    if visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(1, 13)))
        return
    parts = (b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")
    await visit.raw(parts[visit.number % 3])
    visit.reset()


async def endless(visit: Visit) -> None:
    """Bodies without end, with and without chunks, as fast as they are taken."""
    if visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(1, 5)))
        return
    is_chunked = visit.number % 2
    await visit.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
    await visit.raw(b"Transfer-Encoding: chunked\r\n\r\n" if is_chunked else b"Connection: close\r\n\r\n")
    block = b"<p>and so on</p>" * 4096
    data = b"%x\r\n%b\r\n" % (len(block), block) if is_chunked else block
    while True:
        await visit.raw(data)


async def wide(visit: Visit) -> None:
    """A page with 100,000 links."""
    if visit.path == "/":
        await visit.link(*(f"/item/{number}" for number in range(100_000)))
    else:
        await visit.answer()


GARBAGE = (
    (b"caf\xe9 \xff\xfe\x00\x80" * 500, {"content_type": "text/html; charset=utf-8"}),
    (b"\xd8\x00" * 5001, {"content_type": "text/html; charset=utf-16"}),
    ("<a href='/ä'>ä</a>".encode("utf-16"), {"content_type": "text/html; charset=no-such-thing"}),
    (b"\x00" * 10_000, {"content_type": "text/html"}),
    (b"<a" * 100_000, {"content_type": "text/html"}),
    (b"<div>" * 100_000, {"content_type": "text/html"}),
    (b"no gzip at all", {"content_encoding": "gzip"}),
    (b"whatever", {"content_encoding": "gzip, br, deflate, zstd, x"}),
    (b"\x89PNG\r\n", {"content_type": "text/html"}),
    (b"<base href='http://[::1'><a href='x'>", {"content_type": "text/html"}),
    (b"<a href='http://\xff\xfe.example/&#0;'><a href='http://:99999/'>", {"content_type": "text/html"}),
)


async def garbage(visit: Visit) -> None:
    """Encodings, markup and compression that are not what they say."""
    if visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(len(GARBAGE) + 3)))
    elif visit.number < len(GARBAGE):
        body, headers = GARBAGE[visit.number]
        await visit.answer(body, **headers)
    else:
        broken = b"zz\r\nno chunk\r\n", b"ffffffffffffffffffff\r\n", b"5\r\nhel"
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        await visit.raw(head + broken[visit.number % 3])
        visit.writer.close()


async def headers(visit: Visit) -> None:
    """A header line of a megabyte, 50,000 of them, cookies without end, no HTTP at all."""
    heads = (
        b"X: " + b"x" * 1_000_000 + b"\r\n",
        b"".join(b"X-%d: x\r\n" % number for number in range(50_000)),
        b"".join(b"Set-Cookie: c%d=%b\r\n" % (number, b"x" * 500) for number in range(2_000)),
        b": no name\r\n\xff\xfe\r\n folded\r\n",
    )
    if visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(len(heads) + 1)))
    elif visit.number < len(heads):
        await visit.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + heads[visit.number] + b"\r\n")
    else:
        await visit.raw(b"SSH-2.0-OpenSSH_9.6\r\n" * 1000)
        visit.writer.close()


async def maps(visit: Visit) -> None:
    """Sitemaps that name themselves, each other, more each time, and other people's pages."""
    if not visit.path.startswith("/sitemap") and not visit.path.endswith(".xml"):
        await visit.answer()
        return
    here = [visit.url(f"/{visit.number * 10 + n + 1}.xml") for n in range(10)]
    if visit.number % 2:
        foreign = [f"http://127.8.9.{n % 250}/{n}" for n in range(2_000)]
        tags = "".join(f"<url><loc>{url}</loc></url>" for url in [*foreign, visit.url("/found")])
        await visit.answer(f"<urlset>{tags}</urlset>".encode())
    else:
        tags = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in [*here, visit.url(visit.path)])
        await visit.answer(f"<sitemapindex>{tags}</sitemapindex>".encode())


async def busy(visit: Visit) -> None:
    """429 with a Retry-After of an hour, after the first page."""
    if visit.path in ("/", "/robots.txt"):
        await visit.link(*(f"/{number}" for number in range(1, 20)))
    else:
        await visit.answer(status="429 Too Many Requests", retry_after="3600")


async def shut(visit: Visit) -> None:
    """robots.txt is a 503: nothing else may be asked for."""
    if visit.path == "/robots.txt":
        await visit.answer(status="503 Service Unavailable")
    else:
        await visit.link("/told-not-to/1")


async def rules(visit: Visit) -> None:
    """robots.txt, rel=nofollow, meta nofollow and a header say where not to go."""
    if visit.path == "/robots.txt":
        await visit.answer(b"User-agent: *\nDisallow: /told-not-to/robots\n", content_type="text/plain")
    elif visit.path == "/meta":
        body = b'<head><meta name="robots" content="nofollow"></head><a href="/told-not-to/meta">.</a>'
        await visit.answer(body)
    elif visit.path == "/header":
        await visit.answer(b'<a href="/told-not-to/header">.</a>', x_robots_tag="nofollow")
    else:
        rel = '<a rel="nofollow" href="/told-not-to/rel">.</a>'
        await visit.answer(f'{rel}<a href="/told-not-to/robots">.</a><a href="/meta">.</a>'
                           '<a href="/header">.</a>'.encode())  # fmt: skip


TRICKS: dict[str, Callable[[Visit], Any]] = {
    "calendar": calendar, "deep": deep, "sessions": sessions, "redirects": redirects, "nowhere": nowhere,
    "bombs": bombs, "slow": slow, "resets": resets, "endless": endless, "wide": wide, "garbage": garbage,
    "headers": headers, "maps": maps, "busy": busy, "shut": shut, "rules": rules,
}  # fmt: skip
# After the first of these paths nothing of the host may be asked for that is not excused.
TOLD_NOT_TO = {
    "rules": lambda paths: [path for path in paths if path.startswith("/told-not-to")],
    "shut": lambda paths: [path for path in paths if path != "/robots.txt"],
    "busy": lambda paths: [path for path in paths if path not in ("/", "/robots.txt")][2:],  # two at once
}


class Web:
    """All hosts on one port of their addresses, in a thread that ends with the process."""

    def __init__(self, answers: dict[str, Callable[[Visit], Any]]) -> None:
        self.visits: list[tuple[float, str, str]] = []
        self._answers = answers
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port = 0
        for host in answers:
            self.port = asyncio.run_coroutine_threadsafe(self._listen(host), self._loop).result(10)

    async def _listen(self, host: str) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while not writer.is_closing():
                    head = await reader.readuntil(b"\r\n\r\n")
                    path = head.split(b" ", 2)[1].decode("latin-1")
                    self.visits.append((time.monotonic(), host, path))
                    visit, trick = Visit(host, path, writer, self.port), self._answers[host]
                    if path == "/robots.txt" and trick not in (shut, rules, endless):
                        await visit.answer(status="404 Not Found")  # or nobody would see the trick
                    else:
                        await trick(visit)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, host, self.port, limit=1 << 20)
        port: int = server.sockets[0].getsockname()[1]
        return port


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
    print(json.dumps(crawler.stats.get_stats(), default=str))


def peak_of(pid: int) -> float:
    """The most memory a process had so far, in MB; 0 where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if "VmHWM" in line), 0.0)


def crawl(web: Web, hosts: list[str], seconds: float, more: dict[str, str]) -> dict[str, Any]:
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
        "visits": [(when - begin, host, path) for when, host, path in web.visits],
    }


def good_times(result: dict[str, Any]) -> tuple[int, float]:
    """Pages the good hosts were asked for, and the seconds from the first to the last."""
    times = [
        when for when, host, path in result["visits"] if host in GOOD and not path.endswith(("txt", "xml"))
    ]
    return len(times), max(times, default=0.0) - min(times, default=0.0)


def report(alone: dict[str, Any], beside: dict[str, Any], hosts: dict[str, str]) -> None:
    for name, result in (("good hosts alone", alone), ("all hosts", beside)):
        reason = result["reason"]
        ended = "by itself" if reason == "finished" else f"stopped ({reason})"
        print(f"{name:18}{ended}, {result['seconds']:.1f} s, peak {result['peak']:.0f} MB")
    (before, seconds_before), (after, seconds_after) = good_times(alone), good_times(beside)
    print(
        f"good pages        {before} in {seconds_before:.1f} s alone, {after} in {seconds_after:.1f} s beside"
    )
    print(f"tracebacks        {beside['tracebacks']}")
    print(f"{'host':12}{'requests':>9}  {'told not to':>11}  first paths")
    for name, host in hosts.items():
        paths = [path for _, visited, path in beside["visits"] if visited == host]
        wrong = len(TOLD_NOT_TO[name](paths)) if name in TOLD_NOT_TO else 0
        print(f"{name:12}{len(paths):>9}  {wrong:>11}  {' '.join(path[:24] for path in paths[:5])}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="stop a crawl that has not ended by then")
    parser.add_argument("--only", default=",".join(TRICKS), help=f"of {', '.join(TRICKS)}")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a Scrapy setting")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*json.loads(options.child))
        return
    hosts = {name: f"127.8.1.{number}" for number, name in enumerate(options.only.split(","), 1)}
    web = Web({**dict.fromkeys(GOOD, good), **{host: TRICKS[name] for name, host in hosts.items()}})
    more = dict(pair.split("=", 1) for pair in options.set)
    alone = crawl(web, GOOD, options.seconds, more)
    beside = crawl(web, [*hosts.values(), *GOOD], options.seconds, more)
    report(alone, beside, hosts)


if __name__ == "__main__":
    main()
