"""Scrapy's commands in a project that has our scheduler and a JOBDIR, also while a crawl is running."""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import SETTINGS, environment
from nursery import nursery

from scrapy_frontier.crawl.scheduler import SWEEP_INTERVAL

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from nursery import Child
    from server import Web

SPIDER = '''
from scrapy import Request, Spider


class LinkSpider(Spider):
    name = "links"
    url = None

    async def start(self):
        yield Request(self.url)

    def parse(self, response):
        """
        @url {url}
        @returns items 1 1
        @returns requests 2 2
        """
        yield {{"title": response.css("title::text").get()}}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse_linked)

    def parse_linked(self, response):
        yield {{"linked": response.url}}
'''


class Project:
    """A project with our scheduler and a JOBDIR, and one spider."""

    def __init__(self, directory: Path, web: Web) -> None:
        self.directory = directory
        self.frontier = directory / "job/frontier/links"
        page = '<title>hello</title><a href="/1">1</a><a href="/2">2</a>'
        self.url = web.on("/", body=page)
        self.crawl: Child | None = None
        (directory / "scrapy.cfg").write_text("[settings]\ndefault = project.settings\n")
        package = directory / "project"
        package.mkdir()
        (package / "__init__.py").touch()
        settings = {
            **SETTINGS,
            "DOWNLOAD_TIMEOUT": 3000,
            "JOBDIR": "job",
            "SPIDER_MODULES": ["project.spiders"],
            "LOG_LEVEL": "INFO",
        }
        lines = [f"{name} = {value!r}\n" for name, value in settings.items()]
        (package / "settings.py").write_text("".join(lines))
        (package / "spiders.py").write_text(SPIDER.format(url=self.url))

    def scrapy(self, *words: str) -> subprocess.CompletedProcess[str]:
        return nursery.run(["-m", "scrapy", *words], environment(), self.directory)

    def start_crawl(self, url: str) -> None:
        command = ["-m", "scrapy", "crawl", "links", "-a", f"url={url}", "--nolog"]
        self.crawl = nursery.start(command, environment(), self.directory)

    def stored(self) -> dict[str, str]:
        """The files of the store and what is in them."""
        if not self.frontier.exists():
            return {}
        files = [path for path in self.frontier.rglob("*") if path.is_file()]
        return {path.name: hashlib.sha1(path.read_bytes()).hexdigest() for path in files}

    def stored_at_rest(self) -> dict[str, str]:
        """The same when a crawl that waits has written all it has to write."""
        found: dict[str, str] = {}
        while found != (found := self.stored()):
            time.sleep(1.5 * SWEEP_INTERVAL)
        return found


@pytest.fixture
def project(tmp_path: Path, web: Web) -> Iterator[Project]:
    project = Project(tmp_path, web)
    yield project
    if project.crawl is not None:
        project.crawl.kill()
        project.crawl.wait()


def assert_fine(command: subprocess.CompletedProcess[str], *words: str) -> None:
    """It ended well, printed *words*, and said nothing of a locked frontier."""
    for word in words:
        assert word in command.stdout + command.stderr
    assert command.returncode == 0
    assert "Traceback" not in command.stderr
    assert "frontier is open" not in command.stderr


def try_shell(project: Project) -> None:
    code = "fetch(response.urljoin('/1')) or print('got', response.url, response.status)"
    assert_fine(project.scrapy("shell", project.url, "-c", code), "/1 200")
    assert_fine(project.scrapy("shell", "--no-redirect", project.url, "-c", "response.status"), "200")


def try_fetch_parse_check(project: Project) -> None:
    assert_fine(project.scrapy("fetch", "--nolog", project.url), "<title>hello</title>")
    parse = project.scrapy("parse", "--spider", "links", "--depth", "2", project.url)
    assert_fine(parse, "'title': 'hello'", "'linked'")
    assert_fine(project.scrapy("check", "links"), "Ran 2 contracts", "OK")


CONTRACTS = '''

class MovedSpider(Spider):
    name = "moved"

    def parse_page(self, response):
        """
        @url {0}
        @returns items 1 1
        """
        yield {{"url": response.url}}

    def parse_moved(self, response):
        """
        @url {1}
        @returns items 2 2
        """
        yield {{"url": response.url}}

    def parse_also_moved(self, response):
        """
        @url {2}
        @returns items 3 3
        """
        yield {{"url": response.url}}
'''


@pytest.mark.parametrize("late", ["/page", "/moved"])
@pytest.mark.parametrize("addons", ["{}", "{'scrapy_frontier.Addon': 500}"], ids=["scheduler", "addon"])
def test_check_does_not_skip_contracts_that_are_redirected_to_a_page_of_another(
    project: Project, web: Web, addons: str, late: str
) -> None:
    """The page was known, and they passed as if there were none."""
    web.on("/page", delay=late == "/page")
    for path in ("/moved", "/also"):
        web.on(path, status=302, headers={"Location": "/page"}, delay=late == "/moved")
    urls = [web.url(path) for path in ("/page", "/moved", "/also")]
    with (project.directory / "project/spiders.py").open("a") as spiders:
        spiders.write(CONTRACTS.format(*urls))
    with (project.directory / "project/settings.py").open("a") as settings:
        settings.write(f"ADDONS = {addons}\n")
    check = project.scrapy("check", "moved", "-v")
    assert "Ran 3 contracts" in check.stderr
    assert "FAILED (failures=2)" in check.stderr
    assert check.returncode == 1


@pytest.mark.parametrize("command", ["fetch", "shell"])
def test_what_tries_a_host_out_hears_that_it_refuses(project: Project, command: str) -> None:
    """The shell's engine never asks whether it may end."""
    found = project.scrapy(command, "http://127.0.0.9:1/", "-s", "RETRY_TIMES=1")
    assert "Connection was refused" in found.stderr + found.stdout


def try_bench(project: Project) -> None:
    """Its spider would take the pages of the project's crawl, and fail them for want of their callbacks."""
    with open(Path(tempfile.gettempdir()) / "scrapy-bench.lock", "w") as one_at_a_time:  # all want one port
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        bench = project.scrapy("bench", "-s", "CLOSESPIDER_TIMEOUT=1")
    assert_fine(bench, "closespider_timeout")


TRIES = [
    try_shell,
    try_fetch_parse_check,
    try_bench,
]


@pytest.mark.parametrize("try_commands", TRIES)
def test_commands_work_while_a_crawl_holds_the_store(
    project: Project, web: Web, try_commands: Callable[[Project], None]
) -> None:
    web.on("/slow", delay=3000)
    project.start_crawl(web.url("/slow"))
    web.wait(1)
    before = project.stored_at_rest()
    assert "CURRENT" in before
    try_commands(project)
    assert project.stored() == before
    assert project.crawl is not None
    assert project.crawl.poll() is None


@pytest.mark.parametrize("process", ["", "FORCE_CRAWLER_PROCESS=1"])
def test_a_crawl_that_cannot_use_its_frontier_ends_with_exit_code_1(
    project: Project, web: Web, process: str
) -> None:
    """So that cron notices."""
    line = ["crawl", "links", "-a", f"url={project.url}", *(["-s", process] if process else [])]
    assert project.scrapy(*line).returncode == 0
    visits = len(web.visits)
    with (project.frontier / "frontier.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = project.scrapy(*line)
    assert refused.returncode == 1
    assert "'finish_reason': 'frontier_locked'" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert project.scrapy("runspider", "project/spiders.py", "-s", "FRONTIER_DIR=scrapy.cfg").returncode == 1
    assert project.scrapy(*line, "-s", "FRONTIER_COOLDOWN=often").returncode == 1
    assert len(web.visits) == visits
