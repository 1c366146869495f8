"""On a terminal a crawl shows one line below its log, and a table at the end; elsewhere it shows nothing."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import threading
from typing import TYPE_CHECKING

import pytest
from conftest import environment
from nursery import nursery
from server import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from server import Web

SPIDER = """
import sys, warnings
from scrapy import Spider


class TalkingSpider(Spider):
    name = "talking"
    custom_settings = {settings}
    start_urls = [{url!r}]

    def parse(self, response):
        self.logger.info("logged %s", response.url)
        print("printed", response.url)
        print("half", end=" ")
        print("whole", response.url, file=sys.stdout)
        yield {{"url": response.url}}
        yield from response.follow_all(css="a")
"""


def on_terminal(command: list[str], path: Path, **env: str) -> str:
    """What *command* writes on a terminal of 100 columns, standard output and error."""
    ours, theirs = pty.openpty()
    parts: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 1 << 16):
                parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    env = {**environment(), "TERM": "xterm", "COLUMNS": "100", **env}
    with nursery.start(command, env, path, theirs, theirs) as process:
        os.close(theirs)
        assert process.wait(120) == 0, b"".join(parts)
    reader.join(10)
    os.close(ours)
    return b"".join(parts).decode()


def screen(written: str) -> list[str]:
    """The lines that stay on the terminal."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written).replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r\x1b[K")[2] for line in lines]


def command(path: Path, web: Web, settings: str = "{}") -> list[str]:
    web.default = Answer(delay=0.3)
    web.link("/", *(f"/{number}" for number in range(40)), delay=0.1)
    (path / "talking.py").write_text(SPIDER.format(url=web.url("/"), settings=settings))
    options = [
        "TELNETCONSOLE_ENABLED=0",
        "CONCURRENT_REQUESTS=4",
        "SCHEDULER=scrapy_frontier.FrontierScheduler",
    ]
    more = [part for option in options for part in ("-s", option)]
    return ["-m", "scrapy", "runspider", "talking.py", *more]


@pytest.mark.parametrize("has_rich", [True, False])
def test_a_line_below_the_log_and_a_table_at_the_end(tmp_path: Path, web: Web, has_rich: bool) -> None:
    if not has_rich:
        (tmp_path / "rich").mkdir()
        (tmp_path / "rich/__init__.py").write_text("raise ImportError('not installed')")
    path = os.pathsep.join((str(tmp_path), environment()["PYTHONPATH"]))
    written = on_terminal(command(tmp_path, web), tmp_path, PYTHONPATH=path)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written)
    shown = re.findall(
        r"\x1b\[Kpages ([\d,]+) \(([\d.]+)/s\)  known ([\d,]+)  queued ([\d,]+)  "
        r"hosts (\d+)  resting (\d+)  errors (\d+)()",
        plain,
    )
    assert len(shown) > 3, plain
    assert int(shown[-1][0]) > int(shown[0][0])
    assert {"41"} <= {known for _, _, known, *_ in shown}
    lines = screen(written)
    for number in range(40):
        url = web.url(f"/{number}")
        assert lines.count(f"printed {url}") == 1
        assert lines.count(f"half whole {url}") == 1
        assert len([line for line in lines if line.endswith(f"INFO: logged {url}")]) == 1
    assert not [line for line in lines if "resting " in line], "no line of progress stays"
    table = plain.partition("Spider closed")[2]
    assert re.search(r"pages\W+41 \([\d.]+ a second\)", table), table
    assert re.search(r"done\W+41", table)
    assert ("\x1b[1m" in written) == has_rich


def test_prints_that_go_into_the_log_do_no_harm(tmp_path: Path, web: Web) -> None:
    written = on_terminal([*command(tmp_path, web), "-s", "LOG_STDOUT=1"], tmp_path)
    assert written.count("[stdout] INFO: printed") == 41
    assert "resting" in written
    assert "Spider closed (finished)" in written


@pytest.mark.parametrize("how", ["no terminal", "dumb", "no interval"])
def test_it_is_quiet_elsewhere(tmp_path: Path, web: Web, how: str) -> None:
    run = command(tmp_path, web, "{'LOGSTATS_INTERVAL': 0}" if how == "no interval" else "{}")
    if how == "no terminal":
        ended = nursery.run(run, environment(), tmp_path)
        written = ended.stdout + ended.stderr
    else:
        written = on_terminal(run, tmp_path, TERM="dumb" if how == "dumb" else "xterm")
    assert "Spider closed" in written
    assert "\x1b[K" not in written
    assert "resting" not in written
