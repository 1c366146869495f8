"""What a check can find, and what can be read of a damaged page."""

from __future__ import annotations

from typing import NamedTuple

from . import inspect
from .errors import UnreadableRecord
from .store import page_rows
from .store.page_rows import Page
from .store.states import FINISHED, State

# What can be wrong, and what repairing does about it; docs/commands.md shows this table.
KINDS = {
    "unreadable page": "its bytes are set aside; what is legible stays as a page that failed",
    "page kept as leased": "it is queued again",
    "queued page without a row": "it gets a queue row",
    "queue row that leads nowhere": "the row is removed",
    "queue row of a page that is not queued": "the row is removed",
    "second queue row of a page": "the row is removed",
    "queue row in another host's queue": "the page moves to the queue of its own host",
    "deferred row that leads nowhere": "the row is removed",
    "deferred page without a row": "it gets one, and waits for its host's budget",
    "unreadable queue row": "the row is removed; its page gets another",
    "index row that leads nowhere": "the row is removed, so that the page can be discovered again",
    "second index row of a page": "the one that does not fit the page is removed",
    "page without an index row": "it gets one; if the same page is there twice, one goes",
    "wrong host row": "it is counted anew",
    "missing host row": "it is counted anew",
    "unreadable host row": "it is counted anew",
    "wrong counts": "they are counted anew",
    "lost format": "the rows that say what the database is are written anew",
    "unreadable orders": "the host counts as blocked",
    "unreadable links": "the bytes are set aside; the pages have no links until they are read again",
    "unreadable scores": "the row is removed; the next ranking has them anew",
    "unreadable robots row": "the row is removed, so that robots.txt is asked for again",
    "unreadable listing": "the row is removed; the next crawl makes contact again",
    "unreadable cooldown": "the host rests for a minute from now",
    "unreadable body row": "the row is removed; the next page with that body is the first",
}
DAMAGED = "its record was damaged; what it was is set aside"


class Finding(NamedTuple):
    """One thing that is wrong: what, of which page or host, in detail, and whether it is mended now."""

    kind: str
    subject: str
    detail: str
    is_mended: bool


def salvage(stored: bytes, host: str, now: float) -> Page:
    """What is legible of a damaged page row, as a page that failed (or is finished, if that is legible).

    *host* is where its queue row was found, if it had one.
    """
    try:  # without the flags that announce more than the URL
        legible = page_rows.decode_page(bytes((stored[0] & 0x07,)) + stored[1:])
    except (UnreadableRecord, IndexError):
        legible = Page("")
    state = legible.state if legible.state in FINISHED else State.FAILED
    own = inspect.host_of_page(legible._replace(host=""))
    return legible._replace(
        state=state,
        payload=b"",
        host="" if host == own else host,
        changed=max(int(now), 1),
        reason=DAMAGED,
    )


def differences(counted: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """What a host row says of its pages where that is not so."""
    names = ("queued", "done", "failed", "deferred", "excluded", "answered")
    return "; ".join(
        f"{name} {was}, in truth {is_now}"
        for name, was, is_now in zip(names, counted, expected, strict=True)
        if was != is_now
    )
