"""What the record of a page keeps of a response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.pages.visits import Fetched
from ..core.parse.validators import kept_date, kept_tag

if TYPE_CHECKING:
    from scrapy.http import Response

# Flags of a response whose body broke off. One without a length whose connection was closed ("partial") may
# be whole, and as a rule is.
_BROKEN = frozenset(("dataloss", "download_stopped"))


def is_cached(response: Response) -> bool:
    """Whether *response* is from Scrapy's HTTP cache: nobody was visited."""
    return "cached" in response.flags


def is_whole(response: Response) -> bool:
    return _BROKEN.isdisjoint(response.flags)


def fetched_of(response: Response) -> Fetched | None:
    """What *response* was; None where it shows no page. About 5 us."""
    if not 200 <= response.status < 300 or is_cached(response):
        return None
    headers = response.headers
    kind = headers.get(b"Content-Type") or b""
    return Fetched(
        kept_tag(headers.getlist(b"ETag")),
        kept_date(headers.getlist(b"Last-Modified")),
        b"",
        kind.partition(b";")[0].strip().lower().decode("latin-1"),
        len(response.body),
        is_whole(response),
    )


def renewed_by(response: Response) -> Fetched:
    """What a 304 says of a page: the validators that it names."""
    headers = response.headers
    return Fetched(kept_tag(headers.getlist(b"ETag")), kept_date(headers.getlist(b"Last-Modified")))
