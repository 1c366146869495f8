"""The links of a page as one of Scrapy's link extractors finds them, read in one pass, without a `Link` each.

What an extractor is told by plain values is done here: tags, attributes, patterns, domains, extensions,
regions, texts. One that is told by a function (``process_value``), or is of another class, is asked itself.

By which ways the links of a page are followed: the rules of Scrapy's `CrawlSpider`, or one way for all.

The rules are known by names that are private to that spider; all of these are here, but for those
of `compat.callback_in_the_end`.

Digests of responses: what tells whether a page has changed since the last visit.

Of the whole body as it is decoded (after ``Content-Encoding``), whatever names it: by ``FRONTIER_DIGEST``
the "body", its visible "text" and where it links to, its "links" alone, or what a function makes of it. A
HEAD brings no body: there it is of the validators.

The head of an HTML response, scanned once for all middlewares that ask.
"""

from __future__ import annotations

import reprlib
import sys
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urljoin, urlparse
from weakref import WeakKeyDictionary

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy.utils.response import get_base_url, get_meta_refresh
from scrapy.utils.url import url_has_any_extension, url_is_from_any_domain
from w3lib.html import strip_html5_whitespace
from w3lib.url import canonicalize_url, safe_url_string

from ..core.parse.headers import Refresh, opaque, parse_refresh
from ..core.parse.html import SCAN_LIMIT, Head, References, scan_head
from ..core.parse.urls import without_session
from . import scrapy_internals
from .fingerprints import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request, Spider
    from scrapy.link import Link

_OWN = ("_requests_to_follow", "_build_request", "_callback", "_errback", "parse_with_rules")
_PLAIN_RULE = Rule()


class Extractor(Protocol):
    """Scrapy's, or what is like them: it finds the links of a page."""

    def extract_links(self, response: HtmlResponse) -> Iterable[Link]:
        """The links, absolute, each once."""


class Way(NamedTuple):
    """Links that *reader* finds go to *callback* (None: the spider's own), by rule number *rule* of a
    `CrawlSpider` (None: by none)."""

    reader: PageReader
    callback: Callable[..., Any] | None = None
    errback: Callable[..., Any] | None = None
    rule: int | None = None

    def meta(self, text: str) -> dict[str, Any]:
        """The meta of a request for a link with that anchor *text*, as `CrawlSpider` has it."""
        return {} if self.rule is None else {"rule": self.rule, "link_text": text}


def one_way(spider: Spider | None, callback: Callable[..., Any] | None = None) -> Way:
    """All links to *callback*, found by the spider's own ``link_extractor``, or Scrapy's default one. Raises
    `TypeError` where the spider's is none: it was meant to keep the crawl in."""
    extractor: Any = getattr(spider, "link_extractor", None)
    if extractor is None:
        extractor = LinkExtractor()
    if isinstance(extractor, type) or not callable(getattr(extractor, "extract_links", None)):
        raise TypeError(f"link_extractor = {reprlib.repr(extractor)} has no extract_links to call")
    return Way(PageReader(extractor), callback)


class SpiderRules:
    """The rules of *spider*, a `CrawlSpider`; false where it is none, or has none."""

    def __init__(self, spider: Any) -> None:  # of whose class nothing more is known
        self._spider = spider
        if isinstance(spider, CrawlSpider) and not hasattr(spider, "_rules"):
            spider._compile_rules()  # its own __init__ leaves out that of its class, as others may
        self._rules: list[Rule] = list(spider._rules) if isinstance(spider, CrawlSpider) else []
        self.is_taken_over = False
        self.ways = tuple(
            Way(PageReader(rule.link_extractor), spider._callback, spider._errback, number)
            for number, rule in enumerate(self._rules)
        )

    def __bool__(self) -> bool:
        return bool(self._rules)

    def bar(self) -> str:
        """What keeps links of the rules from being followed without a request for each: something of them is
        a function. Empty where nothing does."""
        for name in _OWN:
            if getattr(type(self._spider), name, None) is not getattr(CrawlSpider, name, None):
                return f"the spider has a {name} of its own"
        for number, rule in enumerate(self._rules):
            for name in ("process_links", "process_request"):
                if getattr(rule, name) is not getattr(_PLAIN_RULE, name):
                    return f"rule {number} has {name}"
        return ""

    def take_over(self) -> None:
        """Have the spider itself follow nothing from now on; ``is_taken_over`` if it did before."""
        self.is_taken_over = bool(getattr(self._spider, "_follow_links", False))
        self._spider._follow_links = False

    def lead_on_from(self, request: Request) -> bool:
        """Whether the spider would follow links of the page that *request* brings, as its rules say."""
        callback = request.callback
        if callback is None or callback == self._spider._parse:
            return True
        number = request.meta.get("rule")
        if callback != self._spider._callback or not isinstance(number, int) or number >= len(self._rules):
            return False
        return self._rules[number].follow

    def requests(self, response: HtmlResponse) -> Iterator[Request]:
        """Requests for the links of *response*, as the spider itself makes them."""
        for request in self._spider._requests_to_follow(response):
            if request is not None:
                yield request


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


_NO_HEAD = Head()
_heads: WeakKeyDictionary[HtmlResponse, Head] = WeakKeyDictionary()
_encodings: WeakKeyDictionary[HtmlResponse, str] = WeakKeyDictionary()  # empty: none of text


def head_of(response: HtmlResponse) -> Head:
    """What the head of *response* says; decodes 256 KiB of it at most. About 0.1 ms, once."""
    head = _heads.get(response)
    if head is None:
        start = response.body[:SCAN_LIMIT]
        encoding = _encoding_of(response, start)
        head = _heads[response] = scan_head(start.decode(encoding, "replace"), encoding)
    return head


def refresh_of(response: Response, ignore_tags: list[str]) -> Refresh | None:
    """Where *response* goes on to (an absolute URL), and after how many seconds; None where it does not. The
    header counts before the page, of which what is in *ignore_tags* does not."""
    header = response.headers.get("Refresh")
    found = parse_refresh(header.decode("latin-1")) if header else None
    head = _NO_HEAD
    if found is None and isinstance(response, HtmlResponse):
        if ignore_tags != ["noscript"] and is_text(response):  # what our own scan cannot do
            seconds, url = get_meta_refresh(response, ignore_tags=ignore_tags)
            return Refresh(int(seconds or 0), url) if url else None
        head = head_of(response)
        found = head.refresh
    if found is None or not found.url:
        return None
    return found._replace(url=head.absolute(found.url, response.url) or found.url)


def is_text(response: HtmlResponse) -> bool:
    """Whether *response* can be decoded: Python also knows codecs; ``hex`` is no encoding of text. Worked out
    once."""
    return bool(encoding_of(response))


def encoding_of(response: HtmlResponse) -> str:
    """The encoding of *response*, empty where that is none of text; worked out once, as Scrapy does anew
    whenever it is asked."""
    found = _encodings.get(response)
    if found is None:
        encoding = response.encoding
        found = _encodings[response] = encoding if _is_text(encoding) else ""
    return found


@lru_cache(maxsize=100)
def _is_text(encoding: str) -> bool:
    try:
        b" ".decode(encoding, "replace")
    except (LookupError, UnicodeError):
        return False
    return True


def _encoding_of(response: HtmlResponse, start: bytes) -> str:
    """A page that could be read as ASCII up to a declaration of UTF-16 is UTF-8 (HTML 13.2.3.2); one that
    declares no encoding of text at all has its tags in ASCII."""
    encoding = encoding_of(response) or "latin-1"
    is_wide = encoding.startswith(("utf-16", "utf-32"))
    return "utf-8" if is_wide and b"\0" not in start[:1_024] else encoding


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
        self._names = None if by_text else scrapy_internals.names_of_extractor(extractor)
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
    if scrapy_internals.has_selector(response):
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
