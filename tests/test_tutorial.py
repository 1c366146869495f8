"""What the pages for newcomers tell is done here: the tutorial from an empty directory, minute by minute.

The settings and spiders of the recipes are valid.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import scrapy
from scrapy.settings import Settings

from scrapy_frontier.settings import FrontierSettings, unknown_names

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGES = 30
SITE = "quotes.toscrape.com"


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


class _Handler(BaseHTTPRequestHandler):
    """A page that links the next two."""

    def do_GET(self) -> None:
        number = int("".join(re.findall(r"\d+", self.path)) or 0)
        links = "".join(f'<a href="/page/{each}">.</a>' for each in (number + 1, number + 2) if each < PAGES)
        body = f"<title>Quotes {number}</title>{links}".encode()
        self.server.visits.append(self.path)  # type: ignore[attr-defined]
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class Site(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.visits: list[str] = []


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


def test_the_tutorial_from_an_empty_directory(tmp_path: Path, site: Site) -> None:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def here(text: str) -> str:
        address = f"127.0.0.1:{site.server_port}"
        return text.replace(f"https://{SITE}", f"http://{address}").replace(SITE, "127.0.0.1")

    def run(command: str, folder: Path) -> str:
        ended = subprocess.run(
            ["sh", "-ec", here(command)],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
        return ended.stdout + ended.stderr

    install, crawl, kill, look, again, once_more = blocks("tutorial", "sh")
    addons, jobdir, spider = blocks("tutorial", "python")
    (start_project,) = [line for line in install.splitlines() if line.startswith("scrapy startproject")]
    run(start_project, tmp_path)
    project = tmp_path / "tutorial"
    settings = project / "tutorial/settings.py"
    text = settings.read_text()
    assert re.findall(r"^ADDONS = .*\n", text, re.MULTILINE) == ["ADDONS = {}\n"], "as the tutorial says"
    quicker = "DOWNLOAD_DELAY = 0.1\n"
    settings.write_text(text.replace("ADDONS = {}\n", addons) + jobdir + quicker)
    (project / "tutorial/spiders/quotes.py").write_text(here(spider))

    assert crawl == again == once_more
    assert "pkill -9" in kill
    process = subprocess.Popen(
        ["scrapy", *crawl.split()[1:]], cwd=project, env=env, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(site.visits) < 8 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(site.visits) >= 8
    said = run(look, project)
    assert "queued" in said
    assert "It was fetched" in said
    assert "Resuming crawl" in run(again, project)
    pages = [path for path in site.visits if path != "/robots.txt"]
    assert set(pages) == {"/", *(f"/page/{number}" for number in range(1, PAGES))}
    assert len(pages) <= PAGES + 1, "at most the page under way was fetched again"
    words = " ".join(run(once_more, project).split())
    assert f"Left out http://127.0.0.1:{site.server_port}/: an earlier run knows its page" in words
    assert "Nothing was fetched: 1 seed is known from an earlier run" in words
    items = [json.loads(line) for line in (project / "quotes.jsonl").read_text().splitlines()]
    assert {item["title"] for item in items} <= {f"Quotes {number}" for number in range(PAGES)}


SETTINGS = [
    (page, number, code)
    for page in ("recipes", "existing-project", "tutorial", "index")
    for number, code in enumerate(blocks(page, "python"))
    if re.match(r"[A-Z_]+ = ", code)
]
SPIDERS = [
    (number, code)
    for number, code in enumerate(blocks("recipes", "python"))
    if not re.match(r"[A-Z_]+ = ", code)
]


@pytest.mark.parametrize(("page", "number", "code"), SETTINGS)
def test_the_settings_of_the_guides_are_valid(page: str, number: int, code: str) -> None:
    names: dict[str, object] = {}
    exec(code, names)
    settings = Settings({name: value for name, value in names.items() if name.isupper()})
    FrontierSettings(settings)
    assert unknown_names(settings) == []
    scrapys = [name for name in settings if not name.startswith("FRONTIER_")]
    assert [name for name in scrapys if name not in Settings()] == []


@pytest.mark.parametrize(("number", "code"), SPIDERS)
def test_the_code_of_the_recipes_defines_what_it_says(number: int, code: str) -> None:
    code = re.sub(r"^from scrapy_playwright.*$", "", code, flags=re.MULTILINE)
    names: dict[str, object] = {"scrapy": scrapy}
    exec(code, names)
    assert [each for each in names.values() if isinstance(each, type)] != []
