"""Reads HTML responses: their head, their links as one of Scrapy's link extractors finds them, their digest.

What several middlewares ask for (head, encoding, tree) is worked out once a response. Whatever walks a page
is a generator that yields after every element, so that its caller can give way to others by the time that has
passed.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types
from scrapy.http import HtmlResponse, Response
from scrapy.utils.response import get_base_url
from w3lib.html import strip_html5_whitespace
from w3lib.url import canonicalize_url, safe_url_string

from ..core.parse.headers import has_rel
from ..core.parse.html import SCAN_LIMIT, Head, References, scan_head
from ..core.parse.urls import host_of, without_fragment, without_session
from ..core.store.link_rows import KINDS
from . import scrapy_internals
from .fingerprints import is_plain, is_same_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy.link import Link

# --- the head of a page ------------------------------------------------------------------------------------

_heads: WeakKeyDictionary[HtmlResponse, Head] = WeakKeyDictionary()


def head_of(response: HtmlResponse) -> Head:
    """Return the head of *response*; decodes at most 256 KiB. About 0.1 ms, once."""
    head = _heads.get(response)
    if head is None:
        start = response.body[:SCAN_LIMIT]
        try:
            text = start.decode(_encoding_of(response, start), "replace")
        except (LookupError, UnicodeError):  # a codec of Python that is no encoding of text, as ``hex``
            text = start.decode("latin-1")
        head = _heads[response] = scan_head(text)
    return head


def _encoding_of(response: HtmlResponse, start: bytes) -> str:
    """Return the encoding to scan the *start* of a page in. ASCII that declares UTF-16 is UTF-8 (HTML
    13.2.3.2)."""
    encoding = response.encoding
    is_wide = encoding.startswith(("utf-16", "utf-32"))
    return "utf-8" if is_wide and b"\0" not in start[:1_024] else encoding


# --- the tree of a page -----------------------------------------------------------------------------------

LARGE_PAGE = 131_072  # bytes; a longer page is parsed, and its text read, in a thread: 10 ms
_WINDOW = 4_096  # bytes
_MOST_ATTRIBUTES = 8_000  # of one element: 60 ms; libxml2 takes the square of them
_FEW_ATTRIBUTES = 500  # a page of such elements alone: 20 ms for 128 KB
_trees: WeakKeyDictionary[HtmlResponse, Any] = WeakKeyDictionary()  # of plain elements


def has_huge_tag(body: bytes, most: int = _MOST_ATTRIBUTES) -> bool:
    """Whether one tag of a page may have more than *most* attributes, judged by the marks between attributes
    in a stretch without ``>`` of more than 4 KB. Also true of a text or a script of that size without one. 1
    us for each 4 KB."""
    marks = 0
    for start in range(0, len(body), _WINDOW):
        if body.find(b">", start, start + _WINDOW) >= 0:
            marks = 0
            continue
        window = body[start : start + _WINDOW]
        marks += len(window.split()) + window.count(b"=") + window.count(b"/")
        if marks > most:
            return True
    return False


async def parse_beside(response: HtmlResponse) -> None:
    """Parse *response* in a thread if that would hold the event loop, for `tree_of`."""
    if response in _trees or scrapy_internals.has_selector(response):
        return
    if len(response.body) > LARGE_PAGE or has_huge_tag(response.body, _FEW_ATTRIBUTES):
        _trees[response] = await scrapy_internals.in_thread(_parsed, response)


def tree_of(response: HtmlResponse) -> Any:
    """Return the root of the tree that the response's selectors share; without a selector, a tree of plain
    elements, which lxml.html does not look up methods for: 7 us less an element."""
    if scrapy_internals.has_selector(response):
        return response.selector.root
    root = _trees.get(response)
    if root is None:
        root = _trees[response] = _parsed(response)
    return root


def let_go_of_tree(response: HtmlResponse) -> None:
    """Free the plain tree of *response*: right after its use that takes half as long as with the response."""
    _trees.pop(response, None)


def _parsed(response: HtmlResponse) -> Any:
    body = response.text.strip().replace("\x00", "").encode("utf-8") or b"<html/>"  # as parsel does it
    parser = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, UnicodeError):
        root = None
    return response.selector.root if root is None else root


# --- references -------------------------------------------------------------------------------------------

_WEB = ("http://", "https://")
_BASE_WITHIN = 4096  # characters in which Scrapy looks for a <base>
_MOST_TIMES_AS_LONG = 8  # a reference, as the URL that it becomes: escapes go, and dot segments
_KIND_OF_TAG = {
    **dict.fromkeys(("a", "area"), KINDS["a"]),
    **dict.fromkeys(("object", "embed"), KINDS["object"]),
    **{tag: KINDS[tag] for tag in ("img", "video", "audio", "script")},
}
_STYLESHEET = frozenset(("stylesheet",))


def kind_of(element: Any) -> int:
    """Return the kind of a link by its tag, as flags of an edge; 0 for a tag without one."""
    if element.tag == "link":
        return KINDS["css"] if has_rel(element.get("rel"), _STYLESHEET) else 0
    if element.tag == "source":  # of a picture, a video, an audio
        parent = element.getparent()
        return KINDS["img"] if parent is None or parent.tag == "picture" else kind_of(parent)
    return _KIND_OF_TAG.get(element.tag, 0)


def references_of(response: HtmlResponse, longest: int = 0) -> Callable[[str], str | None]:
    """Return a function from a reference in *response* to the URL of a request for it; None if it leads
    nowhere.

    With *longest*, no reference counts that is eight times as long: to parse a megabyte takes 100 ms.
    """
    base = _base_of(response)
    page, encoding = response.url, response.encoding

    def exact(reference: str) -> str | None:
        """Do what a link extractor and then a request do."""
        try:
            url = safe_url_string(urljoin(base, strip_html5_whitespace(reference)), encoding)
            return _as_requested(urljoin(page, url))
        except ValueError:
            return None

    return References(base, exact, _MOST_TIMES_AS_LONG * longest).absolute


def canonical_of(response: HtmlResponse) -> str | None:
    """Return the URL of the canonical page that *response* names; None if that is the page itself or on
    another host, or if it names several."""
    hrefs = set(head_of(response).canonicals)
    url = references_of(response)(hrefs.pop()) if len(hrefs) == 1 else None
    if url is None or host_of(url) != host_of(response.url) or is_same_page(url, response.url):
        return None
    return without_fragment(url)


def _base_of(response: HtmlResponse) -> str:
    if "<base" not in response.text[:_BASE_WITHIN].lower() and is_plain(response.url):
        return response.url  # as `get_base_url` returns it, in a tenth of the time
    try:
        return get_base_url(response)
    except ValueError:  # <base href="http://[">
        return response.url


def _as_requested(url: str) -> str | None:
    try:
        return safe_url_string(url) if url.startswith(_WEB) else None
    except ValueError:
        return None


_ANCHORS = frozenset(("a", "area"))
_MOST_ANCHORS = 1000
_LONGEST_TEXT = 100  # characters


_content_of = etree.XPath("string()", smart_strings=False)

Anchor = Any  # the element of a link; its text if an extractor of another class found it


def text_of(anchor: Anchor) -> str:
    """Return the text of a link."""
    return anchor if isinstance(anchor, str) else str(_content_of(anchor))


def anchors_of(response: HtmlResponse, longest: int) -> Iterator[tuple[str, Anchor] | None]:
    """Yield URL and element of the anchors and areas of *response* in the order of the page, and None for
    each that leads nowhere, or has a URL of more than *longest* characters (0: no limit)."""
    absolute = references_of(response, longest)
    for element in tree_of(response).iter(*_ANCHORS):
        href = element.get("href")
        url = None if href is None else absolute(href)
        if url is None or 0 < longest < len(url):
            yield None
        else:
            yield url, element


# --- link extractors --------------------------------------------------------------------------------------


_AFTER_SCHEME = len("https://")


def anchor_texts(response: Response) -> dict[str, str]:
    """Return the texts of the first `_MOST_ANCHORS` anchors of a page by their URLs, of several to one page
    the first; 5 us each. None of a large page that nothing has parsed yet."""
    found: dict[str, str] = {}
    if not isinstance(response, HtmlResponse):
        return found
    if len(response.body) > LARGE_PAGE and not scrapy_internals.has_selector(response):
        return found
    absolute = references_of(response)
    for anchor in islice(tree_of(response).iter("a"), _MOST_ANCHORS):
        url = absolute(anchor.get("href") or "")
        if url is not None and url not in found:
            found[url] = text_of(anchor)[:_LONGEST_TEXT]
    return found


class PageReader:
    """Finds in pages what its ``extractor`` would extract, http and https only, without a `Link` each.

    Tags, attributes, extensions and regions are done here. An extractor with a function (``process_value``)
    or ``restrict_text``, or of another class, is called itself.
    """

    def __init__(self, extractor: Any) -> None:
        self.extractor = extractor
        # Scrapy's own takes the first of several links to one page, and then looks at its text.
        by_text = getattr(extractor, "restrict_text", None)
        self._names = None if by_text else scrapy_internals.names_of_extractor(extractor)
        if self._names is not None:
            self._canonicalizes = extractor.canonicalize
            self._kind = KINDS["a"] if self._names[0] <= _ANCHORS else 0  # of all its links, 0 if it varies
            self._ends = frozenset(extractor.deny_extensions)
            self._long_ends = tuple(each for each in self._ends if each.count(".") > 1)
            told = extractor.allow_res, extractor.deny_res, extractor.allow_domains, extractor.deny_domains
            self._is_open = not any(told)

    def read(self, response: HtmlResponse, longest: int = 0) -> Iterator[tuple[str, Anchor, int] | None]:
        """Yield URL, anchor and kind of the links of *response* in the order of the page, most of those that
        it repeats only once, and None for each element without a new one. 2 us a link. *longest*: see
        `references_of`."""
        if self._names is None:
            yield from self._extracted(response)
            return
        tags, attributes = self._names
        absolute = references_of(response, longest)
        seen: set[str] = set()
        for root in self._roots(response):
            for element in root.iter(*tags):
                for name in attributes:
                    reference = element.get(name)
                    url = None
                    if reference is not None and reference not in seen:
                        seen.add(reference)
                        url = absolute(reference)
                    if url is None or not self._allows(url):
                        yield None
                    else:
                        url = canonicalize_url(url) if self._canonicalizes else url
                        yield url, element, self._kind or kind_of(element)

    def _roots(self, response: HtmlResponse) -> Iterator[Any]:
        """Yield the elements in which links are looked for."""
        if not self.extractor.restrict_xpaths:
            yield tree_of(response)
            return
        for path in self.extractor.restrict_xpaths:
            for part in response.xpath(path):
                if isinstance(part.root, etree._Element):
                    yield part.root

    def _allows(self, url: str) -> bool:
        """Whether the extractor takes *url*, by its last name (RFC 3986 3.3, without parameters) and by its
        patterns and domains."""
        path = url.partition("#")[0].partition("?")[0]
        slash = path.rfind("/")
        if slash >= _AFTER_SCHEME:
            name = path[slash:].partition(";")[0].lower()
            if name[name.rfind(".") :] in self._ends or name.endswith(self._long_ends):
                return False
        return self._is_open or self.extractor.matches(url)

    def _extracted(self, response: HtmlResponse) -> Iterator[tuple[str, Anchor, int] | None]:
        links: Iterable[Link] = self.extractor.extract_links(response)
        for link in links:
            url = _as_requested(link.url)
            yield None if url is None else (url, link.text, 0)


class FollowRule(NamedTuple):
    """Links that *reader* finds go to *callback* (None: the spider's own)."""

    reader: PageReader
    callback: Callable[..., Any] | None = None


# --- digests ----------------------------------------------------------------------------------------------

DIGEST_BYTES = 5  # one change in 2**40 is missed
MOST_DIGESTED = 1_048_576  # bytes of a page of which text or links are digested; the body of a larger one is
CONTENT = b"content"  # the kind of a hash that a spider gives

# Elements that are not shown, or that hold tokens and advertisements.
_UNSEEN = frozenset(
    ("script", "style", "template", "noscript", "iframe", "object", "embed", "svg", "meta", "link", "base")
)


def digest_of(data: bytes, kind: bytes = b"") -> bytes:
    """Return five bytes for *data* of one *kind*; one other in 2**40 has them too."""
    return blake2b(data, digest_size=DIGEST_BYTES, person=kind).digest()


def digest_by(setting: str | Callable[[Response], Any]) -> Callable[[Response], bytes]:
    """Return the function that digests a response by ``FRONTIER_DIGEST``: "body" (decoded), visible "text"
    and where it links to, "links" alone, or what a function of the project returns; b"" for its None.

    0.1 ms for "body" of 100 KB, about 4 ms for text and links, which parse the page; the spider's selectors
    share the tree.
    """
    if callable(setting):
        return lambda response: of_content(setting(response))
    readers = {"text": _text, "links": _links}
    return partial(_of_tree, readers[setting], setting.encode()) if setting in readers else _of_body


def of_content(value: Any) -> bytes:
    """Return the digest of what a spider, or its function, returns as the content of a page: bytes, text, or
    anything with a stable repr; b"" for None."""
    if value is None:
        return b""
    if not isinstance(value, bytes):
        value = (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")
    return digest_of(value, CONTENT)


def _of_body(response: Response) -> bytes:
    return digest_of(response.body)


def _of_tree(read: Callable[[Any], str], kind: bytes, response: Response) -> bytes:
    """Return the digest of what *read* finds in an HTML page; of the body for anything else."""
    if not isinstance(response, HtmlResponse) or is_digested_by_body(response):
        return _of_body(response)
    root = response.selector.root
    if not isinstance(root, etree._Element):
        return _of_body(response)
    return digest_of(read(root).encode("utf-8", "surrogatepass"), kind)


def is_digested_by_body(response: Response) -> bool:
    """Whether *response* is too large for its text or links to be digested, or one tag of it is."""
    return len(response.body) > MOST_DIGESTED or has_huge_tag(response.body)


def _text(root: Any) -> str:
    text = "".join("".join(visible_text(root)).split())  # line breaks are no content
    return f"{text}\n" + "\n".join(_hrefs(root))


def _links(root: Any) -> str:
    return "\n".join(sorted(set(_hrefs(root))))


def visible_text(root: Any) -> Iterator[str]:
    """Yield the text of a page in its order, without scripts, styles, frames and hidden elements. Linear,
    which `etree.iterwalk` is not if comments stand side by side."""
    around = [(root, iter(root))]
    yield root.text or ""
    while around:
        parent, children = around[-1]
        child = next(children, None)
        if child is None:
            around.pop()
            yield (parent.tail or "") if around else ""
        elif not isinstance(child.tag, str) or child.tag in _UNSEEN or _is_hidden(child):  # or a comment
            yield child.tail or ""
        else:
            yield child.text or ""
            around.append((child, iter(child)))


def _is_hidden(element: Any) -> bool:
    if element.get("hidden") is not None:
        return True
    style = element.get("style")
    return style is not None and "display:none" in style.replace(" ", "").lower()


def _hrefs(root: Any) -> Iterator[str]:
    """Yield where a page links to, without the session identifiers that change at every visit."""
    for element in root.iter("a", "area"):
        href = element.get("href")
        if href is not None:
            yield without_session(href.strip())
