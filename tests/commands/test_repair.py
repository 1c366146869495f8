"""Files of LevelDB damaged for real: `check --repair` saves what LevelDB's own repair of a copy saves."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from killed import copy_as_killed
from nursery import nursery
from stores import NOW, SCHEME, Frontiers, crawl_web, environment, link, order, pages, rows, start

from scrapy_frontier.core.errors import FrontierDamaged
from scrapy_frontier.core.frontier import Frontier
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store, plyvel

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frontier with rows in several tables, and newer ones in a log, as a kill leaves it."""
    directory = tmp_path_factory.mktemp("killed")
    crawl_web(directory / "living", pages=3000, read=300, scorer=None, packed=100)
    store = Store(directory / "living", SCHEME)
    frontier = Frontier(store, NOW)
    while not frontier.load(NOW):
        pass
    for number in range(60):
        urls = [f"http://late{number % 5}.example/{number}-{each}" for each in range(6)]
        frontier.discover([link(url) for url in urls], NOW)
        frontier.commit()
        if number == 20:
            store.flush()
    copy_as_killed(directory / "living", directory / "dead")
    store.close()
    return directory / "dead"


def table_of(leveldb: Path) -> Path:
    return max(leveldb.glob("*.ldb"), key=lambda file: file.stat().st_size)


def log_of(leveldb: Path) -> Path:
    return max(leveldb.glob("*.log"), key=lambda file: file.stat().st_size)


def manifest_of(leveldb: Path) -> Path:
    return next(leveldb.glob("MANIFEST-*"))


def scribble(file: Path, *shares: float, size: int = 1) -> None:
    """Changes *size* bytes at each of these places, as shares of the file."""
    data = bytearray(file.read_bytes())
    for share in shares:
        place = int((len(data) - 1) * share)
        for at in range(place, min(place + size, len(data))):
            data[at] ^= 0x5A
    file.write_bytes(data)


def cut(file: Path, share: float) -> None:
    os.truncate(file, int(file.stat().st_size * share))


def everything_at_once(leveldb: Path) -> None:
    scribble(table_of(leveldb), *(random.Random(3).random() * 0.9 for _ in range(12)))
    scribble(log_of(leveldb), 0.5, size=300)
    manifest_of(leveldb).unlink()
    (leveldb / "CURRENT").unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped byte": lambda leveldb: scribble(table_of(leveldb), 0.6),
    "torn middle": lambda leveldb: scribble(table_of(leveldb), 0.6, size=9000),
    "damaged end": lambda leveldb: scribble(table_of(leveldb), 1.0, size=4),
    "cut off": lambda leveldb: cut(table_of(leveldb), 0.75),
    "empty table": lambda leveldb: cut(table_of(leveldb), 0),
    "no table": lambda leveldb: table_of(leveldb).unlink(),
    "no manifest": lambda leveldb: manifest_of(leveldb).unlink(),
    "no CURRENT": lambda leveldb: (leveldb / "CURRENT").unlink(),
    "damaged manifest": lambda leveldb: scribble(manifest_of(leveldb), 0.2),
    "damaged log": lambda leveldb: scribble(log_of(leveldb), 0.5, size=300),
    "no log": lambda leveldb: log_of(leveldb).unlink(),
    "everything at once": everything_at_once,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_kept_and_what_can_be_read_makes_a_sound_frontier(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    wanted = pages(shutil.copytree(killed, tmp_path / "sound"))
    directory = shutil.copytree(killed, tmp_path / "frontier")
    DAMAGES[name](directory / "leveldb")
    damaged = {file.name: file.read_bytes() for file in (directory / "leveldb").glob("*.ldb")}
    frontier = Frontiers(directory, capsys)
    said = frontier("check")
    assert said.code == 1
    assert f"check --repair --dir {directory}" in said.err

    said = frontier("check", "--repair", "--json")
    assert said.code == 0, said.err
    kept = Path(said.json["damaged_files"])
    assert re.fullmatch(r"leveldb\.damaged-\d{8}T\d{6}Z", kept.name)
    assert {name: (kept / name).read_bytes() for name in damaged} == damaged
    assert {path.name for path in directory.iterdir()} == {"leveldb", "frontier.lock", kept.name}

    found = pages(directory)
    assert found
    if name in ("no manifest", "no CURRENT", "damaged manifest"):
        assert found == wanted
    assert {page_id: page.url for page_id, page in found.items() if page.url}.items() <= {
        page_id: page.url for page_id, page in wanted.items()
    }.items(), "no page has changed"
    assert keys.CLEAN not in rows(directory), "the next crawl takes every host for visited just now"
    assert frontier("check").code == 0
    queued = {page.url for page in found.values() if page.state is State.QUEUED}
    assert set(order(directory, 4000)) == queued, "every queued page can be leased"


def test_the_command_says_what_to_do_next(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(killed, tmp_path / "frontier")
    for number in (1, 2):
        scribble(table_of(directory / "leveldb"), 0.5)
        said = Frontiers(directory, capsys)("check", "--repair")
        text = said.out.replace("\n", "")
        assert "requeue --state" in text
        assert f"Remove {directory}/leveldb.damaged-" in text
        assert max(map(len, said.out.splitlines())) <= 80
        assert len(list(directory.glob("leveldb.damaged-*"))) == number


def test_nothing_is_changed_if_not_one_page_can_be_read(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(killed, tmp_path / "frontier")
    for file in [*(directory / "leveldb").glob("*.ldb"), *(directory / "leveldb").glob("*.log")]:
        file.write_bytes(bytes(file.stat().st_size))
    (directory / "leveldb" / "CURRENT").unlink()
    before = {path.name: path.stat().st_size for path in (directory / "leveldb").iterdir()}
    said = Frontiers(directory, capsys)("check", "--repair")
    assert (said.code, "not one page" in said.err) == (1, True)
    assert {path.name: path.stat().st_size for path in (directory / "leveldb").iterdir()} == before
    assert {path.name for path in directory.iterdir()} == {"leveldb", "frontier.lock"}


def test_the_damaged_database_of_another_program_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plyvel.DB(str(tmp_path / "leveldb"), create_if_missing=True) as database:
        for number in range(3000):
            database.put(b"theirs%d" % number, os.urandom(90))
        database.compact_range(start=b"", stop=b"\xff")
    scribble(table_of(tmp_path / "leveldb"), 0.5)
    assert Frontiers(tmp_path, capsys)("check", "--repair").code == 1
    assert {path.name for path in tmp_path.iterdir()} == {"leveldb", "frontier.lock"}


def test_a_disk_without_room_for_a_copy_is_left_as_it_is(
    tiny_disk: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(killed, tiny_disk / "frontier")
    scribble(table_of(directory / "leveldb"), 0.5)
    free = shutil.disk_usage(tiny_disk).free
    (tiny_disk / "ballast").write_bytes(bytes(max(free - (100 << 10), 0)))
    said = Frontiers(directory, capsys)("check", "--repair")
    assert said.code == 1
    assert "nothing was changed; free some space" in said.err
    assert {path.name for path in directory.iterdir()} == {"leveldb", "frontier.lock"}


# -- interrupted -------------------------------------------------------------------------------------------


def test_a_repair_may_be_killed_at_any_instant(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It leaves the original, or the finished copy; the next repair goes on from there."""
    directory = shutil.copytree(killed, tmp_path / "frontier")
    DAMAGES["cut off"](directory / "leveldb")
    again = shutil.copytree(directory, tmp_path / "again")
    assert Frontiers(again, capsys)("check", "--repair").code == 0
    wanted = pages(again)
    command = ["-m", "scrapy", "frontier", "check", "--repair", "--dir", str(again)]

    def repair(seconds: float | None) -> float | None:
        """Returns how long a repair took; None if it was killed after so many *seconds*."""
        shutil.rmtree(again)
        shutil.copytree(directory, again)
        with open(tmp_path / "said", "w+") as said:
            files = said.fileno(), said.fileno()
            with nursery.start(command, environment(tmp_path), tmp_path, *files) as process:
                begin = time.monotonic()
                try:
                    assert process.wait(seconds) == 0, said.seek(0) or said.read()
                except subprocess.TimeoutExpired:
                    return None
        return time.monotonic() - begin

    whole = repair(None)
    assert whole is not None
    for share in (0.5, 0.7, 0.9):
        while (ended := repair(whole * share)) is not None:
            whole = ended  # the machine is not as slow as it was
        assert Frontiers(again, capsys)("check", "--repair").code == 0
        assert pages(again) == wanted


def test_a_finished_copy_takes_its_place(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed between the two last steps: the database is moved aside, and the copy is not in its place."""
    directory = shutil.copytree(killed, tmp_path / "frontier")
    frontier, wanted = Frontiers(directory, capsys), rows(directory)
    (directory / "leveldb").rename(directory / "leveldb.repairing")
    with pytest.raises(FrontierDamaged, match=r"a repair was interrupted.*check --repair"):
        Store(directory)
    said = frontier("stats")
    assert (said.code, "check --repair" in said.err) == (1, True)
    assert frontier("check", "--repair").code == 0
    assert rows(directory) == wanted


def test_reset_takes_along_what_a_repair_left(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(killed, tmp_path / "frontier")
    shutil.copytree(directory / "leveldb", directory / "leveldb.repairing")
    assert Frontiers(directory, capsys)("reset", "--yes").code == 0
    assert [path.name for path in directory.iterdir()] == ["frontier.lock"]
    start(directory).close()  # begins anew


# -- symbolic links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["frontier.lock", "leveldb", "leveldb/CURRENT", "leveldb/000099.log", ""])
@pytest.mark.parametrize(
    "command", [("stats",), ("reset", "--yes"), ("check", "--repair"), ("add", "http://a.b/")]
)
def test_nothing_is_opened_written_or_removed_through_a_link(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str], name: str, command: tuple[str, ...]
) -> None:
    """A directory from a stranger may hold links to files of ours."""
    directory, elsewhere = tmp_path / "frontier", tmp_path / "elsewhere"
    shutil.copytree(killed, directory)
    path = directory / name
    if path.exists():
        path.rename(elsewhere)
    else:
        elsewhere.write_text("precious")
    path.symlink_to(elsewhere)
    before = {file: file.read_bytes() for file in tmp_path.glob("elsewhere/**/*") if file.is_file()}
    before |= {elsewhere: elsewhere.read_bytes()} if elsewhere.is_file() else {}
    said = Frontiers(directory, capsys)(*command)
    assert (said.code, f"{path} is a symbolic link" in said.err) == (1, True)
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize("is_link", [False, True])
def test_only_a_frontier_is_removed(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str], is_link: bool
) -> None:
    directory, theirs = tmp_path / "frontier", tmp_path / "theirs"
    shutil.copytree(killed, directory)
    theirs.mkdir()
    (theirs / "keep.txt").write_text("theirs")
    if is_link:
        shutil.rmtree(directory / "leveldb")
        (directory / "leveldb").symlink_to(theirs)
    else:
        shutil.copy(theirs / "keep.txt", directory / "leveldb")
    said = Frontiers(directory, capsys)("reset", "--yes")
    assert said.code == 1
    assert (directory / "leveldb" / "keep.txt").read_text() == "theirs"
    assert is_link or (directory / "leveldb" / "CURRENT").exists()


def test_the_database_of_another_program_is_not_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plyvel.DB(str(tmp_path / "leveldb"), create_if_missing=True) as database:
        database.put(b"theirs", b"value")
    said = Frontiers(tmp_path, capsys)("reset", "--yes")
    assert (said.code, "not a frontier" in said.err) == (1, True)
    with plyvel.DB(str(tmp_path / "leveldb")) as database:
        assert list(database) == [(b"theirs", b"value")]
