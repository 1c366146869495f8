"""A crawl that is running answers and obeys, and only those who may ask."""

from __future__ import annotations

import json
import socket
import stat
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from server import Answer, links

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from server import Web


class Live(scrapy.Spider):
    name = "live"
    web = ""

    async def start(self):
        yield scrapy.Request(self.web)

    def parse(self, response):
        yield from response.follow_all(css="a")


def ask(directory: Path, path: str, **headers: str) -> tuple[int, Any]:
    told = json.loads((directory / "frontier" / "frontier.live").read_text())
    shown = {"Authorization": f"Bearer {told['token']}", **headers}
    request = urllib.request.Request(
        f"http://127.0.0.1:{told['port']}{path}", headers={name: shown[name] for name in shown if shown[name]}
    )
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture
def live(web: Web, start: Callable[..., Crawl]) -> Crawl:
    """A crawl that waits for the second of its pages."""
    urls = [web.url(f"/{number}") for number in range(1, 6)]
    web.on("/", Answer(body=links(*urls)))
    web.on("/1", Answer(until=lambda: len(urls) < 5))
    crawl = start(Live, {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}, web=web.url("/"))
    crawl.wait_for("Dashboard: http://127.0.0.1:").urls = urls
    return crawl


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/health", {}, 200),
        ("/health", {"Authorization": ""}, 200),
        ("/api/counts", {"Authorization": ""}, 401),
        ("/api/counts", {"Authorization": "Bearer wrong"}, 401),
        ("/api/counts", {"Authorization": "Bearer w\u00f6rng"}, 401),
        ("/health", {"Host": "frontier.example"}, 403),
        ("/health", {"Host": "127.0.0.1:1"}, 403),
        ("/health", {"Origin": "http://frontier.example"}, 403),
        ("/health", {"Origin": "null"}, 403),
        ("/", {"Host": "frontier.example"}, 403),
    ],
)
def test_strangers_are_refused(
    live: Crawl, tmp_path: Path, path: str, headers: dict[str, str], status: int
) -> None:
    assert ask(tmp_path, path, **headers)[0] == status


def test_the_file_is_its_owners_and_goes_with_the_crawl(
    web: Web, live: Crawl, start: Callable[..., Crawl], tmp_path: Path
) -> None:
    """A link in its place is not followed, and one that a kill left is overwritten."""
    file, elsewhere = tmp_path / "frontier" / "frontier.live", tmp_path / "elsewhere"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    killed = json.loads(file.read_text())
    live.kill()
    assert json.loads(file.read_text()) == killed
    file.unlink()
    file.symlink_to(elsewhere)
    crawl = start(Live, web=web.url("/")).wait_for("Dashboard: ")
    assert json.loads(file.read_text())["token"] != killed["token"]
    assert not file.is_symlink()
    assert not elsewhere.exists()
    live.urls.clear()
    assert crawl.wait().reason == "finished"
    assert not file.exists()


def test_it_can_be_switched_off(web: Web, run: Callable[..., Crawl], tmp_path: Path) -> None:
    crawl = run(Live, {"FRONTIER_DASHBOARD": False}, web=web.url("/"))
    assert crawl.reason == "finished"
    assert "Dashboard" not in crawl.log


def test_a_taken_port_is_told(web: Web, run: Callable[..., Crawl]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        crawl = run(Live, {"FRONTIER_DASHBOARD": port}, web=web.url("/"))
    assert crawl.reason == "finished"
    assert f"FRONTIER_DASHBOARD = {port}: that port is taken" in crawl.log
    assert "Dashboard: http://127.0.0.1:" in crawl.log
