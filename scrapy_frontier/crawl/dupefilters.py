"""The project's own ``DUPEFILTER_CLASS``, asked beside the frontier."""

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
        try:
            cls = load_object(crawler.settings[_NAME])
            self.is_on = cls is not BaseDupeFilter
            self.is_own = self.is_on and cls is not RFPDupeFilter
            if self.is_own:
                self._filter = build_from_crawler(cls, crawler)
                self._filter.open()
        except Exception as error:  # its module may raise anything
            reporter.log(logging.DEBUG, "%s cannot be used", self._name, exc_info=True)
            raise FrontierSetting(f"{self._name} raised {describe(error)}: {_REMEDY}") from error

    @property
    def sees_each(self) -> bool:
        """Whether every request is looked at, and not only those for unknown pages."""
        return self.is_own or not self.is_on

    def seen(self, request: Request) -> bool:
        """Asks a filter of the project's whether it has seen *request*, which it takes note of; False if
        there is none, or it raises: twice is better than never."""
        if not self.is_own or request.dont_filter:
            return False
        return bool(self._call("request_seen", self._filter.request_seen, request))

    @property
    def for_spiders(self) -> BaseDupeFilter:
        """What spiders find as ``df`` of the scheduler: the filter, or one that has seen nothing."""
        return self._filter if self.is_own else BaseDupeFilter()

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
