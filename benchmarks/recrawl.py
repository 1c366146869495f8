"""What a second crawl costs, and what it finds: your own pages, a twentieth of them changed in between.

    python benchmarks/recrawl.py [FOLDER] [--share .05] [--seed 1] [--kills 0] [--set NAME=VALUE ...]

Serves a copy of FOLDER, a tree of HTML files, on loopback as a plain web server would, with `ETag` and
`Last-Modified`, and crawls all that is linked from its index.html with the add-on and ``FRONTIER_REVISIT =
"interval"``. Then pages are changed: a quarter of the share each in their text, in their links (to a page
that is new), in a comment that nobody sees, and a quarter is removed. The same command crawls again a week
later, by its clock. With ``--kills`` it does so once more, from the state after the first crawl, killed
so often at random moments: what differs in the end is printed, and what was asked for twice.
Without FOLDER a site of 2,000 pages is made. With ``--set FRONTIER_DIGEST=text`` the comments are no change.

Printed for both crawls: requests, 304s, bytes of bodies and of headers, those of robots.txt and sitemaps
apart; and what the second one found: each changed page must come to the callback, each new one be fetched,
each removed one be asked for. All others are not modified; those that were answered otherwise are named.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from email.utils import formatdate
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import scrapy

from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import Visits, decode_page

WEEK = 7 * 86400.0  # seconds
AHEAD = "RECRAWL_AHEAD"  # environment: seconds by which the clock of the crawl is ahead
AT_ONCE = 16
SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "FRONTIER_REVISIT": "interval",
    "FRONTIER_SHELF_LIFE": WEEK,
    "FRONTIER_CLOCK": "recrawl.clock",
    "CONCURRENT_REQUESTS": AT_ONCE,
    "ROBOTSTXT_OBEY": True,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
}


def clock() -> float:
    """That of the crawl."""
    return time.time() + float(os.environ[AHEAD])


class Server(ThreadingHTTPServer):
    """Serves *folder*, and remembers what it answered."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log: list[tuple[str, int, int, int]] = []  # path, status, bytes of head and of body
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        file = self.server.folder / path.lstrip("/")  # type: ignore[attr-defined]
        if file.is_dir():
            file /= "index.html"
        if not file.is_file():
            self._answer(path, 404, {}, b"")
            return
        stat = file.stat()
        tag, date = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"', formatdate(stat.st_mtime, usegmt=True)
        kind = self.guess_type(str(file))
        headers = {"ETag": tag, "Last-Modified": date, "Content-Type": kind}
        asked = self.headers.get("If-None-Match")
        is_known = tag in asked if asked is not None else self.headers.get("If-Modified-Since") == date
        if is_known:
            self._answer(path, 304, headers, b"")
        else:
            self._answer(path, 200, headers, file.read_bytes())

    def _answer(self, path: str, status: int, headers: dict[str, str], body: bytes) -> None:
        if status != 304:
            headers = {**headers, "Content-Length": str(len(body))}
        head = f"HTTP/1.1 {status} -\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.server.log.append((path, status, len(head) + 2, len(body)))  # type: ignore[attr-defined]
        self.wfile.write(head.encode("latin-1") + b"\r\n" + body)


class Follow(scrapy.Spider):
    """Follows all links of one host, and writes down the pages that it sees."""

    name = "follow"

    def __init__(self, url: str, seen: str) -> None:
        self.start_urls, self.allowed_domains = [url], [urlsplit(url).hostname]
        self._seen = open(seen, "a", buffering=1)  # noqa: SIM115

    def parse(self, response: Any) -> Any:
        self._seen.write(unquote(urlsplit(response.url).path) + "\n")
        if isinstance(response, scrapy.http.HtmlResponse):
            for href in response.css("a::attr(href)").getall():
                if not href.startswith(("mailto:", "javascript:", "data:", "tel:", "ftp:")):
                    yield response.follow(href)


def crawl(
    url: str, directory: Path, settings: dict[str, Any], ahead: float = 0.0, kill_after: float = 0.0
) -> bool:
    """Whether a crawl came to its end, with its frontier in *directory* and its clock *ahead* by so much: it
    is killed after that many seconds, if any. See `seen_in`."""
    seen, log = directory.with_suffix(".seen"), directory.with_suffix(".log")
    command = [
        sys.executable,
        "-m",
        "scrapy",
        "runspider",
        str(Path(__file__).resolve()),
        "-a",
        f"url={url}/",
        "-a",
        f"seen={seen}",
    ]
    for key, value in {**SETTINGS, "FRONTIER_DIR": str(directory), **settings}.items():
        command += ["-s", f"{key}={json.dumps(value) if isinstance(value, dict) else value}"]
    with log.open("wb") as out:
        environment = {**os.environ, AHEAD: str(ahead)}
        process = subprocess.Popen(command, stderr=out, stdout=out, env=environment, cwd=directory.parent)
    try:
        process.wait(kill_after or None)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    for line in log.read_text(errors="replace").splitlines():
        if " came back: " in line or " is due" in line:
            print(line.partition("INFO: ")[2])
    if process.returncode:
        sys.exit(log.read_text(errors="replace"))
    return True


def seen_in(directory: Path) -> set[str]:
    """The paths that the callback of a crawl has seen."""
    return set(directory.with_suffix(".seen").read_text().splitlines())


def make(folder: Path, pages: int, rng: random.Random) -> None:
    """A site whose pages link ten others each."""
    words = ["river", "stone", "garden", "window", "paper", "summer", "market", "letter", "engine", "mirror"]
    for number in range(pages):
        links = [10 * number + each for each in range(1, 11)] + [rng.randrange(pages) for _ in range(3)]
        anchors = "".join(f"<li><a href='/{each}.html'>{each}</a>" for each in links if each < pages)
        text = " ".join(rng.choices(words, k=600))
        body = f"<html><title>{number}</title><h1>{number}</h1><p>{text}</p><ul>{anchors}</ul></html>"
        (folder / ("index.html" if not number else f"{number}.html")).write_text(body)


def change(folder: Path, paths: list[str], share: float, rng: random.Random) -> dict[str, list[str]]:
    """Change that share of the pages at *paths*; their paths by what was done."""
    some = [path for path in sorted(paths) if (folder / path.lstrip("/")).is_file() and path != "/index.html"]
    chosen = rng.sample(some, max(4, round(share * len(some))))
    done = {kind: chosen[number::4] for number, kind in enumerate(("text", "links", "comment", "removed"))}
    done["new"] = [f"/recrawl-new-{number}.html" for number in range(len(done["links"]))]
    for path, new in zip(done["links"], done["new"], strict=True):
        _add(folder / path.lstrip("/"), f"<p><a href='{new}'>new</a></p>")
        (folder / new.lstrip("/")).write_text("<html><title>new</title><p>new</p></html>")
    for path in done["text"]:
        _add(folder / path.lstrip("/"), "<p>This was not here before.</p>")
    for path in done["comment"]:
        _add(folder / path.lstrip("/"), "<!-- nobody sees this -->")
    for path in done["removed"]:
        (folder / path.lstrip("/")).unlink()
    return done


def _add(file: Path, text: str) -> None:
    """Put *text* at the end of the body, where parsers still look."""
    page = file.read_bytes()
    ends = [page.lower().rfind(tag) for tag in (b"</body", b"</html")]
    end = next((end for end in ends if end >= 0), len(page))
    file.write_bytes(page[:end] + text.encode() + page[end:])


def told(name: str, log: list[tuple[str, int, int, int]]) -> int:
    """Print what one crawl cost; bytes of the bodies of pages."""
    special = [row for row in log if row[0] == "/robots.txt" or "sitemap" in row[0]]
    pages = [row for row in log if row not in special]
    statuses = Counter(row[1] for row in pages)
    bodies, heads = sum(row[3] for row in pages), sum(row[2] for row in pages)
    aside = sum(row[2] + row[3] for row in special)
    print(
        f"{name}: {len(pages):,} requests, {statuses[200]:,} bodies of {bodies:,} bytes, {statuses[304]:,} "
        f"not modified, {statuses[404]:,} missing; headers {heads:,} bytes; robots.txt and sitemaps: "
        f"{len(special)} requests, {aside:,} bytes"
    )
    return bodies


def judge(
    done: dict[str, list[str]], known: set[str], log: list[tuple[str, int, int, int]], seen: set[str]
) -> None:
    """Print what a crawl found of what was *done*, and what became of all others that were *known*."""
    asked = Counter(path for path, _, _, _ in log)
    for kind, paths in done.items():
        is_asked = kind == "removed"
        found = sum(path in (asked if is_asked else seen) for path in paths)
        print(f"{kind}: {found} of {len(paths)} {'asked for' if is_asked else 'seen by the callback'}")
    others = known.difference(*done.values())
    again = {path for path, status, _, _ in log if status == 304}
    print(f"unchanged: {len(others & again)} of {len(others)} not modified")
    for path in sorted(others - again)[:20]:
        print(f"  {path}: {[status for each, status, _, _ in log if each == path] or 'not asked for'}")


def records(directory: Path) -> dict[str, Any]:
    """What is known of each page, but for times."""
    store = Store(directory)
    try:
        pages = [decode_page(value) for _, value in store.scan(keys.PAGE)]
    finally:
        store.close()
    found = {}
    for page in pages:
        visits = page.visits or Visits(0, 0)
        kept = visits.visits, visits.changes, visits.digest, visits.validators, visits.unmodified
        found[page.url] = page.state, page.status, page.reason, *kept
    return found


def crawl_with_kills(
    server: Server, work: Path, settings: dict[str, Any], kills: int, rng: random.Random
) -> None:
    """The second crawl once more, and what it has that the one without kills has not."""
    unharmed = Counter(path for path, _, _, _ in server.log)
    server.log, made = [], 0
    directory, begin = work / "killed", time.monotonic()
    shutil.copytree(work / "first", directory)
    while not crawl(server.url, directory, settings, WEEK, rng.uniform(1, 8) if made < kills else 0.0):
        made += 1
    told(f"{made} kills in {time.monotonic() - begin:.0f} s", server.log)
    asked = Counter(path for path, _, _, _ in server.log)
    print(f"repeated: {asked.total() - len(asked)} requests of {made * AT_ONCE} that {made} kills may repeat")
    one, other = records(work / "second"), records(directory)
    differ = [url for url in one.keys() | other.keys() if one.get(url) != other.get(url)]
    print(
        f"asked for by one crawl only: {len(set(asked) ^ set(unharmed))}; records that differ: {len(differ)}"
    )
    for url in sorted(differ)[:20]:
        print(f"  {url}: {one.get(url)} {other.get(url)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    settings = dict(each.split("=", 1) for each in args.set)
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folder = work / "pages"
        if args.folder is None:
            folder.mkdir()
            make(folder, 2_000, rng)
        else:
            shutil.copytree(args.folder, folder)
        server = Server(folder)
        crawl(server.url, work / "first", settings)
        first, seen = told("first", server.log), seen_in(work / "first")
        known = {path for path, status, _, _ in server.log if status == 200 and path in seen}
        done = change(folder, list(known), args.share, rng)
        shutil.copytree(work / "first", work / "second")
        server.log = []
        crawl(server.url, work / "second", settings, WEEK)
        second = told("second", server.log)
        print(f"bodies: {second / first:.2%} of the first crawl's")
        judge(done, known, server.log, seen_in(work / "second"))
        if args.kills:
            crawl_with_kills(server, work, settings, args.kills, rng)


if __name__ == "__main__":
    main()
