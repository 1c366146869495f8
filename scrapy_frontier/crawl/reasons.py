"""Why a page ended as it did, in words that are kept in its record."""

from __future__ import annotations

_LONGEST_URL = 200  # characters of a URL in a reason


def nofollow_reason(url: str) -> str:
    """Why a link of the page at *url* is known and not queued."""
    return f"linked by {url[:_LONGEST_URL]}, which says nofollow"
