"""The project's own ``DUPEFILTER_CLASS``, asked beside the frontier, and what stands in for Scrapy's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import build_from_crawler, load_object

from ..settings import FrontierSetting
from .in_flight import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier
    from .fingerprints import Identities
    from .log import Reporter

_NAME = "DUPEFILTER_CLASS"
_REMEDY = f"mend it, or leave {_NAME} unset: the frontier needs none"


class DupeFilter:
    """The filter of ``DUPEFILTER_CLASS``, open until `close`. Raises `FrontierSetting` if it cannot be used.

    Scrapy's own class is not made: the frontier does what it does. With Scrapy's base class nothing
    ``is_on``: every link is queued again. Any other filter ``is_own`` and is asked about each request.
    """

    def __init__(self, crawler: Crawler, reporter: Reporter) -> None:
        self._name = f"{_NAME} = {crawler.settings[_NAME]!r}"
        self._reporter = reporter
        self._filter: Any = None
        self._log: Callable[..., object] | None = None
        try:
            cls = load_object(crawler.settings[_NAME])
            self.is_on = cls is not BaseDupeFilter
            self.is_own = self.is_on and cls is not RFPDupeFilter
            if self.is_own:
                self._filter = build_from_crawler(cls, crawler)
                self._filter.open()
                if getattr(cls, "log", None) is not BaseDupeFilter.log:  # deprecated
                    self._log = getattr(self._filter, "log", None)
        except Exception as error:  # its module may raise anything
            reporter.log(logging.DEBUG, "%s cannot be used", self._name, exc_info=True)
            raise FrontierSetting(f"{self._name} raised {describe(error)}: {_REMEDY}") from error
        if not self.is_own and crawler.settings.getbool("DUPEFILTER_DEBUG"):
            self._log = RFPDupeFilter(debug=True).log

    @property
    def is_debugging(self) -> bool:
        """Whether ``DUPEFILTER_DEBUG`` has each request logged that is dropped."""
        return self._log is not None and not self.is_own

    @property
    def sees_each(self) -> bool:
        """Whether every request is looked at, and not only those for unknown pages."""
        return self.is_own or self.is_debugging or not self.is_on

    def seen(self, request: Request) -> bool:
        """Asks a filter of the project's whether it has seen *request*, which it takes note of; False if
        there is none, or it raises: twice is better than never."""
        if not self.is_own or request.dont_filter:
            return False
        return bool(self._call("request_seen", self._filter.request_seen, request))

    def dropped(self, request: Request) -> None:
        """*request* is dropped, by the filter or because its page is known: has the ``log`` of the filter say
        and count that, or counts it."""
        if self._log is None:
            self._reporter.tally["dupefilter/filtered"] += 1
            return
        self._call("log", self._log, request, self._reporter.spider)

    def for_spiders(
        self, identities: Identities, frontier: Frontier, clean: Callable[[str], str]
    ) -> BaseDupeFilter:
        """Returns what spiders find as ``df`` of the scheduler: the filter, or one that looks into
        *frontier*. *clean* makes the URL that a link is queued by."""
        if not self.is_on:
            return BaseDupeFilter()
        return self._filter if self.is_own else KnownPages(identities, frontier, clean)

    def close(self, reason: str) -> None:
        """Closes the filter."""
        if self.is_own:
            self._call("close", self._filter.close, reason)

    def _call(self, name: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a *method* of the filter; logs what it raises, once for each *name*, and returns None
        then."""
        try:
            return method(*arguments)
        except Exception as error:
            words = "%s raised %s: no page is lost; mend its %s (said once)"
            self._reporter.log_once(
                f"{_NAME} {name}", logging.ERROR, words, self._name, describe(error), name, exc_info=True
            )
            return None


class KnownPages(BaseDupeFilter):
    """Says of a request whether the frontier knows its page, for spiders that ask the scheduler's ``df``;
    takes no note of it."""

    def __init__(self, identities: Identities, frontier: Frontier, clean: Callable[[str], str]) -> None:
        self._identities, self._frontier, self._clean = identities, frontier, clean

    def request_seen(self, request: Request) -> bool:
        """A lookup or two: of the URL as it is, as of seeds, and as links are queued."""
        clean = self._clean(request.url)
        asked = [request] if clean == request.url else [request, request.replace(url=clean)]
        try:
            return any(self._frontier.find(self._identities.of(each)) is not None for each in asked)
        except Exception:  # of LevelDB, after the frontier is closed
            return False
