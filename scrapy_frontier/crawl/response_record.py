"""What the record of a page keeps of a response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.pages.visits import Fetched
from ..core.parse.validators import kept

if TYPE_CHECKING:
    from scrapy.http import Response

# Flags of a response whose body broke off. One without a length whose connection was closed ("partial") may
# be whole, and as a rule is.
_BROKEN = frozenset(("dataloss", "download_stopped"))
CACHED = "cached"  # flag of a response from Scrapy's HTTP cache: nobody was visited


def fetched_of(response: Response) -> Fetched | None:
    """What *response* was; None where it shows no page. About 5 us."""
    flags, headers = response.flags, response.headers
    if not 200 <= response.status < 300 or CACHED in flags:
        return None
    kind = headers.get(b"Content-Type") or b""
    return Fetched(
        *kept(headers.getlist(b"ETag"), headers.getlist(b"Last-Modified")),
        b"",
        kind.partition(b";")[0].strip().lower().decode("latin-1"),
        len(response.body),
        _BROKEN.isdisjoint(flags),
    )


def renewed_by(response: Response) -> Fetched:
    """What a 304 says of a page: the validators that it names."""
    headers = response.headers
    return Fetched(*kept(headers.getlist(b"ETag"), headers.getlist(b"Last-Modified")))
