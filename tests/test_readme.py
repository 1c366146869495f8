"""What the README shows a newcomer is run here: its demo, its transcript, its two settings and its spider."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from test_demo import free_port

from scrapy_frontier.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_it_is_narrow() -> None:
    assert all(len(line) <= 120 for line in README.splitlines() if not line.startswith("|"))


def test_its_settings_are_those_of_the_reference() -> None:
    rows = re.findall(r"^\| `(FRONTIER_\w+)` \| `?(\w+)", section("Settings most people touch"), re.MULTILINE)
    reference = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    assert len(rows) > 5
    for name, default in rows:
        assert re.search(rf"^\| `{name}` \| `?{default}\b", reference, re.MULTILINE), name


def test_its_commands_are_those_there_are() -> None:
    assert set(re.findall(r"`(\w+)`", section("Commands"))) == set(COMMANDS)


def test_its_figure_is_that_of_the_benchmarks() -> None:
    figures = (ROOT / "docs/internals/benchmarks.md").read_text(encoding="utf-8")
    row = re.search(r"pages in 12 s \| \d+ \((\d+) from the fast hosts\) \| \d+ \((\d+)\)", figures)
    assert row is not None
    assert f"fetched {row[1]} pages from the fast ones, the frontier {row[2]}." in section("One figure")


def test_ci_runs_the_tests_the_readme_names() -> None:
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "[dev" in ci
    assert "[dev]" in README
    assert re.search(r"bin/pytest", README)
    assert re.search(r"bin/pytest", ci)


def test_a_package_index_is_given_no_link_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    setuptools = SimpleNamespace(setup=given.update, find_packages=lambda include: include)
    monkeypatch.setitem(sys.modules, "setuptools", setuptools)
    runpy.run_path(str(ROOT / "setup.py"))
    assert "[What to read when](docs/index.md) lists" in README
    assert "What to read when (docs/index.md) lists" in given["long_description"]
    targets = re.findall(r"\]\(([^)]+)\)", given["long_description"])
    assert targets == [target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" in target] != []


def transcript() -> list[tuple[str, list[str]]]:
    """The commands of the indented blocks, each with what the README says it prints; with one in the
    background goes the next, which waits for it."""
    told: list[tuple[str, list[str]]] = []
    for line in re.findall(r"^    (.*)|^$", section("See it in a minute, without internet"), re.MULTILINE):
        if line.startswith("$ ") and told and told[-1][0].endswith(" &"):
            told[-1] = (f"{told[-1][0]} {line[2:]}", [])
        elif line.startswith("$ "):
            told.append((line[2:], []))
        elif told:
            told[-1][1].append(line)
    return told


def test_what_is_said_of_the_transcript_is_in_it() -> None:
    text = section("See it in a minute, without internet")
    (there,) = re.findall(r"they fetch all (\d+) pages", text)
    assert text.count(f"{there} done") == 2


def shape(lines: list[str]) -> str:
    """*lines* without what differs from run to run: numbers, and how many lines of progress there are."""
    text = "".join(f"{re.sub(r'[0-9]+', '0', line.strip())}\n" for line in lines if line.strip())
    text = re.sub(" +", " ", text)
    return re.sub(r"(pages 0 hosts 0 pending 0 0.0 pages/s\n)+", r"\1", text)


def run(command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
def test_the_transcript_is_what_happens(tmp_path: Path) -> None:
    port = free_port()
    for line, told in transcript():
        command = line.rpartition("&& ")[2].replace(".venv/bin/", "")
        if "activate" in command:
            continue
        command = command.replace("crawls/demo", f"{tmp_path}/demo").replace("demo.log", f"{tmp_path}/log")
        command = command.replace(":8998", f":{port}").replace(
            "crawl demo", f"crawl demo -s DEMO_PORT={port}"
        )
        ended = run(command)
        expected = "(?s)" + ".*".join(map(re.escape, shape(told).split("...\n"))) + "$"
        said = ended.stdout.splitlines()
        assert re.match(expected, shape(said)), (command, said, ended.stderr)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'<title>A page</title><a href="/a">a</a><a href="/b">b</a>'
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_its_settings_and_its_spider_crawl_a_site_and_fetch_nothing_twice(tmp_path: Path, site: str) -> None:
    settings, spider = re.findall(r"```python\n(.*?)```", section("Use it in your project"), re.DOTALL)
    assert len(settings.splitlines()) == 2
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = mine\n")
    (tmp_path / "mine.py").write_text(f"SPIDER_MODULES = ['pages']\n{settings}")
    (tmp_path / "pages.py").write_text(
        spider.replace("https://docs.scrapy.org", f"http://{site}").replace("docs.scrapy.org", "127.0.0.1")
    )
    for run, items in enumerate((3, 0), 1):
        command = [sys.executable, "-m", "scrapy", "crawl", "pages", "-o", f"{run}.jsonl"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
        assert len((tmp_path / f"{run}.jsonl").read_text().splitlines()) == items, ended.stderr
    assert (tmp_path / "crawls/mine/frontier/pages/leveldb").is_dir()
