"""The head of an HTML response, scanned once for all middlewares that ask."""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakKeyDictionary

from scrapy.http import HtmlResponse, Response
from scrapy.utils.response import get_meta_refresh

from ...core.parse.headers import Refresh, parse_refresh
from ...core.parse.html_head import SCAN_LIMIT, Head, scan_head

_NO_HEAD = Head()
_heads: WeakKeyDictionary[HtmlResponse, Head] = WeakKeyDictionary()
_encodings: WeakKeyDictionary[HtmlResponse, str] = WeakKeyDictionary()  # empty: none of text


def head_of(response: HtmlResponse) -> Head:
    """What the head of *response* says; decodes 256 KiB of it at most. About 0.1 ms, once."""
    head = _heads.get(response)
    if head is None:
        start = response.body[:SCAN_LIMIT]
        encoding = _encoding_of(response, start)
        head = _heads[response] = scan_head(start.decode(encoding, "replace"), encoding)
    return head


def refresh_of(response: Response, ignore_tags: list[str]) -> Refresh | None:
    """Where *response* goes on to (an absolute URL), and after how many seconds; None where it does not. The
    header counts before the page, of which what is in *ignore_tags* does not."""
    header = response.headers.get("Refresh")
    found = parse_refresh(header.decode("latin-1")) if header else None
    head = _NO_HEAD
    if found is None and isinstance(response, HtmlResponse):
        if ignore_tags != ["noscript"] and is_text(response):  # what our own scan cannot do
            seconds, url = get_meta_refresh(response, ignore_tags=ignore_tags)
            return Refresh(int(seconds or 0), url) if url else None
        head = head_of(response)
        found = head.refresh
    if found is None or not found.url:
        return None
    return found._replace(url=head.absolute(found.url, response.url) or found.url)


def is_text(response: HtmlResponse) -> bool:
    """Whether *response* can be decoded: Python also knows codecs; ``hex`` is no encoding of text. Worked out
    once."""
    return bool(encoding_of(response))


def encoding_of(response: HtmlResponse) -> str:
    """The encoding of *response*, empty where that is none of text; worked out once, as Scrapy does anew
    whenever it is asked."""
    found = _encodings.get(response)
    if found is None:
        encoding = response.encoding
        found = _encodings[response] = encoding if _is_text(encoding) else ""
    return found


@lru_cache(maxsize=100)
def _is_text(encoding: str) -> bool:
    try:
        b" ".decode(encoding, "replace")
    except (LookupError, UnicodeError):
        return False
    return True


def _encoding_of(response: HtmlResponse, start: bytes) -> str:
    """A page that could be read as ASCII up to a declaration of UTF-16 is UTF-8 (HTML 13.2.3.2); one that
    declares no encoding of text at all has its tags in ASCII."""
    encoding = encoding_of(response) or "latin-1"
    is_wide = encoding.startswith(("utf-16", "utf-32"))
    return "utf-8" if is_wide and b"\0" not in start[:1_024] else encoding
