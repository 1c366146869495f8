"""Asks the server of a running crawl, for a command that finds the frontier locked."""

from __future__ import annotations

import json
import os
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from ..core.errors import FrontierError
from ..core.hosts.host import HostClock
from ..crawl.control import Added

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ..core.frontier import PageId
    from ..core.store.queue_keys import QueuePlace

ADDRESS = "127.0.0.1"
LIVE_FILE = "frontier.live"  # beside the lock: port and token
_PATIENCE = 600.0  # seconds until an answer comes
_MOST = 4096  # bytes of the file that says where the server is


class NoAnswer(FrontierError):
    """No running crawl can be asked; the message is a reason, the rest of a sentence."""

    reason = "frontier_no_answer"


def told_place(place: QueuePlace | None) -> list[str] | None:
    """Returns the place of a page in a queue as JSON has it."""
    return None if place is None else [place.key.hex(), place.sort_key.hex(), place.host]


class RemoteEdits:
    """Changes a frontier as `FrontierEdits` does, by orders that others carry out."""

    def call(self, name: str, **arguments: object) -> Any:
        """Orders *name* of `crawl.orders`, and returns the answer."""
        raise NotImplementedError

    def add(
        self, urls: Iterable[str], priority: int = 0, pattern: str | None = None, force: bool = False
    ) -> Added:
        """Queues the pages of *urls*."""
        return Added(*self.call("add", urls=list(urls), priority=priority, pattern=pattern, force=force))

    def requeue(self, page_ids: Iterable[PageId], force: bool = False) -> int:
        """Queues finished pages again; returns how many."""
        return int(self.call("requeue", pages=list(page_ids), force=force))

    def forget(self, page_id: PageId, place: QueuePlace | None = None) -> bool:
        """Removes all that is known of a page; false if it is being fetched, or unknown."""
        return bool(self.call("forget", page=page_id, place=told_place(place)))

    def forget_host(self, host: str) -> Iterator[int]:
        """Removes all pages of a host; yields how many."""
        yield self.call("forget_host", host=host)

    def block(self, host: str) -> None:
        """Has no more pages of a host handed out."""
        self.call("block", host=host)

    def unblock(self, host: str) -> bool:
        """Ends a block, or a rest after trouble; false if there was none."""
        return bool(self.call("unblock", host=host))

    def delay(self, host: str, seconds: float | None) -> None:
        """Has so many seconds kept between two requests to a host; None ends that."""
        self.call("delay", host=host, seconds=seconds)


class RunningCrawl(RemoteEdits):
    """The crawl that has the frontier in *directory* open.

    All methods raise `NoAnswer`, `UsageError` for what the crawl takes for nonsense, or `FrontierError`.
    """

    def __init__(self, directory: Path) -> None:
        try:
            descriptor = os.open(directory / LIVE_FILE, os.O_RDONLY | os.O_NOFOLLOW)
            with open(descriptor, encoding="utf-8") as file:
                told = json.loads(file.read(_MOST))
            self._port, self._token, self.process = int(told["port"]), str(told["token"]), int(told["pid"])
        except FileNotFoundError:
            raise NoAnswer("it has no server (FRONTIER_DASHBOARD = False, or it is just beginning)") from None
        except PermissionError:
            raise NoAnswer(f"only its user may ask it, by {directory / LIVE_FILE}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NoAnswer(f"{directory / LIVE_FILE} cannot be read ({error})") from error
        if self.process == os.getpid():
            raise NoAnswer("a process cannot wait for itself: use `crawler.engine.scheduler.frontier`")
        self.clocks: dict[str, HostClock] = {}
        self.under_way: dict[PageId, float] = {}

    def call(self, name: str, **arguments: object) -> Any:
        """Asks for ``/api/`` *name*, and returns the answer."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        body = json.dumps({name: value for name, value in arguments.items() if value is not None})
        try:
            with closing(HTTPConnection(ADDRESS, self._port, timeout=_PATIENCE)) as connection:
                connection.request("POST", f"/api/{name}", body.encode(), headers)
                response = connection.getresponse()
                answer = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as error:
            raise NoAnswer(f"its server does not answer ({error or type(error).__name__})") from error
        if response.status == 400:
            raise UsageError(answer["message"])
        if response.status != 200:
            raise NoAnswer(f"its server refuses: {answer.get('message', response.reason)}")
        return answer

    def copy(self) -> str:
        """Has the crawl copy its database into its directory, and returns the name of the copy, which the
        caller removes. Learns the ``clocks`` of hosts, and since when pages are ``under_way``."""
        answer = self.call("copy")
        self.clocks = {host: HostClock(*clock) for host, clock in answer["clocks"].items()}
        self.under_way = {int(page_id): since for page_id, since in answer["under_way"].items()}
        return str(answer["copy"])
