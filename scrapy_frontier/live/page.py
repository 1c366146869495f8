"""Puts an HTML page together from the files beside this one, so that it needs nothing else.

A policy (Content-Security-Policy) admits the scripts and styles of the page by their hashes, and no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent
_PARTS = "style.css", "charts.js"
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


class WebPage(NamedTuple):
    """A page, and its Content-Security-Policy."""

    html: str
    policy: str


@lru_cache
def page(name: str) -> WebPage:
    """Returns the page *name* (``dashboard``, ``report``), with styles and scripts in it."""
    html = (_HERE / f"{name}.html").read_text(encoding="utf-8")
    for part in _PARTS:
        html = html.replace(f"/* {part} */", (_HERE / part).read_text(encoding="utf-8"))
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(html):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    admitted = "; ".join(f"{kind}-src {' '.join(found)}" for kind, found in hashes.items())
    policy = f"default-src 'none'; {admitted}; connect-src 'self'; img-src data:; base-uri 'none'"
    return WebPage(html, policy)


def page_with(name: str, data: dict[str, object]) -> str:
    """Returns the page *name* as a file that stands alone, with *data* as JSON in it."""
    html, policy = page(name)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")  # `</script>` may be in a URL
    return html.replace("<!-- policy -->", meta).replace("/* data */", text)
