"""LevelDB's files, held so that deleting them costs it nothing: no descriptor, no file kept for long."""

import os
import shutil
from pathlib import Path

import pytest

from scrapy_frontier.core.store.leveldb import MappedFiles, plyvel

MAPS, DESCRIPTORS = Path("/proc/self/maps"), Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not MAPS.exists(), reason="what is in use cannot be seen here")


def in_use(directory: Path) -> dict[str, bool]:
    """Files of *directory* that this process has mapped, and whether they are deleted."""
    lines = [line for line in MAPS.read_text().splitlines() if str(directory) in line]
    return {Path(line.split()[5]).name: line.endswith("(deleted)") for line in lines}


def fill(database: plyvel.DB, byte: bytes) -> None:
    for number in range(2000):
        database.put(b"%d" % number, byte + os.urandom(200))
    database.compact_range(start=b"", stop=b"\xff")


def test_a_deleted_table_is_freed_by_the_next_look(tmp_path: Path) -> None:
    with MappedFiles(tmp_path) as files, plyvel.DB(str(tmp_path), create_if_missing=True) as database:
        fill(database, b"a")
        files.look()
        (table,) = tmp_path.glob("*.ldb")
        for _ in range(10):
            if table.exists():  # LevelDB may take another one to merge it
                fill(database, b"b")
        assert not table.exists()
        assert in_use(tmp_path)[table.name], "LevelDB was to delete a file still in use"
        files.look()
        assert table.name not in in_use(tmp_path)


def test_logs_and_tables_are_held_without_a_descriptor(tmp_path: Path) -> None:
    database = plyvel.DB(str(tmp_path), create_if_missing=True)
    fill(database, b"a")
    names = {path.name for path in tmp_path.iterdir() if path.suffix in (".ldb", ".log")}
    before = len(list(DESCRIPTORS.iterdir()))
    with MappedFiles(tmp_path) as files:
        files.look()
        assert len(files) == len(names) == 2
        database.close()
        assert names == in_use(tmp_path).keys()
        assert len(list(DESCRIPTORS.iterdir())) <= before
    assert not in_use(tmp_path)


def test_empty_files_and_files_that_go_in_between_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "000001.log").touch()
    monkeypatch.setattr(os, "listdir", lambda _: ["000001.log", "000002.ldb"])
    with MappedFiles(tmp_path) as files:
        files.look()
        assert len(files) == 1


def test_a_directory_that_went_is_told_and_holds_nothing_up(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    (gone / "000001.log").write_bytes(b"x")
    with MappedFiles(gone) as files:
        files.look()
        shutil.rmtree(gone)
        with pytest.raises(FileNotFoundError):
            files.look()
    assert not in_use(gone)
