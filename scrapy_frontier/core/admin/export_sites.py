"""What is known of sites, as plain records of an export, and back: their robots.txt, and their sitemaps."""

from __future__ import annotations

import contextlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from ..errors import UnreadableRecord
from ..store.keys import LISTING, ROBOTS, listing_key, robots_key
from ..store.site_rows import (
    Listing,
    RobotsCopy,
    Verdict,
    decode_copy,
    decode_listing,
    encode_copy,
    encode_listing,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.leveldb import Store

    Record = dict[str, object]

SITE_KINDS = ("robots", "listing")


def site_records(store: Store) -> Iterator[Record]:
    """Rows that cannot be read are left out: both are asked for again."""
    for key, value in store.scan(ROBOTS):
        with contextlib.suppress(UnreadableRecord):
            copy = decode_copy(value)._asdict()
            file, verdict = b64encode(copy.pop("body")).decode(), copy.pop("verdict").name.lower()
            yield {"robots": key[1:].decode(errors="replace"), "verdict": verdict, **copy, "file": file}
    for key, value in store.scan(LISTING):
        with contextlib.suppress(UnreadableRecord):
            yield {"listing": key[1:].decode(errors="replace"), **decode_listing(value)._asdict()}


def site_row(record: dict[str, Any]) -> tuple[bytes, bytes]:
    """Key and value of a record; raises `KeyError`, `TypeError` or `ValueError` on nonsense."""
    if "listing" in record:
        listed, refused = (tuple(map(str, record[name])) for name in ("listed", "refused"))
        signals = tuple(map(float, record.get("signals", ())))
        if len(signals) not in (0, 4):
            raise ValueError("signals are four numbers")
        listing = Listing(listed, bool(record["is_contacted"]), refused, signals)
        return listing_key(str(record["listing"])), encode_listing(listing)
    fetched, ask_at, since = (float(record[name]) for name in ("fetched", "ask_at", "failing_since"))
    copy = RobotsCopy(
        Verdict[record["verdict"].upper()],
        int(record["status"]),
        fetched,
        ask_at,
        since,
        int(record["failures"]),
        b64decode(record["file"], validate=True),
        str(record.get("etag", "")),
        str(record.get("modified", "")),
    )
    return robots_key(str(record["robots"])), encode_copy(copy)
