"""Processes that begin with Scrapy imported: that costs a second of processor time, a fork nearly none.

They are processes as others are, with an id, signals, files, directory, environment and exit code of their
own. What they have in common is the seed of `hash`: where that may matter, start a real one.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import scrapy_frontier

MOST = 1 << 20  # bytes of a request
PATIENCE = 600  # seconds until who waits for a process gives up


class Nursery:
    """A process that imports what crawls need, from the first `start` until `close`, and forks for each."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def _open(self) -> None:
        package = str(Path(scrapy_frontier.__file__).parent.parent)
        environment = {**os.environ, "PYTHONPATH": package}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])

    def close(self) -> None:
        """Waits for its end: else nobody counted the processor time of its children."""
        if self._process is not None:
            self._socket.close()
            self._process.wait()
            self._process = None

    def start(
        self, arguments: list[str], env: dict[str, str], cwd: Path, stdout: int = 1, stderr: int = 2
    ) -> Child:
        """``python`` *arguments*, of which the first is a file or -m."""
        if self._process is None:
            self._open()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            request = json.dumps([arguments, env, str(cwd)]).encode()
            socket.send_fds(self._socket, [request], [stdout, stderr, theirs.fileno()])
        return Child(ours)

    def run(self, arguments: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
        """The same to its end, and what it said."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with self.start(arguments, env, cwd, out.fileno(), err.fileno()) as child:
                code = child.wait(PATIENCE)
            said = [file.seek(0) or file.read() for file in (out, err)]
        return subprocess.CompletedProcess(arguments, code, *said)


class Child:
    """What tests use of a `subprocess.Popen`; but the end of a ``with`` is its end, too."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self.pid = int(told.recv(100))
        self.returncode: int | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """A test that fails leaves no process behind, and no socket for a later one to stumble over."""
        self.kill()
        self.wait()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("python", timeout or 0)
            self.returncode = int(self._told.recv(100))
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing is done to one that has ended: `wait` tells by what."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since, and who forked it has reaped it
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


nursery = Nursery()

# -- the process that forks ----------------------------------------------------------------------------------


def import_all() -> None:
    """What a crawl or a command imports; not the reactor, which is made when it is imported."""
    import pytest  # noqa: F401  the spiders of the tests are beside them
    from scrapy.settings import default_settings
    from scrapy.utils.misc import load_object

    for module in pkgutil.walk_packages(scrapy_frontier.__path__, "scrapy_frontier."):
        importlib.import_module(module.name)
    for name in ("scrapy.cmdline", "scrapy.extensions.feedexport", "aiohttp", "aiohttp.web"):
        with suppress(ImportError):
            importlib.import_module(name)
    for value in vars(default_settings).values():
        for path in (*value, *value.values()) if isinstance(value, dict) else (value,):
            if isinstance(path, str) and path.startswith("scrapy."):
                with suppress(Exception):  # what only some can use
                    load_object(path)
    assert "twisted.internet.reactor" not in sys.modules


def next_child(requests: socket.socket) -> list[str]:
    """Forks for each of *requests*, and returns in the child, with its arguments."""
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            woken.recv(1000)
            reap(children)
        if requests not in ready:
            continue
        request, files, _, _ = socket.recv_fds(requests, MOST, 3)
        if not request:
            sys.exit()
        told = socket.socket(fileno=files.pop())
        if pid := os.fork():
            for file in files:
                os.close(file)
            told.send(str(pid).encode())
            children[pid] = told
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (requests, woken, waker, told, *children.values()):
            each.close()
        return become(request, files)


def become(request: bytes, files: list[int]) -> list[str]:
    arguments, environment, directory = json.loads(request)
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    return list(arguments)


def reap(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as told, suppress(OSError):  # nobody may listen any more
            told.send(str(os.waitstatus_to_exitcode(status)).encode())


def run(arguments: list[str]) -> None:
    is_module = arguments[0] == "-m"
    is_safe = getattr(sys.flags, "safe_path", False)
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    first = [] if is_safe else [str(Path.cwd() if is_module else Path(arguments[0]).parent)]
    rest = sys.path[not is_safe :]  # without the directory of this file, which Python has put first
    sys.path[:] = [*first, *(path for path in more if path not in rest), *rest]
    sys.argv = arguments[is_module:]
    sys.orig_argv = [sys.executable, *arguments]
    if is_module:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(arguments[0], run_name="__main__")


def leave_at_exit() -> list[int]:
    """Ends the process with the code put in the list, when all else that is to be done at its exit is done:
    to take all modules to pieces would copy them first."""
    codes: list[int] = []

    def leave() -> None:
        if codes:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(codes[0])

    atexit.register(leave)  # the last to be registered is the first to be called
    return codes


def main(requests: socket.socket) -> None:
    codes = leave_at_exit()
    import_all()
    gc.collect()
    gc.freeze()  # a collection in a child would copy it all
    try:
        run(next_child(requests))
    except SystemExit as end:
        if isinstance(end.code, int | None):
            codes.append(end.code or 0)
        raise
    codes.append(0)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
