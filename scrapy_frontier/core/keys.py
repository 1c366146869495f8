"""Keys of the database: one prefix byte, then big-endian numbers, so that byte order is the wanted order.

==========  ==========================================  ==================================
row         key                                         order it gives
==========  ==========================================  ==================================
meta        ``m`` name                                  --
index       ``f`` fingerprint                           --
links       ``g`` page id (5)                           order of discovery
segment     ``s`` first page id (5)                     order of discovery
column      ``v`` name ``\\0`` first page id (5)        order of discovery
content     ``c`` page id (5)                           --
page        ``p`` page id (5)                           order of discovery
queue       ``q`` host ``\\0`` rank                     per host: best first, then oldest
waiting     ``w`` microseconds (8) page id (5)          soonest first
host        ``h`` host                                  --
aside       ``x`` page id (5)                           --
orders      ``o`` host (`orders`)                       --
body        ``b`` host ``\\0`` digest (16)              --
deferred    ``d`` unit ``\\0`` page id (5)               per unit: order of discovery
robots      ``r`` scheme://host:port (`robots_copy`)    --
listing     ``l`` scheme://host:port (`listings`)       --
cooldown    ``t`` host (`cooldown`)                     --
==========  ==========================================  ==================================

A *unit* is what a budget holds for (`deferred_units`): a host, a registered domain, or all pages by depth.
A *rank* is priority (4, inverted), score bucket (2, inverted), turn (5) and, where the turn is not the
page's own id, the page id (5). ``docs/format.md`` describes the values.
"""

from __future__ import annotations

import struct

FORMAT = b"mformat"
SCHEME = b"mscheme"
COUNTS = b"mcounts"
SPIDER = b"mspider"
CLEAN = b"mclean"
RANKING = b"mranking"

INDEX = b"f"
PAGE = b"p"
QUEUE = b"q"
WAITING = b"w"
HOST = b"h"
ASIDE = b"x"
DEFERRED = b"d"
BODY = b"b"
COLUMN = b"v"
CONTENT = b"c"

ID_BYTES = 5
MAX_ID = (1 << 40) - 1
# Ids from here on are not pages of their own but further visits of known ones (``dont_filter``), and
# requests kept in memory; page ids below stay consecutive, so that they can index an array.
FIRST_VISIT = 1 << 39

MAX_PRIORITY = (1 << 31) - 1
_RANK_HEAD = struct.Struct(">IH")
SCORE_BYTES = _RANK_HEAD.size  # priority and score, at the head of a rank


def index_value(page_id: int, is_seen: bool = False) -> bytes:
    """What an index row says: the page, and whether it may be no more than seen (state ``SEEN``)."""
    return page_id.to_bytes(ID_BYTES, "big") + (b"\0" if is_seen else b"")


def index_id(value: bytes) -> int:
    return int.from_bytes(value[:ID_BYTES], "big")


def id_bytes(page_id: int) -> bytes:
    return page_id.to_bytes(ID_BYTES, "big")


def page_key(page_id: int) -> bytes:
    return PAGE + page_id.to_bytes(ID_BYTES, "big")


def aside_key(page_id: int) -> bytes:
    return ASIDE + page_id.to_bytes(ID_BYTES, "big")


def column_key(name: str, first: int) -> bytes:
    return COLUMN + name.encode() + b"\0" + id_bytes(first)


def content_key(page_id: int) -> bytes:
    return CONTENT + id_bytes(page_id)


def host_key(host: str) -> bytes:
    return HOST + host.encode()


def queue_prefix(host: str) -> bytes:
    """Where a host's queue rows begin; host names hold no NUL (`clean_host`)."""
    return QUEUE + host.encode() + b"\0"


DEPTH_UNIT = "@depth"


def domain_unit(domain: str) -> str:
    return f"*.{domain}"


def deferred_units(host: str) -> list[str]:
    """All units under which a page of *host* can be deferred: its own, those of domains, that of depth."""
    labels = host.split(".")
    domains = [".".join(labels[start:]) for start in range(len(labels))]
    return [host, *map(domain_unit, domains), DEPTH_UNIT]


def deferred_prefix(unit: str) -> bytes:
    return DEFERRED + unit.encode() + b"\0"


def deferred_key(unit: str, page_id: int) -> bytes:
    return deferred_prefix(unit) + id_bytes(page_id)


def body_key(host: str, digest: bytes) -> bytes:
    return BODY + clean_host(host).encode() + b"\0" + digest


def split_deferred_key(key: bytes) -> tuple[str, int] | None:
    """Unit and page id in the key of a deferred row; None for a key that is none."""
    unit, rest = key[1 : -ID_BYTES - 1], key[-ID_BYTES - 1 :]
    try:
        return (unit.decode(), int.from_bytes(rest[1:], "big")) if rest[:1] == b"\0" else None
    except UnicodeDecodeError:
        return None


def clean_host(host: str) -> str:
    """A host name that can stand in a key: no NUL, no lone surrogate."""
    return host.replace("\0", "").encode(errors="replace").decode()


def rank(priority: int, bucket: int, turn: int, page_id: int) -> bytes:
    """The place of a page in its host's queue: smaller bytes come first.

    *priority* is clamped to 32 bits; *bucket* is the score as 0..65535; *turn* is the id of the page
    discovered last when this one was queued, so that equals are served in order of queueing.
    """
    if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        priority = min(max(priority, -MAX_PRIORITY), MAX_PRIORITY)
    head = _RANK_HEAD.pack(MAX_PRIORITY - priority, 0xFFFF - bucket) + turn.to_bytes(ID_BYTES, "big")
    return head if turn == page_id else head + page_id.to_bytes(ID_BYTES, "big")


def priority_code(priority: int) -> int:
    """How *priority* stands in the first four bytes of a rank: the higher, the less."""
    return MAX_PRIORITY - min(max(priority, -MAX_PRIORITY), MAX_PRIORITY)


def rank_id(rank_bytes: bytes) -> int:
    """The page id in a rank."""
    return int.from_bytes(rank_bytes[-ID_BYTES:], "big")


def rank_bucket(rank_bytes: bytes) -> int:
    """The score bucket in a rank."""
    return 0xFFFF - int.from_bytes(rank_bytes[4:SCORE_BYTES], "big")


def pack_rank(rank_bytes: bytes, host: str) -> bytes:
    """A rank and its host as the value of a waiting row."""
    return bytes((len(rank_bytes),)) + rank_bytes + host.encode()


def unpack_rank(value: bytes) -> tuple[bytes, str]:
    return value[1 : 1 + value[0]], value[1 + value[0] :].decode()


def waiting_key(when: float, page_id: int) -> bytes:
    return WAITING + max(0, int(when * 1e6)).to_bytes(8, "big") + id_bytes(page_id)


def waiting_time(key: bytes) -> float:
    return int.from_bytes(key[1:9], "big") / 1e6
