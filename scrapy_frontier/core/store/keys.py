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

The numbers of `State` are on disk: never reuse one. ``LEASED`` exists in memory only, so whatever a crash
interrupts is simply still ``QUEUED``.

Scores in 16 bits (`bucket`) count steps of the binary logarithm, from 2**-40 to 2**24. For many
at once `core.ranking.scorer` does the same.
"""

from __future__ import annotations

from enum import IntEnum
from math import log2


class State(IntEnum):
    """Where a page is in its life; `core.transitions` has the events that lead from one to the other."""

    SEEN = 0  # known, not queued: out of scope, over budget, or its request was lost
    QUEUED = 1  # waits for its turn, or for the end of a backoff
    LEASED = 2  # handed out (in memory only)
    DONE = 3  # fetched; its links are stored
    REDIRECTED = 4  # led to another page
    GONE = 5  # 404 or 410
    FAILED = 6  # attempts used up, or its callback raised
    EXCLUDED = 7  # must not be fetched; the reason says by which rule


# By themselves: Python 3.11 takes 0.2 us to find a member in its class.
SEEN, QUEUED, LEASED, DONE, REDIRECTED, GONE, FAILED, EXCLUDED = State
FINISHED = (State.DONE, State.REDIRECTED, State.GONE, State.FAILED, State.EXCLUDED)

STEPS_A_DOUBLING = 1024  # from a number to its double: 0.07 % a step, 64 doublings in 16 bits
SMALLEST = -40  # binary logarithm of the least number that has a step of its own
TOP = 0xFFFF
LARGEST = 2.0**24  # what is more is as good
# The bucket of a page nothing is known about; to a scorer that follows links, one of 256 links of an average
# page.
NEUTRAL = 0x8000


def clamped(score: float) -> float:
    """Return a score from outside as one that can be stored: 0 to `LARGEST`, and 1 for NaN."""
    if 0 <= score <= LARGEST:
        return float(score)
    return LARGEST if score > LARGEST else 0.0 if score < 0 else 1.0


def bucket(score: float) -> int:
    """Return a score in 16 bits, as in a queue key: its logarithm, 1024 steps a doubling, from 2**-40 to
    2**24, which is the most; 0 for NaN and what is not positive."""
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
# Ids from here on are not pages of their own but further visits of known ones (``dont_filter``); page ids
# below stay consecutive, so that they can index an array.
FIRST_VISIT = 1 << 39
SEGMENT = 4096  # pages: 1024 take 1 % more bytes, 16384 save 1 %, and a single page's links cost a segment


def index_value(page_id: PageId, is_seen: bool = False) -> bytes:
    """Return what an index row says: the page, and whether it may be no more than seen (state ``SEEN``)."""
    return page_id.to_bytes(ID_BYTES, "big") + (b"\0" if is_seen else b"")


def id_in(value: bytes) -> int:
    """Return the page whose id a value begins with; behind it an index row has a flag."""
    return int.from_bytes(value[:ID_BYTES], "big")


def id_bytes(page_id: PageId) -> bytes:
    """Return an id in the five bytes of a key, in which byte order is the order of ids."""
    return page_id.to_bytes(ID_BYTES, "big")


def page_key(page_id: PageId) -> bytes:
    """Return the key of the row of a page, or of a further visit."""
    return PAGE + page_id.to_bytes(ID_BYTES, "big")


def aside_key(page_id: PageId) -> bytes:
    """Return the key of the bytes of a page row that cannot be read."""
    return ASIDE + page_id.to_bytes(ID_BYTES, "big")


def content_key(page_id: PageId) -> bytes:
    """Return the key of what a callback says a page is worth."""
    return CONTENT + id_bytes(page_id)


def host_key(host: str) -> bytes:
    """Return the key of the counts and the last visit of a host."""
    return HOST + host.encode()


def rates_key(host: str) -> bytes:
    """Return the key of what is known of how often the pages of a host change."""
    return RATES + host.encode()


def deferred_prefix(host: str) -> bytes:
    """Return where the deferred rows of a host begin."""
    return DEFERRED + host.encode() + b"\0"


def deferred_key(host: str, page_id: PageId) -> bytes:
    """Return the key of the row of a page that waits for room in the budget of *host*."""
    return deferred_prefix(host) + id_bytes(page_id)


def split_deferred_key(key: bytes) -> tuple[str, int] | None:
    """Return the host and the page id in the key of a deferred row; None for a key that is none."""
    host, rest = key[1 : -ID_BYTES - 1], key[-ID_BYTES - 1 :]
    try:
        return (host.decode(), int.from_bytes(rest[1:], "big")) if rest[:1] == b"\0" else None
    except UnicodeDecodeError:
        return None


def link_key(source: int) -> bytes:
    """Return the key of the row of the links of *source*, which counts before its segment."""
    return LINK_ROW + source.to_bytes(ID_BYTES, "big")


def segment_key(source: int) -> bytes:
    """Return the key of the segment that holds the links of *source*, and of all other pages of its 4096."""
    return SEGMENT_ROW + (source // SEGMENT * SEGMENT).to_bytes(ID_BYTES, "big")


def outbox_key(number: int) -> bytes:
    """Return the key of the batch of that *number* in the outbox of a shard's copy."""
    return OUTBOX + number.to_bytes(8, "big")


def key_id(key: bytes) -> int:
    """Return the page of a row, or the first page of a segment."""
    return int.from_bytes(key[1 : 1 + ID_BYTES], "big")


def orders_key(host: str) -> bytes:
    """Return the key of what the operator ordered for a host."""
    return ORDERS + host.encode()


def robots_key(origin: str) -> bytes:
    """Return the key of the copy of the robots.txt of *origin* (scheme://host:port)."""
    return ROBOTS + origin.encode(errors="replace")


def sitemaps_key(origin: str) -> bytes:
    """Return the key of what is known of the sitemaps of *origin* (scheme://host:port)."""
    return SITEMAPS + origin.encode()


def cooldown_key(host: str) -> bytes:
    """Return the key of the rest of a host after trouble."""
    return COOLDOWN + host.encode()
