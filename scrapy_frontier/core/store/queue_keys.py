"""Keys of queue rows and waiting rows: the place of a page in the queue of its host, or until when it waits.

The page row does not have it, so to find the place of a page means to walk the queue of its host: some us a
row.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ..errors import UnreadableRow, decode_or_none
from . import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .keys import PageId
    from .leveldb import Store

MAX_PRIORITY = (1 << 31) - 1
_SCORE = struct.Struct(">IH")
# A sort key whose arrival is the page's own id: priority, bucket, the upper byte of the id, its lower four.
OWN_ARRIVAL = struct.Struct(">IHBI")
SCORE_BYTES = _SCORE.size  # priority and score, at the head of a sort key


def queue_prefix(host: str) -> bytes:
    """Return the prefix of the queue rows of a host; host names hold no NUL (`clean_host`)."""
    return keys.QUEUE + host.encode() + b"\0"


def due_prefix(host: str) -> bytes:
    """Return the prefix of the due queue rows of a host: of its finished pages that are due."""
    return keys.DUE_QUEUE + host.encode() + b"\0"


_DUE_KEY = 10  # value and hour, page id: no other sort key is as long
_HOUR = 3600


def due_sort_key(value: int, visited: int, page_id: PageId) -> bytes:
    """Return the sort key of a page in the due queue of its host: largest *value* (a `keys.bucket`) first,
    then the page *visited* longest ago (POSIX seconds)."""
    hour = min(visited // _HOUR, 0xFFFFFF)
    return (keys.TOP - value).to_bytes(2, "big") + hour.to_bytes(3, "big") + keys.id_bytes(page_id)


def is_due_sort_key(sort_key: bytes) -> bool:
    """Return whether a sort key is one of a due queue."""
    return len(sort_key) == _DUE_KEY


def sort_key(priority: int, bucket: int, arrival: int, page_id: PageId) -> bytes:
    """Return the sort key of a page in the queue of its host: smaller bytes come first.

    *priority* is clamped to 32 bits; *bucket* is the score as 0..65535. *arrival* puts equals in order of
    queueing: the id of the page if it is new, else the id of the page that was discovered last by then.
    """
    head = sort_key_head(priority, bucket) + keys.id_bytes(arrival)
    return head if arrival == page_id else head + keys.id_bytes(page_id)


@lru_cache(maxsize=1024)  # packing takes three times as long
def sort_key_head(priority: int, bucket: int) -> bytes:
    """Return the first six bytes of a sort key: priority and score bucket."""
    clamped = min(max(priority, -MAX_PRIORITY), MAX_PRIORITY)
    return _SCORE.pack(MAX_PRIORITY - clamped, 0xFFFF - bucket)


def sort_key_id(sort_key: bytes) -> int:
    """Return the id of the page, or of the further visit, in a sort key."""
    return int.from_bytes(sort_key[-keys.ID_BYTES :], "big")


def sort_key_bucket(sort_key: bytes) -> int:
    """Return the score bucket in a sort key."""
    return 0xFFFF - int.from_bytes(sort_key[4:SCORE_BYTES], "big")


def priority_code(sort_key: bytes) -> int:
    """Return the priority in a sort key, inverted: smaller numbers come first."""
    return int.from_bytes(sort_key[:4], "big")


def pack_sort_key(sort_key: bytes, host: str) -> bytes:
    """Return the value of a waiting row: a sort key and its host. `unpack_sort_key` is the inverse."""
    return bytes((len(sort_key),)) + sort_key + host.encode()


def unpack_sort_key(value: bytes) -> tuple[bytes, str]:
    """Return the sort key and the host in the value of a waiting row. Raises `UnreadableRow`."""
    try:
        return value[1 : 1 + value[0]], value[1 + value[0] :].decode()
    except (UnicodeDecodeError, IndexError) as error:
        raise UnreadableRow(f"a waiting row cannot be read: {error}") from error


def waiting_key(when: float, page_id: PageId) -> bytes:
    """Return the key of the waiting row of a page whose backoff ends at *when* (POSIX seconds), to the
    microsecond."""
    return keys.WAITING + max(0, int(when * 1e6)).to_bytes(8, "big") + keys.id_bytes(page_id)


def waiting_time(key: bytes) -> float:
    """Return the end of the backoff in the key of a waiting row (POSIX seconds)."""
    return int.from_bytes(key[1:9], "big") / 1e6


_HEAD = 11  # priority, score bucket and arrival


class QueuePlace(NamedTuple):
    """The place of a queued page: the ``key`` of its row, its ``sort_key`` in the queue of ``host``, the
    number of pages ``ahead`` of it, and the end of its backoff, if it is in one (``waits_until``, POSIX
    seconds).

    ``is_far``: more than ``ahead`` pages are ahead of it; its row was not looked for any further.
    """

    key: bytes
    sort_key: bytes
    host: str
    ahead: int = 0
    waits_until: float | None = None
    is_far: bool = False

    @property
    def bucket(self) -> int:
        """The score bucket that the page is queued with."""
        return sort_key_bucket(self.sort_key)


def is_sort_key(sort_key: bytes) -> bool:
    """Return whether *sort_key* has the length of one: 11 bytes, 16 with a page id of its own, 10 in a due
    queue."""
    return len(sort_key) in (_HEAD, _HEAD + keys.ID_BYTES, _DUE_KEY)


def split_queue_row(key: bytes, _value: bytes) -> QueuePlace | None:
    """Return the place in a queue row, without the pages ahead; None if it is not a valid row."""
    name, _, sort_key = key[1:].partition(b"\0")
    is_one = is_sort_key(sort_key) and is_due_sort_key(sort_key) == key.startswith(keys.DUE_QUEUE)
    try:
        return QueuePlace(key, sort_key, name.decode()) if is_one else None
    except UnicodeDecodeError:
        return None


def split_waiting_row(key: bytes, value: bytes) -> QueuePlace | None:
    """Return the place in a waiting row; None if it is not a valid row."""
    found = decode_or_none(unpack_sort_key, value)
    if found is None or len(key) != 1 + 8 + keys.ID_BYTES:
        return None
    sort_key, host = found
    if not is_sort_key(sort_key) or sort_key_id(sort_key) != int.from_bytes(key[9:], "big"):
        return None
    return QueuePlace(key, sort_key, host, waits_until=waiting_time(key))


def queued_places(store: Store, host: str) -> Iterator[QueuePlace]:
    """Yield the pages in the queue and the due queue of *host*, best first, as they are on the disk, leased
    ones included. Some us a row."""
    rows = chain(store.scan(queue_prefix(host)), store.scan(due_prefix(host)))
    for ahead, (key, value) in enumerate(rows):
        if place := split_queue_row(key, value):
            yield place._replace(ahead=ahead)


def waiting_places(store: Store) -> Iterator[QueuePlace]:
    """Yield all pages in a backoff, soonest first, as they are on the disk; invalid rows are left out."""
    for key, value in store.scan(keys.WAITING):
        if place := split_waiting_row(key, value):
            yield place


def find_place(store: Store, page_id: PageId, host: str, most: int | None = None) -> QueuePlace | None:
    """Return the place of a page; None if it has none. O(queue of the host + pages in a backoff). At most
    *most* rows of the queue are looked at; after these the place ``is_far``."""
    far: QueuePlace | None = None
    for place in queued_places(store, host):
        if sort_key_id(place.sort_key) == page_id:
            return place
        if place.ahead + 1 == most:
            far = QueuePlace(b"", b"", host, most, is_far=True)
            break
    waiting = (place for place in waiting_places(store) if sort_key_id(place.sort_key) == page_id)
    return next(waiting, far)
