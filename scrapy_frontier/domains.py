"""Registered domains: what one can buy below a public suffix, ``example.co.uk`` of ``www.example.co.uk``."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any


@cache
def _extractor() -> Any:
    """The public suffix list that comes with tldextract; the newest one would be asked of the internet."""
    import tldextract  # with Scrapy, which uses it for cookies

    return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


@lru_cache(maxsize=4096)  # a host that is loaded is asked for up to three times
def registered_domain(host: str) -> str:
    """The registered domain of *host*; an address, a suffix or a name of any other kind is its own.

    3 us. Sub-domains of hosting services (``user.github.io``) belong to the service: who spawns them without
    end must not be many.
    """
    found = _extractor().extract_str(host)
    if found.domain and found.suffix:
        domain = f"{found.domain}.{found.suffix}"
    else:  # the list's own rule for a suffix it does not have: its last label
        domain = ".".join(host.split(".")[-2:])
        if domain[-1:].isdigit() or ":" in domain:
            return host
    return domain if f".{host}".endswith(f".{domain}") else host
