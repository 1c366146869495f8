"""Reads HTML without a tree: scans the head of a page for its tags, and resolves the references of a page.

No input from a site raises; text that cannot be read is skipped.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import unescape
from html.entities import html5
from typing import TYPE_CHECKING

from .headers import BLANK, LONGEST_VALUE, has_rel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCAN_LIMIT = 262_144  # characters of a page in which its head has to end
MOST_PARTS = 6_000  # tags, attributes and comments of a head, in 15 ms


@dataclass(frozen=True, slots=True)
class Head:
    """The elements for crawlers in the head of an HTML page, as written."""

    metas: tuple[tuple[str, str], ...] = ()  # (name in lower case, content) of every named meta element
    has_refresh: bool = False  # a meta refresh, whatever it says
    canonicals: tuple[str, ...] = ()  # href of every link element with rel=canonical


_TAG_NAME = re.compile(rf"[A-Za-z][^{BLANK}/>]*")
_ATTRIBUTE = re.compile(
    rf"[{BLANK}/]*([^{BLANK}/>][^{BLANK}/>=]*)"
    rf"""(?:[{BLANK}]*=[{BLANK}]*(?:"([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)|([^{BLANK}>"'][^{BLANK}>]*)?))?"""
)
_TAG_END = re.compile(rf"[{BLANK}/]*>")
_HEAD_ELEMENTS = frozenset(
    (
        *("html", "head", "title", "base", "link", "meta", "style", "script", "noscript", "template"),
        *("noframes", "bgsound", "basefont"),
    )
)
_BODY_BEGINS_AFTER = frozenset(("body", "html", "br"))  # end tags; others are ignored


def scan_head(page: str) -> Head:
    """Read the meta and link elements of the HTML *page* up to the body.

    Follows HTML Standard 13.2 for a head, apart from scripts in comments in scripts and templates in
    templates. Tags in comments, scripts, styles, titles and templates do not count, nor those in noscript, as
    in a browser that runs scripts. Ends at the first text or element that belongs to a body, and after
    `SCAN_LIMIT` characters or `MOST_PARTS` parts. One pass, without backtracking.
    """
    metas: list[tuple[str, str]] = []
    canonicals: list[str] = []
    has_refresh = False
    for name, attributes in _head_tags(page[:SCAN_LIMIT]):
        content = attributes.get("content")
        if name == "meta" and content is not None:
            if "name" in attributes:
                metas.append((attributes["name"].strip().lower(), content))
            has_refresh |= attributes.get("http-equiv", "").lower() == "refresh"
        elif name == "link" and attributes.get("href") and has_rel(attributes.get("rel"), _CANONICAL):
            canonicals.append(attributes["href"])
    return Head(tuple(metas), has_refresh, tuple(canonicals))


_CANONICAL = frozenset(("canonical",))


def _head_tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, attributes) of the meta and link start tags of the head that may matter."""
    place = 1 if text.startswith("\ufeff") else 0
    parts = iter(range(MOST_PARTS))
    for _ in parts:
        start = text.find("<", place)
        if start < 0 or text[place:start].strip(BLANK):
            return
        closes = text.startswith("/", start + 1)
        match = _TAG_NAME.match(text, start + 1 + closes)
        if match is None:
            if not text.startswith(("!", "?", "/"), start + 1):
                return  # a lone "<" is text
            place = _after_comment(text, start)
            continue
        name = match[0].lower()
        if (name in _BODY_BEGINS_AFTER) if closes else (name not in _HEAD_ELEMENTS):
            return
        inside, place = _tag(text, match.end(), parts)
        if closes:
            continue
        if name in ("meta", "link") and _may_matter(inside):
            yield name, _attributes(inside, parts)
        elif name in _HIDING:
            place = _after_text(text, name, place, parts)


_may_matter = re.compile("(?i)name|refresh|canonical|&").search  # a cheap test that most tags fail


def _tag(text: str, place: int, parts: Iterator[int]) -> tuple[str, int]:
    """Return the text of a tag after its name, which ends at *place*, and the place after the tag. Takes one
    of *parts* for each attribute that it looks at."""
    end = text.find(">", place)
    inside = text[place : max(end, place)]
    if end >= 0 and "'" not in inside and inside.count('"') == 2 * inside.count('="'):
        return inside, end + 1  # every quote opens or closes a value, so the ">" is outside of them
    start = place
    while (over := _TAG_END.match(text, place)) is None and next(parts, None) is not None:
        match = _ATTRIBUTE.match(text, place)
        if match is None:
            break
        if match.end() == len(text) and not match[0].endswith(('"', "'")) and match[4] is None:
            break  # the page ends inside of quotes: this is no tag
        place = match.end()
    return text[start:place], len(text) if over is None else over.end()


def _attributes(inside: str, parts: Iterator[int]) -> dict[str, str]:
    """Return the attributes of a tag, and take one of *parts* for each. The first of two with one name
    counts. A value that is too long becomes empty."""
    attributes: dict[str, str] = {}
    for match, _ in zip(_ATTRIBUTE.finditer(inside), parts, strict=False):
        name, *values = match.groups("")
        value = next(filter(None, values), "")
        attributes.setdefault(name.lower(), _decoded(value) if len(value) <= LONGEST_VALUE else "")
    return attributes


_REFERENCE = re.compile(r"&(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][A-Za-z0-9]{0,31};?)")


def _decoded(value: str) -> str:
    """Return *value* with its character references decoded as in an attribute: ``&copy=`` stays
    (13.2.5.73)."""
    return _REFERENCE.sub(_reference, value) if "&" in value else value


def _reference(match: re.Match[str]) -> str:
    text = match[0]
    if text[1] == "#":
        return unescape(text)
    is_word = not text.endswith(";") and match.string.startswith("=", match.end())
    return text if is_word else html5.get(text[1:], text)


_COMMENT_END = re.compile(r"--!?>")


def _after_comment(text: str, start: int) -> int:
    """Return the place after the comment, doctype or the like that begins at *start*."""
    if not text.startswith("<!--", start) or text.startswith((">", "->"), start + 4):
        return text.find(">", start) + 1 or len(text)
    match = _COMMENT_END.search(text, start + 4)
    return match.end() if match else len(text)


def _after_text(text: str, name: str, place: int, parts: Iterator[int]) -> int:
    """Return the place after the element *name*, opened before *place*, in which no tag counts."""
    while (place := text.find("</", place)) >= 0:
        place += 2
        after = place + len(name)
        if text[place:after].lower() == name and text[after : after + 1] in _NAME_ENDS:
            return _tag(text, after, parts)[1]
    return len(text)


_NAME_ENDS = frozenset(BLANK + "/>")
_HIDING = frozenset(("title", "style", "script", "template", "noscript", "noframes"))

# No segment that begins with a dot, no colon that could end a scheme.
_SEGMENT = r"[A-Za-z0-9_~%!$&'()*+,=@-][A-Za-z0-9._~%!$&'()*+,=@-]*"
_PATH = rf"{_SEGMENT}(?:/{_SEGMENT})*/?"
_FRAGMENT = r"#[A-Za-z0-9._~%!$&'()*+,/:;=?@-]+"
_TAIL = rf"(?:\?[A-Za-z0-9._~%!$&()*+,/:;=?@-]+)?(?:{_FRAGMENT})?"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PORT = r"(?:[1-5][0-9]{4}|[1-9][0-9]{0,3})"
_ORIGIN = rf"https?://(?:{_LABEL}\.)*{_LABEL}(?::{_PORT})?"

_is_plain_url = re.compile(rf"{_ORIGIN}(?:/(?:{_PATH})?{_TAIL})?").fullmatch
_is_plain_path = re.compile(rf"/(?:{_PATH})?{_TAIL}").fullmatch
_is_plain_base = re.compile(rf"{_ORIGIN}/(?:{_PATH})?").fullmatch
_is_plain_fragment = re.compile(_FRAGMENT).fullmatch
_is_plain_below = re.compile(rf"(\./|(?:\.\./){{0,8}}){_PATH}{_TAIL}").fullmatch


class References:
    """Resolves the references of one page against *base*. *exact* resolves any reference, to None if it is no
    URL; with *longest* no reference of more characters counts.

    Nine in ten references of real pages are plain: a path, a path after ``../``, a fragment or a whole URL,
    without characters that may be escaped. Their URL is a prefix of the base and the reference itself, which
    takes a tenth of the time of a parser.
    """

    def __init__(self, base: str, exact: Callable[[str], str | None], longest: int) -> None:
        self._exact = exact
        self._longest = longest or sys.maxsize
        folder, *_ = re.split("[?#]", base, maxsplit=1)
        self._origin, self._folders = "", [""]  # of a plain base
        if _is_plain_base(folder) is not None:
            pieces = folder.split("/")
            self._origin, self._folders = "/".join(pieces[:3]), pieces[3:-1]
        self._page = base.partition("#")[0] if _is_plain_url(base) else ""
        self._above: dict[int, str] = {}  # directories above the base, by levels

    def absolute(self, reference: str) -> str | None:
        """Return the URL of *reference* with its fragment, None if it is no URL. 1 us for a plain one."""
        if len(reference) > self._longest:
            return None
        if reference.startswith("/"):
            is_plain = self._origin and _is_plain_path(reference)
            return self._origin + reference if is_plain else self._exact(reference)
        if reference.startswith("http") and _is_plain_url(reference):
            return reference
        if self._page and reference.startswith("#") and _is_plain_fragment(reference):
            return self._page + reference
        if not self._origin:
            return self._exact(reference)
        found = _is_plain_below(reference)
        if found is None:
            return self._exact(reference)
        levels = len(found[1]) // 3
        if levels not in self._above:
            folders = self._folders[: max(len(self._folders) - levels, 0)]
            self._above[levels] = "/".join([self._origin, *folders, ""])
        return self._above[levels] + reference[len(found[1]) :]
