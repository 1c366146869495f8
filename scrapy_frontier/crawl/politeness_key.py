"""The politeness key of a URL: its host, its registered domain, or what the user says.

Delay, concurrency, cooldown and queue belong to the key. It is kept in the record of each page, so that a
page stays with the key it was queued under when the setting changes.
"""

from __future__ import annotations

import hashlib
import logging
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from ..core.parse import urls
from ..core.parse.urls import host_of
from ..settings import DOMAIN, HOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from tldextract import TLDExtract

logger = logging.getLogger(__name__)


@cache
def _suffixes() -> TLDExtract:
    """Reads the bundled snapshot of the public suffix list; asks nothing from the internet."""
    import tldextract  # 40 ms, and 35 ms for the first name

    suffixes = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())
    suffixes.extract_str("www.example.com")
    return suffixes


def suffixes_digest() -> str:
    """Return a digest of the public suffix list, by which processes of one crawl must agree."""
    return hashlib.blake2b("\n".join(sorted(_suffixes().tlds)).encode(), digest_size=8).hexdigest()


@lru_cache(maxsize=10_000)  # a host that is loaded is asked for up to three times
def registered_domain(host: str) -> str:
    """``example.co.uk`` for ``www.example.co.uk``; an address, a suffix or any other name is its own.

    3 us, and 75 ms for the first name, which reads the list of public suffixes. Sub-domains of hosting
    services (``user.github.io``) belong to the service, or a site could spawn domains without end.
    """
    if host.count(".") < 2:  # whatever suffixes there are
        return host
    found = _suffixes().extract_str(host)
    if found.domain and found.suffix:
        domain = f"{found.domain}.{found.suffix}"
    elif found.suffix:
        return host
    else:  # the list's own rule for a suffix it does not have: its last label
        domain = ".".join(host.removesuffix(".").split(".")[-2:])  # no label behind the dot of the root
        if domain[-1:].isdigit() or ":" in domain:
            return host
    return domain if f".{host}".endswith(f".{domain}") else host


def politeness_key_by(key: str | Callable[[str], str] = HOST) -> Callable[[str], str]:
    """Returns the function from a URL to the name of its key, by `FRONTIER_POLITENESS_KEY`."""
    if callable(key):
        return _careful(key)
    return _domain_of if key == DOMAIN else host_of


def _domain_of(url: str) -> str:
    return registered_domain(host_of(url))


def _careful(function: Callable[[str], str]) -> Callable[[str], str]:
    """*function*, with the host for what it has no answer to, so that no URL is lost by it."""

    def politeness_key_of(url: str) -> str:
        try:
            key = function(url)
        except Exception:
            logger.exception("FRONTIER_POLITENESS_KEY has no answer to %s; its host is taken: mend it", url)
            key = ""
        return urls.clean_host(key) if isinstance(key, str) and key else host_of(url)

    return politeness_key_of
