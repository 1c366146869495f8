"""A project that used another scheduler takes its queue along: none of the requests in it is lost."""

from __future__ import annotations

import json
import pickle
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from conftest import environment, wait_until
from nursery import nursery
from scrapy import Request, Spider

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from server import Web

SPIDER = """
from scrapy import Request, Spider
from scrapy.http import JsonRequest


class ManySpider(Spider):
    name = "many"
    handle_httpstatus_list = [404]

    async def start(self):
        for url in self.settings.getlist("SEEDS"):
            yield Request(url, dont_filter=True)

    def parse(self, response):
        yield {"parse": response.url}
        for number, link in enumerate(response.css("a")):
            yield response.follow(link, priority=number % 3, callback=self.parse_page, errback=self.failed,
                                  cb_kwargs={"number": number})
        if response.css("a"):
            yield JsonRequest(response.urljoin("/post"), data={"a": 1}, callback=self.parse_page,
                              cb_kwargs={"number": -1})

    def parse_page(self, response, number):
        yield {"page": response.url, "number": number, "method": response.request.method,
               "body": response.request.body.decode()}

    def failed(self, failure):
        pass
"""
FRONTIER = "ADDONS = {'scrapy_frontier.Addon': 500}\n"
OTHER_QUEUES = """\
SCHEDULER_PRIORITY_QUEUE = 'scrapy.pqueues.ScrapyPriorityQueue'
SCHEDULER_DISK_QUEUE = 'scrapy.squeues.MarshalFifoDiskQueue'
SCHEDULER_START_DISK_QUEUE = None
"""
PAGES = 300


class Project:
    """A Scrapy project in *path*, and the commands that are run in it."""

    def __init__(self, path: Path, web: Web) -> None:
        self.path = path
        (path / "scrapy.cfg").write_text("[settings]\ndefault = mine\n")
        (path / "spiders.py").write_text(SPIDER)
        self.seeds = [web.url("/"), *(web.url(f"/seed{number}") for number in range(20))]
        self.set("")

    def set(self, more: str) -> None:
        (self.path / "mine.py").write_text(
            f"SPIDER_MODULES = ['spiders']\nSEEDS = {self.seeds}\nTELNETCONSOLE_ENABLED = False\n"
            f"REMOTE_CONTROL_ENABLED = False\nCONCURRENT_REQUESTS = 4\n{more}"
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        ended = nursery.run(["-m", "scrapy", *arguments], environment(), self.path)
        return ended.returncode, ended.stdout + ended.stderr

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        code, log = self.run("crawl", "many", "-O", "items.jsonl", *arguments)
        assert code == 0, log
        return [json.loads(line) for line in (self.path / "items.jsonl").read_text().splitlines()]


@pytest.fixture
def project(tmp_path: Path, web: Web) -> Project:
    web.link("/", *(f"/{number}" for number in range(PAGES)))
    return Project(tmp_path, web)


@pytest.mark.parametrize(
    "settings",
    [
        "",
        OTHER_QUEUES,
    ],
    ids=["defaults", "others"],
)
def test_a_stopped_crawl_of_scrapys_own_scheduler_is_taken_along(
    project: Project, web: Web, settings: str
) -> None:
    project.set(settings)
    web.limit = 40
    log = project.path / "crawl.log"
    arguments = ["-m", "scrapy", "crawl", "many", "-O", "before.jsonl", "-s", "JOBDIR=job"]
    with (
        open(log, "wb") as file,
        nursery.start(arguments, environment(), project.path, stderr=file.fileno()) as crawl,
    ):
        wait_until(lambda: len(web.visits) > web.limit)
        crawl.send_signal(signal.SIGINT)
        wait_until(lambda: "Received SIGINT" in log.read_text())
        web.limit = float("inf")
        crawl.wait()
    assert "(shutdown)" in log.read_text()
    before = [json.loads(line) for line in (project.path / "before.jsonl").read_text().splitlines()]
    visits = len(web.visits)
    project.set(settings + FRONTIER)
    _, said = project.run("crawl", "many", "-s", "JOBDIR=job", "-s", "CLOSESPIDER_PAGECOUNT=1")
    assert "`scrapy frontier import --jobdir job`" in said
    shutil.rmtree(project.path / "job/frontier/many")
    visits = len(web.visits)

    code, said = project.run("frontier", "import", "--jobdir", "job")
    assert code == 0, said
    taken = PAGES + len(project.seeds) + 1 - len(before)
    assert f"Took along {taken} requests; 0 known already; 0 could not be taken along." in said
    assert "fingerprints, without URLs" in said
    code, said = project.run("frontier", "import", "--jobdir", "job")
    assert f"Took along 0 requests; {taken} known already" in said

    project.set(settings + FRONTIER + "SEEDS = []\nCONCURRENT_REQUESTS = 1\n")  # items in order
    after = project.items("-s", "JOBDIR=job")
    assert len(web.visits) - visits == len(after) == taken
    found = [item for item in before + after if "page" in item]
    assert sorted(item["number"] for item in found) == list(range(-1, PAGES))
    (post,) = (item for item in found if item["number"] == -1)
    assert (post["method"], post["body"]) == ("POST", '{"a": 1}')
    numbers = [item["number"] % 3 for item in after if item.get("number", -1) >= 0]
    assert numbers == sorted(numbers, reverse=True), "by priority"


def test_what_cannot_be_taken_along_is_told(project: Project) -> None:
    def said(*arguments: str) -> str:
        code, words = project.run("frontier", "import", *arguments)
        assert code, words
        return words

    assert "job holds no queue of Scrapy's own scheduler" in said("--jobdir", "job")
    (project.path / "job/requests.queue/127.0.0.2").mkdir(parents=True)
    assert "active.json" in said("--jobdir", "job")
    assert "write one of" in said("--jobdir", "job", "--redis", "redis://127.0.0.1", "key")
    assert "Redis at redis://127.0.0.1:1" in said("--redis", "redis://127.0.0.1:1", "key", "--dir", "new")
    (project.path / "spiders.py").write_text(
        SPIDER + SPIDER.replace('"many"', '"more"').replace("class Many", "class More")
    )
    assert "write --spider NAME" in said("--jobdir", "job")


def test_a_command_that_finds_no_frontier_says_what_the_project_has(project: Project) -> None:
    """A line at the top of settings.py does nothing if ADDONS is set again further down."""
    queue = project.path / "job/requests.queue"
    queue.mkdir(parents=True)
    (queue / "active.json").write_text("[]")
    project.set(FRONTIER + "ADDONS = {}\nJOBDIR = 'job'\n")
    code, said = project.run("frontier", "stats")
    assert code == 1
    for words in (
        "SCHEDULER = 'scrapy.core.scheduler.Scheduler'",
        "ADDONS = {}",
        '"scrapy_frontier.Addon": 500',
        "job/requests.queue holds the queue of Scrapy's own scheduler: `scrapy frontier import --jobdir job`",
    ):
        assert words in " ".join(said.split())
    (project.path / "scrapy.cfg").unlink()
    assert "no scrapy.cfg" in project.run("frontier", "stats")[1]


# -- scrapy-redis --------------------------------------------------------------------------------------------


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("redis", reason="no package redis")
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("no redis-server is installed")
    socket = tmp_path / "redis.sock"
    command = [server, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_until(socket.exists)
        yield f"unix://{socket}"
        process.terminate()


class ManySpider(Spider):
    """Names the callbacks of the project's spider."""

    name = "many"

    def parse_page(self, response: Any) -> None: ...


def as_scrapy_redis(request: Request) -> bytes:
    """What scrapy-redis keeps of *request*."""
    return pickle.dumps(request.to_dict(spider=ManySpider()), protocol=-1)


@pytest.mark.parametrize("kind", ["zset", "list"])
def test_the_queues_of_scrapy_redis_are_taken_along(
    project: Project, web: Web, redis_url: str, kind: str
) -> None:
    import redis

    client = redis.Redis.from_url(redis_url)
    spider = ManySpider()
    for number in range(PAGES):
        url, priority = web.url(f"/{number}"), number % 3
        arguments = {"number": number}
        request = Request(url, spider.parse_page, priority=priority, cb_kwargs=arguments)
        if kind == "zset":
            client.execute_command("ZADD", "many:requests", -priority, as_scrapy_redis(request))
        else:
            client.lpush("many:requests", as_scrapy_redis(request))
    project.set(FRONTIER + "SEEDS = []\nJOBDIR = 'job'\nCONCURRENT_REQUESTS = 1\n")  # items in order
    code, said = project.run("frontier", "import", "--redis", redis_url, "many:requests")
    assert code == 0, said
    assert f"Took along {PAGES} requests; 0 known already" in said
    assert client.dbsize() == 1, "it stays as it is"
    items = project.items()
    numbers = [item["number"] for item in items]
    assert sorted(numbers) == list(range(PAGES))
    assert [number % 3 for number in numbers] == sorted((number % 3 for number in numbers), reverse=True)
    code, said = project.run("frontier", "import", "--redis", redis_url, "nothing")
    assert "nothing is not there" in said
