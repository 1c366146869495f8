"""Files of LevelDB damaged for real: `check --repair` saves what is legible, and says what is lost."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import plyvel
import pytest
from nursery import nursery
from stores import NOW, SCHEME, Frontiers, change, crawl_web, environment, link, order, pages, rows, start

from scrapy_frontier.core.admin.check import ROW_NAMES
from scrapy_frontier.core.errors import FrontierDamaged
from scrapy_frontier.core.frontier import Frontier
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.leveldb_files import read_index

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT_DOCS = Path(__file__).parents[2] / "docs" / "internals" / "format.md"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frontier whose rows lie in a table, newer ones in a log, as a kill leaves it."""
    directory = tmp_path_factory.mktemp("killed")
    crawl_web(directory / "living", pages=3000, read=300, scorer=None, packed=100)
    store = Store(directory / "living", SCHEME)
    frontier = Frontier(store, NOW)
    while not frontier.load(NOW):
        pass
    for number in range(60):
        frontier.discover(
            [link(f"http://late{number % 5}.example/{number}-{each}") for each in range(6)], NOW
        )
        frontier.commit()
    shutil.copytree(directory / "living", directory / "dead")
    store.close()
    return directory / "dead"


def table_of(leveldb: Path) -> Path:
    return max(leveldb.glob("*.ldb"), key=lambda file: file.stat().st_size)


def log_of(leveldb: Path) -> Path:
    return max(leveldb.glob("*.log"), key=lambda file: file.stat().st_size)


def scribble(file: Path, *shares: float, size: int = 1) -> None:
    """Change *size* bytes at each of these places, as shares of the file."""
    data = bytearray(file.read_bytes())
    for share in shares:
        place = int((len(data) - 1) * share)
        for at in range(place, min(place + size, len(data))):
            data[at] ^= 0x5A
    file.write_bytes(data)


def flipped_block(leveldb: Path) -> None:
    scribble(table_of(leveldb), 0.6)


def flipped_blocks(leveldb: Path) -> None:
    rng = random.Random(3)
    scribble(table_of(leveldb), *(rng.random() * 0.9 for _ in range(12)))


def first_block(leveldb: Path) -> None:
    scribble(table_of(leveldb), 0.001)


def torn_middle(leveldb: Path) -> None:
    scribble(table_of(leveldb), 0.6, size=9000)


def damaged_index(leveldb: Path) -> None:
    file = table_of(leveldb)
    scribble(file, 1 - 300 / file.stat().st_size)


def damaged_footer(leveldb: Path) -> None:
    file = table_of(leveldb)
    scribble(file, 1 - 4 / file.stat().st_size, size=4)


def cut_by_a_byte(leveldb: Path) -> None:
    os.truncate(table_of(leveldb), table_of(leveldb).stat().st_size - 1)


def cut_off(leveldb: Path) -> None:
    os.truncate(table_of(leveldb), table_of(leveldb).stat().st_size * 3 // 4)


def zeroed_tail(leveldb: Path) -> None:
    """What some file systems make of a power cut."""
    file = table_of(leveldb)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) * 3 // 4].ljust(len(data), b"\0"))


def no_bytes(leveldb: Path) -> None:
    os.truncate(table_of(leveldb), 0)


def no_table(leveldb: Path) -> None:
    table_of(leveldb).unlink()


def no_manifest(leveldb: Path) -> None:
    next(leveldb.glob("MANIFEST-*")).unlink()


def no_current(leveldb: Path) -> None:
    (leveldb / "CURRENT").unlink()


def no_catalogue(leveldb: Path) -> None:
    no_manifest(leveldb)
    no_current(leveldb)


def damaged_manifest(leveldb: Path) -> None:
    scribble(next(leveldb.glob("MANIFEST-*")), 0.2)


def damaged_log_record(leveldb: Path) -> None:
    """LevelDB's repair takes what it says for true."""
    scribble(log_of(leveldb), 0.5)


def damaged_head(leveldb: Path) -> None:
    log = log_of(leveldb)
    scribble(log, 4.5 / log.stat().st_size)


def no_log(leveldb: Path) -> None:
    """As by somebody who takes it for a log file."""
    log_of(leveldb).unlink()


def hole_in_the_log(leveldb: Path) -> None:
    log = log_of(leveldb)
    data = bytearray(log.read_bytes())
    data[9000:13000] = bytes(4000)
    log.write_bytes(data)


def everything_at_once(leveldb: Path) -> None:
    for damage in (flipped_blocks, damaged_log_record, no_catalogue):
        damage(leveldb)


def both_ends(leveldb: Path) -> None:
    for damage in (cut_off, hole_in_the_log, damaged_manifest):
        damage(leveldb)


@dataclass
class Case:
    damage: Callable[[Path], None]
    loses: bool = True


CASES = [
    *map(Case, (flipped_block, flipped_blocks, torn_middle, cut_off, zeroed_tail, no_bytes, no_table)),
    *map(Case, (damaged_log_record, damaged_head, no_log, hole_in_the_log, everything_at_once, both_ends)),
    Case(first_block, loses=False),  # it holds index rows, and these follow from the pages
    *(Case(damage, loses=False) for damage in (damaged_index, damaged_footer, cut_by_a_byte)),
    *(Case(damage, loses=False) for damage in (no_manifest, no_current, no_catalogue, damaged_manifest)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.damage.__name__)
def test_what_is_legible_is_saved_and_what_is_not_is_told(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str], case: Case
) -> None:
    truth, wanted = rows(shutil.copytree(killed, tmp_path / "sound")), pages(tmp_path / "sound")
    directory = shutil.copytree(killed, tmp_path / "frontier")
    case.damage(directory / "leveldb")
    damaged = {file.name: file.read_bytes() for file in (directory / "leveldb").glob("*.ldb")}
    frontier = Frontiers(directory, capsys)

    said = frontier("check")
    assert said.code == 1
    assert f"check --repair --dir {directory}" in said.err

    said = frontier("check", "--repair", "--json")
    assert said.code == 0, said.err
    answer = said.json["salvaged"]
    kept = Path(answer["kept"])
    assert re.fullmatch(r"leveldb\.damaged-\d{8}T\d{6}Z", kept.name)
    assert {name: (kept / name).read_bytes() for name in damaged} == damaged
    assert {path.name for path in directory.iterdir()} == {"leveldb", "frontier.lock", kept.name}

    now, found = rows(directory), pages(directory)
    lost = {name: kind["lost"] for name, kind in answer["rows"].items()}
    truly = len(wanted) - len(found)
    assert case.loses == (truly > 0)
    if answer["is_exact"]:
        assert lost["page"] == truly
    else:
        assert lost["page"] is None or 0 < lost["page"] <= truly
    for prefix, name in ROW_NAMES.items():
        assert answer["rows"][name]["now"] == sum(key[:1] == prefix for key in now)
        if name not in ("page", "index", "queue", "host") and lost[name] == 0:
            assert {key for key in truth if key[:1] == prefix} <= now.keys(), f"lost rows: {name}"
    assert {page_id: page.url for page_id, page in found.items()}.items() <= {
        page_id: page.url for page_id, page in wanted.items()
    }.items(), "no page has changed"
    assert keys.CLEAN not in now

    assert frontier("check").code == 0
    queued = {page.url for page in found.values() if page.state is State.QUEUED}
    assert set(order(directory, 4000)) == queued, "every queued page can be leased"


def test_check_reads_rows_of_every_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also those that nothing can be wrong with but their bytes."""
    start(tmp_path).close()
    change(tmp_path, {keys.aside_key(number): os.urandom(900) for number in range(60)})
    Store(tmp_path).close()  # writes the log out as a table
    for file in (tmp_path / "leveldb").glob("*.ldb"):
        blocks = [block for block in read_index(file.read_bytes()) or [] if block.last[:1] == keys.ASIDE]
        if len(blocks) > 3:
            scribble(file, (blocks[2].offset + 50) / (file.stat().st_size - 1))
    said = Frontiers(tmp_path, capsys)("check")
    assert (said.code, "check --repair" in said.err) == (1, True)


def test_what_was_written_last_cannot_be_counted(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is left is of one piece: that of an earlier time."""
    for damage in (no_log, lambda leveldb: scribble(log_of(leveldb), 0.999)):
        directory = shutil.copytree(killed, tmp_path / "frontier")
        damage(directory / "leveldb")
        said = Frontiers(directory, capsys)("check", "--repair", "--json").json
        assert said["kinds"] == {}
        assert (said["salvaged"]["is_exact"], said["salvaged"]["rows"]["page"]["lost"]) == (False, None)
        shutil.rmtree(directory)


def test_a_repair_in_words(tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = shutil.copytree(killed, tmp_path / "frontier")
    os.truncate(table_of(directory / "leveldb"), 30_000)
    said = Frontiers(directory, capsys)("check", "--repair")
    text = " ".join(said.out.split())
    left = len(pages(directory))
    assert re.search(r"What they have lost, in bytes: \d{6}\.ldb [\d,]+ of [\d,]+ ROW NOW LOST page", text)
    assert re.search(rf"page {left:,} (at least )?[1-9][\d,]* ", text)
    assert "nobody knows whether any were: " in text
    assert "The repaired copy is in place: start the crawl again. The damaged files are kept in" in text
    assert "pages are known no more. A page comes back when" in text
    assert "Orders may be lost" in text
    assert max(map(len, said.out.splitlines())) <= 80


def test_the_next_crawl_takes_every_host_for_visited_just_now(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """When it was visited last may be lost."""
    directory = tmp_path / "frontier"
    crawl_web(directory, pages=600, read=100, scorer=None)
    scribble(table_of(directory / "leveldb"), 0.5)
    assert Frontiers(directory, capsys)("check", "--repair").code == 0
    frontier = start(directory)
    assert not frontier.was_clean
    frontier.close()


def test_where_not_one_page_is_legible_nothing_is_changed(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(killed, tmp_path / "frontier")
    for file in [*(directory / "leveldb").glob("*.ldb"), *(directory / "leveldb").glob("*.log")]:
        file.write_bytes(bytes(file.stat().st_size))
    (directory / "leveldb" / "CURRENT").unlink()
    before = {path.name: path.stat().st_size for path in (directory / "leveldb").iterdir()}
    said = Frontiers(directory, capsys)("check", "--repair")
    assert said.code == 1
    assert said.err.splitlines()[-1] == (
        f"scrapy frontier: {directory}: not one page is legible: nothing was changed; restore it from a "
        f"copy, or remove {directory} to begin anew"
    )
    assert {path.name: path.stat().st_size for path in (directory / "leveldb").iterdir()} == before
    assert {path.name for path in directory.iterdir()} == {"leveldb", "frontier.lock"}


def test_two_repairs_keep_two_originals(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(killed, tmp_path / "frontier")
    for _ in range(2):
        scribble(table_of(directory / "leveldb"), 0.5)
        assert Frontiers(directory, capsys)("check", "--repair").code == 0
    assert len(list(directory.glob("leveldb.damaged-*"))) == 2


def test_a_disk_without_room_for_a_copy_is_left_as_it_is(
    tiny_disk: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(killed, tiny_disk / "frontier")
    scribble(table_of(directory / "leveldb"), 0.5)
    said = Frontiers(directory, capsys)("check", "--repair")
    assert said.code == 1
    assert re.search(
        r"the copy and the repair need \d+ MB, and \d+ MB are free; nothing was changed", said.err
    )
    assert {path.name for path in directory.iterdir()} == {"leveldb", "frontier.lock"}


# -- interrupted -------------------------------------------------------------------------------------------


def test_a_repair_may_be_killed_at_any_instant(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it leaves is the original, or the whole copy; the next repair goes on from there."""
    directory = shutil.copytree(killed, tmp_path / "frontier")
    cut_off(directory / "leveldb")
    again = shutil.copytree(directory, tmp_path / "again")
    assert Frontiers(again, capsys)("check", "--repair").code == 0
    wanted = pages(again)
    command = ["-m", "scrapy", "frontier", "check", "--repair", "--dir", str(again)]

    def repair(seconds: float | None) -> float | None:
        """How long a repair took; None: it was killed after so many *seconds*."""
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
    for share in (0.3, 0.5, 0.7, 0.8, 0.9):
        while (ended := repair(whole * share)) is not None:
            whole = ended  # the machine is not as slow as it was
        assert Frontiers(again, capsys)("check", "--repair").code == 0
        assert pages(again) == wanted


def test_a_copy_that_was_whole_takes_its_place(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed between the two last steps: the database is moved aside, and the copy is not in its place."""
    directory = shutil.copytree(killed, tmp_path / "frontier")
    frontier = Frontiers(directory, capsys)
    wanted = rows(directory)
    (directory / "leveldb").rename(directory / "leveldb.repaired")
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
    (directory / "leveldb").rename(directory / "leveldb.repaired")
    shutil.copytree(directory / "leveldb.repaired", directory / "leveldb.repairing")
    assert Frontiers(directory, capsys)("reset", "--yes").code == 0
    assert [path.name for path in directory.iterdir()] == ["frontier.lock"]
    start(directory).close()  # begins anew


@pytest.mark.parametrize("command", [("stats",), ("check", "--repair"), ("add", "http://a.example/")])
def test_a_removed_database_is_missed_by_every_command(
    tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Also where the directory is a JOBDIR; to begin anew on purpose there is `reset`."""
    directory = shutil.copytree(killed, tmp_path / "job" / "frontier")
    Store(directory).close()
    shutil.rmtree(directory / "leveldb")
    for where in (directory, directory.parent):
        said = Frontiers(where, capsys)(*command)
        assert (said.code, f"{directory}/leveldb is missing, but there was a frontier" in said.err) == (
            1,
            True,
        )
    assert {path.name for path in directory.iterdir()} == {"frontier.lock"}
    assert Frontiers(directory, capsys)("reset", "--yes").code == 0
    assert Frontiers(directory, capsys)("add", "http://a.example/").code == 0


# -- what is told of it ------------------------------------------------------------------------------------


def test_every_row_of_the_format_has_its_name_in_a_repair() -> None:
    text = FORMAT_DOCS.read_text(encoding="utf-8")
    table = re.findall(r"^\| ([a-z ]+) \| `(\w)`? ?", text, re.MULTILINE)
    # Where two kinds of rows begin with the same byte, both are told by the name of the first.
    described = {prefix.encode(): name for name, prefix in reversed(table) if prefix != "m"}
    assert described == ROW_NAMES


def test_somebody_elses_damaged_database_is_not_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plyvel.DB(str(tmp_path / "leveldb"), create_if_missing=True) as database:
        for number in range(3000):
            database.put(b"theirs%d" % number, os.urandom(90))
        database.compact_range(start=b"", stop=b"\xff")
    scribble(table_of(tmp_path / "leveldb"), 0.5)
    said = Frontiers(tmp_path, capsys)("check", "--repair")
    assert (said.code, "not a frontier" in said.err) == (1, True)
    assert {path.name for path in tmp_path.iterdir()} == {"leveldb", "frontier.lock"}
