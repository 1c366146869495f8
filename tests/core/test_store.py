"""The store: opened by one process at a time, never deleted, never recreated; every failure has a remedy."""

import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from humble import humbly
from killed import copy_as_killed

from scrapy_frontier.core.errors import (
    FrontierDamaged,
    FrontierError,
    FrontierLocked,
    FrontierUnreadable,
    FrontierUnwritable,
    FrontierVersion,
)
from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store, plyvel
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000.0
PAGES = 300


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def link(number: int) -> Link:
    url = f"http://h{number % 7}.example/{number}"
    payload = number.to_bytes(4, "big") * 40
    return Link(number.to_bytes(20, "big"), url, f"h{number % 7}.example", payload=payload)


def write_pages(directory: Path, pages: int = PAGES) -> None:
    """A frontier with some pages, stopped cleanly: its rows lie in a table."""
    frontier = Frontier(Store(directory), NOW)
    frontier.discover([link(number) for number in range(pages)], NOW)
    frontier.close()


def kill_after_writing(directory: Path, pages: int = PAGES) -> None:
    """A frontier with some pages, not stopped at all: its rows lie in the log."""
    store = Store(directory / "living")
    frontier = Frontier(store, NOW)
    for number in range(pages):
        frontier.discover([link(number)], NOW)
        frontier.commit()
    copy_as_killed(directory / "living" / "leveldb", directory / "leveldb")
    store.close()
    shutil.rmtree(directory / "living")


def data_files(directory: Path) -> dict[str, bytes]:
    """What holds rows; LevelDB's own lock and diary may change."""
    return {
        file.name: file.read_bytes()
        for file in (directory / "leveldb").iterdir()
        if not file.name.startswith("LO")
    }


def known(frontier: Frontier) -> list[int]:
    return [number for number in range(PAGES) if frontier.find(number.to_bytes(20, "big")) is not None]


def only(directory: Path, pattern: str) -> Path:
    (file,) = (directory / "leveldb").glob(pattern)
    return file


def flip(file: Path, offset: int) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= 0xFF
    file.write_bytes(data)


# -- opening ---------------------------------------------------------------------------------------------


def test_a_new_directory_becomes_a_frontier(tmp_path: Path) -> None:
    directory = tmp_path / "not" / "there"
    Store(directory, "scheme").close()
    store = Store(directory, "scheme")
    assert store.get(keys.FORMAT) == b"7"
    assert store.get(keys.SCHEME) == b"scheme"
    store.close()


@pytest.mark.parametrize("other", [b"2", b"99"])
def test_another_format_is_refused_with_a_remedy(tmp_path: Path, other: bytes) -> None:
    write_pages(tmp_path)
    with plyvel.DB(str(tmp_path / "leveldb")) as db:
        db.put(keys.FORMAT, other)

    with pytest.raises(FrontierVersion) as refused:
        Store(tmp_path)

    assert str(refused.value) == (
        f"{tmp_path} was written in frontier format {other.decode()}, this version of scrapy-frontier reads "
        "format 7: install the version that wrote it, or use another FRONTIER_DIR"
    )
    assert refused.value.reason == "frontier_version"


def test_another_key_scheme_is_refused_with_a_remedy(tmp_path: Path) -> None:
    Store(tmp_path, "theirs").close()
    with pytest.raises(FrontierVersion) as refused:
        Store(tmp_path, "ours")
    assert str(refused.value) == (
        f"{tmp_path} identifies pages by 'theirs', this crawl by 'ours': use the same "
        "REQUEST_FINGERPRINTER_CLASS and version of w3lib as before, or another FRONTIER_DIR"
    )
    Store(tmp_path, "theirs").close()


@pytest.mark.parametrize(("stored", "asked"), [("a.B 12", "a.B"), ("a.B", "a.B 12"), ("a.B", "a.B")])
def test_a_key_scheme_without_digits_is_told_by_its_name(tmp_path: Path, stored: str, asked: str) -> None:
    """As a command has it, where the fingerprinter answers only in a crawl."""
    Store(tmp_path, stored).close()
    Store(tmp_path, asked).close()
    for other in ("a.C", "a.C 12", "a.B 13" if " " in stored else "a.BB"):
        with pytest.raises(FrontierVersion):
            Store(tmp_path, other)


# -- the lock --------------------------------------------------------------------------------------------


def test_a_second_open_in_the_same_process_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(FrontierLocked) as refused:
        Store(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path} is open in this process already (a crawl): close it first, or use another FRONTIER_DIR"
    )
    store.close()
    Store(tmp_path).close()


OPEN_IN_ANOTHER_PROCESS = """
import sys
from scrapy_frontier.core.store.leveldb import Store, plyvel
try:
    Store(sys.argv[1]).close()
except Exception as error:
    print(type(error).__name__, error)
else:
    print("opened")
"""


@pytest.mark.parametrize(
    ("user", "remedy"),
    [("a crawl", "stop that crawl first"), ("scrapy frontier export", "wait until it has ended")],
)
def test_a_second_open_in_another_process_is_refused_and_names_the_holder(
    tmp_path: Path, user: str, remedy: str
) -> None:
    """Reading LevelDB's own ``LOCK``, as a backup does, gives up LevelDB's lock and not ours."""
    Store(tmp_path, user="a crawl of the whole world").close()
    store = Store(tmp_path, user=user)
    (tmp_path / "leveldb" / "LOCK").read_bytes()
    refused = run(OPEN_IN_ANOTHER_PROCESS, tmp_path).stdout
    assert refused.startswith(
        f"FrontierLocked {tmp_path} is open in process {os.getpid()} ({user}): {remedy}"
    )
    store.close()
    assert run(OPEN_IN_ANOTHER_PROCESS, tmp_path).stdout == "opened\n"


# -- directories that will not do ------------------------------------------------------------------------


def test_a_path_below_a_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("theirs")
    with pytest.raises(FrontierUnreadable, match="use another JOBDIR or FRONTIER_DIR") as refused:
        Store(tmp_path / "file" / "frontier")
    assert "Not a directory" in str(refused.value)
    assert (tmp_path / "file").read_text() == "theirs"


@pytest.mark.parametrize("name", ["frontier", "frontier/leveldb", "frontier/leveldb/*.ldb"])
def test_what_may_not_be_read_or_written_is_refused_with_a_remedy(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "frontier"
    write_pages(directory)
    (directory / "frontier.lock").unlink()
    [path] = tmp_path.glob(name)
    path.chmod(0o500 if path.is_dir() else 0)
    code = "import sys; from scrapy_frontier.core.store.leveldb import Store, plyvel; Store(sys.argv[1])"
    command = humbly(sys.executable, "-c", code, directory)
    said = subprocess.run(command, capture_output=True, text=True, timeout=600).stderr
    path.chmod(0o700)
    assert "FrontierUnreadable: cannot open" in said
    assert "writable for this user" in said
    store = Store(directory)
    assert sum(1 for _ in store.scan(keys.PAGE)) == PAGES
    store.close()


# -- damaged files ---------------------------------------------------------------------------------------


def test_a_log_cut_short_loses_only_what_was_cut(tmp_path: Path) -> None:
    """What a power cut leaves: the last log records are gone or half there."""
    kill_after_writing(tmp_path)
    log = only(tmp_path, "*.log")
    os.truncate(log, log.stat().st_size - 100)

    frontier = Frontier(Store(tmp_path), NOW)

    assert known(frontier) == list(range(PAGES - 1))
    frontier.load(NOW)
    assert frontier.pending == PAGES - 1
    frontier.close()


def test_damage_that_merging_meets_is_no_full_disk(tmp_path: Path) -> None:
    write_pages(tmp_path)
    flip(only(tmp_path, "*.ldb"), 100)
    store = Store(tmp_path)
    store.write({keys.INDEX: b"", keys.PAGE: b""})
    store.flush()  # a second table: one alone is merged with nothing
    store._db.compact_range(start=b"", stop=b"\xff")
    with pytest.raises(FrontierUnwritable, match=r"is damaged \(.*check --repair --dir"):
        store.write({})  # to which LevelDB reports the failure
    store.close()


def test_a_beginning_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    """LevelDB writes its first MANIFEST, then CURRENT; a kill between the two has nothing to lose."""
    (tmp_path / "leveldb").mkdir()
    (tmp_path / "leveldb" / "MANIFEST-000001").write_bytes(b"half a rec")
    Store(tmp_path).close()


# -- a database that is gone -------------------------------------------------------------------------------


def remove(directory: Path) -> None:
    shutil.rmtree(directory / "leveldb")


def empty(directory: Path) -> None:
    for file in (directory / "leveldb").iterdir():
        file.unlink()


def test_a_log_that_somebody_removed_is_missed(tmp_path: Path) -> None:
    """LevelDB does not miss it, and has nothing but what was in tables then."""
    write_pages(tmp_path)
    log = only(tmp_path, "*.log")
    log.unlink()
    with pytest.raises(FrontierDamaged, match=r"its log is missing.*check --repair --dir"):
        Store(tmp_path)


BEGIN_AND_DIE = """
import os, sys
from scrapy_frontier.core.store import leveldb as store
def die(*_, **__):
    os._exit(9)
setattr(store{}, {!r}, die)
store.Store(sys.argv[1])
"""


@pytest.mark.parametrize(("owner", "last"), [("", "_open"), (".Store", "_check_format"), (".Store", "write")])
def test_who_was_killed_while_beginning_begins_again(tmp_path: Path, owner: str, last: str) -> None:
    died = run(BEGIN_AND_DIE.format(owner, last), tmp_path)
    assert died.returncode == 9
    Store(tmp_path).close()


Served = list[tuple[str, bytes]]


def crawl_with_a_damaged_table(directory: Path, share: float) -> Served:
    """Return every page served with one byte of the table flipped."""
    write_pages(directory)
    table = only(directory, "*.ldb")
    flip(table, int((table.stat().st_size - 1) * share))
    before = table.read_bytes()
    served: Served = []
    store = None
    with suppress(FrontierError):
        store = Store(directory)
        frontier = Frontier(store, NOW)
        frontier.load(NOW)
        while (lease := frontier.lease(NOW)) is not None:
            served.append((lease.page.url, lease.page.payload))
            frontier.release(lease, Outcome(Event.FETCHED, 200), NOW)
    if store is not None:
        store.close()
    assert table.read_bytes() == before
    return served


def test_a_damaged_table_never_gives_a_wrong_page(tmp_path: Path) -> None:
    wanted = {(link(number).url, link(number).payload) for number in range(PAGES)}
    for percent in range(0, 101, 10):
        served = crawl_with_a_damaged_table(tmp_path / str(percent), percent / 100)
        assert set(served) <= wanted
        assert len(served) == len(set(served))


# -- no space --------------------------------------------------------------------------------------------

CRAWL_UNTIL_THE_DISK_IS_FULL = """
import resource, sys
from scrapy_frontier.core.errors import FrontierUnwritable
from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.core.store.leveldb import Store, plyvel
store = Store(sys.argv[1])
frontier = Frontier(store, 1.7e9)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
committed = 0
try:
    for number in range(5000):
        link = Link(number.to_bytes(20, "big"), "http://a.example/%d" % number, "a.example")
        frontier.discover([link], 1.7e9)
        frontier.commit()
        committed = number + 1
except FrontierUnwritable as error:
    print(committed)
    print(error)
for verb in (
    frontier.commit,
    lambda: frontier.discover([], 1.7e9),
    lambda: frontier.lease(1.7e9),
    lambda: frontier.release(1, Outcome(Event.FETCHED), 1.7e9),
    lambda: frontier.requeue(0, 1.7e9, Link()),
):
    try:
        verb()
    except FrontierUnwritable:
        print("still refused")
frontier.close()
"""


def test_a_file_size_limit_stops_the_crawl_clearly_and_loses_nothing(tmp_path: Path) -> None:
    full = run(CRAWL_UNTIL_THE_DISK_IS_FULL, tmp_path)
    assert full.returncode == 0, full.stderr
    committed, message, *refused = full.stdout.splitlines()
    assert message.startswith(f"cannot write to {tmp_path} (")
    assert message.endswith("then start the same crawl again; nothing that was stored is lost")
    assert refused == ["still refused"] * 5

    frontier = Frontier(Store(tmp_path), NOW)
    assert not frontier.was_clean
    assert frontier._batch.counts.next_page == int(committed) > 100
    assert all(frontier.find(number.to_bytes(20, "big")) == number for number in range(int(committed)))
    frontier.close()


def test_a_full_disk_stops_the_crawl_clearly_and_loses_nothing(tiny_disk: Path) -> None:
    frontier = Frontier(Store(tiny_disk / "frontier"), NOW)
    committed = 0
    with pytest.raises(FrontierUnwritable, match=r"No space left on device.*free some space") as full:  # noqa: PT012
        while committed < 10_000:
            frontier.discover([link(committed)], NOW)
            frontier.commit()
            committed += 1
    assert full.value.reason == "frontier_unwritable"
    assert committed > 100
    with pytest.raises(FrontierUnwritable):
        frontier.lease(NOW)
    frontier.close()

    with pytest.raises(FrontierUnwritable, match="No space left"):  # still full: says so
        Frontier(Store(tiny_disk / "frontier"), NOW)

    subprocess.run(["mount", "-o", "remount,size=16m", tiny_disk], check=True)
    frontier = Frontier(Store(tiny_disk / "frontier"), NOW)
    assert frontier._batch.counts.next_page == committed
    assert all(frontier.find(number.to_bytes(20, "big")) == number for number in range(committed))
    frontier.close()


def test_a_count_that_went_wrong_stops_the_crawl_clearly_and_loses_nothing(tmp_path: Path) -> None:
    """A defect of ours, which no batch could write: it must not hang the crawl."""
    frontier = Frontier(Store(tmp_path), NOW)
    frontier.discover([link(1)], NOW)
    frontier.commit()
    frontier.discover([link(2)], NOW)
    frontier._hosts.by_name["h2.example"].queued_again = -1
    for _ in range(2):
        with pytest.raises(FrontierUnwritable, match=r"counts are wrong .*check --repair.*start the same"):
            frontier.commit()
    with pytest.raises(FrontierUnwritable):
        frontier.lease(NOW)
    frontier.close()
    frontier = Frontier(Store(tmp_path), NOW)
    assert [frontier.find(link(number).fingerprint) for number in (1, 2)] == [0, None]
    frontier.close()


CREATE_ON_A_FULL_DISK = """
import resource, sys
from scrapy_frontier.core.errors import FrontierError
from scrapy_frontier.core.store.leveldb import Store, plyvel
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    Store(sys.argv[1], "scheme" * 10_000).close()
except FrontierError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(("pages", "space"), [(0, 0), (0, 30_000), (PAGES, 0)])
def test_a_disk_too_full_to_begin_or_to_go_on_is_told_clearly(tmp_path: Path, pages: int, space: int) -> None:
    if pages:
        write_pages(tmp_path)
    full = run(CREATE_ON_A_FULL_DISK, tmp_path, space)
    assert full.stdout.startswith(f"FrontierUnwritable cannot write to {tmp_path} ("), full.stderr
    assert "free some space" in full.stdout
    assert full.returncode == 0

    store = Store(tmp_path)
    assert sum(1 for _ in store.scan(keys.PAGE)) == pages
    store.close()


# -- reading ---------------------------------------------------------------------------------------------


def test_scan_goes_on_behind_a_row_and_stops_at_a_limit(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(dict.fromkeys((b"ha", b"hb", b"hc", b"i"), b""), sync=True)

    assert [key for key, _ in store.scan(b"h")] == [b"ha", b"hb", b"hc"]
    assert [key for key, _ in store.scan(b"h", after=b"a")] == [b"hb", b"hc"]
    assert [key for key, _ in store.scan(b"h", after=b"a", limit=1)] == [b"hb"]
    assert list(store.scan(b"h", limit=0)) == []
    store.close()


def test_two_threads_write_whole_batches_at_once(tmp_path: Path) -> None:
    """As a shared crawl: its thread removes old batches from the outbox while the crawl commits."""
    store = Store(tmp_path)
    old = {b"old%05d" % number: b"" for number in range(20_000)}
    store.write(old)

    def remove_old() -> None:
        for first in range(0, len(old), 100):
            store.write(dict.fromkeys(list(old)[first : first + 100]))

    remover = threading.Thread(target=remove_old)
    remover.start()
    batches = 0
    while remover.is_alive():
        rows = {b"new%d-%d" % (batches, number): b"row" for number in range(20)}
        store.write(rows)
        assert {key: store.get(key) for key in rows} == rows
        batches += 1
    remover.join()
    assert len(store.keys_of(b"new", b"", 20 * batches + 1)) == 20 * batches
    assert store.keys_of(b"old", b"", 1) == []
    store.close()


def test_a_snapshot_does_not_see_what_comes_later(tmp_path: Path) -> None:
    store = Store(tmp_path)
    snapshot = store.snapshot()
    store.write({b"ha": b""})
    assert list(store.scan(b"h", snapshot=snapshot)) == []
    assert [key for key, _ in store.scan(b"h")] == [b"ha"]
    snapshot.close()
    store.close()
