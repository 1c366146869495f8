"""Digests of responses: what tells whether a page has changed since the last visit.

Of the whole body as it is decoded (after ``Content-Encoding``), whatever names it: by ``FRONTIER_DIGEST``
the "body", its visible "text" and where it links to, its "links" alone, or what a function makes of it. A
HEAD brings no body: there it is of the validators.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types
from scrapy.http import HtmlResponse, Response

from ...core.parse.urls import without_session
from ...core.parse.validators import opaque
from .head import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


DIGEST_BYTES = 5  # one change in 2**39 is missed
LONG = 262_144  # bytes of a body, from which on its text is read in a thread: 25 ms
CONTENT = b"content"  # the kind of a hash that a spider gives
_HEAD = b"head"

# What nobody sees, and where tokens and advertisements are.
_UNSEEN = frozenset(
    ("script", "style", "template", "noscript", "iframe", "object", "embed", "svg", "meta", "link", "base")
)
_EVENTS = ("start", "end", "comment", "pi")


def digest_of(data: bytes, kind: bytes = b"") -> bytes:
    """Five bytes for *data* of one *kind*, the same for the same; one other in 2**39 has them too. The last
    bit is 0: see `visits.as_given`."""
    digest = blake2b(data, digest_size=DIGEST_BYTES, person=kind).digest()
    return digest[:-1] + bytes((digest[-1] & 0xFE,))


def digest_by(setting: str | Callable[[Response], Any]) -> Callable[[Response], bytes]:
    """What makes digests of responses as ``FRONTIER_DIGEST`` wants it; b"" where a function says None.

    0.1 ms for "body" of 100 KB, about 4 ms for the others, which parse the page; the spider's selectors share
    the tree.
    """
    if callable(setting):
        return lambda response: of_content(setting(response))
    readers = {"text": _text, "links": _links}
    return partial(_of_tree, readers[setting], setting.encode()) if setting in readers else _of_body


def of_content(value: Any) -> bytes:
    """The digest of what a spider, or a function of its, says is the content of a page: bytes or text, or
    anything that always reads the same; b"" for None."""
    if value is None:
        return b""
    if not isinstance(value, bytes):
        value = (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")
    return digest_of(value, CONTENT)


def of_head(etag: bytes, last_modified: bytes, length: bytes) -> bytes:
    """The digest of a page that was asked for with HEAD, by what its server tells of the content: its tag,
    else its date and its ``Content-Length``. b"" without tag and date: a length says little."""
    if etag:
        return digest_of(opaque(etag), _HEAD)
    return digest_of(last_modified + b" " + length, _HEAD) if last_modified else b""


def _of_body(response: Response) -> bytes:
    return digest_of(response.body)


def _of_tree(read: Callable[[Any], str], kind: bytes, response: Response) -> bytes:
    """The digest of what *read* finds in the tree of an HTML page; that of the body for what is none."""
    root = response.selector.root if isinstance(response, HtmlResponse) and is_text(response) else None
    if not isinstance(root, etree._Element):
        return _of_body(response)
    return digest_of(read(root).encode("utf-8", "surrogatepass"), kind)


def _text(root: Any) -> str:
    text = "".join("".join(visible_text(root)).split())  # where lines break is no content
    return f"{text}\n" + "\n".join(_hrefs(root))


def _links(root: Any) -> str:
    return "\n".join(sorted(set(_hrefs(root))))


def visible_text(root: Any) -> Iterator[str]:
    """The text that a reader of a page sees, in its order: of no script, style or frame, and of nothing that
    is hidden."""
    walk = etree.iterwalk(root, events=_EVENTS)
    for event, element in walk:
        if event == "start":
            if element.tag in _UNSEEN or _is_hidden(element):
                walk.skip_subtree()
            elif element.text:
                yield element.text
        elif element.tail and element is not root:
            yield element.tail


def _is_hidden(element: Any) -> bool:
    if element.get("hidden") is not None:
        return True
    style = element.get("style")
    return style is not None and "display:none" in style.replace(" ", "").lower()


def _hrefs(root: Any) -> Iterator[str]:
    """Where a page links to, without the session identifiers that change at every visit."""
    for element in root.iter("a", "area"):
        href = element.get("href")
        if href is not None:
            yield without_session(href.strip())
