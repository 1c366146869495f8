r"""Keys of the database: one prefix byte, then big-endian numbers, so that byte order is the wanted order.

==========  ==========================================  ==================================
row         key                                         order it gives
==========  ==========================================  ==================================
meta        ``m`` name                                  --
index       ``f`` fingerprint                           --
links       ``g`` page id (5)                           order of discovery
segment     ``s`` first page id (5)                     order of discovery
column      ``v`` name ``\0`` first page id (5)        order of discovery
content     ``c`` page id (5)                           --
page        ``p`` page id (5)                           order of discovery
queue       ``q`` host ``\0`` sort key                 per host: best first, then oldest
due queue   ``a`` host ``\0`` due key                 per host: most valuable first
waiting     ``w`` microseconds (8) page id (5)          soonest first
due         ``n`` second (4) page id (5)                soonest first
host        ``h`` host                                  --
rates       ``u`` host                                  --
aside       ``x`` page id (5)                           --
orders      ``o`` host                                  --
body        ``b`` host ``\0`` digest (16)              --
deferred    ``d`` unit ``\0`` page id (5)               per unit: order of discovery
robots      ``r`` scheme://host:port                    --
sitemaps    ``l`` scheme://host:port                    --
cooldown    ``t`` host                                  --
outbox      ``z`` number (8)                            order of writing
last batch  ``mbatch``                                  --
==========  ==========================================  ==================================

A *sort key* is priority (4, inverted), score bucket (2, inverted), arrival (5) and, where that is not the
page's own id, the page id (5); a *due key* is place (2), hour (3), page id (5): `queue_keys`
makes both. ``docs/internals/format.md`` describes the values.

The numbers of `State` are on disk: never reuse one. ``LEASED`` exists in memory only, so a page that a crash
interrupts is still ``QUEUED``.

Scores in 16 bits (`bucket`) count steps of the binary logarithm, from 2**-40 to 2**24; `core.ranking.scorer`
does the same for many at once.
"""

from __future__ import annotations

from enum import IntEnum
from math import log2


class State(IntEnum):
    """The state of a page; `core.transitions` has the events that lead from one state to another."""

    SEEN = 0  # known, not queued: out of scope, over budget, or its request was lost
    QUEUED = 1  # waits for its turn, or for the end of a backoff
    LEASED = 2  # handed out (in memory only)
    DONE = 3  # fetched; its links are stored
    REDIRECTED = 4  # led to another page
    GONE = 5  # 404 or 410
    FAILED = 6  # attempts used up, or its callback raised
    EXCLUDED = 7  # must not be fetched; the reason says by which rule


# As names of the module: Python 3.11 takes 0.2 us to find a member in its class.
SEEN, QUEUED, LEASED, DONE, REDIRECTED, GONE, FAILED, EXCLUDED = State
FINISHED = (State.DONE, State.REDIRECTED, State.GONE, State.FAILED, State.EXCLUDED)

STEPS_A_DOUBLING = 1024  # from a number to its double: 0.07 % a step, 64 doublings in 16 bits
SMALLEST = -40  # binary logarithm of the least number that has a step of its own
TOP = 0xFFFF
LARGEST = 2.0**24  # larger scores count as this
# The bucket of a page of unknown score; for a scorer that follows links, that of one of 256 links of an
# average page.
NEUTRAL = 0x8000


def clamped(score: float) -> float:
    """Return a score, from a spider say, as one that can be stored: 0 to `LARGEST`, and 1 for NaN."""
    if 0 <= score <= LARGEST:
        return float(score)
    return LARGEST if score > LARGEST else 0.0 if score < 0 else 1.0


def bucket(score: float) -> int:
    """Return a score in 16 bits, as in a sort key: its logarithm, 1024 steps a doubling, from 2**-40 to at
    most 2**24; 0 for NaN and all that is not positive."""
    if not score > 0:
        return 0
    return min(max(round((log2(min(score, LARGEST)) - SMALLEST) * STEPS_A_DOUBLING), 1), TOP)


PageId = int  # opaque to callers of the frontier

FORMAT_VERSION = 7

FORMAT = b"mformat"
SCHEME = b"mscheme"
COUNTS = b"mcounts"
SPIDER = b"mspider"
CLEAN = b"mclean"
RANKING = b"mranking"
FOCUS = b"mfocus"
REVISIT = b"mrevisit"
RATES_OF_ALL = b"mrates"
LAST_BATCH = b"mbatch"

INDEX = b"f"
PAGE = b"p"
QUEUE = b"q"
DUE_QUEUE = b"a"
WAITING = b"w"
DUE = b"n"
RATES = b"u"
HOST = b"h"
ASIDE = b"x"
DEFERRED = b"d"
COLUMN = b"v"
CONTENT = b"c"
LINK_ROW = b"g"
SEGMENT_ROW = b"s"
ORDERS = b"o"
ROBOTS = b"r"
SITEMAPS = b"l"
COOLDOWN = b"t"
OUTBOX = b"z"

ID_BYTES = 5
ID_BITS = 8 * ID_BYTES
MAX_ID = (1 << ID_BITS) - 1
# Ids from here on are further visits of known pages (``dont_filter``); the ids of pages below stay
# consecutive, so that they can index an array.
FIRST_VISIT = 1 << 39
SEGMENT = 4096  # pages; 1024 take 1 % more bytes, 16384 save 1 %; to read the links of one page reads it all


def index_value(page_id: PageId, is_marked: bool = False) -> bytes:
    """Return the value of an index row: the id of the page, and whether a link has to look at the page
    row."""
    return id_bytes(page_id) + (b"\0" if is_marked else b"")


def id_in(value: bytes) -> int:
    """Return the page id at the beginning of a value, that of an index row say."""
    return int.from_bytes(value[:ID_BYTES], "big")


def id_bytes(page_id: PageId) -> bytes:
    """Return an id as the five bytes that stand for it in keys; their order is that of ids."""
    return page_id.to_bytes(ID_BYTES, "big")


def page_key(page_id: PageId) -> bytes:
    """Return the key of the row of a page, or of a further visit."""
    return PAGE + id_bytes(page_id)


def aside_key(page_id: PageId) -> bytes:
    """Return the key under which the bytes of an unreadable page row are kept."""
    return ASIDE + id_bytes(page_id)


def content_key(page_id: PageId) -> bytes:
    """Return the key of the content score of a page."""
    return CONTENT + id_bytes(page_id)


def host_key(host: str) -> bytes:
    """Return the key of the row of a host: its counts and its last visit."""
    return HOST + host.encode()


def rates_key(host: str) -> bytes:
    """Return the key of the change rates of a host."""
    return RATES + host.encode()


def deferred_prefix(host: str) -> bytes:
    """Return the prefix of the deferred rows of a host."""
    return DEFERRED + host.encode() + b"\0"


def deferred_key(host: str, page_id: PageId) -> bytes:
    """Return the key of the row of a page that waits for room in the budget of *host*."""
    return deferred_prefix(host) + id_bytes(page_id)


def split_deferred_key(key: bytes) -> tuple[str, int] | None:
    """Return the host and the page id in the key of a deferred row; None if it is not a valid key."""
    host, rest = key[1 : -ID_BYTES - 1], key[-ID_BYTES - 1 :]
    try:
        return (host.decode(), int.from_bytes(rest[1:], "big")) if rest[:1] == b"\0" else None
    except UnicodeDecodeError:
        return None


def link_key(source: int) -> bytes:
    """Return the key of the link row of *source*, which overrides its segment."""
    return LINK_ROW + id_bytes(source)


def segment_key(source: int) -> bytes:
    """Return the key of the segment that holds the links of *source* and of the pages around it."""
    return SEGMENT_ROW + id_bytes(source // SEGMENT * SEGMENT)


def outbox_key(number: int) -> bytes:
    """Return the key of the batch of that *number* in the outbox of a shard's copy."""
    return OUTBOX + number.to_bytes(8, "big")


def key_id(key: bytes) -> int:
    """Return the page id in the key of a row, or the first page of a segment."""
    return int.from_bytes(key[1 : 1 + ID_BYTES], "big")


def orders_key(host: str) -> bytes:
    """Return the key of the orders of the operator for a host."""
    return ORDERS + host.encode()


def robots_key(origin: str) -> bytes:
    """Return the key of the copy of the robots.txt of *origin* (scheme://host:port)."""
    return ROBOTS + origin.encode(errors="replace")


def sitemaps_key(origin: str) -> bytes:
    """Return the key of what is known of the sitemaps of *origin* (scheme://host:port)."""
    return SITEMAPS + origin.encode()


def cooldown_key(host: str) -> bytes:
    """Return the key of the cooldown of a host."""
    return COOLDOWN + host.encode()
