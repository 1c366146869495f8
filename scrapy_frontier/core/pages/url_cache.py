"""Pages by the text of their URLs, as met lately: most links are told by that alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..store.keys import PageId

LATELY = 50_000  # texts in each of two generations; about 160 bytes each


class UrlCache:
    """Page ids by URL, without fragments: those tell no pages apart in Scrapy's default fingerprint. What is
    met again stays.

    ``latest``, always the same dictionary, answers for most at once; what it does not hold `find` may know.
    It does not have to know anything.
    """

    __slots__ = ("_before", "latest")

    def __init__(self) -> None:
        self.latest: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def find(self, url: str) -> PageId | None:
        """The page of *url*, which stays for another generation; None where it was not met lately. .2 us."""
        if "#" in url:
            url = url[: url.index("#")]
        found = self.latest.get(url)
        if found is None and (found := self._before.get(url)) is not None:
            self.put(url, found)
        return found

    def put(self, url: str, page_id: PageId) -> None:
        """*url* is page *page_id*; forgets the older generation when the newer one has `LATELY` texts."""
        if "#" in url:
            url = url[: url.index("#")]
        self.latest[url] = page_id
        if len(self.latest) >= LATELY:
            self._before = self.latest.copy()  # .4 ms
            self.latest.clear()

    def clear(self) -> None:
        """Forget all texts, since some page is known no more."""
        self.latest.clear()
        self._before.clear()
