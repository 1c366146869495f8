"""Which page a request is for: the fingerprinter of the project, and Scrapy's own for plain URLs in a tenth
of its time."""

from __future__ import annotations

import hashlib
import logging
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.request import RequestFingerprinter, RequestFingerprinterProtocol
from scrapy.utils.request import fingerprint as scrapy_fingerprint

from ..core.parse.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

# URLs that `canonicalize_url` leaves as they are but for the fragment, a missing path and the order of the
# query.
_plain_url = re.compile(
    r"(https?://[a-z0-9.:-]+)(/[A-Za-z0-9/._~-]*)?"
    r"(?:\?([A-Za-z0-9._~-]+=[A-Za-z0-9._~-]*(?:&[A-Za-z0-9._~-]+=[A-Za-z0-9._~-]*)*))?"
    r"(?:#.*)?"
).fullmatch
_plain_origin = re.compile(
    r"https?://[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::[1-9][0-9]*)?"
).fullmatch
_LONGEST = 2000  # characters of a plain URL
# URLs by which fingerprinters are told apart.
_PROBES = (
    "http://example.com",
    "http://example.com/a/B_c~d.html#x",
    "https://a-b.example.com:8080/?z=1&a=2&a=1&B=",
    "http://example.com/%7Ea;p?q=%20&q=+&%C3%A4=ä#!x",
)


# -- plain URLs ----------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _plain_host(origin: str) -> str:
    """Returns the host of a plain *origin* (scheme://host or with a port); "" for any other."""
    return origin.split("/")[2].partition(":")[0] if _plain_origin(origin) is not None else ""


def is_plain(url: str) -> bool:
    """Whether *url* has a path and no fragment, and cleaning leaves it as it is."""
    found = None if "#" in url or "/." in url or len(url) > _LONGEST else _plain_url(url)
    return found is not None and found[2] is not None and bool(_plain_host(found[1]))


def plain_identity(url: str) -> tuple[bytes, str] | None:
    """Returns Scrapy's default fingerprint of a GET for a plain *url*, and its host; None for any other. 1.5
    us."""
    match = _plain_url(url)
    if match is None or "/." in url or len(url) > _LONGEST:  # newer versions of w3lib resolve dot segments
        return None
    origin, path, query = match.groups()
    host = _plain_host(origin)
    if not host:
        return None
    canonical = origin + (path or "/")
    if query:
        if "&" in query:  # by name, then by value: NUL comes before all that either can hold
            query = "&".join(sorted(query.replace("=", "\0").split("&"))).replace("\0", "=")
        canonical = f"{canonical}?{query}"
    text = f'{{"body": "", "headers": {{}}, "method": "GET", "url": "{canonical}"}}'
    # SHA-1 is the choice of Scrapy: it names pages and guards nothing
    return hashlib.sha1(text.encode(), usedforsecurity=False).digest(), host


def plain_fingerprint(url: str) -> bytes | None:
    """Returns the fingerprint of `plain_identity`, or None."""
    identity = plain_identity(url)
    return None if identity is None else identity[0]


def page_fingerprint(url: str) -> bytes:
    """Returns Scrapy's default fingerprint of a GET for *url*. 2 to 13 us."""
    return plain_fingerprint(url) or scrapy_fingerprint(Request(url))


def is_same_page(one: str, other: str) -> bool:
    """Whether two URLs have one fingerprint by Scrapy's default. 4 to 26 us unless the texts are equal."""
    return one == other or page_fingerprint(one) == page_fingerprint(other)


# -- the fingerprinter of a project --------------------------------------------------------------------


def key_scheme(fingerprint: Callable[[Request], bytes], name: str) -> str:
    """Returns how pages are identified: the *name* of the fingerprinter and a hash of what it makes of some
    URLs. A store with another scheme raises `FrontierVersion`."""
    digest = hashlib.sha256()
    for url in _PROBES:
        answer = _answer(fingerprint, url)
        digest.update(answer if isinstance(answer, bytes) else type(answer).__name__.encode())
    return f"{name} {digest.hexdigest()[:12]}"


def _answer(fingerprint: Callable[[Request], bytes], url: str) -> bytes | Exception:
    try:  # some take what the callback asks for as part of the page
        return fingerprint(Request(url, callback=NO_CALLBACK))
    except Exception as error:  # it may want what the spider puts into each request
        return error


class Identities:
    """Identifies requests by the *fingerprinter* of the project; ``is_default`` if that is Scrapy's own.

    ``scheme`` is its `key_scheme`; ``named_scheme`` is the class alone if it identifies no plain URL.
    """

    def __init__(self, fingerprinter: RequestFingerprinterProtocol) -> None:
        cls = type(fingerprinter)
        self._name = f"{cls.__module__}.{cls.__qualname__}"
        self._own, self._is_logged = fingerprinter.fingerprint, False
        self.scheme = key_scheme(self._own, self._name)
        answers = [_answer(self._own, url) for url in _PROBES]
        self.named_scheme = self.scheme if any(isinstance(each, bytes) for each in answers) else self._name
        agrees = all(
            plain_fingerprint(url) in (None, page) for url, page in zip(_PROBES, answers, strict=True)
        )
        self.is_default = cls is RequestFingerprinter and agrees

    def of(self, request: Request) -> bytes:
        """Returns the fingerprint of *request*."""
        fingerprint = plain_fingerprint(request.url) if self.is_plain(request) else None
        return fingerprint or self._full(request)

    def with_host(self, request: Request) -> tuple[bytes, str]:
        """Returns the fingerprint of *request* and the host of its URL."""
        identity = plain_identity(request.url) if self.is_plain(request) else None
        return identity or (self._full(request), host_of(request.url))

    def is_plain(self, request: Request) -> bool:
        """Whether the URL alone identifies *request*: a plain GET, to Scrapy's own fingerprinter."""
        is_plain_get = request.method == "GET" and not request.body
        return self.is_default and is_plain_get and not request.meta.get("verbatim_url")

    def _full(self, request: Request) -> bytes:
        """Asks the fingerprinter; if that raises, Scrapy's stands in: to fetch a page twice is better than to
        lose it, and the page that leads to it."""
        try:
            return self._own(request)
        except Exception as error:
            if not self._is_logged:
                self._is_logged = True
                words = (
                    "REQUEST_FINGERPRINTER_CLASS (%s) raised %s: %s for %s, which gets Scrapy's fingerprint "
                    "instead: mend it; not every request has what your spider puts into meta (said once)"
                )
                about = self._name, type(error).__name__, error, request
                logger.error(words, *about, exc_info=True)
            return scrapy_fingerprint(request)
