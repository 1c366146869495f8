"""What it costs a crawl that its dashboard is open and its metrics are scraped, each once a second.

    python benchmarks/dashboard.py [--pages 3000] [--rounds 6] [--way follow]

The crawl of ``spiders.py``, in pairs: without a server (``FRONTIER_DASHBOARD = False``), and with one that
another process asks for the state and the metrics each second. Printed: milliseconds of the processor a page
for both, and pages a second of the processor over those without; the last line has the medians.
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
import urllib.request
from pathlib import Path

import spiders


class Watcher(threading.Thread):
    """Asks the crawl whose directory is below *folder* once a second, as dashboard and Prometheus do."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._over = threading.Event()
        self.answers = 0

    def run(self) -> None:
        since = 0.0
        while not self._over.wait(1.0):
            with contextlib.suppress(OSError, StopIteration, ValueError):
                told = json.loads(next(self._folder.rglob("frontier.live")).read_text())
                address = f"http://127.0.0.1:{told['port']}"
                key = {"Authorization": f"Bearer {told['token']}"}
                asked = urllib.request.Request(f"{address}/api/state?since={since}", headers=key)
                with urllib.request.urlopen(asked, timeout=5) as response:
                    samples = json.load(response)["samples"]
                since = samples[-1][0] if samples else since
                urllib.request.urlopen(f"{address}/metrics", timeout=5).close()
                self.answers += 1

    def stop(self) -> None:
        self._over.set()
        self.join()


def crawl(given: argparse.Namespace, port: str, *settings: str) -> tuple[float, int]:
    """Crawls in a process of its own; returns milliseconds a page, and how often it was looked at."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--pages", str(given.pages), *(f"--set={each}" for each in settings)]
        command = spiders.pinned(0, "--crawl", given.way, port, *options)
        watcher = Watcher(Path(folder))
        watcher.start()
        environment = {**os.environ, "TMPDIR": folder}
        done = subprocess.run(command, check=True, capture_output=True, env=environment)
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
    command = spiders.pinned((os.cpu_count() or 2) - 1, "--server")
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    port = server.stdout.readline().decode().strip()
    alone, watched = [], []
    for number in range(given.rounds + 1):  # 0 makes the server's pages, and does not count
        without, _ = crawl(given, port, "FRONTIER_DASHBOARD=False")
        if number == 0:
            continue
        with_it, answers = crawl(given, port)
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
