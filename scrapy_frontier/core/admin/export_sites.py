"""What is known of sites, as plain records of an export, and back: their robots.txt, and their sitemaps."""

from __future__ import annotations

import contextlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from ..errors import UnreadableRecord
from ..store import keys, site_rows
from ..store.site_rows import Listing, RobotsCopy, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.leveldb import Store

    Record = dict[str, Any]

SITE_KINDS = ("robots", "listing")


def site_records(store: Store) -> Iterator[Record]:
    """Rows that cannot be read are left out: both are asked for again."""
    for key, value in store.scan(keys.ROBOTS):
        with contextlib.suppress(UnreadableRecord):
            copy = site_rows.decode_copy(value)._asdict()
            file, verdict = b64encode(copy.pop("body")).decode(), copy.pop("verdict").name.lower()
            yield {"robots": key[1:].decode(errors="replace"), "verdict": verdict, **copy, "file": file}
    for key, value in store.scan(keys.LISTING):
        with contextlib.suppress(UnreadableRecord):
            yield {"listing": key[1:].decode(errors="replace"), **site_rows.decode_listing(value)._asdict()}


def site_row(record: Record) -> tuple[bytes, bytes]:
    """Key and value of a record; raises `KeyError`, `TypeError` or `ValueError` on nonsense."""
    if "listing" in record:
        listed, refused = (tuple(map(str, record[name])) for name in ("listed", "refused"))
        signals = tuple(map(float, record.get("signals", ())))
        if len(signals) not in (0, 4):
            raise ValueError("signals are four numbers")
        listing = Listing(listed, bool(record["is_contacted"]), refused, signals)
        return keys.listing_key(str(record["listing"])), site_rows.encode_listing(listing)
    given: dict[str, Any] = {name: float(record[name]) for name in ("fetched", "ask_at", "failing_since")}
    given |= {name: int(record[name]) for name in ("status", "failures")}
    given |= {name: str(record.get(name, "")) for name in ("etag", "modified")}
    verdict, body = Verdict[record["verdict"].upper()], b64decode(record["file"], validate=True)
    copy = RobotsCopy(verdict, body=body, **given)
    return keys.robots_key(str(record["robots"])), site_rows.encode_copy(copy)
