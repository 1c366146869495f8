"""The unit of politeness of a URL: its host, its registered domain, its address, or what the user says.

Delay, concurrency, cooldown and queue belong to the unit. It is kept in the record of each page, so that a
page stays in the unit it was queued in when the setting changes.
"""

from __future__ import annotations

import gc
import logging
import threading
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from ..core.parse import urls
from ..core.parse.urls import host_of
from ..settings import ADDRESS, DOMAIN, HOST
from . import compat

if TYPE_CHECKING:
    from collections.abc import Callable

    from tldextract import TLDExtract

logger = logging.getLogger(__name__)

_MOST_ADDRESSES = 100_000  # hosts; about 150 bytes each

_reading = threading.Lock()


@cache
def _suffixes() -> TLDExtract:
    """The bundled snapshot of the public suffix list: nothing is asked from the internet."""
    import tldextract  # 40 ms, and 35 ms for the first name

    suffixes = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())
    suffixes.extract_str("www.example.com")
    gc.freeze()  # 20,000 objects that are there for good: full collections need not walk them
    return suffixes


def _extractor() -> TLDExtract:
    with _reading:
        return _suffixes()


def read_suffixes(after: float) -> None:
    """Read the list of public suffixes in a thread, *after* so many seconds, if no name needs it before.

    It takes 75 ms, for which the event loop would stand still.
    """
    reader = threading.Timer(after, _extractor)
    reader.daemon = True
    reader.start()


@lru_cache(maxsize=10_000)  # a host that is loaded is asked for up to three times
def registered_domain(host: str) -> str:
    """``example.co.uk`` for ``www.example.co.uk``; an address, a suffix or any other name is its own.

    3 us. Sub-domains of hosting services (``user.github.io``) belong to the service: who spawns them without
    end must not be many.
    """
    if host.count(".") < 2:  # whatever suffixes there are
        return host
    found = _extractor().extract_str(host)
    if found.domain and found.suffix:
        domain = f"{found.domain}.{found.suffix}"
    elif found.suffix:
        return host
    else:  # the list's own rule for a suffix it does not have: its last label
        domain = ".".join(host.split(".")[-2:])
        if domain[-1:].isdigit() or ":" in domain:
            return host
    return domain if f".{host}".endswith(f".{domain}") else host


class Addresses:
    """The addresses of hosts, as far as they are known; a host is its own unit until then."""

    def __init__(self) -> None:
        self._by_host: dict[str, str] = {}

    def unit_of(self, url: str) -> str:
        host = host_of(url)
        return self._by_host.get(host, host)

    def get(self, host: str) -> str | None:
        return self._by_host.get(host)

    def learn(self, host: str, address: str) -> None:
        if len(self._by_host) >= _MOST_ADDRESSES:  # those met first go; they are asked for again
            for known in list(self._by_host)[: _MOST_ADDRESSES // 10]:
                del self._by_host[known]
        self._by_host[host] = address


class Units:
    """The units of politeness by `FRONTIER_POLITENESS_KEY`: ``of`` is a function from a URL to the name of
    its unit."""

    def __init__(self, key: str | Callable[[str], str] = HOST) -> None:
        self.addresses = Addresses()
        self.are_addresses = key == ADDRESS
        self.of = unit_function(key, self.addresses)

    async def looked_up(self, url: str) -> str:
        """``of``; where addresses are the units, that of *url* is looked up first."""
        host = host_of(url)
        if self.are_addresses and self.addresses.get(host) is None:
            address = await compat.first_address(host)
            if address is not None:
                self.addresses.learn(host, address)
        return self.of(url)


def unit_function(key: str | Callable[[str], str], addresses: Addresses) -> Callable[[str], str]:
    """What `FRONTIER_POLITENESS_KEY` means: a function from a URL to the name of its unit."""
    if key == HOST:
        return host_of
    if key == DOMAIN:
        return lambda url: registered_domain(host_of(url))
    if key == ADDRESS:
        return addresses.unit_of
    assert callable(key)
    return _careful(key)


def _careful(function: Callable[[str], str]) -> Callable[[str], str]:
    """*function*, with the host for what it has no answer to, so that no URL is lost by it."""

    def unit_of(url: str) -> str:
        try:
            unit = function(url)
        except Exception:
            logger.exception("FRONTIER_POLITENESS_KEY has no answer to %s; its host is taken", url)
            unit = ""
        return urls.clean_host(unit) if isinstance(unit, str) and unit else host_of(url)

    return unit_of
