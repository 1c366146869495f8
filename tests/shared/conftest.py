import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import BINARIES, OLDEST, Server

sys.path.append(str(Path(__file__).parent.parent / "crawl"))  # its server


@pytest.fixture(scope="session", params=["newest", "oldest"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    binaries = BINARIES if request.param == "newest" else OLDEST
    if not binaries.is_dir():
        pytest.skip(f"PostgreSQL 15 is not installed in {OLDEST}")
    server = Server(binaries)
    yield server
    server.stop()


@pytest.fixture
def dsn(server: Server, request: pytest.FixtureRequest) -> str:
    return server.new_database(request.node.name)
