"""LevelDB's files as LevelDB writes them: read by us, damaged, mended, and read by LevelDB again."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import plyvel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.store.leveldb import repair_files
from scrapy_frontier.core.store.leveldb_files import (
    checksum,
    losses,
    mended_log,
    mended_table,
    read_catalogue,
    read_index,
    unsnap,
)

if TYPE_CHECKING:
    from pathlib import Path

ROWS = {b"k%05d" % number: b"value %d " % number * 9 for number in range(3000)}


def make(directory: Path, rows: dict[bytes, bytes], in_table: bool = True, **options: object) -> Path:
    """A LevelDB database with all *rows* in one table, or all in its log; that file."""
    with plyvel.DB(str(directory), create_if_missing=True, **options) as database:
        for key, value in rows.items():
            database.put(key, value)
        if in_table:
            database.compact_range(start=b"\xff", stop=b"\xff\xff")
    files = [file for file in directory.glob("*.ldb" if in_table else "*.log") if file.stat().st_size]
    assert len(files) == 1
    return files[0]


def read(directory: Path) -> dict[bytes, bytes]:
    """All rows as LevelDB reads them when it looks at every checksum."""
    with plyvel.DB(str(directory), paranoid_checks=True) as database:
        rows = {}
        iterator = database.raw_iterator(verify_checksums=True)
        iterator.seek_to_first()
        while iterator.valid():
            rows[iterator.key()] = iterator.value()
            iterator.next()
        return rows


def test_checksums_are_those_of_the_documents() -> None:
    """RFC 3720 B.4, masked as ``log_format.md`` has it."""
    for data, crc in (
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
    ):
        assert checksum(data) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@given(st.binary(max_size=9000), st.integers(0, 9000))
def test_a_checksum_takes_in_every_byte(data: bytes, where: int) -> None:
    """Also where it goes on from one step to the next."""
    data = (data * 9000)[:9000] or b"x"
    where %= len(data)
    other = data[:where] + bytes((data[where] ^ 1,)) + data[where + 1 :]
    assert checksum(data) != checksum(other)


@pytest.mark.parametrize("options", [{}, {"bloom_filter_bits": 10}, {"compression": None}])
def test_the_blocks_of_a_table_are_found_by_its_index(tmp_path: Path, options: dict[str, object]) -> None:
    file = make(tmp_path / "db", ROWS, **options)
    table = file.read_bytes()
    blocks = read_index(table)
    assert blocks is not None
    assert len(blocks) > 20
    assert losses("", table, blocks) == []
    assert [block.last for block in blocks] == sorted(block.last for block in blocks)
    assert blocks[-1].last >= max(ROWS)


@pytest.mark.parametrize("options", [{}, {"bloom_filter_bits": 10}, {"compression": None}])
@pytest.mark.parametrize("share", [1.0, 0.999, 0.99, 0.7, 0.5, 0.01, 0.0])
def test_a_table_that_is_cut_off_keeps_what_stands_before(
    tmp_path: Path, options: dict[str, object], share: float
) -> None:
    file = make(tmp_path / "db", ROWS, **options)
    table = file.read_bytes()
    blocks = read_index(table)
    assert blocks is not None
    cut = int(len(table) * share) - 1
    whole = [block for block in blocks if block.offset + block.size + 5 <= max(cut, 0)]
    wanted = {key for key in ROWS if whole and key <= whole[-1].last}

    catalogue = read_catalogue(next((tmp_path / "db").glob("MANIFEST-*")).read_bytes())
    assert catalogue is not None
    (listed,) = catalogue.tables.values()
    mended, loss = mended_table(file.name, table[: max(cut, 0)], listed)
    file.write_bytes(mended)
    repair_files(tmp_path / "db")

    assert read(tmp_path / "db").items() == {key: ROWS[key] for key in wanted}.items()
    assert (loss is None) == (len(wanted) == len(ROWS))
    if loss is not None:
        end = whole[-1].offset + whole[-1].size + 5 if whole else 0
        assert (loss.lost, loss.of, loss.upto) == (len(table) - end, len(table), max(ROWS))
        assert loss.above == max(wanted, default=b"")


def test_what_is_listed_of_a_table_is_what_it_is(tmp_path: Path) -> None:
    """Also where tables were merged, which takes some off the list."""
    with plyvel.DB(str(tmp_path), create_if_missing=True, write_buffer_size=1 << 16) as database:
        for number in range(20_000):
            database.put(b"k%05d" % (number % 5000), os.urandom(50))
        database.compact_range(start=b"", stop=b"\xff")
    plyvel.DB(str(tmp_path)).close()  # removes what is in use no more
    manifest = next(tmp_path.glob("MANIFEST-*")).read_bytes()
    catalogue = read_catalogue(manifest)
    assert catalogue is not None
    assert read_catalogue(manifest, is_checked=False) == catalogue
    assert (tmp_path / f"{catalogue.log:06}.log").exists()
    listed = catalogue.tables
    there = {int(file.stem): file.stat().st_size for file in tmp_path.glob("*.ldb")}
    assert {number: table.size for number, table in listed.items()} == there
    for number, table in listed.items():
        blocks = read_index((tmp_path / f"{number:06}.ldb").read_bytes())
        assert blocks is not None
        assert table.first <= table.last <= blocks[-1].last


def test_a_long_list_of_files_is_read_whole(tmp_path: Path) -> None:
    """Its entries lie across the parts of 32 KB that it is written in."""
    with plyvel.DB(str(tmp_path), create_if_missing=True) as database:
        for number in range(60):
            for end in (b"a", b"z"):
                database.put(end * 900 + b"%d" % number, b"")
            database.compact_range(start=b"\xff", stop=b"\xff\xff")
        database.compact_range(start=b"", stop=b"\xff")
    for _ in range(2):
        manifest = next(tmp_path.glob("MANIFEST-*")).read_bytes()
        catalogue = read_catalogue(manifest)
        assert catalogue is not None
        assert catalogue.tables.keys() <= {int(file.stem) for file in tmp_path.glob("*.ldb")}
        plyvel.DB(str(tmp_path)).close()
    assert len(manifest) < 32_768
    with_hole = bytearray(manifest)
    with_hole[len(manifest) // 2] ^= 1
    assert read_catalogue(bytes(with_hole)) is None


def test_a_damaged_block_is_told_by_the_keys_around_it(tmp_path: Path) -> None:
    file = make(tmp_path / "db", ROWS)
    table = bytearray(file.read_bytes())
    blocks = read_index(bytes(table))
    assert blocks is not None
    table[blocks[7].offset + 100] ^= 1
    (loss,) = losses("t", bytes(table), blocks)
    assert loss[:-1] == ("t", blocks[7].size, len(table), blocks[6].last, blocks[7].last)
    file.write_bytes(table)
    repair_files(tmp_path / "db")
    lost = ROWS.keys() - read(tmp_path / "db").keys()
    assert lost == {key for key in ROWS if loss.above < key <= (loss.upto or b"")}


@given(st.data())
def test_what_was_compressed_comes_back(data: st.DataObject) -> None:
    """Literals and copies of each kind, written by hand as ``format_description.txt`` has them."""
    parts = data.draw(
        st.lists(st.one_of(st.binary(min_size=1, max_size=300), st.integers(1, 200)), max_size=9)
    )
    plain, packed = bytearray(), bytearray()
    for part in parts:
        if isinstance(part, bytes):
            plain += part
            size = len(part) - 1
            packed += bytes((size << 2,)) if size < 60 else bytes((61 << 2,)) + size.to_bytes(2, "little")
            packed += part
        elif plain:
            back, length = min(part, len(plain)), data.draw(st.integers(4, 11))
            for _ in range(length):
                plain.append(plain[-back])
            kind = data.draw(st.integers(1, 3))
            if kind == 1:
                packed += bytes(((back >> 8) << 5 | (length - 4) << 2 | 1, back & 255))
            else:
                packed += bytes(((length - 1) << 2 | kind,)) + back.to_bytes(2 if kind == 2 else 4, "little")
    size = len(plain)
    head = bytes((size,)) if size < 128 else bytes((size & 127 | 128, size >> 7))
    assert unsnap(head + bytes(packed)) == plain


@given(st.binary(max_size=60))
def test_garbage_is_no_table_and_says_so(garbage: bytes) -> None:
    assert read_index(garbage) is None
    mended, loss = mended_table("t", garbage, None)
    assert read_index(mended) is not None
    assert loss is not None
    assert loss.lost == len(garbage)


# -- logs --------------------------------------------------------------------------------------------------

LONG = {b"k%03d" % number: random.Random(number).randbytes(50 + 400 * number) for number in range(100)}


def test_a_sound_log_stays_as_it_is(tmp_path: Path) -> None:
    """With log records in several pieces, and too little room at the end of some of its parts for a head."""
    log = make(tmp_path, LONG, in_table=False).read_bytes()
    assert len(log) > 1_900_000
    assert mended_log("", log) == (log, None)


@pytest.mark.parametrize("where", [0, 5, 7, 100, 32_768, 32_772, 1_000_000])
@pytest.mark.parametrize("damage", ["flip", "zeros", "noise"])
def test_a_damaged_log_record_is_left_out(tmp_path: Path, where: int, damage: str) -> None:
    """LevelDB's own repair takes it for sound, whatever its checksum says."""
    file = make(tmp_path, LONG, in_table=False)
    log = bytearray(file.read_bytes())
    size = 1 if damage == "flip" else 5000
    noise = bytes(size) if damage == "zeros" else random.Random(1).randbytes(size)
    log[where : where + size] = bytes((log[where] ^ 0x41,)) if damage == "flip" else noise
    mended, loss = mended_log("l", bytes(log))
    assert loss is not None
    assert 0 < loss.lost < 100_000
    assert mended_log("l", mended) == (mended, None)
    file.write_bytes(mended)
    repair_files(tmp_path)
    left = read(tmp_path)
    assert left.items() <= LONG.items()
    assert len(LONG) > len(left) > len(LONG) - 25


@pytest.mark.parametrize("cut", [1, 50, 40_000])
def test_half_a_log_record_at_the_end_is_no_damage(tmp_path: Path, cut: int) -> None:
    """So a kill leaves it."""
    log = make(tmp_path, LONG, in_table=False).read_bytes()
    mended, loss = mended_log("", log[:-cut])
    assert loss is None
    assert log.startswith(mended)
