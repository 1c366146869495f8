"""The demo as a newcomer meets it: ``scrapy crawl demo`` in a process of its own, in the checkout."""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import threading
from collections import Counter, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

import pytest
from nursery import nursery
from parsel import Selector
from protego import Protego
from w3lib.url import canonicalize_url

from demo_project import settings
from demo_project.server import has_loopbacks
from demo_project.web import SITES, Web

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parent.parent
HURRY = ("DOWNLOAD_SLOTS={}", "DOWNLOAD_DELAY=0")  # where the pace is not what is tested


class Run(NamedTuple):
    """A crawl that ended: what it printed, what it logged, and its items by page."""

    web: Web
    returncode: int
    output: list[str]
    log: str
    items: list[dict[str, object]]

    @property
    def visits(self) -> Counter[str]:
        return Counter(canonicalize_url(str(item["url"])) for item in self.items)


def crawl(items: Path | None, *arguments: str, port: int = 0, sets: tuple[str, ...] = ()) -> Run:
    port = port or free_port()
    command = ["-m", "scrapy", "crawl", "demo", *arguments]
    command += ["-O", f"{items}:jsonlines"] if items else []
    for assignment in (f"DEMO_PORT={port}", *sets):
        command += ["-s", assignment]
    ended = nursery.run(command, dict(os.environ), CHECKOUT)
    lines = items.read_text().splitlines() if items and items.exists() else []
    web = Web(port, one_address="DEMO_ONE_ADDRESS=1" in sets or not has_loopbacks())
    output = ended.stdout.splitlines()
    return Run(web, ended.returncode, output, ended.stderr, [json.loads(line) for line in lines])


def free_port() -> int:
    """A port below those the system hands out, free with the next ones on all addresses. While this process
    lives no other run of these tests gets it, which would listen where this one has just stopped."""
    for port in range(20_000, 32_000, len(SITES)):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # claims meet here, servers use TCP
        try:
            claim.bind(("", port))
            for number in range(len(SITES)):
                socket.create_server(("", port + number)).close()
        except OSError:
            claim.close()
            continue
        atexit.register(claim.close)
        return port
    raise AssertionError("no free port")


def walk(web: Web, *, obedient: bool, depth_first: bool = False) -> set[str]:
    """The pages the demo must visit, found without it: by their answers, robots.txt and DEPTH_LIMIT.

    An *obedient* walk leaves out what nofollow hides and what noindex keeps from being an item.
    """
    name_by_netloc = {f"{host}:{port}": name for name, (host, port) in web.addresses.items()}
    found, items = {web.url("hub/")}, set()
    waiting = deque((url, 0) for url in found)
    while waiting:
        url, depth = waiting.pop() if depth_first else waiting.popleft()
        parts = urlsplit(url)
        name, target = name_by_netloc[parts.netloc], f"{parts.path}?{parts.query}".removesuffix("?")
        if not Protego.parse(web.answer(name, "/robots.txt").body).can_fetch(url, "*"):
            continue
        answer = web.answer(name, target, visit=2)
        links, depth_of_links = [], depth
        if answer.status == 301:
            links = [answer.headers["Location"]]
        elif answer.status == 200:
            selector, depth_of_links = Selector(answer.body), depth + 1
            asks = selector.css("meta[name=robots]::attr(content)").get("") + answer.headers.get(
                "X-Robots-Tag", ""
            )
            if not (obedient and "noindex" in asks):
                items.add(url)
            if not (obedient and "nofollow" in asks):
                links = selector.css(f"a{':not([rel=nofollow])' if obedient else ''}::attr(href)").getall()
        for link in (canonicalize_url(urljoin(url, link)) for link in links):
            if link not in found and depth_of_links <= settings.DEPTH_LIMIT:
                found.add(link)
                waiting.append((link, depth_of_links))
    return items


def assert_each_page_once(run: Run, visits: Counter[str]) -> None:
    assert [url for url, times in visits.items() if times > 1] == []
    assert walk(run.web, obedient=True) - visits.keys() == set()
    assert visits.keys() - walk(run.web, obedient=False) == set()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run as the README says, but for the port and the file of items."""
    return crawl(tmp_path_factory.mktemp("demo") / "items.jsonl")


def test_demo_visits_every_page_once(demo: Run) -> None:
    assert_each_page_once(demo, demo.visits)


def test_demo_visits_the_targets_of_redirects_once_and_never_their_sources(demo: Run) -> None:
    assert demo.visits[demo.web.url("movers/behind-the-chain")] == 1
    assert demo.visits[demo.web.url("movers/street/1/house/1")] == 1
    assert demo.visits[demo.web.url("hub/topic/1")] == 1
    assert not [url for url in demo.visits if re.search("/(old|chain|loop|away)", url)]


def test_demo_obeys_robots_txt_and_ends_the_calendar(demo: Run) -> None:
    assert not [url for url in demo.visits if "/private/" in url]
    last = settings.DEPTH_LIMIT - 1  # the first month is two links from the seed
    assert demo.visits[demo.web.url(f"calendar/month/{last}")] == 1
    assert not demo.visits[demo.web.url(f"calendar/month/{last + 1}")]


def test_demo_prints_its_progress_and_a_summary_that_fits_a_terminal_and_nothing_else(demo: Run) -> None:
    assert demo.returncode == 0
    assert demo.log == ""
    begin = next(number for number, line in enumerate(demo.output) if line.startswith("Finished after "))
    progress, summary = demo.output[:begin], demo.output[begin:]
    assert len(progress) > 1
    for line in progress:
        assert re.fullmatch(r"pages \d+  hosts [0-8]  pending \d+  \d+\.\d pages/s", line)
    assert len(summary) <= 25
    assert max(map(len, demo.output)) <= 80
    done = len(demo.items) + 2  # two ask not to be indexed
    assert f": {done} pages of 8 hosts," in summary[0]
    assert f"{done} done, 9 redirected, 5 gone, 1 failed, 8 excluded, 0 queued" in summary
    for site in SITES:
        [row] = [line for line in summary if re.search(rf"{site.title} +\d", line)]
        assert re.search(r" \d+ +\d+\.\d{3} s$", row)
    assert "-s JOBDIR=" in summary[-2]


def test_each_server_saw_the_delay_between_all_its_requests(demo: Run) -> None:
    gaps = {
        line.split()[0]: float(line.split()[-2]) for line in demo.output if re.search(r"\.\d{3} s$", line)
    }
    assert gaps.keys() == demo.web.titles.keys()
    for host, gap in gaps.items():
        assert gap >= settings.DOWNLOAD_SLOTS[host.split(":")[0]]["delay"] - 0.01, host
    if has_loopbacks():
        assert gaps[demo.web.url("ruins/").split("/")[2]] >= 0.5 - 0.01  # its Crawl-delay


def test_demo_goes_on_in_its_jobdir_where_it_was_stopped(tmp_path: Path) -> None:
    port, sets = free_port(), (f"JOBDIR={tmp_path}/job", *HURRY)
    first = crawl(tmp_path / "1.jsonl", port=port, sets=("CLOSESPIDER_ITEMCOUNT=80", *sets))
    assert "Run the same command again: it goes on where this run stopped." in first.output
    second = crawl(tmp_path / "2.jsonl", port=port, sets=sets)
    assert second.items
    assert_each_page_once(second, first.visits + second.visits)
    third = crawl(tmp_path / "3.jsonl", port=port, sets=sets)
    assert (third.returncode, third.items) == (0, [])
    (line,) = third.log.splitlines()
    assert "Nothing was fetched: 1 seed is known from an earlier run" in line


class _Handler(BaseHTTPRequestHandler):
    """Every page links to two of its own host and to one of another; what was asked for is kept."""

    asked: list[str]
    port: int

    def do_GET(self) -> None:
        self.asked.append(f"{self.headers['Host'].split(':')[0]}{self.path}")
        body = f'<title>{"Long " * 40}</title><a href="/b">b</a><a href="/c">c</a><a href="http://localhost:{self.port}/d">d</a>'
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def other_web() -> Iterator[type[_Handler]]:
    class Handler(_Handler):
        asked = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.port = server.server_port
        threading.Thread(target=server.serve_forever).start()
        yield Handler
        server.shutdown()


def test_seeds_are_crawled_within_their_hosts(tmp_path: Path, other_web: type[_Handler]) -> None:
    seed = f"http://127.0.0.1:{other_web.port}/a"
    run = crawl(tmp_path / "items.jsonl", "-a", f"seeds={seed},{seed}2", sets=HURRY)
    assert sorted(other_web.asked) == [f"127.0.0.1/{path}" for path in ("a", "a2", "b", "c", "robots.txt")]
    assert sorted(str(item["url"])[len(seed) - 1 :] for item in run.items) == ["a", "a2", "b", "c"]
    summary = [
        line for line in run.output if not line.startswith("pages ")
    ]  # how far it is, if it takes long
    assert summary[0].startswith("Finished after ")
    assert ": 4 pages of 1 host," in summary[0]
    assert max(map(len, run.output)) <= 80
