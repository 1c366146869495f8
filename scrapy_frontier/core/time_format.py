"""Times as people read them."""

from __future__ import annotations

from datetime import datetime, timezone


def moment(when: float) -> str:
    """A time as people write it, in UTC; the number itself where no calendar reaches."""
    try:
        return datetime.fromtimestamp(when, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"second {when:.0f}"


def span(seconds: float) -> str:
    """A length of time in one unit as people write it: "12.5 s", "40 min", "30 h", "5 days"."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"
