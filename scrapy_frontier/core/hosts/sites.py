"""Keeps copies of robots.txt; decides where to look for sitemaps, and which pages a sitemap may list.

A site names its sitemaps in its robots.txt (``Sitemap:`` lines), or has one at the usual path. A sitemap may
list pages of its site, pages under its own directory, and pages of any other site whose robots.txt names it
(sitemaps.org, "Sitemap file location" and "cross submit"). The store has two rows for each origin
(``scheme://host:port``, as `urls.origin_of` writes it): its `RobotsCopy` and its `SiteSitemaps`. Nothing here
fetches or queues.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ..store import keys, records
from ..store.keys import TOP
from ..store.records import RobotsCopy, SiteSitemaps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.batch import Batch

# WordPress redirects it to its index. Each further guess would cost a request to every host.
USUAL_PATH = "/sitemap.xml"
MAX_LEVELS = 3  # an index, an index in it (sites have them, against the protocol), and a sitemap
MAX_SITEMAPS = 1_000  # sitemaps taken from one index, or from one robots.txt
FILE_BUCKET = TOP  # a sitemap comes before the pages of its host with the same priority


class SitemapsToRead(NamedTuple):
    """The URLs of sitemaps to ``queue`` now, and the row to store."""

    queue: tuple[str, ...]
    sitemaps: SiteSitemaps


def contact(sitemaps: SiteSitemaps, origin: str) -> SitemapsToRead:
    """Return the sitemaps to read when the first page of *origin* is about to be fetched: those that are
    listed, or the usual one."""
    queue = sitemaps.listed or (origin + USUAL_PATH,)
    return SitemapsToRead(queue, sitemaps._replace(is_contacted=True))


def named_by_robots(sitemaps: SiteSitemaps, urls: tuple[str, ...]) -> SitemapsToRead:
    """Return the sitemaps to read when robots.txt names *urls*: the new ones, if the site was contacted
    before."""
    listed = tuple(dict.fromkeys(urls))[:MAX_SITEMAPS]
    queue = tuple(url for url in listed if url not in sitemaps.listed) if sitemaps.is_contacted else ()
    return SitemapsToRead(queue, sitemaps._replace(listed=listed))


# -- entries -------------------------------------------------------------------------------------------


class SitemapScope:
    """Decides which entries of one sitemap count. *names* are its URL and those that redirected to it;
    *speaks_for* is the origin whose pages it may list.

    *listed_by* returns the sitemaps that the robots.txt of an origin names; it is called once for each
    origin. ``foreign`` counts the entries that were refused.
    """

    def __init__(
        self, names: tuple[str, ...], speaks_for: str, listed_by: Callable[[str], tuple[str, ...]]
    ) -> None:
        self._names = names
        self._site = speaks_for.partition("://")[2]  # http and https of a host speak for each other
        self._listed_by = listed_by
        self._verdicts: dict[str, bool] = {}
        self.foreign = 0

    def accepts(self, url: str) -> bool:
        """Return whether the sitemap may list *url*, as `urls.absolute` writes it. 1 us for its own site."""
        found = _ORIGIN(url)
        scheme, site = found.groups() if found is not None else ("", "")
        if site == self._site or is_under(url, self._names[0]) or self._is_listed(f"{scheme}://{site}"):
            return True
        self.foreign += 1
        return False

    def _is_listed(self, origin: str) -> bool:
        verdict = self._verdicts.get(origin)
        if verdict is None:
            listed = self._listed_by(origin)
            verdict = any(name in listed for name in self._names)
            if len(self._verdicts) < MAX_SITEMAPS:
                self._verdicts[origin] = verdict
        return verdict


_ORIGIN = re.compile(r"(https?)://([^/?#]*)").match


def is_hint_of_change(kept: int | None, lastmod: int, last_visit: int | None) -> bool:
    """Return whether a new *lastmod* hints at a change of its page: if another one was *kept*, or if it is
    the first and younger than the *last_visit*. Never before the first visit."""
    return last_visit is not None and (kept is not None or lastmod > last_visit)


def is_under(url: str, sitemap: str) -> bool:
    """Return whether *url* has the origin of the URL *sitemap*, and lies in its directory or below
    (sitemaps.org, "Sitemap file location"). Both as `absolute` makes them."""
    page, file = urlsplit(url), urlsplit(sitemap)
    directory = file.path[: file.path.rfind("/") + 1] or "/"
    same_origin = (page.scheme, page.netloc) == (file.scheme, file.netloc)
    return same_origin and (page.path or "/").startswith(directory)


class Sites:
    """Reads and writes the rows of sites, by origin (scheme://host:port); keeps none in memory."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def robots_copy(self, origin: str) -> RobotsCopy | None:
        """Return the stored robots.txt of *origin*, None if there is none or it cannot be read: then the file
        is fetched again. One lookup."""
        return records.ROBOTS.read(self._batch.store.get(keys.robots_key(origin)))

    def keep_robots_copy(self, origin: str, copy: RobotsCopy) -> None:
        """Store the robots.txt of *origin*; commits. Raises `FrontierUnwritable`."""
        self._batch.check()
        self._batch.rows[keys.robots_key(origin)] = records.ROBOTS.encode(copy)
        self._batch.commit()

    def sitemaps_of(self, origin: str) -> SiteSitemaps:
        """Return what is known of the sitemaps of *origin*. One lookup. A site whose row cannot be read is
        contacted again; its sitemaps are known then."""
        stored = self._batch.get(keys.sitemaps_key(origin))
        return records.SITEMAPS.read(stored) or SiteSitemaps()

    def keep_sitemaps(self, origin: str, sitemaps: SiteSitemaps) -> None:
        """Store what is known of the sitemaps of *origin*, in the open batch. Raises `FrontierUnwritable` if
        a write failed before."""
        self._batch.check()
        self._batch.rows[keys.sitemaps_key(origin)] = records.SITEMAPS.encode(sitemaps)
