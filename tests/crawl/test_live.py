"""A crawl that is running answers and obeys, and only those who may ask."""

from __future__ import annotations

import gzip
import json
import socket
import stat
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import scrapy
from conftest import environment, wait_until
from nursery import nursery
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
    wait_until(lambda: any(visit.path == "/1" for visit in web.visits))
    crawl.urls = urls
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


# -- commands ------------------------------------------------------------------------------------------------


def command(directory: Path, *arguments: object) -> tuple[int, str, str]:
    """What ``scrapy frontier ...`` prints in a process of its own, with its exit code."""
    given = ["-m", "scrapy", "frontier", *map(str, arguments), "--dir", str(directory / "frontier")]
    given += ["-s", "FRONTIER_LINKS=all"]
    done = nursery.run(given, environment(), directory)
    return done.returncode, done.stdout, done.stderr


def exported(directory: Path, *arguments: object) -> tuple[int, str, str]:
    """The same of a command that writes a file, which is in the place of its last line."""
    file = directory / "exported"
    code, said, error = command(directory, *arguments)
    content = gzip.decompress(file.read_bytes()) if arguments[0] == "export" else file.read_bytes()
    lines = [line for line in content.decode().splitlines() if '"exported"' not in line]
    return code, said.partition(" (")[0], "\n".join(lines) + error


PAUSED = "Paused: nothing more is handed out until resume; 1 requests under way end.\n"
READERS = [
    ("hosts",),
    ("hosts", "--json"),
    ("queue", "--limit", 0),
    ("find", "."),
    ("why", "{}/2"),
    ("why", "{}/", "--json"),
    ("links", "{}/", "--out"),
    ("links", "{}/2", "--in"),
    ("top", "--by", "pagerank", "--json"),
    ("check", "--json"),
]


def test_every_command_prints_what_it_would_of_the_stopped_crawl(
    web: Web, live: Crawl, tmp_path: Path
) -> None:
    """The crawl is paused, so that both see the same; it is killed, so that nothing is written meanwhile."""
    base = web.url("/").rstrip("/")
    readers = [[str(word).format(base) for word in reader] for reader in READERS]
    assert command(tmp_path, "pause")[:2] == (0, PAUSED)
    live.urls.clear()
    wait_until(lambda: "being fetched" not in command(tmp_path, "why", f"{base}/1")[1])
    before = [command(tmp_path, *reader) for reader in readers]
    written = exported(tmp_path, "export", "exported")
    code, stats, _ = command(tmp_path, "stats")
    assert code == 0
    assert f"running, in process {live.process.pid}" in stats
    assert not list((tmp_path / "frontier").glob("copy-*"))
    live.kill()
    assert [command(tmp_path, *reader) for reader in readers] == before
    assert exported(tmp_path, "export", "exported") == written
    assert "killed" in command(tmp_path, "stats")[1]
    assert [code for code, _, _ in before] == [0] * len(readers)


def test_changes_are_made_by_the_crawl_and_hold_at_once(web: Web, live: Crawl, tmp_path: Path) -> None:
    """The second page is on its way; all others of its host wait for that."""
    home, host = web.url("/"), urlsplit(web.url("/")).hostname
    other = web.url("/added", 1)

    def paths() -> list[str]:
        return [visit.path for visit in web.visits]

    def said(*arguments: object) -> str:
        code, out, error = command(tmp_path, *arguments)
        assert code == 0, error
        return " ".join(out.split())

    assert "It is being fetched, for" in said("why", web.url("/1"))
    assert said("queue").count(web.url("/")) == 4
    assert said("add", other, home) == "Added 1; 1 known already; 0 refused."
    wait_until(lambda: "/added" in paths())
    wait_until(lambda: "It was fetched" in said("why", other))
    assert said("requeue", "--state", "done", "--match", "added") == "Queued 1 pages again."
    wait_until(lambda: paths().count("/added") == 2)
    assert said("forget", web.url("/5")) == "Forgot 1 page."
    assert command(tmp_path, "forget", web.url("/1"))[0] == 1  # it is being fetched
    assert said("delay", host, "7") == f"{host}: 7 s, set by the operator."
    assert "7 s, set by the operator" in said("why", web.url("/2"))
    assert said("delay", host, "default") == f"{host}: 0 s, by DOWNLOAD_DELAY."
    assert said("block", host) == f"{host} is blocked; 4 pages of it stay queued."
    is_over: list[bool] = []
    said("add", web.on("/open", host=2, until=lambda: is_over))  # else nothing is left to fetch
    live.urls.clear()
    wait_until(lambda: "It was fetched" in said("why", web.url("/1")))
    live.go_on()
    assert not {"/2", "/3", "/4"} & set(paths())
    assert "blocked" in said("hosts")
    said("pause")
    assert said("unblock", host) == f"{host} may be visited."
    live.go_on()
    assert not {"/2", "/3", "/4"} & set(paths())
    assert said("forget", "--host", web.url("/", 1)) == "Forgot 1 page."
    is_over.append(True)
    wait_until(lambda: "It was fetched" in said("why", web.url("/open", 2)))
    assert said("stop") == "The crawl ends, after 0 requests under way; what is queued stays queued."
    assert live.wait().reason == "stopped"
    left = {json.loads(line)["url"] for line in command(tmp_path, "find", ".", "--json")[1].splitlines()}
    assert left == {*map(web.url, ("/", "/1", "/2", "/3", "/4")), web.url("/open", 2)}
    assert said("check").startswith("Nothing is wrong")


def test_a_paused_crawl_stays_open_and_goes_on(web: Web, live: Crawl, tmp_path: Path) -> None:
    command(tmp_path, "pause")
    live.urls.clear()
    wait_until(lambda: "It was fetched" in command(tmp_path, "why", web.url("/1"))[1])
    live.go_on()
    assert live.process.poll() is None
    assert command(tmp_path, "resume")[1] == "The crawl goes on.\n"
    assert live.wait().reason == "finished"
    assert sorted(visit.path for visit in web.visits) == ["/", "/1", "/2", "/3", "/4", "/5"]


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (None, "it has no server (FRONTIER_DASHBOARD = False, or it is just beginning)"),
        ('{"port": 1, "token": "x", "pid": 1}', "its server does not answer ("),
        ("nonsense", "cannot be read ("),
    ],
)
def test_a_crawl_that_cannot_be_asked_is_named_with_the_reason(
    live: Crawl, tmp_path: Path, told: str | None, reason: str
) -> None:
    file = tmp_path / "frontier" / "frontier.live"
    file.unlink()
    if told is not None:
        file.write_text(told)
    code, _, error = command(tmp_path, "stats")
    assert code == 1
    assert f"is open in process {live.process.pid} (a crawl): stop that crawl first" in error
    assert f"it cannot be asked either: {reason}" in " ".join(error.replace(str(file), "").split())


def test_there_must_be_a_crawl_to_pause(web: Web, run: Callable[..., Crawl], tmp_path: Path) -> None:
    run(Live, web=web.url("/"))
    for name in ("pause", "resume", "stop"):
        assert command(tmp_path, name)[0] == 1
