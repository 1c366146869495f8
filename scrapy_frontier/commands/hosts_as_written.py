"""Hosts as users write them: by name, by address, or by a URL."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError
from w3lib.url import safe_url_string

from ..core.admin import facts
from ..core.parse.urls import clean_host, host_of

if TYPE_CHECKING:
    from ..core.store.leveldb import Store
    from .project import Project


def host_argument(project: Project, store: Store, text: str) -> str:
    """The host that a user means: a name as it is written where *store* has it, as any a ``download_slot``
    gives; else that of a host name or a URL, as it stands in URLs that are requested. A name of which nothing
    is known stays as it is written, too, where a function of the *project* gives names, or where it has
    blanks; a port or a path may stand behind the name of a host.

    Raises `UsageError` where there is none.
    """
    written, name = clean_host(text), _host_in(text)
    if written and (written == name or facts.is_there(store, written)):
        return written
    if name and ("://" in text or facts.is_there(store, name)):
        return name
    has_own_names = callable(project.frontier_settings.politeness_key) and "://" not in text
    if text.strip() and (has_own_names or (name and len(text.split()) > 1)):
        return written
    if not name:
        raise UsageError(f"{text!r} names no host: write the name of a host, as www.example.com")
    return name


def _host_in(text: str) -> str:
    """The host in the name of one, in an address, or in a URL; empty where there is none."""
    url = text
    if "://" not in text:
        bare = text.strip()
        is_bare_address = bare.count(":") > 1 and not bare.startswith("[")
        url = f"http://[{bare}]/" if is_bare_address else f"http://{bare}/"
    if not text.isascii():
        with suppress(ValueError):
            url = safe_url_string(url)  # which writes bücher.example as xn--bcher-kva.example
    return host_of(url)
