"""Runs Scrapy's own tests with our scheduler in the place of Scrapy's.

    python benchmarks/scrapy_tests.py                 # as Scrapy tests itself
    python benchmarks/scrapy_tests.py --stock         # Scrapy's scheduler: what fails then, fails without us
    python benchmarks/scrapy_tests.py --heartbeat 20  # which tests wait for the engine's heartbeat?

Run it with the Python of an environment that has Scrapy and scrapy-frontier. It fetches the sdist of the
Scrapy installed there, and makes a virtual environment that sees the same packages and, before them, what
the tests need (`REQUIREMENTS`, from wheels); both are kept in ``--directory`` for the next run.

Exit code 1 on any failure that is not among `EXPECTED`. With a heartbeat of 5 s or more, a test that took as
long has waited for it: a missing wake-up, unless it is among `WAITING`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
import xml.etree.ElementTree as ET
from pathlib import Path

import scrapy

HERE = Path(__file__).resolve().parent

REQUIREMENTS = [
    "pytest>=8.4,<8.5",  # 9.2.0 turns the end of fixtures of test_command_* into errors
    "pytest-twisted>=1.14.3",
    "pytest-timeout",
    "pytest-xdist",
    "pytest-rerunfailures",
    "pexpect>=4.8",
    "psutil",
    "pillow",
]

# What only some versions of Scrapy need: word in the test files that are run -> requirement.
IF_NAMED = {"testfixtures": "testfixtures", "mockserver.ftp": "pyftpdlib>=2.0.1"}
NO_WHEELS = "pyftpdlib"

# Section 10 of the reference: modules that reach the scheduler, without test_.
MODULES = """
    scheduler_base scheduler engine engine_loop engine_close_spider engine_download engine_stop_download_bytes
    engine_stop_download_headers crawl request_left signals closespider spider_start
    spidermiddleware_process_start request_cb_kwargs request_attribute_binding request_dict pipeline_crawl
    downloaderslotssettings core_scraper spidermiddleware_output_chain spider_sitemap spider_crawl feedexport
    spiderstate poet command_shell command_fetch command_parse command_check command_crawl command_runspider
    crawler_subprocess downloadermiddleware_robotstxt robotstxt_interface downloadermiddleware_redirect
    downloadermiddleware_redirect_metarefresh downloadermiddleware_retry downloadermiddleware_offsite
    frontier
""".split()  # noqa: SIM905 - forty lines otherwise

# Test -> why it must fail with any scheduler but Scrapy's own.
EXPECTED = {
    "test_engine_loop::TestRequestSendOrder::test_lifo_start": "asks for a queue class by name",
    "test_engine_loop::TestRequestSendOrder::test_shared_queues": "asks for a queue class by name",
    "test_engine_close_spider::test_exception_scheduler": "deletes `scheduler.dqs`",
    "test_engine::TestEngine::test_start_request_processing_exception": "wants enqueue_request to raise",
}

# Tests that wait for the heartbeat with Scrapy's own scheduler too.
WAITING = {
    "test_engine_loop::TestMain::test_sleep": "its own scheduler pauses, and nothing wakes the engine",
    "test_spider_start::test_slow_pipeline": "the engine itself waits",
}

# Read by every Python of the run, the tests' subprocesses included: changes Scrapy's default settings as they
# are imported, so that projects, spiders and command lines still have the last word.
SITECUSTOMIZE = """\
import sys
from importlib.machinery import PathFinder

CHANGES = {
    "scrapy.settings.default_settings": {"SCHEDULER": "scrapy_frontier.FrontierScheduler"},
    "scrapy_frontier.core.pages.queue": {"FIRST_BACKOFF": 0.0},
}


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in CHANGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            vars(module).update(CHANGES[name])

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder)
"""

# The tests that name Scrapy's scheduler, or how it keeps a request, themselves: the same tests on ours.
OWN_TESTS = """\
import pytest
from scrapy.utils.request import RequestFingerprinter
from scrapy_frontier import FrontierScheduler
from scrapy_frontier.crawl.codec import Unreadable
from scrapy_frontier.crawl.codec import Codec
from scrapy_frontier.crawl.codec import Unstorable
from tests import test_request_dict, test_scheduler, test_scheduler_base
from tests.test_request_dict import *
from tests.test_request_dict import _assert_same_request

del test_unserializable_callback1, test_unserializable_callback2, test_unserializable_callback3
del test_callback_not_available, test_reference_callback_serialization
del test_private_reference_callback_serialization


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    monkeypatch.setattr(test_scheduler, "Scheduler", FrontierScheduler)
    monkeypatch.setattr(test_scheduler.MockCrawler, "request_fingerprinter", RequestFingerprinter())
    monkeypatch.setattr(test_request_dict, "_assert_serializes_ok", assert_round_trip)


def assert_round_trip(request, spider=None):
    codec = Codec(spider or Spider("spider"))
    payload = codec.encode(request)
    _assert_same_request(request, codec.decode(request.url, request.priority, payload))


def test_references_and_strangers(spider):
    names = ["parse_item_reference", "_MethodsSpider__parse_item_reference"]
    for name in names:
        request = Request("http://www.example.com", callback=getattr(spider, name))
        assert_round_trip(request, spider)
        assert name.encode() in Codec(spider).encode(request)
    with pytest.raises(Unstorable):
        Codec(spider).encode(Request("http://www.example.com", callback=lambda response: None))
    payload = Codec(spider).encode(Request("http://www.example.com", callback=spider.delegated_callback))
    with pytest.raises(Unreadable):
        Codec(Spider("foo")).decode("http://www.example.com", 0, payload)


class TestOurs(test_scheduler_base.InterfaceCheckMixin):
    @pytest.fixture(autouse=True)
    def scheduler_of_a_crawler(self):
        self.scheduler = FrontierScheduler.from_crawler(test_scheduler.get_crawler())


class TestOursCrawl(test_scheduler_base.TestMinimalSchedulerCrawl):
    scheduler_cls = FrontierScheduler
"""


def main() -> int:
    options = parse_options()
    directory = Path(options.directory).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    suite = prepare_suite(directory)
    python = prepare_environment(directory / "venv", requirements(suite, options.modules))
    write_substitution(directory, suite, options)
    begin = time.monotonic()
    report = run(python, suite, directory, options)
    passed, failed, skipped = read_report(report, options.heartbeat)
    name = "its own scheduler" if options.stock else "scrapy_frontier.FrontierScheduler"
    print(f"\nScrapy {scrapy.__version__} with {name}, heartbeat {options.heartbeat:g} s:", end=" ")
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped in {time.monotonic() - begin:.0f} s")
    return judge(failed, options)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run Scrapy's own tests with our scheduler.")
    parser.add_argument("modules", nargs="*", help="run these only, without test_ (default: all listed)")
    parser.add_argument("--directory", default="/tmp/scrapy-tests", help="where sdist and venv are kept")
    parser.add_argument("--heartbeat", type=float, default=0.1, help="engine heartbeat in seconds")
    parser.add_argument("--stock", action="store_true", help="run with Scrapy's own scheduler")
    parser.add_argument("--workers", type=int, default=2, help="test processes")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a test may take")
    return parser.parse_args()


def requirements(suite: Path, modules: list[str]) -> list[str]:
    """What the tests that can be run need, by what is named in their files."""
    files = (suite / f"tests/test_{name}.py" for name in {*MODULES, *modules})
    text = "".join(file.read_text(encoding="utf-8") for file in files if file.exists())
    return REQUIREMENTS + [needed for word, needed in IF_NAMED.items() if word in text]


def prepare_environment(path: Path, needed: list[str]) -> Path:
    """A virtual environment that sees our packages, and before them what Scrapy's tests need."""
    python, complete, text = path / "bin/python", path / "complete", "\n".join(needed)
    if not complete.exists() or complete.read_text(encoding="utf-8") != text:
        shutil.rmtree(path, ignore_errors=True)
        venv.create(path, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--only-binary", ":all:", "--no-binary", NO_WHEELS, *needed], check=True)
        (site,) = path.glob("lib/python3*/site-packages")
        (site / "outer.pth").write_text(f"{sysconfig.get_path('purelib')}\n{HERE.parent}\n")
        complete.write_text(text, encoding="utf-8")
    return python


def prepare_suite(directory: Path) -> Path:
    """Scrapy's tests, unpacked without Scrapy itself: the installed one is tested."""
    suite = directory / f"scrapy-{scrapy.__version__}"
    if not suite.exists():
        # Only Scrapy is wanted as it is written: with ":all:" pip builds what builds it from source as well.
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "scrapy"]
        subprocess.run([*command, "-d", str(directory), f"scrapy=={scrapy.__version__}"], check=True)
        with tarfile.open(f"{suite}.tar.gz") as sdist:
            sdist.extractall(directory, filter="data")
        (suite / "scrapy").rename(suite / "scrapy-unused")
        shutil.copy(suite / "conftest.py", suite / "conftest.orig")
    return suite


def write_substitution(directory: Path, suite: Path, options: argparse.Namespace) -> None:
    conftest = (suite / "conftest.orig").read_text(encoding="utf-8")
    changed = re.sub(r'("_SLOT_HEARTBEAT_INTERVAL"), [\d.]+', rf"\1, {options.heartbeat}", conftest)
    (suite / "conftest.py").write_text(changed, encoding="utf-8")
    (directory / "site").mkdir(exist_ok=True)
    (directory / "site/sitecustomize.py").write_text(SITECUSTOMIZE, encoding="utf-8")
    (suite / "tests/test_frontier.py").write_text(OWN_TESTS, encoding="utf-8")


def run(python: Path, suite: Path, directory: Path, options: argparse.Namespace) -> Path:
    names = options.modules or [name for name in MODULES if not (options.stock and name == "frontier")]
    files = [f"tests/test_{name}.py" for name in names]
    files = [file for file in files if (suite / file).exists()]  # older Scrapys have fewer
    report = directory / f"report{'-stock' if options.stock else ''}-{options.heartbeat:g}.xml"
    paths = [suite] if options.stock else [suite, directory / "site"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [str(python), "-m", "pytest", "-q", "-m", "not requires_internet", "--tb=short"]
    command += [f"--timeout={options.timeout}", f"--junitxml={report}", "-p", "no:cacheprovider"]
    command += ["-n", str(options.workers)] if options.workers > 1 else []
    report.unlink(missing_ok=True)
    ended = subprocess.run([*command, *files], cwd=suite, env=environment, check=False)
    if ended.returncode not in (0, 1) or not report.exists():  # 1: some tests failed
        raise SystemExit(f"pytest did not come to its end (exit code {ended.returncode}): nothing is shown")
    return report


def read_report(report: Path, heartbeat: float) -> tuple[int, dict[str, str], int]:
    passed, failed, skipped = 0, {}, 0
    for case in ET.parse(report).getroot().iter("testcase"):
        module, *rest = case.get("classname", "").removeprefix("tests.").split(".")
        name = "::".join([module, *rest, case.get("name", "")])
        fault = case.find("failure") if case.find("failure") is not None else case.find("error")
        if fault is not None:
            failed[name] = (fault.get("message") or "").strip().splitlines()[0][:150]
        elif case.find("skipped") is not None:
            skipped += 1
        elif heartbeat >= 5 and float(case.get("time", 0)) >= heartbeat:
            failed[name] = f"took {case.get('time')} s: waited for the heartbeat"
        else:
            passed += 1
    return passed, failed, skipped


def judge(failed: dict[str, str], options: argparse.Namespace) -> int:
    expected = ({} if options.stock else EXPECTED) | (WAITING if options.heartbeat >= 5 else {})
    for name in sorted(failed):
        reason = f"expected: {expected[name]}" if name in expected else failed[name]
        print(f"  {name}: {reason}")
    for name in sorted(set(expected) - set(failed)):
        if not options.modules or name.split("::")[0].removeprefix("test_") in options.modules:
            print(f"  {name}: was expected to fail and did not")
    surprises = set(failed) - set(expected)
    print(f"{len(surprises)} unexpected failures")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
