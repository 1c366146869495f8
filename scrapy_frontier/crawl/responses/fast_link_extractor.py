"""The links of a page as one of Scrapy's link extractors finds them, read in one pass, without a `Link` each.

What an extractor is told by plain values is done here: tags, attributes, patterns, domains, extensions,
regions, texts. One that is told by a function (``process_value``), or is of another class, is asked itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlparse
from weakref import WeakKeyDictionary

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types
from scrapy.utils.response import get_base_url
from scrapy.utils.url import url_has_any_extension, url_is_from_any_domain
from w3lib.html import strip_html5_whitespace
from w3lib.url import canonicalize_url, safe_url_string

from ...core.parse.html_links import References
from ..requests.fingerprints import is_plain
from ..scrapy_internals import compat
from .head import encoding_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.http import HtmlResponse

Anchor = Any  # an element, or its text
_content_of = etree.XPath("string()", smart_strings=False)
_USUAL = frozenset(("href",))
_AFTER_SCHEME = len("https://")
_MOST_ENDS = 1000
_BASE_WITHIN = 4096  # characters, by w3lib
_trees: WeakKeyDictionary[HtmlResponse, Any] = WeakKeyDictionary()  # of plain elements
_WEB = ("http://", "https://")


class PageReader:
    """Reads from pages what its ``extractor`` would extract of them, in less time, http and https only; one
    of a class of its own is asked itself."""

    def __init__(self, extractor: Any) -> None:
        self.extractor = extractor
        # Of links to one page Scrapy's own takes the first, and then looks at its text.
        by_text = getattr(extractor, "restrict_text", None)
        self._names = None if by_text else compat.names_of_extractor(extractor)
        if self._names is not None:
            self._allows = _Filter(extractor).allows
            self._canonicalizes = extractor.canonicalize
            self._is_usual = self._names[1] == _USUAL

    def read(self, response: HtmlResponse, longest: int = 0) -> Iterator[tuple[str, Anchor]]:
        """URLs as requests have them, with their anchors, in the order of the page; most of those that the
        page repeats only once. 2 us a link.

        No URL that has *longest* characters at most, if that is not 0, comes of a reference of eight times
        as many: such ones are left out, since to parse a megabyte takes 100 ms.
        """
        if self._names is None:
            yield from self._asked(response)
            return
        (tags, attributes), allows = self._names, self._allows
        absolute = references_of(response)
        seen: set[str] = set()
        most = 8 * longest or sys.maxsize
        for root in self._roots(response):
            for element in root.iter(*tags):
                # of nearly all the one attribute that all have
                for reference in (element.get("href"),) if self._is_usual else _values(element, attributes):
                    if reference is None or reference in seen or len(reference) > most:
                        continue
                    seen.add(reference)
                    url = absolute(reference)
                    if url is not None and allows(url, element):
                        yield (canonicalize_url(url) if self._canonicalizes else url), element

    def _roots(self, response: HtmlResponse) -> Iterator[Any]:
        """The elements in which links are looked for."""
        if not self.extractor.restrict_xpaths:
            yield tree_of(response)
            return
        for path in self.extractor.restrict_xpaths:
            for part in response.xpath(path):
                if isinstance(part.root, etree._Element):
                    yield part.root

    def _asked(self, response: HtmlResponse) -> Iterator[tuple[str, Anchor]]:
        for link in self.extractor.extract_links(response):
            url = _as_requested(link.url)
            if url is not None:
                yield url, link.text


def tree_of(response: HtmlResponse) -> Any:
    """The tree that the response's selectors share; of a page that nobody asked for a selector one of plain
    elements, without the methods that lxml.html looks up for each: 7 us less an element that is looked at.
    """
    if compat.has_selector(response):
        return response.selector.root
    root = _trees.get(response)
    if root is None:
        root = _trees[response] = _parsed(response)
    return root


def let_go_of_tree(response: HtmlResponse) -> None:
    """Nobody else is to read the tree of *response*: taken down at once, while it is still at hand, it takes
    half as long as with the response."""
    _trees.pop(response, None)


def _parsed(response: HtmlResponse) -> Any:
    body = response.text.strip().replace("\x00", "").encode("utf-8") or b"<html/>"  # as parsel does it
    parser = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, UnicodeError):
        root = None
    return response.selector.root if root is None else root


def _values(element: Any, attributes: frozenset[str]) -> list[str]:
    """What *element* has in the *attributes*."""
    return [value for name, value in element.items() if name in attributes]


def text_of(anchor: Anchor) -> str:
    """The text of an *anchor* that `PageReader.read` gave."""
    return anchor if isinstance(anchor, str) else str(_content_of(anchor))


def references_of(response: HtmlResponse) -> Callable[[str], str | None]:
    """A function from a reference in *response* to the URL of a request for it; None for one that leads
    nowhere."""
    base = _base_of(response)
    return References(base, _exact(response, base)).absolute


def _base_of(response: HtmlResponse) -> str:
    """`get_base_url` of *response*: of a plain URL whose page names no other in 2 us, for 30."""
    url = response.url
    if "<base" in response.text[:_BASE_WITHIN].lower() or not is_plain(url):
        try:
            return get_base_url(response)
        except ValueError:  # <base href="http://[">
            return url
    return url


def _exact(response: HtmlResponse, base: str) -> Callable[[str], str | None]:
    """What a link extractor and then a request make of one reference in *response*."""
    page, encoding = response.url, encoding_of(response) or response.encoding

    def exact(reference: str) -> str | None:
        try:
            url = safe_url_string(urljoin(base, strip_html5_whitespace(reference)), encoding)
            return _as_requested(urljoin(page, url))
        except ValueError:
            return None

    return exact


def _as_requested(url: str) -> str | None:
    try:
        return safe_url_string(url) if url.startswith(_WEB) else None
    except ValueError:
        return None


class _Filter:
    """What the values that *extractor* was given say of a URL."""

    def __init__(self, extractor: Any) -> None:
        self._patterns = extractor.allow_res, extractor.deny_res, extractor.restrict_text
        self._domains = extractor.allow_domains, extractor.deny_domains
        self._extensions = extractor.deny_extensions
        self._are_ends = not any("/" in each for each in self._extensions)
        self._long = [each for each in self._extensions if each.count(".") > 1]
        self._fine: set[str] = set()  # last extensions of paths that passed
        is_open = not any((*self._patterns, *self._domains))
        self.allows = self._may_have_its_extension if is_open else self._passes

    def _may_have_its_extension(self, url: str, anchor: Anchor) -> bool:
        """.3 us for a path whose last part has no dot, or ends like one before."""
        path = url
        for mark in "#?":
            if mark in path:
                path = path[: path.index(mark)]
        dot, slash = path.rfind("."), path.rfind("/")
        end, is_plain = path[dot:], ";" not in path and slash >= _AFTER_SCHEME
        if is_plain and (end in self._fine or (dot < slash and self._are_ends)):
            return True
        if url_has_any_extension(urlparse(url), self._extensions):
            return False
        if is_plain and self._pass_all(end.lower()) and len(self._fine) < _MOST_ENDS:
            self._fine.add(end)
        return True

    def _pass_all(self, end: str) -> bool:
        """Whether all paths that have this *end* pass, since one does."""
        return end[1:].isalnum() and not any(each.endswith(end) for each in self._long)

    def _passes(self, url: str, anchor: Anchor) -> bool:
        allowed, denied, texts = self._patterns
        if allowed and not any(pattern.search(url) for pattern in allowed):
            return False
        if any(pattern.search(url) for pattern in denied) or not self._may_have_its_extension(url, anchor):
            return False
        if any(self._domains) and not self._is_of_its_domains(url):
            return False
        return not texts or any(pattern.search(text_of(anchor)) for pattern in texts)

    def _is_of_its_domains(self, url: str) -> bool:
        parsed, (allowed, denied) = urlparse(url), self._domains
        if allowed and not url_is_from_any_domain(parsed, allowed):
            return False
        return not (denied and url_is_from_any_domain(parsed, denied))
