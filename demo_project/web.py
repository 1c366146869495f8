"""A small web of eight hosts, the same on every run: what each URL answers, and no sockets.

Every site has a theme that a crawler meets out there: a hub, a slow host, duplicates, redirects, pages that
ask not to be indexed or followed, an endless calendar, a host that fails at first, ruins. A site is a front
page, its chapters, and their pages; `_specials` adds what its theme asks for.

The hub's front page is the only seed and links to every other front page. Links between sites lead to later
sites only, so by any path no page lies deeper than 20 links, except the months of the calendar, one link
deeper each: ``DEPTH_LIMIT = 30`` ends the calendar, always at the same month, and cuts off nothing else.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Site:
    """One host of the web; *latency* and *crawl_delay* in seconds."""

    name: str
    title: str
    about: str
    chapter: str = ""
    page: str = ""
    chapters: int = 0
    pages: int = 0  # a chapter
    latency: float = 0.0
    crawl_delay: float = 0.0


SITES = (
    Site("hub", "The Hub", "It links to everyone.", "topic", "article", 6, 6),
    Site("archive", "The Slow Archive", "It thinks before it answers.", "shelf", "scroll", 3, 4, latency=0.3),
    Site("shop", "The Shop of Doubles", "Every item has three addresses.", "aisle", "item", 5, 6),
    Site("movers", "The House of Movers", "Many a page lives elsewhere now.", "street", "house", 4, 5),
    Site("diary", "The Quiet Diary", "Some pages would rather not be found.", "year", "entry", 4, 5),
    Site("calendar", "The Endless Calendar", "There is always a next month."),
    Site("radio", "The Flaky Radio", "Tune in twice.", "show", "episode", 4, 5),
    Site("ruins", "The Ruins", "Mind the gaps, and do not hurry.", "wall", "stone", 2, 4, crawl_delay=0.5),
)
LOOPBACKS = tuple(f"127.0.0.{number}" for number in range(2, 2 + len(SITES)))
ONE_LOOPBACK = "127.0.0.1"

_SITE = {site.name: site for site in SITES}
_TREES = tuple(site for site in SITES if site.chapters)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_MOVED = {
    "/old/1": "/street/1/house/1",
    "/old/2": "/street/2/house/2",
    "/old/3": "/street/3/house/3",
    "/chain/1": "/chain/2",
    "/chain/2": "/chain/3",
    "/chain/3": "/behind-the-chain",
    "/loop/1": "/loop/2",
    "/loop/2": "/loop/1",
    "/away": "hub/topic/1",
}
_STATUS = {
    "radio/off-air": 403,
    "ruins/lost/1": 404,
    "ruins/lost/2": 404,
    "ruins/lost/3": 404,
    "ruins/razed/1": 410,
    "ruins/razed/2": 410,
}


class Answer(NamedTuple):
    """What a server says."""

    status: int
    headers: dict[str, str]
    body: str


class Page(NamedTuple):
    """A page's links: ``/path`` on its own site, ``name/path`` on another; and what it asks of robots."""

    links: tuple[str, ...]
    nofollow: tuple[str, ...] = ()  # linked with rel=nofollow
    meta: str = ""  # for <meta name="robots">
    header: str = ""  # for X-Robots-Tag


class Web:
    """The web on one port of eight loopback addresses, or, as *one_address*, on eight ports of one.

    Some systems (macOS) have 127.0.0.1 only. There all sites are one host to a crawler, which knows hosts by
    name: it shows one clock instead of eight, and the Crawl-delay of the ruins would slow down everybody, so
    they ask for none. Pages and links are the same.
    """

    def __init__(self, port: int, one_address: bool = False) -> None:
        self.port = port
        self.one_address = one_address
        self.addresses = {
            site.name: (ONE_LOOPBACK, port + number) if one_address else (LOOPBACKS[number], port)
            for number, site in enumerate(SITES)
        }
        self.titles = {"{}:{}".format(*self.addresses[site.name]): site.title for site in SITES}
        self._pages = {site.name: _pages(site) for site in SITES}

    def url(self, link: str) -> str:
        """The URL of ``name/path``."""
        name, _, path = link.partition("/")
        return "http://{}:{}/{}".format(*self.addresses[name], path)

    def answer(self, name: str, target: str, visit: int = 1) -> Answer:
        """What the site *name* answers when *target* (path and query) is asked for the *visit*-th time."""
        site, path = _SITE[name], _in_order(target)
        if path == "/robots.txt":
            delay = 0.0 if self.one_address else site.crawl_delay
            return Answer(200, {"Content-Type": "text/plain"}, _robots(delay))
        if name == "movers" and path in _MOVED:
            return Answer(301, {"Location": self._href(_MOVED[path])}, "")
        if name == "radio" and path.endswith(f"/{site.page}/3") and visit == 1:
            return Answer(503, {"Retry-After": "1"}, "")
        page = self._pages[name].get(path) or (_month(path) if name == "calendar" else None)
        status = _STATUS.get(name + path, 404 if page is None else 200)
        if page is None or status != 200:
            return Answer(status, {}, "")
        headers = {"Content-Type": "text/html; charset=utf-8"}
        if page.header:
            headers["X-Robots-Tag"] = page.header
        return Answer(200, headers, self._html(site, path, page))

    def _href(self, link: str) -> str:
        return link if link.startswith("/") else self.url(link)

    def _html(self, site: Site, path: str, page: Page) -> str:
        meta = f'<meta name="robots" content="{page.meta}">' if page.meta else ""
        items = "\n".join(
            f'<li><a href="{html.escape(self._href(link))}"{rel}>{_label(site, link)}</a></li>'
            for links, rel in ((page.links, ""), (page.nofollow, ' rel="nofollow"'))
            for link in links
        )
        title = _title(site, path)
        return (
            f'<!doctype html>\n<html lang="en"><head><title>{title}</title>{meta}</head>\n'
            f"<body><h1>{title}</h1>\n<p>{site.about}</p>\n<ul>\n{items}\n</ul></body></html>\n"
        )


def _in_order(target: str) -> str:
    parts = urlsplit(target)
    query = "&".join(sorted(parts.query.split("&")))
    return f"{parts.path}?{query}" if query else parts.path


def _robots(delay: float) -> str:
    return "User-agent: *\nDisallow: /private/\n" + (f"Crawl-delay: {delay}\n" if delay else "")


def _title(site: Site, path: str) -> str:
    if path == "/":
        return site.title
    words = re.findall(r"[\w-]+", path)
    if words[0] == "month":
        month = int(words[1]) - 1
        words = [_MONTHS[month % 12], str(2026 + month // 12)]
    return f"{site.title}: {' '.join(words)}"


def _label(site: Site, link: str) -> str:
    name, _, path = link.partition("/")
    return _title(_SITE[name] if name else site, f"/{path.partition('#')[0]}")


def _leaf(site: Site, chapter: int, page: int) -> str:
    if site.name == "shop":
        return f"/show?{site.chapter}={chapter}&{site.page}={page}"
    return f"/{site.chapter}/{chapter}/{site.page}/{page}"


def _spellings(site: Site, chapter: int, page: int) -> tuple[str, ...]:
    leaf = _leaf(site, chapter, page)
    if site.name != "shop":
        return (leaf,)
    return leaf, f"/show?{site.page}={page}&{site.chapter}={chapter}", f"{leaf}#reviews"


def _see_also(site: Site, chapter: int, page: int) -> tuple[str, ...]:
    """Links to later sites only, so that no path can wander far; the first page of each is the favourite."""
    later = _TREES[_TREES.index(site) + 1 :]
    if not later:
        return ()
    chosen = later[(chapter + page) % len(later)]
    other = _leaf(chosen, 1 + page % chosen.chapters, 1 + chapter % chosen.pages)
    return tuple(dict.fromkeys((later[0].name + _leaf(later[0], 1, 1), chosen.name + other)))


def _pages(site: Site) -> dict[str, Page]:
    """The pages of a site by path."""
    specials, linked = _specials(site)
    chapters = {number: f"/{site.chapter}/{number}" for number in range(1, site.chapters + 1)}
    front = Page((*chapters.values(), *linked, "/private/ledger"))
    pages = {"/": front, "/private/ledger": Page(("/",)), **specials}
    for chapter, path in chapters.items():
        numbers = range(1, site.pages + 1)
        leaves = tuple(link for number in numbers for link in _spellings(site, chapter, number))
        pages[path] = Page(("/", *leaves))
        for number in numbers:
            pages[_leaf(site, chapter, number)] = Page(("/", path, *_see_also(site, chapter, number)))
    return pages


def _specials(site: Site) -> tuple[dict[str, Page], tuple[str, ...]]:
    """The pages that make a site's theme, and what of them, or of other sites, its front page links to."""
    home = Page(("/",))
    if site.name == "hub":
        return {}, tuple(f"{other.name}/" for other in SITES if other is not site)
    if site.name == "movers":
        return {"/behind-the-chain": home}, ("/old/1", "/old/2", "/old/3", "/chain/1", "/loop/1", "/away")
    if site.name == "diary":
        specials = {
            "/unlisted": Page(("/", "/behind-unlisted"), meta="noindex"),
            "/behind-unlisted": home,
            "/unlisted-by-header": Page(("/",), header="noindex"),
            "/guestbook": Page(("/", "/guest"), meta="nofollow"),
            "/guest": home,
            "/visitors": Page(("/",), nofollow=("/advert",)),
            "/advert": home,
        }
        return specials, ("/unlisted", "/unlisted-by-header", "/guestbook", "/visitors")
    if site.name == "calendar":
        return {}, ("/month/1",)
    return {}, tuple(link.removeprefix(site.name) for link in _STATUS if link.startswith(f"{site.name}/"))


def _month(path: str) -> Page | None:
    number = re.fullmatch(r"/month/([1-9]\d{0,5})", path)
    if number is None:
        return None
    month = int(number[1])
    return Page(("/", *((f"/month/{month - 1}",) if month > 1 else ()), f"/month/{month + 1}"))
