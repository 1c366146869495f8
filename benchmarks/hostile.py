"""Hosts that do everything wrong, each in a way of its own (`TRICKS`), and a good one, on loopback.

`Web` serves them all; what a crawler was told not to ask for is in `TOLD_NOT_TO`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import socket
import struct
import threading
import time
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD_PAGES = 150
LATENCY = 0.02  # seconds a good host takes to answer
WIDE = 100_000  # links of a page that has very many


class Visit:
    """A request as a server meets it at *address*, for *host*; a trick answers on *writer* what it likes."""

    def __init__(self, address: str, host: str, path: str, writer: asyncio.StreamWriter, port: int) -> None:
        self.address, self.host, self.path, self.writer, self.port = address, host, path, writer, port

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
    if visit.path == "/sitemap.xml":
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
    if visit.path == "/sitemap.xml":
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


@cache
def bomb() -> bytes:
    deflate = zlib.compressobj(9, wbits=31)
    return b"".join([*(deflate.compress(b"<p>" * 100_000) for _ in range(1_000)), deflate.flush()])


async def bombs(visit: Visit) -> None:
    """300 MB of nothing in 300 kB, as page and as sitemap; a billion laughs."""
    if visit.path == "/":
        await visit.link("/bomb")
    elif visit.path == "/robots.txt":
        await visit.answer(b"Sitemap: /sitemap.xml\nSitemap: /laughs.xml", content_type="text/plain")
    elif visit.path == "/laughs.xml":
        laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
        body = f'<!DOCTYPE urlset [<!ENTITY l0 "lol">{laughs}]><urlset><url><loc>&l11;</loc></url></urlset>'
        await visit.answer(body.encode(), content_type="text/xml")
    elif visit.path == "/sitemap.xml":
        await visit.answer(bomb(), content_type="application/gzip")
    else:
        await visit.answer(bomb(), content_encoding="gzip")


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
        await visit.link(*(f"/item/{number}" for number in range(WIDE)))
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
    (b"<base href='data:text/html,x'><a href='x'>.</a>", {"content_type": "text/html"}),
    (b"<base href='/b/b/b/b/b/'><base href='//[/'><a href='../x'>.</a>", {"content_type": "text/html"}),
    (b"\xff\xfe" + "<a href='/\ud800'>".encode("utf-16-le", "surrogatepass"), {"content_type": "text/html"}),
    (b"\xfe\xff<a href='/odd'>\xd8", {"content_type": "text/html; charset=utf-8"}),
    (b"\xef\xbb\xbf\x80\x80<a href='/\xc3'>.</a>", {"content_type": "text/html; charset=shift_jis"}),
    (b"<meta charset='utf-7'>+ADw-a href='/x'>", {"content_type": "text/html"}),
    (b"<head>" + b"<meta name=robots content=" * 20_000, {"content_type": "text/html"}),
    (b"<!--" + b"<a href='/x' rel=nofollow" * 20_000, {"content_type": "text/html"}),
    (b"<a rel='" + b"nofollow " * 100_000 + b"' href='/x'>.</a>", {"content_type": "text/html"}),
    (b"<a href='http://\xff\xfe.example/&#0;'><a href='http://:99999/'>", {"content_type": "text/html"}),
)


async def garbage(visit: Visit) -> None:
    """Encodings, markup and compression that are not what they say."""
    if visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(len(GARBAGE) + 4)))
    elif visit.number < len(GARBAGE):
        body, headers = GARBAGE[visit.number]
        await visit.answer(body, **headers)
    else:
        broken = b"zz\r\nno chunk\r\n", b"ffffffffffffffffffff\r\n", b"5\r\nhel", b"-5\r\nhello\r\n"
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        await visit.raw(head + broken[visit.number % 4])
        visit.writer.close()


async def headers(visit: Visit) -> None:
    """A header line of a megabyte, 50,000 of them, cookies without end, no HTTP at all."""
    heads = (
        b"X: " + b"x" * 1_000_000 + b"\r\n",
        b"".join(b"X-%d: x\r\n" % number for number in range(50_000)),
        b"".join(b"Set-Cookie: c%d=%b\r\n" % (number, b"x" * 500) for number in range(2_000)),
        b"".join(b"Set-Cookie: c%d=1\r\n" % number for number in range(100_000)),
        b"".join(b"Link: </%d>; rel=canonical\r\n" % number for number in range(1_000)),
        b"X-Robots-Tag: " + b"googlebot: noindex, " * 10_000 + b"\r\n",
        b": no name\r\n\xff\xfe\r\n folded\r\n",
    )
    if visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(len(heads) + 2)))
    elif visit.number < len(heads):
        await visit.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + heads[visit.number] + b"\r\n")
    elif visit.number == len(heads):
        await visit.raw(b"HTTP/1.1 200 OK\r\n")
        while True:  # and never a body
            await visit.raw(b"X: x\r\n" * 1_000)
            await asyncio.sleep(0.01)
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


ABSURD = ("99999999999999999999", "-5", "Fri, 31 Dec 9999 23:59:59 GMT", "1e9", "\xff", "3.5", "soon")


async def absurd(visit: Visit) -> None:
    """503 with every Retry-After that makes no sense, and a Request-rate likewise."""
    if visit.path == "/robots.txt":
        await visit.answer(b"User-agent: *\nCrawl-delay: 0.1\nRequest-rate: 1/0\n", content_type="text/plain")
    elif visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(len(ABSURD))))
    else:
        await visit.answer(status="503 Service Unavailable", retry_after=ABSURD[visit.number % len(ABSURD)])


async def sluggish(visit: Visit) -> None:
    """A Crawl-delay of a year."""
    if visit.path == "/robots.txt":
        await visit.answer(b"User-agent: *\nCrawl-delay: 31536000\n", content_type="text/plain")
    else:
        await visit.link("/1", "/2", "/3")


async def again(visit: Visit) -> None:
    """429 with a Retry-After of two seconds, for ever: always soon, never now."""
    if visit.path in ("/", "/robots.txt"):
        await visit.link(*(f"/{number}" for number in range(1, 20)))
    else:
        await visit.answer(status="429 Too Many Requests", retry_after="2")


async def shut(visit: Visit) -> None:
    """robots.txt is a 503: nothing else may be asked for."""
    if visit.path == "/robots.txt":
        await visit.answer(status="503 Service Unavailable")
    else:
        await visit.link("/told-not-to/1")


async def lengths(visit: Visit) -> None:
    """Content-Length that is no number, negative, twice another, too small, too large, beside chunks."""
    if visit.path == "/":
        await visit.link(*(f"/{number}" for number in range(6)))
        return
    lines = (
        b"Content-Length: many\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 5\r\nContent-Length: 7\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    )
    await visit.raw(b"HTTP/1.1 200 OK\r\n" + lines[visit.number % len(lines)] + b"\r\n<a href='/'>.</a>")
    visit.writer.close()


async def nohttp(visit: Visit) -> None:
    """HTTP/0.9, and what is no HTTP at all; robots.txt too."""
    answers = (b"<a href='/1'>.</a>", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 2OO OK\r\n\r\n", b"\x16\x03\x01")
    if visit.path in ("/", "/robots.txt"):
        await visit.link("/1", "/2", "/3", "/4")
    else:
        await visit.raw(answers[visit.number % len(answers)])
        visit.writer.close()


_ASKED: set[tuple[str, str]] = set()  # moody pages that were asked for once


async def moody(visit: Visit) -> None:
    """A calendar, every tenth day of which is a 503 or a reset the first time."""
    is_first = (visit.address, visit.path) not in _ASKED
    _ASKED.add((visit.address, visit.path))
    if is_first and visit.number % 20 == 10:
        await visit.answer(status="503 Service Unavailable")
    elif is_first and visit.number and visit.number % 20 == 0:
        visit.reset()
    else:
        await calendar(visit)


async def spawn(visit: Visit) -> None:
    """Each sub-domain links twenty others."""
    await visit.link(*(f"http://n{random.getrandbits(40):x}.spawn.example:{visit.port}/" for _ in range(20)))


async def long_links(visit: Visit) -> None:
    """Links and a redirect of a megabyte."""
    if visit.path == "/":
        await visit.link(
            *(f"/{number}/{'x' * 1_000_000}" for number in range(4)), "/redirect", "/?" + "a=1&" * 9_000
        )
    elif visit.path == "/redirect":
        await visit.redirect("/" + "x" * 1_000_000)
    else:
        await visit.answer()


async def refreshes(visit: Visit) -> None:
    """Meta refreshes in a circle, without end, to itself; canonical pages in a circle."""
    path, number = visit.path, visit.number
    targets = {"/self": "/self", "/ping": "/pong", "/pong": "/ping"}
    if path == "/":
        await visit.link("/self", "/ping", "/chain/0", "/canonical/0", "/none")
    elif path.startswith("/canonical"):
        await visit.answer(f'<head><link rel=canonical href="/canonical/{(number + 1) % 9}"></head>'.encode())
    else:
        target = targets.get(path, f"/chain/{number + 1}" if path.startswith("/chain") else "")
        await visit.answer(f'<head><meta http-equiv=refresh content="0;url={target}"></head>'.encode())


async def hops(visit: Visit) -> None:
    """Redirects and canonical pages from one sub-domain to the next, without end."""
    target = f"http://h{random.getrandbits(40):x}.hops.example:{visit.port}/"
    if visit.path == "/" and visit.host == visit.address:
        await visit.link(*(f"/{number}" for number in range(1, 6)))
    elif visit.path == "/1":
        await visit.answer(
            f'<head><link rel=canonical href="{target}"></head>'.encode(), link=f"<{target}>; rel=canonical"
        )
    else:
        await visit.redirect(target)


async def robots_circle(visit: Visit) -> None:
    """robots.txt leads to itself and on."""
    if visit.path.startswith("/robots.txt"):
        await visit.redirect(f"/robots.txt?{visit.number + 1}")
    else:
        await visit.link("/1", "/2")


async def robots_garbage(visit: Visit) -> None:
    """robots.txt is 500 KiB of bytes that mean nothing."""
    if visit.path == "/robots.txt":
        await visit.answer(random.Random(1).randbytes(500 * 1024))
    else:
        await visit.link("/1", "/2")


async def robots_rules(visit: Visit) -> None:
    """robots.txt is 500 KiB of rules that are dear to match, and one that counts."""
    if visit.path == "/robots.txt":
        rule = b"Disallow: /*a*a*a*a*a*b$\n"
        body = b"User-agent: *\nDisallow: /told-not-to\n" + rule * (480_000 // len(rule))
        await visit.answer(body, content_type="text/plain")
    else:
        await visit.link("/told-not-to", *(f"/{'a' * 200}{number}" for number in range(50)))


async def robots_bomb(visit: Visit) -> None:
    """robots.txt is 300 MB in 300 kB."""
    if visit.path == "/robots.txt":
        await visit.answer(bomb(), content_type="text/plain", content_encoding="gzip")
    else:
        await visit.link("/told-not-to")


async def nofollow(visit: Visit) -> None:
    """20,000 links, one of which says nofollow, so that all have to be looked at first."""
    if visit.path == "/":
        links = "".join(f'<a href="/item/{number}">.</a>' for number in range(WIDE // 5))
        await visit.answer(f'{links}<a rel="nofollow" href="/told-not-to">.</a>'.encode())
    else:
        await visit.answer()


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
    "bombs": bombs, "slow": slow, "resets": resets, "endless": endless, "wide": wide, "nofollow": nofollow,
    "garbage": garbage, "headers": headers, "lengths": lengths, "nohttp": nohttp, "long_links": long_links,
    "refreshes": refreshes, "hops": hops, "spawn": spawn, "maps": maps, "busy": busy, "again": again,
    "absurd": absurd, "sluggish": sluggish, "shut": shut, "rules": rules, "robots_circle": robots_circle,
    "robots_garbage": robots_garbage, "robots_rules": robots_rules, "robots_bomb": robots_bomb,
    "moody": moody,
}  # fmt: skip
_OWN_ROBOTS = {
    "shut", "rules", "endless", "absurd", "sluggish", "nohttp",
    "robots_circle", "robots_garbage", "robots_rules", "robots_bomb",
}  # fmt: skip
# Where the names under these domains are served.
DOMAINS = {"spawn.example": "spawn", "hops.example": "hops"}


def _only_robots(paths: list[str]) -> list[str]:
    return [path for path in paths if not path.startswith("/robots.txt")]


def _told(paths: list[str]) -> list[str]:
    return [path for path in paths if path.startswith("/told-not-to")]


# What of the paths a host was asked for, in order, it was told before not to be asked for.
TOLD_NOT_TO: dict[str, Callable[[list[str]], list[str]]] = {
    "rules": _told,
    "nofollow": _told,
    "robots_rules": _told,
    "shut": _only_robots,
    "robots_bomb": _only_robots,
    "busy": lambda paths: [path for path in paths if path not in ("/", "/robots.txt")][2:],  # two at once
    "sluggish": _only_robots,  # that was the visit of this year
}


def address_of(name: str) -> str:
    """Where the host *name* is served; other names are addresses."""
    domain = ".".join(name.split(".")[-2:])
    return f"127.8.1.{list(TRICKS).index(DOMAINS[domain]) + 1}" if domain in DOMAINS else name


class Web:
    """The hosts of the tricks *named*, and *good* ones, on one port; their thread ends with the process."""

    def __init__(self, named: list[str], good: list[str]) -> None:
        self.visits: list[
            tuple[float, str, str]
        ] = []  # monotonic seconds, name of the trick or good host, path
        self.hosts = {name: f"127.8.1.{number}" for number, name in enumerate(TRICKS, 1) if name in named}
        self.good = good
        if not {"bombs", "robots_bomb"}.isdisjoint(named):
            bomb()  # before anything waits for an answer
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port = 0
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    async def _listen(self) -> None:
        hosts = [*self.hosts.items(), *((address, address) for address in self.good)]
        servers: list[asyncio.Server] = []
        while len(servers) < len(hosts):
            name, address = hosts[len(servers)]
            serve = self._serve(name, address)
            try:
                servers.append(await asyncio.start_server(serve, address, self.port, limit=1 << 22))
                self.port = servers[0].sockets[0].getsockname()[1]
            except OSError:  # free at the first address, and in use at this one
                if not servers:
                    raise
                for server in servers:
                    server.close()
                servers.clear()
                self.port = 0

    def _serve(self, name: str, address: str) -> Callable[..., Any]:
        trick = TRICKS.get(name, good)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while not writer.is_closing():
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                    path = head.split(" ", 2)[1]
                    host = re.search(r"\r\nhost: *([^:\r]*)", head, re.IGNORECASE)
                    self.visits.append((time.monotonic(), name, path))
                    visit = Visit(address, host[1] if host else address, path, writer, self.port)
                    if path == "/robots.txt" and name not in _OWN_ROBOTS:
                        await visit.answer(status="404 Not Found")  # or nobody would see the trick
                    else:
                        await trick(visit)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            finally:
                with contextlib.suppress(ConnectionError):
                    writer.close()

        return serve
