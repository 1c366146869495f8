"""A small web on loopback that remembers every request: when it came, and how many were under way.

Each host is an address of its own, 127.0.0.2 and up, on a port the system picks. What a path answers is
set by `Web.on`; all others answer 200 with an empty page.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCE = 0.3  # seconds that a request may be longer on its way than the one after it, on a busy machine
PATIENCE = 600  # seconds until a test that waits for something gives up: only there to end it


@dataclass(frozen=True)
class Answer:
    """What a path answers: after *delay* seconds, and not before *until* is true; *drop* closes the
    connection, *raw* replaces it all."""

    status: int = 200
    body: str | bytes = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    raw: bytes | None = None
    until: Callable[[], object] | None = None

    def to_bytes(self) -> bytes:
        if self.raw is not None:
            return self.raw
        body = self.body.encode() if isinstance(self.body, str) else self.body
        headers = {"Content-Type": "text/html", "Content-Length": str(len(body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


def links(*urls: str) -> str:
    """A page that links *urls*."""
    anchors = "".join(f'<a href="{url}">.</a>' for url in urls)
    return f"<html><body>{anchors}</body></html>"


@dataclass
class Visit:
    """One request: when it arrived and was answered (monotonic seconds), and how many of its host were
    under way then, itself included."""

    host: int
    path: str
    cookie: str
    begin: float
    under_way: int
    end: float | None = None
    headers: dict[str, str] = field(default_factory=dict)  # names and values in lower case
    lines: dict[str, str] = field(default_factory=dict)  # the same, values as they came


class Web:
    """Servers for *hosts* hosts, numbered from 0, from construction until `close`."""

    def __init__(self, hosts: int = 1) -> None:
        self.visits: list[Visit] = []
        self.default = Answer()
        self.limit = math.inf  # requests beyond so many are answered when it is raised
        self._answers: dict[tuple[int, str], list[Answer]] = {}
        self._under_way = [0] * hosts
        self._writers: list[asyncio.StreamWriter] = []
        self._news = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers = [self._do(self._listen(host)) for host in range(hosts)]

    def _do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    async def _listen(self, host: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.append(writer)
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answer(host, reader, writer):
                    pass
            writer.close()

        return await asyncio.start_server(serve, self.name(host), 0, limit=4 << 20)

    def close(self) -> None:
        """Leave no socket behind: the collector would name it in the middle of another test."""

        async def stop() -> None:
            for server in self._servers:
                server.close()
            quiet = 0
            while quiet < 5:  # whoever was let in last becomes a task some turns later, transports end in one
                tasks = asyncio.all_tasks() - {asyncio.current_task()}
                quiet = 0 if tasks else quiet + 1
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for writer in self._writers:
                    writer.transport.abort()  # `close` would wait for those who do not read
                self._writers.clear()
                await asyncio.sleep(0)

        self._do(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    # -- what there is, and what was asked for -----------------------------------------------------------

    def name(self, host: int = 0) -> str:
        return f"127.0.0.{host + 2}"

    def url(self, path: str, host: int = 0) -> str:
        return f"http://{self.name(host)}:{self._servers[host].sockets[0].getsockname()[1]}{path}"

    def on(self, path: str, *answers: Answer, host: int = 0, **answer: Any) -> str:
        """Answer *path* with *answers* in turn, the last one for ever; returns its URL."""
        self._answers[host, path] = list(answers) or [Answer(**answer)]
        return self.url(path, host)

    def link(self, path: str, *urls: str, host: int = 0, **answer: Any) -> str:
        """Answer *path* with a page that links *urls*."""
        return self.on(path, host=host, body=links(*urls), **answer)

    def paths(self, host: int | None = None) -> list[str]:
        """Paths in order of arrival."""
        return [visit.path for visit in self.visits if host in (None, visit.host)]

    def times(self, host: int = 0) -> list[float]:
        return [visit.begin for visit in self.visits if visit.host == host]

    def gaps(self, host: int = 0) -> list[float]:
        """Seconds between one arrival and the next."""
        times = self.times(host)
        return [after - before for before, after in pairwise(times)]

    def wait(self, count: int, host: int | None = None) -> None:
        """Return when *count* requests have arrived, in all or at *host*."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.paths(host)) >= count, PATIENCE):
                raise TimeoutError(f"{len(self.paths(host))} of {count} requests in {PATIENCE} s")

    # -- serving -----------------------------------------------------------------------------------------

    async def _answer(self, host: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1].partition("#")[0]
        lines = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
        lines = {name.lower(): value for name, value in lines.items()}
        headers = {name: value.lower() for name, value in lines.items()}
        await reader.readexactly(int(headers.get("content-length", 0)))
        self._under_way[host] += 1
        visit = Visit(host, path, headers.get("cookie", ""), time.monotonic(), self._under_way[host])
        visit.headers, visit.lines = headers, lines
        with self._news:
            self.visits.append(visit)
            number = len(self.visits)
            self._news.notify_all()
        try:
            answer = self._reply(visit)
            if answer.delay:
                await asyncio.sleep(answer.delay)
            while number > self.limit or not (answer.until is None or answer.until()):
                await asyncio.sleep(0.01)
        finally:
            self._under_way[host] -= 1
            visit.end = time.monotonic()
        if answer.drop:
            return False
        writer.write(answer.to_bytes())
        await writer.drain()
        return answer.raw is None

    def _reply(self, visit: Visit) -> Answer:
        return self._next(visit.host, visit.path)

    def _next(self, host: int, path: str) -> Answer:
        answers = self._answers.get((host, path), [self.default])
        return answers.pop(0) if len(answers) > 1 else answers[0]
