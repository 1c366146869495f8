"""The command as a user runs it: a process of its own, pipes, Ctrl-C, a crawl that holds the store."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from humble import humbly
from scrapy.exceptions import UsageError
from stores import Frontiers, crawl, environment, link, rows, run_scrapy, scrapy_command, start

from scrapy_frontier.commands import COMMANDS, OPTIONS, overview
from scrapy_frontier.core.admin.check import KINDS
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.crawl.directory import home, homes_in

DOCS = Path(__file__).parents[2] / "docs"


def test_scrapy_knows_the_command(tmp_path: Path) -> None:
    crawl(tmp_path / "frontier")
    env = environment(tmp_path)
    new = subprocess.run(scrapy_command(), capture_output=True, env=env, cwd=tmp_path, check=True)
    assert b"frontier" in new.stdout
    said = run_scrapy(tmp_path, "frontier", "stats", "--dir", tmp_path / "frontier", "--json")
    assert (said.code, said.json["known"]) == (0, 60)
    assert run_scrapy(tmp_path, "frontier").out == overview() + "\n"
    assert "requeue" in run_scrapy(tmp_path, "frontier", "-h").out


def test_a_project_needs_no_directory(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop\n")
    (tmp_path / "shop.py").write_text("SPIDER_MODULES = ['spiders']\nJOBDIR = 'job'\n")
    (tmp_path / "spiders.py").write_text(
        "import scrapy\nclass One(scrapy.Spider):\n    name = 'one'\n"
        "    custom_settings = {'JOBDIR': 'other', 'DOWNLOAD_DELAY': 5}\n"
    )
    crawl(tmp_path / "job/frontier/one")
    crawl(tmp_path / "other/frontier/one", pages=40)
    assert run_scrapy(tmp_path, "frontier", "stats", "--json").json["known"] == 60
    told = run_scrapy(tmp_path, "frontier", "stats", "--json", "--spider", "one").json
    assert told["known"] == 40
    assert run_scrapy(tmp_path, "frontier", "stats", "--json", "--dir", "other").json["known"] == 40
    assert run_scrapy(tmp_path, "frontier", "stats", "--json", "-s", "JOBDIR=other").json["known"] == 40
    wrong = run_scrapy(tmp_path, "frontier", "stats", "--spider", "two")
    assert (wrong.code, "no spider 'two'" in wrong.err) == (2, True)


def test_a_jobdir_of_several_spiders(tmp_path: Path) -> None:
    """Each has a frontier of its own there, and a command must be told whose it is to look at."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop\n")
    (tmp_path / "shop.py").write_text("SPIDER_MODULES = ['spiders']\nJOBDIR = 'job'\n")
    spider = "class {0}(scrapy.Spider):\n    name = '{0}'\n"
    spiders = map(spider.format, ("one", "two", "new"))
    (tmp_path / "spiders.py").write_text("import scrapy\n" + "".join(spiders))
    for number, name in enumerate(("one", "two"), 1):
        crawl(home(tmp_path / "job", name), pages=30 * number)

    def known(*arguments: str) -> object:
        return run_scrapy(tmp_path, "frontier", "stats", "--json", *arguments).json["known"]

    assert (known("--spider", "one"), known("--spider", "two")) == (30, 60)
    assert (known("--spider", "two", "--dir", "job"), known("--dir", "job/frontier/two")) == (60, 60)
    for arguments in ((), ("--dir", "job")):
        said = run_scrapy(tmp_path, "frontier", "stats", *arguments)
        assert said.code == 2
        words = (
            "job holds the frontiers of several spiders (one in job/frontier/one, two in job/frontier/two): "
        )
        assert f"{words}write --spider NAME in their project, or --dir with one of these" in said.err
    said = run_scrapy(tmp_path, "frontier", "stats", "--spider", "new")
    assert (said.code, "no frontier in job/frontier/new" in said.err) == (1, True)
    assert not (tmp_path / "job/frontier/new").exists()


def test_what_is_made_in_a_jobdir_for_a_spider_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop\n")
    (tmp_path / "shop.py").write_text("SPIDER_MODULES = ['spiders']\nJOBDIR = 'job'\n")
    spider = "class {0}(scrapy.Spider):\n    name = '{0}'\n"
    (tmp_path / "spiders.py").write_text("import scrapy\n" + "".join(map(spider.format, ("one", "two"))))
    for name in ("one", "two"):
        assert run_scrapy(tmp_path, "frontier", "add", f"http://{name}.example/", "--spider", name).code == 0
    assert set(homes_in(tmp_path / "job")) == {"one", "two"}
    said = run_scrapy(tmp_path, "frontier", "add", "http://one.example/", "-s", "JOBDIR=empty")
    assert (said.code, "empty holds no frontier yet: write --spider NAME" in said.err) == (2, True)
    assert not (tmp_path / "empty").exists()


def test_nonsense_is_refused_without_a_traceback(tmp_path: Path) -> None:
    for arguments, words in (
        (("nothing",), "no command 'nothing'; there are: stats,"),
        (("stats", "--nothing"), "unrecognized arguments: --nothing; usage: scrapy frontier stats [--"),
        (("stats", "--limit", "3"), "unrecognized arguments: --limit 3; usage: "),
        (("hosts", "--limit", "x"), "argument --limit: invalid int value: 'x'"),
        (("top", "--by", "x"), "argument --by: invalid choice: 'x'"),
        (("delay", "a.example"), "the following arguments are required: SECONDS; usage: "),
        (("why",), "the following arguments are required: URL; usage: "),
        (("stats",), "--dir DIR"),
    ):
        said = run_scrapy(tmp_path, "frontier", *arguments)
        assert (said.code, words in said.err) == (2, True), said.err
        assert "Traceback" not in said.err
    missing = run_scrapy(tmp_path, "frontier", "stats", "--dir", "nowhere", "--json")
    assert (missing.code, missing.json["error"]) == (1, "frontier_missing")
    assert not (tmp_path / "nowhere").exists(), "looking makes no frontier"


@pytest.mark.parametrize(
    ("spiders", "words"),
    [
        ("\n1/0", "ZeroDivisionError: division by zero, raised in {}"),
        ("def x(", "spiders.py, line 1"),
    ],
)
def test_spiders_that_cannot_be_imported_are_named(tmp_path: Path, spiders: str, words: str) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop\n")
    (tmp_path / "shop.py").write_text("SPIDER_MODULES = ['spiders']\n")
    (tmp_path / "spiders.py").write_text(spiders)
    crawl(tmp_path / "frontier")
    said = run_scrapy(tmp_path, "frontier", "stats", "--spider", "one", "--dir", "frontier")
    assert (said.code, "Traceback" in said.err) == (2, False)
    assert words.format(tmp_path / "spiders.py") in said.err
    assert run_scrapy(tmp_path, "frontier", "stats", "--dir", "frontier").code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_about_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    frontier = Frontiers(tmp_path, capsys)
    said = frontier(name, "--help")
    assert said.code == 0
    assert said.out == frontier("help", name).out
    assert said.out.startswith(f"usage: scrapy frontier {name} ")
    assert COMMANDS[name].does[1:] in " ".join(said.out.split())
    told = set(re.findall(r"^  --([\w-]+)", said.out, re.MULTILINE))
    assert told == {"spider", "dir", "json", *COMMANDS[name].options}
    assert max(map(len, said.out.splitlines())) <= 80


HOLD = """
import sys, time
from scrapy_frontier.core.store.leveldb import Store
store = Store(sys.argv[1])
print("open", flush=True)
time.sleep(3000)
"""


def test_a_store_that_a_crawl_holds_is_named_with_its_process(tmp_path: Path) -> None:
    crawl(tmp_path / "frontier")
    command = [sys.executable, "-c", HOLD, str(tmp_path / "frontier")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(tmp_path)) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            commands = ("stats",), ("check", "--repair"), ("reset", "--yes"), ("import", "x")
            for arguments in (*commands, ("stats", "--json")):
                said = run_scrapy(tmp_path, "frontier", *arguments, "--dir", tmp_path / "frontier")
                assert said.code == 1
                assert f"process {holder.pid}" in said.err
                assert "stop that crawl first" in said.err
                assert "Traceback" not in said.err
        finally:
            holder.kill()
    assert json.loads(said.out)["error"] == "frontier_locked"


def big(directory: Path) -> None:
    frontier = start(directory)
    for number in range(0, 20_000, 100):
        pages = range(number, number + 100)
        frontier.discover([link(f"http://h{page % 9}.example/{page}") for page in pages], 0.0)
    frontier.close()


def without_progress(said: bytes) -> list[bytes]:
    """Lines without those that tell, on a slow machine, how far a command is."""
    return [line for line in said.splitlines() if not re.search(rb": [\d,]+( of .*)?, \d+ s$", line)]


def test_head_has_seen_enough(tmp_path: Path) -> None:
    big(tmp_path / "frontier")
    for arguments in (("find", ".", "--json"), ("find", "."), ("queue", "--limit", "0")):
        command = scrapy_command("frontier", *arguments, "--dir", tmp_path / "frontier")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path), cwd=tmp_path
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert without_progress(process.stderr.read()) == []
        assert process.returncode == 0


def test_ctrl_c_ends_quietly_and_leaves_the_store_sound(tmp_path: Path) -> None:
    big(tmp_path / "frontier")
    command = scrapy_command("frontier", "find", ".", "--dir", tmp_path / "frontier")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path), cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()  # then it waits, for nobody reads on
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert without_progress(process.stderr.read()) == [b"", b"Interrupted."]
    assert process.returncode == 130
    Store(tmp_path / "frontier").close()


@pytest.mark.parametrize(
    ("path", "mode", "command"), [("store", 0, ["stats"]), ("store/leveldb", 0o500, ["reset", "--yes"])]
)
def test_a_store_one_has_no_right_to_is_named_and_left_alone(
    tmp_path: Path, path: str, mode: int, command: list[str]
) -> None:
    crawl(tmp_path / "store")
    before = rows(tmp_path / "store")
    (tmp_path / path).chmod(mode)
    line = humbly(*scrapy_command("frontier", *command, "--dir", tmp_path / "store"))
    done = subprocess.run(
        line, capture_output=True, text=True, env=environment(tmp_path), cwd=tmp_path, timeout=600
    )
    (tmp_path / path).chmod(0o700)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("scrapy frontier: ")
    assert str(tmp_path / "store") in done.stderr
    assert "Permission denied" in done.stderr
    assert done.stderr.count("\n") == 1
    assert rows(tmp_path / "store") == before


@pytest.mark.parametrize("command", ["links --graph", "export"])
def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    crawl(tmp_path / "store")
    frontier = Frontiers(tmp_path / "store", capsys)
    said = frontier(*command.split(), tmp_path / "nowhere/web")
    assert (said.code, said.err) == (
        1,
        f"scrapy frontier: {tmp_path / 'nowhere/web'}: No such file or directory\n",
    )
    with pytest.raises(UsageError, match="is no file: write the path of one"):
        frontier(*command.split(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_each_command_has_a_function_of_its_name() -> None:
    for name, spec in COMMANDS.items():
        module = __import__(f"scrapy_frontier.commands.{spec.module}", fromlist=["_"])
        assert callable(getattr(module, "import_" if name == "import" else name))
        assert set(spec.options) <= set(OPTIONS)


def test_the_documentation_has_every_command_and_option_and_finding() -> None:
    text = "".join(
        (DOCS / page).read_text(encoding="utf-8") for page in ("reference/commands.md", "repair.md")
    )
    table = dict(re.findall(r"^\| `([^`]+)` \| (.+?) \|$", text, re.MULTILINE))
    assert {how: does for how, does in table.items() if how.split()[0] in COMMANDS} == {
        f"{name} {spec.arguments}".strip(): spec.does for name, spec in COMMANDS.items()
    }
    assert {how for how in table if how.startswith("--")} == {f"--{name}" for name in OPTIONS}
    assert re.findall("`(.+?)`", table["--by"]) == OPTIONS["by"]["choices"]
    (about_top,) = re.findall(r"^- \*\*top\*\*:(.*?)^- ", text, re.MULTILINE | re.DOTALL)
    assert set(re.findall("`(.+?)`", about_top)) == set(OPTIONS["by"]["choices"])
    kinds = dict(re.findall(r"^\| ([a-z' ]+?) \| (.+?) \|$", text, re.MULTILINE))
    assert {kind: kinds[kind] for kind in kinds if kind in KINDS} == KINDS
    streamed = re.search(r"one document, or JSON\s+Lines for ([^.]+)\.", text)
    assert streamed is not None
    telling_lines = {name for name, spec in COMMANDS.items() if "limit" in spec.options}
    assert set(re.findall("`(.+?)`", streamed[1])) == telling_lines
