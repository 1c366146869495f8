"""URLs that look like traps: too long, too deep, repeating or growing without end, one more for each session.

The checks look at URLs alone, so that they can be asked before a URL costs a row. All are linear in the
length of the URL but `repeats`, which bounds what it reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote

from .urls import origin

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TrapLimits:
    """Where a URL stops looking like a page. Zero switches a check off."""

    # characters; the longest URL Internet Explorer took, and so the longest a public page has
    length: int = 2083
    depth: int = 20  # path segments; Heritrix's default
    repeats: int = 3  # the same run of segments in a row; Heritrix and Nutch refuse the third


def trap(url: str, limits: TrapLimits) -> str | None:
    """Return why *url* looks like a trap: ``length``, ``depth`` or ``repeated-segments``; None when it does
    not, which takes a microsecond.
    """
    if limits.length and len(url) > limits.length:
        return "length"
    segments_at_most = url.count("/") - 2
    if segments_at_most < limits.repeats and (not limits.depth or segments_at_most <= limits.depth):
        return None
    # An absolute URL has two slashes more than its path has segments, and no run of segments stands there
    # three times without one segment that does.
    pieces = url.partition("?")[0].partition("#")[0].split("/")
    is_deep = limits.depth and len(pieces) - 3 > limits.depth
    if not is_deep and (not limits.repeats or len(pieces) - len(set(pieces)) < limits.repeats - 1):
        return None
    segments = path_segments(url)
    if limits.depth and len(segments) > limits.depth:
        return "depth"
    if limits.repeats and repeats(segments) >= limits.repeats:
        return "repeated-segments"
    return None


def path_segments(url: str) -> list[str]:
    """Return the non-empty segments of the path of an absolute *url*."""
    path, _ = _path_and_query(url)
    return [segment for segment in path.split("/") if segment]


def repeats(segments: Sequence[str]) -> int:
    """Return how often the most repeated run of *segments* stands in a row: ``/a/b/a/b/a/b`` gives 3.

    Quadratic in the number of segments at worst; callers bound that by the depth limit. Reads at most 64
    segments.
    """
    head = segments[:64]  # with the depth check switched off, a long path must stay cheap
    best = min(len(head), 1)
    for period in range(1, len(head) // 2 + 1):
        equal = 0
        for index in range(period, len(head)):
            equal = equal + 1 if head[index] == head[index - period] else 0
            best = max(best, equal // period + 1)
    return best


def grows(chain: Sequence[str], *, steps: int = 5) -> bool:
    """Do the last *steps* URLs of a redirect *chain* each carry the one before in themselves, and more?

    A login page that wraps its own address, a ``/next/next/next`` without end: same origin, and path and
    query of each URL stand, as they are or percent-encoded, inside the longer one of the next.
    """
    tail = chain[-steps:]
    return len(tail) == steps > 1 and all(_contains(after, before) for before, after in pairwise(tail))


def _contains(after: str, before: str) -> bool:
    if origin(after) != origin(before):
        return False
    inner, outer = _wire_target(before).strip("/"), _wire_target(after)
    return len(outer) > len(_wire_target(before)) and (inner in outer or inner in unquote(outer))


def _wire_target(url: str) -> str:
    path, query = _path_and_query(url)
    return path if query is None else f"{path}?{query}"


# The expression of RFC 3986, appendix B, as far as the query.
_PATH_AND_QUERY = re.compile(r"(?:[^:/?#]+:)?(?://[^/?#]*)?([^?#]*)(?:\?([^#]*))?")


def _path_and_query(url: str) -> tuple[str, str | None]:
    match = _PATH_AND_QUERY.match(url)
    assert match is not None  # every part is optional
    return match[1], match[2]


_SESSION_NAMES = (
    r"(?:jsessionid|phpsessid|aspsessionid[a-z]*|sessionid|session_id|sessid|cfid|cftoken|sid|zenid|oscsid)"
)
_SESSION_VALUE = r"[A-Za-z0-9_.%!-]{8,}"  # ids are long; "?sid=12" is a shop's section
_SESSION_QUERY = re.compile(rf"(?i)(?<=[?&]){_SESSION_NAMES}={_SESSION_VALUE}(?:&|(?=#)|$)")
_SESSION_PATH = re.compile(
    rf"(?i);{_SESSION_NAMES}={_SESSION_VALUE}|/\((?:[SAFX]\([A-Za-z0-9_-]{{20,}}\))+\)(?=/)"
)


def without_session(url: str) -> str:
    """Return *url* without the session identifiers it carries in its query or path; *url* itself when it
    has none.

    Names as Nutch, Heritrix and crawler-commons list them (JSP, PHP, ASP and ASP.NET, ColdFusion), values
    of eight characters or more.
    """
    if "=" not in url and "(" not in url:
        return url
    clean = _SESSION_QUERY.sub("", _SESSION_PATH.sub("", url))
    if clean == url:
        return url
    address, hash_sign, fragment = clean.partition("#")
    return address.rstrip("&").removesuffix("?") + hash_sign + fragment
