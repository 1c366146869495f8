"""The checkout comes last on the path: for the demo project, never before an installed package. Behind it are
helpers of some tests that others use."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from nursery import nursery
from postgres import OLDEST, Server

HERE = Path(__file__).resolve().parent
sys.path += map(str, [HERE.parent, HERE / "crawl", HERE / "commands"])

# What a shell starts in the background ignores Ctrl-C, and so does all it starts: tests that send it would
# wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are slow at times, and what a run finds the next one must find as well. The CI tries more examples:
# pytest --hypothesis-profile=many; others every time: pytest --hypothesis-profile=search
slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
settings.register_profile("search", deadline=None, suppress_health_check=slow)
settings.register_profile("many", settings.get_profile("search"), derandomize=True, database=None)
settings.register_profile("few", settings.get_profile("many"), max_examples=40)
settings.load_profile("few")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three workers a processor, for tests wait more than they compute; more than twelve gain nothing."""
    return min(3 * (os.cpu_count() or 1), 12)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests of shared crawls, which wait more than they compute: others run beside them."""
    items.sort(key=lambda item: item.path.parent.name != "shared")


@pytest.fixture(scope="session", autouse=True)
def end_nursery() -> Iterator[None]:
    yield
    nursery.close()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = shutil.which("mount")
    if os.geteuid() != 0 or command is None:
        pytest.skip("only root may mount a tmpfs")
    mounted = subprocess.run([command, "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session", params=["newest", "oldest"])
def any_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Of the version that is bundled for tests, and of the oldest that is supported."""
    if request.param == "newest":
        yield request.getfixturevalue("server")
        return
    if not OLDEST.is_dir():
        pytest.skip(f"PostgreSQL 15 is not installed in {OLDEST}")
    server = Server(OLDEST)
    yield server
    server.stop()


@pytest.fixture
def dsn(server: Server, request: pytest.FixtureRequest) -> str:
    """A new database."""
    return server.new_database(request.node.name)
