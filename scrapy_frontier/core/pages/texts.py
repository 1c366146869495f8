"""Pages met lately, by the texts of their URLs: what was asked a moment ago is not asked again."""

from __future__ import annotations

LATELY = 50_000  # texts in each of two generations; about 160 bytes each


class Texts:
    """Page ids by URL; ``~id`` for a page that is only seen. What is met again stays.

    Fragments tell no pages apart, as in Scrapy's default fingerprint. ``latest`` answers for most at once;
    what it does not hold `find` may know. It does not have to know anything.
    """

    __slots__ = ("_before", "latest")

    def __init__(self) -> None:
        self.latest: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def find(self, url: str) -> int | None:
        """The page of *url*, which stays for another generation; None where it was not met lately. .2 us."""
        if "#" in url:
            url = url[: url.index("#")]
        found = self.latest.get(url)
        if found is None:
            found = self._before.get(url)
            if found is not None:
                self.put(url, found)
        return found

    def put(self, url: str, page_id: int) -> None:
        """*url* is page *page_id*, or ``~id``; forgets the older generation when the newer one is full."""
        if "#" in url:
            url = url[: url.index("#")]
        self.latest[url] = page_id
        if len(self.latest) >= LATELY:
            self.latest, self._before = {}, self.latest

    def clear(self) -> None:
        """Forget all: some page is known no more."""
        self.latest, self._before = {}, {}
