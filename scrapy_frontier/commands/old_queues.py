"""Takes along what other schedulers left queued: `scrapy frontier import --jobdir` and ``--redis``.

Both keep their requests as pickles, and loading a pickle runs what it says: the same code that wrote a queue
must be trusted to be read from it, as Scrapy and scrapy-redis do at every start.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.core.scheduler import Scheduler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import UsageError
from scrapy.utils.request import request_from_dict

from ..core.errors import FrontierError
from ..core.frontier import Link
from ..core.parse.urls import clean_host, host_of
from ..crawl.codec import Codec, Unstorable
from ..crawl.log import queue_of_scrapy
from ..crawl.meta_keys import SLOT, START
from ..crawl.meta_values import facts_of
from .output import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request, Spider

    from .call import Call
    from .project import Project

_AT_A_TIME = 100  # requests that one call discovers, or reads from Redis
_SHOWN = 10  # requests that are not taken along, told one by one


class NoOldQueue(FrontierError):
    """The queue to take along is not there, or cannot be read; nothing was queued."""

    reason = "frontier_old_queue"


def take_along(call: Call) -> int:
    """Queues the requests of an old queue, which stays as it is, in the project's frontier; makes that if
    there is none. Exit code 1 if some could not be taken along: these are named."""
    project, options = call.project, call.options
    spider = _spider(project)
    refused: list[str] = []
    if options.jobdir is not None:
        opened = _of_jobdir(project, spider, options.jobdir, refused)
    else:
        opened = _of_redis(spider, options.redis, call.arguments[0], refused)
    new = known = 0
    with opened as requests, project.open(create=True) as store, project.frontier(store) as frontier:
        links = _links(project, Codec(spider), progress(requests, "requests read"), refused)
        while handful := list(islice(links, _AT_A_TIME)):
            taken = sum(answer.is_taken for answer in frontier.discover(handful, project.now))
            new += taken
            known += len(handful) - taken
    text = f"Took along {new:,} requests; {known:,} known already; {len(refused):,} could not be taken along."
    call.output.answer({"taken": new, "known": known, "refused": refused}, text)
    call.output.text(
        "What was fetched before is kept there as fingerprints, without URLs, and cannot be taken along: "
        "such a page is fetched again if it is linked again. The old queue is left as it is."
    )
    for each in refused[:_SHOWN]:
        call.output.text(f"  not taken along: {each}")
    return 1 if refused else 0


def _spider(project: Project) -> Spider:
    """Makes a spider for its callbacks, without its arguments: nothing of it is run. Raises `UsageError` if
    it is not known which."""
    cls = project.only_spider()
    if cls is None:
        raise UsageError("write --spider NAME: the requests name callbacks of their spider")
    return cls.__new__(cls)


def _links(project: Project, codec: Codec, requests: Iterator[Request], refused: list[str]) -> Iterator[Link]:
    """Yields a link for each of *requests*. One that comes twice is queued twice if its spider insists on it
    (``dont_filter``), as it was."""
    insisted: set[bytes] = set()
    for request in requests:
        try:
            payload = codec.encode(request)
        except Unstorable as reason:
            refused.append(f"{request}: {reason}")
            continue
        fingerprint = project.identities.of(request)
        slot = clean_host(str(request.meta.get(SLOT) or ""))
        yield Link(
            fingerprint=fingerprint,
            url=request.url,
            host=slot or project.politeness_key_of(request.url),
            priority=request.priority,
            payload=payload,
            facts=facts_of(request),
            again=fingerprint in insisted,
            is_named=START in request.meta,
        )
        if request.dont_filter:
            insisted.add(fingerprint)


def _read(read: Callable[[], Request | None], where: str, refused: list[str]) -> Request | None:
    """Returns what *read* does; None, and why in *refused*, if that raises, as classes of the project may."""
    try:
        return read()
    except Exception as error:
        refused.append(f"a request in {where} that cannot be read ({type(error).__name__}: {error})")
        return None


# -- Scrapy's own queue on disk ------------------------------------------------------------------------------


@contextmanager
def _of_jobdir(
    project: Project, spider: Spider, jobdir: str, refused: list[str]
) -> Iterator[Iterator[Request]]:
    """Opens a copy of the queue in *jobdir*, since to read is to remove. Raises `NoOldQueue`."""
    directory = queue_of_scrapy(jobdir)
    if directory is None:
        raise NoOldQueue(f"{jobdir} holds no queue of Scrapy's own scheduler (requests.queue)")
    if not (directory / "active.json").exists():
        raise NoOldQueue(
            f"{directory} has no active.json, which Scrapy writes when a crawl is stopped: this one was "
            "killed, and Scrapy itself cannot read what it left"
        )
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(directory, Path(copy, directory.name))
        yield _pop_all(_open(project, spider, copy), str(directory), refused)


def _open(project: Project, spider: Spider, jobdir: str) -> Any:
    """Opens the queue on disk as Scrapy's scheduler does. Raises `NoOldQueue`."""
    settings = project.settings.copy()
    settings.setdict({"JOBDIR": jobdir, "DUPEFILTER_CLASS": BaseDupeFilter}, "cmdline")
    engine = SimpleNamespace(downloader=SimpleNamespace(slots={}))  # the queue asks which hosts are busy
    crawler: Any = SimpleNamespace(settings=settings, spider=spider, engine=engine, stats=None)
    try:
        scheduler = Scheduler.from_crawler(crawler)
        scheduler.open(spider)
    except Exception as error:  # of a queue class, by files that another one wrote
        raise NoOldQueue(
            f"Scrapy's queue cannot be opened ({type(error).__name__}: {error}): set "
            "SCHEDULER_PRIORITY_QUEUE, SCHEDULER_DISK_QUEUE and SCHEDULER_START_DISK_QUEUE to what the crawl "
            "had that wrote it"
        ) from error
    return scheduler.dqs


def _pop_all(queue: Any, where: str, refused: list[str]) -> Iterator[Request]:
    for _ in range(len(queue)):
        request = _read(queue.pop, where, refused)
        if request is not None:
            yield request
    queue.close()


# -- scrapy-redis --------------------------------------------------------------------------------------------


@contextmanager
def _of_redis(spider: Spider, url: str, key: str, refused: list[str]) -> Iterator[Iterator[Request]]:
    """Opens the queue of requests under *key*, a sorted set or a list. Raises `NoOldQueue`, and
    `UsageError` if the package ``redis`` is not installed."""
    try:
        import redis
    except ImportError:
        raise UsageError("--redis needs a package: pip install 'scrapy-frontier[redis]'") from None
    try:
        with redis.Redis.from_url(url) as client:
            kind = client.type(key).decode()
            if kind not in _ENTRIES:
                there = "is not there" if kind == "none" else f"is a {kind}, and no queue of scrapy-redis"
                raise NoOldQueue(f"{key} {there}: write the key of the queue, as {spider.name}:requests")
            yield _requests(_ENTRIES[kind](client, key), spider, key, refused)
    except (redis.RedisError, ValueError) as error:
        raise NoOldQueue(f"Redis at {url}: {error}") from error


def _of_sorted_set(client: Any, key: str) -> Iterator[bytes]:
    """Best first: the score is the negative priority."""
    for start in range(0, client.zcard(key), _AT_A_TIME):
        yield from client.zrange(key, start, start + _AT_A_TIME - 1)


def _of_list(client: Any, key: str) -> Iterator[bytes]:
    """First in, first out: scrapy-redis pushes on the left."""
    for end in range(client.llen(key), 0, -_AT_A_TIME):
        yield from reversed(client.lrange(key, max(end - _AT_A_TIME, 0), end - 1))


_ENTRIES = {"zset": _of_sorted_set, "list": _of_list}


def _requests(entries: Iterator[bytes], spider: Spider, where: str, refused: list[str]) -> Iterator[Request]:
    for entry in entries:
        request = _read(partial(_request, entry, spider), where, refused)
        if request is not None:
            yield request


def _request(entry: bytes, spider: Spider) -> Request:
    request = request_from_dict(pickle.loads(entry), spider=spider)  # noqa: S301 - as scrapy-redis does
    if not host_of(request.url):
        raise ValueError(f"{request.url} names no host")
    return request
