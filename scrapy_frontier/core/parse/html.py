"""Where the references of one page lead: what is plain is put together, all else is worked out in full.

Nine references in ten of real pages are plain: a path, a path with ``../`` before it, a fragment, or a whole
URL, with no character that is ever written otherwise. The URL of one is the beginning of the base and the
rest as it stands, in a tenth of the time that parsing both takes.

The head of an HTML page, walked once, tag by tag, as far as a browser begins the body.

`scan_head` is for all that ask what a page says to crawlers, so that nobody parses a page for that. What
cannot be read says nothing; nothing here raises for what a site wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from html.entities import html5
from typing import TYPE_CHECKING

from .headers import BLANK, Refresh, parse_refresh, rel_tokens
from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCAN_LIMIT = 262_144  # characters of a page in which its head must end


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of an HTML page says to crawlers, as written."""

    metas: tuple[tuple[str, str], ...] = ()  # (name in lower case, content) of every named meta element
    base: str | None = None  # href of the first base element that has one
    canonicals: tuple[str, ...] = ()  # href of every link element with rel=canonical
    refresh: Refresh | None = None  # the first meta refresh that can be read
    encoding: str = "utf-8"  # of the page, a codec of Python; queries of its links are sent in it

    def base_url(self, url: str) -> str:
        """Return what relative links of the page at *url* start from; a base that is no http(s) URL is
        none.
        """
        return url if self.base is None else absolute(self.base, url, self.encoding) or url

    def absolute(self, reference: str, url: str) -> str | None:
        """Return where *reference*, in the page at *url*, leads; None when it is no http(s) URL."""
        return absolute(reference, self.base_url(url), self.encoding)


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


def scan_head(page: str, encoding: str = "utf-8") -> Head:
    """Read the head of the HTML *page*, which came in *encoding*: meta, base and link elements up to where a
    browser begins the body.

    HTML Standard 13.2, in the part a head can hold. Comments, scripts, styles, titles and templates hide what
    is in them; so does noscript, as in a browser that runs scripts. Ends with the first text or element that
    belongs to a body, after `SCAN_LIMIT` characters at the latest. One pass, no backtracking.
    """
    metas: list[tuple[str, str]] = []
    canonicals: list[str] = []
    base: str | None = None
    refresh: Refresh | None = None
    for name, attributes in _head_tags(page[:SCAN_LIMIT]):
        content = attributes.get("content")
        if name == "meta" and content is not None:
            if "name" in attributes:
                metas.append((attributes["name"].strip().lower(), content))
            if refresh is None and attributes.get("http-equiv", "").lower() == "refresh":
                refresh = parse_refresh(content)
        elif name == "base" and base is None:
            base = attributes.get("href")
        elif name == "link" and attributes.get("href") and "canonical" in rel_tokens(attributes.get("rel")):
            canonicals.append(attributes["href"])
    return Head(tuple(metas), base, tuple(canonicals), refresh, encoding)


def _head_tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, attributes) of those meta, base and link start tags of the head that can say something."""
    place = 1 if text.startswith("\ufeff") else 0
    while (start := text.find("<", place)) >= 0 and not text[place:start].strip(BLANK):
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
        inside, place = _tag(text, match.end())
        if closes:
            continue
        if name in _TELLING and _TELLING[name](inside):
            yield name, _attributes(inside)
        elif name in _HIDING:
            place = _HIDING[name](text, name, place)


_TELLING: dict[str, Callable[[str], object]] = {  # cheap tests that most tags fail
    "meta": re.compile("(?i)name|refresh|&").search,
    "link": re.compile("(?i)canonical|&").search,
    "base": bool,
}


def _tag(text: str, place: int) -> tuple[str, int]:
    """Return what stands in a tag behind its name, which ends at *place*, and where the tag is over."""
    end = text.find(">", place)
    inside = text[place : max(end, place)]
    if end >= 0 and "'" not in inside and inside.count('"') == 2 * inside.count('="'):
        return inside, end + 1  # every quote opens a value or closes one, so the ">" is outside
    start = place
    while (over := _TAG_END.match(text, place)) is None and (match := _ATTRIBUTE.match(text, place)):
        if match.end() == len(text) and not match[0].endswith(('"', "'")) and match[4] is None:
            break  # the page ends inside quotes: no tag
        place = match.end()
    return text[start:place], len(text) if over is None else over.end()


def _attributes(inside: str) -> dict[str, str]:
    """Read the attributes of a tag; the first of a name counts."""
    attributes: dict[str, str] = {}
    for name, *values in _ATTRIBUTE.findall(inside):
        attributes.setdefault(name.lower(), _decoded(next(filter(None, values), "")))
    return attributes


_LONGEST_VALUE = 16_384  # characters; no URL and no directive is longer, and 100,000 references take 0.1 s
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][A-Za-z0-9]{0,31};?)")


def _decoded(value: str) -> str:
    """Decode character references as in an attribute: ``&copy=`` in a URL is no sign (13.2.5.73)."""
    return _REFERENCE.sub(_reference, value) if "&" in value and len(value) <= _LONGEST_VALUE else value


def _reference(match: re.Match[str]) -> str:
    text = match[0]
    if text[1] == "#":
        return unescape(text)
    is_word = not text.endswith(";") and match.string.startswith("=", match.end())
    return text if is_word else html5.get(text[1:], text)


_COMMENT_END = re.compile(r"--!?>")


def _after_comment(text: str, start: int) -> int:
    """Return where the comment, the doctype or the like that begins at *start* is over."""
    if not text.startswith("<!--", start) or text.startswith((">", "->"), start + 4):
        return text.find(">", start) + 1 or len(text)
    match = _COMMENT_END.search(text, start + 4)
    return match.end() if match else len(text)


def _after_text(text: str, name: str, place: int) -> int:
    """Return where the element *name*, opened before *place*, is closed: nothing inside counts as a tag."""
    while (place := text.find("</", place)) >= 0:
        place += 2
        after = place + len(name)
        if text[place:after].lower() == name and text[after : after + 1] in _NAME_ENDS:
            return _tag(text, after)[1]
    return len(text)


_NAME_ENDS = frozenset(BLANK + "/>")
_SCRIPT_MARK = re.compile(rf"<!--|-->|<(/?)script(?=[{BLANK}/>])", re.IGNORECASE)


def _after_script(text: str, name: str, place: int) -> int:
    """Return where a script ends: not at the end tag of a script in a comment in it (13.2.5.17 ff.)."""
    after = _after_text(text, name, place)
    if text.find("<!--", place, after) < 0:
        return after
    commented = nested = False
    while (match := _SCRIPT_MARK.search(text, place)) is not None:
        mark = match[0]
        if mark == "<!--":
            commented, place = True, match.start() + 2  # "<!-->" is over at once
            continue
        place = match.end()
        if mark == "-->":
            commented = nested = False
        elif match[1] and not nested:
            return _tag(text, place)[1]
        else:
            nested = commented and not match[1]
    return len(text)


_TEMPLATE_MARK = re.compile(rf"<!--|<(/?)template(?=[{BLANK}/>])", re.IGNORECASE)


def _after_template(text: str, _name: str, place: int) -> int:
    depth = 1
    while depth and (match := _TEMPLATE_MARK.search(text, place)) is not None:
        if match[0] == "<!--":
            place = _after_comment(text, match.start())
            continue
        depth += -1 if match[1] else 1
        place = _tag(text, match.end())[1]
    return len(text) if depth else place


_HIDING: dict[str, Callable[[str, str, int], int]] = {
    **dict.fromkeys(("title", "style", "noscript", "noframes"), _after_text),
    "script": _after_script,
    "template": _after_template,
}

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
# What it begins with is the last group.
_plain = re.compile(
    rf"(/)(?:{_PATH})?{_TAIL}|(#){_FRAGMENT[1:]}|(\./|(?:\.\./){{0,8}}){_PATH}{_TAIL}"
).fullmatch
_PROBE = "x"  # stands for what follows


class References:
    """The references of one page, relative to *base*; *exact* says of any one where it leads, None where to
    nothing.
    """

    def __init__(self, base: str, exact: Callable[[str], str | None]) -> None:
        self._exact = exact
        self._before: dict[str, str | None] = {}  # what stands in the place of the beginning of a plain one
        self._origin, self._folders = "", [""]  # of a plain base
        if _is_plain_base(base) is not None:
            pieces = base.split("/")
            self._origin, self._folders = "/".join(pieces[:3]), pieces[3:-1]
            self._before = {"/": f"{self._origin}/", "#": f"{base}#"}

    def absolute(self, reference: str) -> str | None:
        """The URL that *reference* leads to, with its fragment, None where to nothing; 1 us where it is
        plain."""
        if self._origin and reference.startswith("/") and _is_plain_path(reference) is not None:
            return self._origin + reference
        if reference.startswith("http") and _is_plain_url(reference) is not None:
            return reference
        found = _plain(reference)
        if found is not None:
            begin = found[found.lastindex or 0]
            before = self._before.get(begin) or self._stands_before(begin)
            if before:
                return before + reference[len(begin) :]
        return self._exact(reference)

    def _stands_before(self, begin: str) -> str | None:
        if begin not in self._before:
            self._before[begin] = self._higher(len(begin) // 3) if self._origin else self._probed(begin)
        return self._before[begin]

    def _higher(self, levels: int) -> str:
        """The directory so many *levels* above the one of a plain base; the root has none above it."""
        folders = self._folders[: max(len(self._folders) - levels, 0)]
        return "/".join([self._origin, *folders, ""])

    def _probed(self, begin: str) -> str | None:
        url = self._exact(begin + _PROBE)
        return url[: -len(_PROBE)] if url is not None and url.endswith(_PROBE) else None
