"""Who takes what a callback yields on its way from the spider to the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class Taker(Protocol):
    """Sees each output of one callback, and its end."""

    def take(self, yielded: Any) -> bool:
        """Whether *yielded* goes on to the engine."""

    def end(self, response: Response) -> Iterator[None]:
        """The callback is through; yields whenever others should have a turn."""


class Refusing(Protocol):
    """Says which links of one page are not followed."""

    def find_refused(self) -> Iterator[None]:
        """Look for them, once; yields whenever others should have a turn."""

    def refusal(self, url: str) -> str:
        """Why a link to *url* is not followed; empty where it is."""
