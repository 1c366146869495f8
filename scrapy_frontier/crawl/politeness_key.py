"""The politeness key of a URL: its host, its registered domain, its address, or what the user says.

Delay, concurrency, cooldown and queue belong to the key. It is kept in the record of each page, so that a
page stays with the key it was queued under when the setting changes.
"""

from __future__ import annotations

import hashlib
import logging
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from scrapy.utils.datatypes import LocalCache

from ..core.parse import urls
from ..core.parse.urls import host_of
from ..settings import ADDRESS, DOMAIN, HOST
from . import scrapy_internals

if TYPE_CHECKING:
    from collections.abc import Callable

    from tldextract import TLDExtract

logger = logging.getLogger(__name__)

_MOST_ADDRESSES = 100_000  # hosts; about 150 bytes each


@cache
def _suffixes() -> TLDExtract:
    """Read the bundled snapshot of the public suffix list; asks nothing from the internet."""
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


class PolitenessKeys:
    """Politeness keys by `FRONTIER_POLITENESS_KEY`: ``of`` is a function from a URL to the name of
    its key. If addresses are the keys, a host is its own until its address is known."""

    def __init__(self, key: str | Callable[[str], str] = HOST) -> None:
        self._addresses: LocalCache[str, str] = LocalCache(_MOST_ADDRESSES)  # by host
        self.are_addresses = key == ADDRESS
        named = {HOST: host_of, DOMAIN: _domain_of, ADDRESS: self._of_address}
        self.of: Callable[[str], str] = _careful(key) if callable(key) else named[key]

    def _of_address(self, url: str) -> str:
        host = host_of(url)
        return self._addresses.get(host, host)

    def learn(self, host: str, address: str) -> None:
        """Keeps the *address* of *host*; of more than 100,000 hosts the first are forgotten."""
        self._addresses[host] = address

    async def address_of(self, host: str) -> str | None:
        """The address of *host*, looked up by the resolver of the connections if it is not known; None if it
        does not resolve."""
        if host not in self._addresses:
            addresses = await scrapy_internals.addresses_of(host)
            if addresses:
                self.learn(host, addresses[0])  # to which a connection goes first
        return self._addresses.get(host)

    async def looked_up(self, url: str) -> str:
        """The key of *url*, as ``of``; if addresses are the keys, its host is looked up first."""
        if self.are_addresses:
            await self.address_of(host_of(url))
        return self.of(url)


def _domain_of(url: str) -> str:
    return registered_domain(host_of(url))


def _careful(function: Callable[[str], str]) -> Callable[[str], str]:
    """Returns *function*, but with the host for what it has no answer to, so that no URL is lost."""

    def politeness_key_of(url: str) -> str:
        try:
            key = function(url)
        except Exception:
            logger.exception("FRONTIER_POLITENESS_KEY has no answer to %s; its host is taken: mend it", url)
            key = ""
        return urls.clean_host(key) if isinstance(key, str) and key else host_of(url)

    return politeness_key_of
