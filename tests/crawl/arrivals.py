"""When requests arrive by the clock of the kernel: who starves the processor starves his own server, too."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

_TIMESTAMPS = 35  # SO_TIMESTAMPNS of Linux, which the socket module does not name
_BODY = b"<html>a page</html>"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


class Arrivals:
    """Servers for *hosts* hosts; ``times`` are those of their requests, in seconds."""

    def __init__(self, hosts: int) -> None:
        self.times: list[list[float]] = [[] for _ in range(hosts)]
        self._sockets: list[socket.socket] = []
        for host in range(hosts):
            listening = socket.socket()
            listening.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)  # what is accepted inherits it
            listening.bind((f"127.0.1.{host + 1}", 0))
            listening.listen(50)
            self._sockets.append(listening)
            threading.Thread(target=self._accept, args=(listening, self.times[host]), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *given: object) -> None:
        for each in self._sockets:
            with suppress(OSError):  # a connection that has ended
                each.shutdown(socket.SHUT_RDWR)  # wakes who waits for it
            each.close()

    def url(self, path: str, host: int) -> str:
        name, port = self._sockets[host].getsockname()
        return f"http://{name}:{port}{path}"

    def _accept(self, listening: socket.socket, times: list[float]) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self._sockets.append(connection)
            threading.Thread(target=self._answer, args=(connection, times), daemon=True).start()

    def _answer(self, connection: socket.socket, times: list[float]) -> None:
        try:
            while True:
                data, notes, _, _ = connection.recvmsg(65_536, 256)
                if not data:
                    return
                (arrived,) = [note for _, kind, note in notes if kind == _TIMESTAMPS]
                seconds, nanoseconds = struct.unpack("qq", arrived[:16])
                times.append(seconds + nanoseconds / 1e9)
                connection.sendall(_ANSWER)
        except OSError:
            return
