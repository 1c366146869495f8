"""What the answer to a request for robots.txt means, and for how long it holds (RFC 9309 2.3 and 2.4)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .store.site_rows import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_REDIRECTS = 5  # hops to follow before the file counts as unavailable (RFC 9309 2.3.1.2)
FRESH_LIMIT = 86_400.0  # seconds a copy may be used (RFC 9309 2.4)
FRESH_FLOOR = 3_600.0  # seconds a copy is used at least: max-age=0 is common, and nobody means a fetch a page
UNREACHABLE_LIMIT = 30 * 86_400.0  # seconds of errors after which a host counts as one without (2.3.1.4)


def verdict(status: int | None) -> Verdict:
    """Say what the last answer to a robots.txt request means; *status* None: there was no answer.

    2xx is a file, 4xx is none, 5xx and network errors are "unreachable" (RFC 9309 2.3.1). 429 is taken as
    unreachable, as Google does: the RFC is silent and the host has just asked for less. A 3xx is left over
    after `MAX_REDIRECTS` hops or without a usable Location: no file. A 304 renews the copy instead.
    """
    if status is None:
        return Verdict.POSTPONE
    if 200 <= status < 300:
        return Verdict.PARSE
    if 300 <= status < 500 and status != 429:
        return Verdict.ALLOW_ALL
    return Verdict.POSTPONE


def unreachable(has_copy: bool, seconds: float) -> Verdict:
    """Say what holds after *seconds* of `Verdict.POSTPONE`: the old copy, else to wait, else to give in.

    RFC 9309 2.3.1.4 and 2.4: a stale copy may be used while the file is unreachable; after a reasonably
    long time (30 days) the host may be taken as having no file.
    """
    if has_copy:
        return Verdict.PARSE
    return Verdict.ALLOW_ALL if seconds >= UNREACHABLE_LIMIT else Verdict.POSTPONE


_MAX_AGE = re.compile(r'(?i)(?:^|,)\s*max-age\s*=\s*"?(\d{1,10})')


def fresh_for(cache_control: Sequence[str] = (), age: float = 0.0) -> float:
    """Return the seconds a copy just fetched may be used: ``max-age`` less *age*, 1 hour to 24 hours.

    RFC 9309 2.4 lets the cache headers decide below 24 hours; ``no-cache`` and ``no-store`` give the floor.
    """
    line = ",".join(cache_control)
    if re.search(r"(?i)(?:^|,)\s*no-(?:cache|store)\b", line):
        return FRESH_FLOOR
    match = _MAX_AGE.search(line)
    asked = float(match[1]) - max(age, 0.0) if match else FRESH_LIMIT
    return min(max(asked, FRESH_FLOOR), FRESH_LIMIT)
