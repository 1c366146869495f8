"""The project's own ``DUPEFILTER_CLASS``: asked beside the frontier, and its faults are told as its own."""

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

    from .stats import Notes

_NAME = "DUPEFILTER_CLASS"


class DupeFilter:
    """The filter of `DUPEFILTER_CLASS`, open until `close`. Raises `FrontierSetting` where it cannot be had.

    The frontier does what Scrapy's own does (``is_usual``); with its base class nothing ``is_on``.
    """

    def __init__(self, crawler: Crawler, notes: Notes) -> None:
        self._name = f"{_NAME} = {crawler.settings[_NAME]!r}"
        self._notes = notes
        cls = load_class(crawler)
        self.is_on = cls is not BaseDupeFilter
        self.is_usual = cls is RFPDupeFilter
        self._filter: Any = None
        if self.is_on and not self.is_usual:
            self._filter = self._had(lambda: build_from_crawler(cls, crawler), "made")
            self._had(lambda: self._filter.open(), "opened")

    @property
    def is_own(self) -> bool:
        return self._filter is not None

    def seen(self, request: Request) -> bool:
        """Whether the filter has seen *request*. Where it raises, nobody has: better twice than never."""
        if self._filter is None:
            return False
        try:
            return bool(self._filter.request_seen(request))
        except Exception as error:
            words = "%s raised %s for %s, which is taken in (said once)"
            about = self._name, describe(error), request
            self._notes.say_once(_NAME, logging.ERROR, words, *about, exc_info=True)
            return False

    def close(self, reason: str) -> None:
        if self._filter is None:
            return
        try:
            self._filter.close(reason)
        except Exception as error:
            words = "%s raised %s when it was closed"
            self._notes.log(logging.ERROR, words, self._name, describe(error), exc_info=True)

    def _had(self, make: Callable[[], Any], when: str) -> Any:
        try:
            return make()
        except Exception as error:
            self._notes.log(logging.DEBUG, "%s cannot be used", self._name, exc_info=True)
            raise FrontierSetting(f"{self._name} raised {describe(error)} when it was {when}") from error


def load_class(crawler: Crawler) -> type:
    """The class of the settings; raises `FrontierSetting` where there is none."""
    path = crawler.settings[_NAME]
    try:
        cls: type = load_object(path)
    except Exception as error:  # its module may raise anything
        raise FrontierSetting(f"{_NAME} = {path!r} cannot be imported ({describe(error)})") from error
    return cls
