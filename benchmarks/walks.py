"""How far a link and a page walk through the code: calls, files, and returns to a file left before.

A crawl of forty pages on loopback, with the add-on, is traced. A *walk* begins where Scrapy calls into the
package, or in a function of the table below, and is then no part of the walk around it; it ends where that
call returns, or yields; its path is the file that runs at each moment. Printed for each kind of walk: how
many there were, and of the one in the middle by returns its calls, its files, the changes of file, and how
many of these lead back to a file that was left before. The last line is a page: all kinds of walk that
happen at least once a page, but those of links and of timers, summed, by the page.

    python benchmarks/walks.py [--every] [--path NAME]

--every: all kinds of walk, by where they begin; --path NAME: the way of the one in the middle, indented,
and the files it returns to. To trace another version of the package put its checkout first:

    PYTHONPATH=CHECKOUT python benchmarks/walks.py
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

import scrapy_frontier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType


class Kind(NamedTuple):
    """Which walks are of a kind: begun in a function of this name, through one of these where some are named,
    and with an answer where one is wanted."""

    begins: str
    through: tuple[str, ...] = ()
    answers: bool = False


# A name that was changed is added here; `tests/test_walks.py` fails where none of a row is left.
KINDS = {
    "a link, noted at yield": Kind(
        "FrontierSpiderMiddleware.process_spider_output_async", ("Outlinks.note", "Links.note")
    ),
    "a link, queued": Kind("FrontierScheduler.enqueue_request", answers=True),
    "a hand-out": Kind("FrontierScheduler.next_request", answers=True),
    "a release with links": Kind("_Watched.remove"),
}
BEGINS = {kind.begins for kind in KINDS.values()}
NOT_OF_A_PAGE = {
    *(kind.begins for title, kind in KINDS.items() if title.startswith("a link")),
    *("RankingExtension._look", "RankingExtension._slice"),  # by the clock: as often as the machine is slow
}

PACKAGE = f"{Path(scrapy_frontier.__file__).parent}/"
PAGES = 40
LINKS = 12  # a page
SETTINGS = {
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 1,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "ERROR",
}


class Site(BaseHTTPRequestHandler):
    """Forty pages of twelve links each, so that all but forty links lead to a page that is known."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_robots = self.path == "/robots.txt"
        number = 0 if is_robots else int(self.path[1:])
        links = "".join(f'<a href="/{(number * 3 + each) % PAGES}">.</a>' for each in range(LINKS))
        body = b"" if is_robots else links.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain" if is_robots else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class WalkSpider(scrapy.Spider):
    name = "walk"

    def parse(self, response: Any) -> Iterator[Any]:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


class Walk:
    """The code that a call into the package ran, in order; with each call how deep it was."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, CodeType]] = []
        self.path: list[str] = []
        self.has_answer = False

    def enter(self, code: CodeType, depth: int) -> None:
        self.calls.append((depth, code))
        self.be_in(code)

    def be_in(self, code: CodeType) -> None:
        if not self.path or self.path[-1] != code.co_filename:
            self.path.append(code.co_filename)

    @property
    def changes(self) -> int:
        return len(self.path) - 1

    @property
    def returns(self) -> int:
        return self.changes - (len(set(self.path)) - 1)

    @property
    def returned_to(self) -> Counter[str]:
        """How often each file was returned to."""
        changed_to = Counter(self.path)
        return Counter({file: times - 1 for file, times in changed_to.items() if times > 1})

    def is_of(self, kind: Kind) -> bool:
        if kind.answers and not self.has_answer:
            return False
        return not kind.through or any(name(code) in kind.through for _, code in self.calls)


class Tracer:
    """Collects the walks of the thread it was started in, by the functions they begin with."""

    def __init__(self) -> None:
        self.walks: dict[str, list[Walk]] = defaultdict(list)
        self._stack: list[tuple[FrameType, Walk, int]] = []  # with how deep in its walk each is

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            if not self._stack or name(code) in BEGINS:
                walk, depth = Walk(), 0
                self.walks[name(code)].append(walk)
            else:
                _, walk, depth = self._stack[-1]
                depth += 1
            self._stack.append((frame, walk, depth))
            walk.enter(code, depth)
        elif event == "return" and self._stack and self._stack[-1][0] is frame:
            _, walk, depth = self._stack.pop()
            if depth:
                walk.be_in(self._stack[-1][0].f_code)
            else:
                walk.has_answer = bool(value)


def name(code: CodeType) -> str:
    return code.co_qualname  # of Python 3.11 and newer


def traced() -> dict[str, list[Walk]]:
    """All walks of a crawl, by where they begin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        process = AsyncCrawlerProcess(SETTINGS)
        crawler = process.create_crawler(WalkSpider)
        process.crawl(crawler, start_urls=[f"http://127.0.0.1:{server.server_port}/0"])
        tracer = Tracer()
        sys.setprofile(tracer)
        process.start()
        sys.setprofile(None)
        server.shutdown()
    assert crawler.stats
    done = crawler.stats.get_value("frontier/pages/done")
    if done != PAGES:
        raise SystemExit(f"{done} pages were done instead of {PAGES}")
    return tracer.walks


def middle(walks: list[Walk]) -> Walk:
    return sorted(walks, key=lambda walk: (walk.returns, len(walk.calls)))[len(walks) // 2]


def line(title: str, times: object, *figures: object) -> str:
    return f"{title:55}{times:>7}" + "".join(f"{figure:>9}" for figure in figures)


def line_of(title: str, walks: list[Walk]) -> str:
    walk = middle(walks)
    return line(title, len(walks), len(walk.calls), len(set(walk.path)), walk.changes, walk.returns)


def page_line(walks: dict[str, list[Walk]]) -> str:
    own = [found for begin, found in walks.items() if len(found) >= PAGES and begin not in NOT_OF_A_PAGE]
    every = [walk for found in own for walk in found]
    files = len({file for found in own for file in middle(found).path})
    calls, changes, returns = (
        round(sum(figures) / PAGES)
        for figures in zip(*((len(walk.calls), walk.changes, walk.returns) for walk in every), strict=True)
    )
    return line("a page, own parts", PAGES, calls, files, changes, returns)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--path", default="")
    options = parser.parse_args()
    walks = traced()
    named = {
        title: [walk for walk in walks[kind.begins] if walk.is_of(kind)] for title, kind in KINDS.items()
    }
    print(line("walk", "times", "calls", "files", "changes", "returns"))
    for title, found in [*named.items(), *(sorted(walks.items()) if options.every else ())]:
        print(line_of(title, found) if found else line(title, 0))
        if found and options.path and options.path in title:
            for depth, code in middle(found).calls:
                print(f"    {'  ' * depth}{code.co_filename.removeprefix(PACKAGE)} {name(code)}")
            for file, times in middle(found).returned_to.most_common():
                print(f"    returned {times:3} times to {file.removeprefix(PACKAGE)}")
    print(page_line(walks))


if __name__ == "__main__":
    main()
