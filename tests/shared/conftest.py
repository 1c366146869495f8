import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import OLDEST, Server

sys.path.append(str(Path(__file__).parent.parent / "crawl"))  # its server
sys.path.append(str(Path(__file__).parent.parent / "commands"))  # its Frontiers


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
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
    return server.new_database(request.node.name)
