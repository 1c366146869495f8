"""The project's own ``DUPEFILTER_CLASS``: asked beside the frontier, and its faults are told as its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import build_from_crawler, load_object

from ...settings import FrontierSetting
from ..flights.in_flight import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from ..stats import Reporter

_NAME = "DUPEFILTER_CLASS"
_REMEDY = f"mend it, or leave {_NAME} unset: the frontier needs none"


class DupeFilter:
    """The filter of `DUPEFILTER_CLASS`, open until `close`. Raises `FrontierSetting` where it cannot be had.

    The frontier does what Scrapy's own does (``is_usual``); with its base class nothing ``is_on``. What one
    that extends Scrapy's writes down comes behind what the frontier has `written` (`_HeldBack`).
    """

    def __init__(self, crawler: Crawler, reporter: Reporter) -> None:
        self._name = f"{_NAME} = {crawler.settings[_NAME]!r}"
        self._reporter = reporter
        cls = load_class(crawler)
        self.is_on = cls is not BaseDupeFilter
        self.is_usual = cls is RFPDupeFilter
        self._filter: Any = None
        self._file: _HeldBack | None = None
        if self.is_on and not self.is_usual:
            self._filter = self._had(lambda: build_from_crawler(cls, crawler), "made")
            self._had(lambda: self._filter.open(), "opened")
            if isinstance(self._filter, RFPDupeFilter) and self._filter.file is not None:
                self._file = _HeldBack(self._filter.file)
                setattr(self._filter, "file", self._file)  # noqa: B010 - it has the type of a file

    @property
    def is_own(self) -> bool:
        """Whether it is a filter of the project's, which is asked of each request."""
        return self._filter is not None

    def seen(self, request: Request) -> bool:
        """Whether the filter has seen *request*, which it takes note of. Where it raises, nobody has: better
        twice than never. False where there is none to be asked."""
        if self._filter is None:
            return False
        try:
            return bool(self._filter.request_seen(request))
        except Exception as error:
            words = "%s raised %s for %s, which is taken in: mend its request_seen (said once)"
            about = self._name, describe(error), request
            self._reporter.log_once(_NAME, logging.ERROR, words, *about, exc_info=True)
            return False

    def written(self, rows: object) -> None:
        """The frontier has written a batch with these *rows*."""
        if self._file is not None:
            self._file.written()

    def close(self, reason: str) -> None:
        """Close the filter, for *reason*; what it raises is logged."""
        if self._filter is None:
            return
        try:
            self._filter.close(reason)
        except Exception as error:
            words = "%s raised %s when it was closed: mend its close"
            self._reporter.log(logging.ERROR, words, self._name, describe(error), exc_info=True)

    def _had(self, make: Callable[[], Any], when: str) -> Any:
        try:
            return make()
        except Exception as error:
            self._reporter.log(logging.DEBUG, "%s cannot be used", self._name, exc_info=True)
            problem = f"raised {describe(error)} when it was {when}"
            raise FrontierSetting(f"{self._name} {problem}: {_REMEDY}") from error


class _HeldBack:
    """The *file* of a filter that extends Scrapy's, which gets each row a batch of the frontier's later.

    Written at once a kill could leave there what the frontier has not: seen in every later run, and never
    fetched.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._asked: list[Any] = []  # since the last batch: perhaps it had begun before
        self._written: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, row: Any) -> None:
        self._asked.append(row)

    def written(self) -> None:
        """A batch of the frontier's is on its way to the disk."""
        for row in self._written:
            self._file.write(row)
        self._asked, self._written = [], self._asked

    def close(self) -> None:
        self.written()  # what came after the last batch is not: that may have failed
        self._file.close()


def load_class(crawler: Crawler) -> type:
    """The class of ``DUPEFILTER_CLASS``, imported. Raises `FrontierSetting`, which names the remedy, where
    that fails, whatever its module raised."""
    path = crawler.settings[_NAME]
    try:
        cls: type = load_object(path)
    except Exception as error:  # its module may raise anything
        problem = f"cannot be imported ({describe(error)})"
        raise FrontierSetting(f"{_NAME} = {path!r} {problem}: {_REMEDY}") from error
    return cls
