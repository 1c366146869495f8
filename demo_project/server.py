"""Serves the small web on loopback, inside the crawl's own process, for as long as the crawl runs.

The server has a thread and an event loop of its own: the crawler meets it over sockets like any other web,
and neither waits for the other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import threading
import time
from collections import Counter
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from demo_project.web import LOOPBACKS, SITES

if TYPE_CHECKING:
    from demo_project.web import Answer, Web

LATENCY = {site.name: site.latency for site in SITES}
_STAMPS = 35  # SO_TIMESTAMPNS of Linux, which the socket module does not name


def has_loopbacks() -> bool:
    """Whether this machine has 127.0.0.2 and its neighbours, as Linux does and macOS does not."""
    try:
        for address in LOOPBACKS:
            socket.create_server((address, 0)).close()
    except OSError:
        return False
    return True


class WebServer:
    """Listens from construction on, which raises OSError where it cannot; answers after `start`."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._visits: Counter[tuple[str, str]] = Counter()
        self._hosts = {name: f"{host}:{port}" for name, (host, port) in web.addresses.items()}
        self._asked: dict[str, float] = {}  # when the last request to each arrived
        self.gaps: dict[str, float] = {}  # the least seconds between two requests to a host
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._listeners: dict[str, socket.socket] = {}
        self._connections: set[asyncio.BaseTransport] = set()
        try:
            for name, address in web.addresses.items():
                listener = self._listeners[name] = socket.create_server(address)
                if sys.platform == "linux":
                    listener.setsockopt(socket.SOL_SOCKET, _STAMPS, 1)  # what is accepted inherits it
        except OSError:
            self._close()
            raise

    def start(self) -> None:
        """Answer, in a thread, until `stop`."""
        threading.Thread(target=self._run, name="demo-web", daemon=True).start()

    def stop(self) -> None:
        """Stop listening and hang up; returns at once and is done a moment later."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._close()

    async def _serve(self) -> None:
        servers = [
            await self._loop.create_server(partial(_Connection, self, name), sock=listener)
            for name, listener in self._listeners.items()
        ]
        await self._stopped.wait()
        for server in servers:
            server.close()
        for connection in self._connections:
            connection.close()
        await asyncio.sleep(0)  # hanging up takes a turn of the loop

    def _close(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        self._loop.close()

    def asked(self, name: str, when: float) -> None:
        """A request to the site *name*, for a page or its robots.txt, arrived at *when* (POSIX seconds)."""
        host = self._hosts[name]
        if host in self._asked:
            gap = when - self._asked[host]
            self.gaps[host] = min(gap, self.gaps.get(host, gap))
        self._asked[host] = when

    def answer(self, name: str, target: str) -> Answer:
        self._visits[name, target] += 1
        return self._web.answer(name, target, self._visits[name, target])


class _Connection(asyncio.BufferedProtocol):
    """Answers one GET after another, each after the site's latency."""

    def __init__(self, server: WebServer, name: str) -> None:
        self._server, self._name = server, name
        self._received = b""
        self._buffer = bytearray(65_536)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._socket: socket.socket = transport.get_extra_info("socket").dup()  # asyncio's has no recvmsg
        self._server._connections.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server._connections.discard(self._transport)
        self._socket.close()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Asked for when there is something to read, or nothing more. Since when, the kernel knows."""
        begin, notes, *_ = self._socket.recvmsg(1, 64, socket.MSG_PEEK)
        if begin and not self._received:
            self._server.asked(self._name, _arrival(notes))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received += self._buffer[:nbytes]
        if b"\r\n\r\n" in self._received:
            line, self._received = self._received.split(b"\r\n", 1)[0], b""
            answer = self._server.answer(self._name, line.split()[1].decode())
            asyncio.get_running_loop().call_later(LATENCY[self._name], self._send, answer)

    def _send(self, answer: Answer) -> None:
        body = answer.body.encode()
        headers = {**answer.headers, "Content-Length": str(len(body))}
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        assert isinstance(self._transport, asyncio.WriteTransport)
        self._transport.write("\r\n".join([*lines, "\r\n"]).encode() + body)


def _arrival(notes: list[tuple[int, int, bytes]]) -> float:
    """When the kernel received what *notes* are about; where it does not tell, now.

    This thread waits for the crawl's, on a busy machine for tenths of a second: its own clock comes too late.
    """
    for _, kind, stamp in notes:
        if kind == _STAMPS:
            seconds, nanoseconds = struct.unpack_from("ll", stamp)
            return float(seconds + nanoseconds / 1e9)
    return time.time()
