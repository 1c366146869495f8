"""What it costs a crawl that its dashboard is open and its metrics are scraped, each once a second.

    python benchmarks/dashboard.py [--pages 3000] [--rounds 6] [--way follow]

First the crawl of ``spiders.py`` is paused in its middle, and its processor time a second is compared with
and without somebody who watches: that is what watching takes, to a tenth of a millisecond, on a busy machine
as well. Then whole crawls in pairs: without a server (``FRONTIER_DASHBOARD = False``), and watched. Printed:
milliseconds of the processor a page for both, and pages a second of the processor over those without; the
last line has the medians.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import spiders

PAUSED = 20.0  # seconds


class Crawl:
    """The running crawl whose directory is below *folder*. Raises `OSError` or `StopIteration` if none is."""

    def __init__(self, folder: Path) -> None:
        told = json.loads(next(folder.rglob("frontier.live")).read_text())
        self.process = told["pid"]
        self._address = f"http://127.0.0.1:{told['port']}"
        self._key = {"Authorization": f"Bearer {told['token']}"}

    def ask(self, path: str, order: bytes | None = None) -> bytes:
        request = urllib.request.Request(self._address + path, order, self._key)
        with urllib.request.urlopen(request, timeout=5) as response:
            answer: bytes = response.read()
            return answer

    def seconds(self) -> float:
        """Of the processor, so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watcher(threading.Thread):
    """Asks the crawl once a second, as a page that is open and Prometheus do."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._over = threading.Event()
        self.answers = 0

    def run(self) -> None:
        since = 0.0
        while not self._over.wait(1.0):
            with contextlib.suppress(OSError, StopIteration, ValueError):
                crawl = Crawl(self._folder)
                samples = json.loads(crawl.ask(f"/api/state?since={since}"))["samples"]
                since = samples[-1][0] if samples else since
                crawl.ask("/metrics")
                self.answers += 1

    def stop(self) -> None:
        self._over.set()
        self.join()


def command(given: argparse.Namespace, port: str, pages: int, *settings: str) -> list[str]:
    options = ["--pages", str(pages), *(f"--set={each}" for each in settings)]
    return spiders.pinned(0, "--crawl", given.way, port, *options)


def paused(given: argparse.Namespace, port: str) -> None:
    """Prints what watching takes of the processor, measured while the crawl is paused."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TMPDIR": folder}
        process = subprocess.Popen(command(given, port, 0), env=environment, stdout=subprocess.DEVNULL)
        try:
            time.sleep(20)
            crawl = Crawl(Path(folder))
            crawl.ask("/api/pause", b"")
            time.sleep(5)
            takes = []
            for watcher in (None, Watcher(Path(folder))):
                if watcher is not None:
                    watcher.start()
                before, began = crawl.seconds(), time.monotonic()
                time.sleep(PAUSED)
                takes.append((crawl.seconds() - before) / (time.monotonic() - began))
                if watcher is not None:
                    watcher.stop()
                    taken = f"{takes[0]:.2%} of a processor, watched {takes[1]:.2%}"
                    print(f"paused: {taken}, {watcher.answers} looks")
        finally:
            process.kill()
            process.wait()


def whole(given: argparse.Namespace, port: str, *settings: str) -> tuple[float, int]:
    """Crawls in a process of its own; returns milliseconds a page, and how often it was looked at."""
    with tempfile.TemporaryDirectory() as folder:
        watcher = Watcher(Path(folder))
        watcher.start()
        environment = {**os.environ, "TMPDIR": folder}
        line = command(given, port, given.pages, *settings)
        done = subprocess.run(line, check=True, capture_output=True, env=environment)
        watcher.stop()
        return json.loads(done.stdout)["ms"], watcher.answers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--way", choices=("scheduler", "addon", "follow"), default="follow")
    given = parser.parse_args()
    line = spiders.pinned((os.cpu_count() or 2) - 1, "--server")
    server = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    port = server.stdout.readline().decode().strip()
    paused(given, port)
    alone, watched = [], []
    for number in range(given.rounds + 1):  # 0 makes the server's pages, and does not count
        without, _ = whole(given, port, "FRONTIER_DASHBOARD=False")
        if number == 0:
            continue
        with_it, answers = whole(given, port)
        alone.append(without)
        watched.append(with_it)
        ratio = without / with_it
        print(f"alone {without:.3f} ms   watched {with_it:.3f} ms ({ratio:.3f}), {answers} looks", flush=True)
    ratios = [without / with_it for without, with_it in zip(alone, watched, strict=True)]
    middles = statistics.median(alone), statistics.median(watched)
    print("median: alone {:.3f} ms, watched {:.3f} ms, {:.3f}".format(*middles, statistics.median(ratios)))
    server.stdin.close()
    server.wait(10)


if __name__ == "__main__":
    main()
