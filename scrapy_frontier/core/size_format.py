"""Sizes as people read them."""

from __future__ import annotations


def size(count: float) -> str:
    """A number of bytes as people read it, three digits: ``1.25 MB`` for 1,250,000."""
    units = ["bytes", "KB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        del units[0]
    return f"{count:.3g} {units[0]}"
