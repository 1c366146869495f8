"""The project's own ``DUPEFILTER_CLASS``: asked beside the frontier, and its faults are told as its own."""

from __future__ import annotations

import logging
from contextlib import contextmanager, nullcontext
from functools import partial
from io import TextIOBase
from typing import TYPE_CHECKING, Any

from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.settings import SettingsAttribute
from scrapy.utils.misc import build_from_crawler, load_object

from ..core.pages.entered_again import is_left_to_filter
from ..settings import FrontierSetting
from .codec import copied
from .in_flight import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from ..core.frontier import Frontier
    from .fingerprints import Identities
    from .log import Reporter

_NAME = "DUPEFILTER_CLASS"
_FILTERED = "dupefilter/filtered"
_REMEDY = f"mend it, or leave {_NAME} unset: the frontier needs none"


class DupeFilter:
    """The filter of `DUPEFILTER_CLASS`, open until `close`. Raises `FrontierSetting` where it cannot be had.

    The frontier does what Scrapy's own does (``is_usual``); with its base class nothing ``is_on``. What one
    that extends Scrapy's writes down lies in *directory* (`_jobdir`), and comes there behind what the
    frontier has `written` (`_HeldBack`).
    """

    def __init__(self, crawler: Crawler, reporter: Reporter, directory: Path) -> None:
        self._name = f"{_NAME} = {crawler.settings[_NAME]!r}"
        self._reporter = reporter
        cls = load_class(crawler)
        self.is_on = cls is not BaseDupeFilter
        self.is_usual = cls is RFPDupeFilter
        self._filter: Any = None
        self._file: _HeldBack | None = None
        self._asked: Request | None = None  # about which it was asked last
        self._path = directory / "requests.seen"
        self._meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext
        if isinstance(cls, type) and issubclass(cls, RFPDupeFilter):  # any callable does, to Scrapy
            self._meanwhile = partial(_jobdir, crawler.settings, directory)
        if self.is_on and not self.is_usual:
            self._filter = self._had(lambda: build_from_crawler(cls, crawler), "made")
            self._had(lambda: self._filter.open(), "opened")
            self._hold_back()
        self._crawler = crawler
        self._log = self._log_to_call()

    @property
    def is_own(self) -> bool:
        """Whether it is a filter of the project's, which is asked of each request."""
        return self._filter is not None

    @property
    def hears_of_dropped(self) -> bool:
        """Whether somebody is to hear of each request that is dropped."""
        return self._log is not None

    def filtered(self, request: Request) -> None:
        """*request* is dropped, by the filter or since its page is known: count it, and have the filter's own
        ``log`` hear of it, which may count it, too."""
        if self._log is None or not self._has_counted(request):
            self._reporter.tally[_FILTERED] += 1

    def _log_to_call(self) -> Callable[[Request, Any], object] | None:
        """The ``log`` of the filter, if it does more than Scrapy's, which names the first request and counts;
        None else."""
        if self.is_usual and self._crawler.settings.getbool("DUPEFILTER_DEBUG"):
            return RFPDupeFilter(debug=True).log
        log = getattr(self._filter, "log", None)
        function = getattr(log, "__func__", log)
        if function is RFPDupeFilter.log and not getattr(self._filter, "debug", False):
            return None
        return log if callable(log) and function is not BaseDupeFilter.log else None

    def _has_counted(self, request: Request) -> bool:
        """Have the ``log`` of the filter hear of *request*; whether it has counted that."""
        stats, spider = self._crawler.stats, self._reporter.spider
        assert self._log is not None
        before = stats and stats.get_value(_FILTERED)
        try:
            self._log(request, spider)
        except Exception as error:
            words = "%s raised %s for %s, which is filtered all the same: mend its log (said once)"
            about = self._name, describe(error), request
            self._reporter.log_once(f"{_NAME} log", logging.ERROR, words, *about, exc_info=True)
        return bool(stats) and stats.get_value(_FILTERED) != before

    def for_spiders(
        self, identities: Identities, frontier: Frontier, clean: Callable[[str], str]
    ) -> BaseDupeFilter:
        """What spiders find as that of the scheduler: the filter, or what stands in for Scrapy's own. *clean*
        gives the URL that a link is queued by."""
        if not self.is_on:
            return BaseDupeFilter()
        return KnownPages(identities, frontier, clean) if self._filter is None else self._filter

    def drops(self, request: Request, fingerprint: bytes, frontier: Frontier) -> bool:
        """Whether *request* is dropped since the filter has seen it; it takes note of it.

        Not one for a page that *frontier* has by its *fingerprint*: that knows what has to be fetched again.
        False where there is no filter to be asked. A lookup or two where it has seen the request.
        """
        if self._filter is None or request.dont_filter or not self._seen(request):
            return False
        known = frontier.find(fingerprint)
        return is_left_to_filter(None if known is None else frontier.page(known))

    def took(self, request: Request) -> None:
        """The frontier has *request* in its queue, and is about to write it: what the filter noted of it is
        kept, too."""
        if self._file is not None and request is self._asked:
            self._file.keep()

    def _hold_back(self, size: int | None = None) -> None:
        """Hold back what the filter writes from now on, if its file is open, and what is beyond *size*."""
        opened = getattr(self._filter, "file", None) if isinstance(self._filter, RFPDupeFilter) else None
        if self._file is None and opened is not None:
            self._file = _HeldBack(opened)
            if size is not None and str(getattr(opened, "name", "")) == str(self._path):
                self._file.take_back(size)
            setattr(self._filter, "file", self._file)  # noqa: B010 - it has the type of a file

    def _seen(self, request: Request) -> bool:
        """Whether the filter has seen *request*. Where it raises, nobody has: better twice than never."""
        self._asked = request
        if self._file is not None:
            self._file.forget()
        try:
            with self._meanwhile():
                size = self._path.stat().st_size if self._file is None and self._path.exists() else 0
                try:
                    return bool(self._filter.request_seen(request))
                finally:  # some open their file when they are asked first
                    self._hold_back(size)
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
            with self._meanwhile():
                self._filter.close(reason)
        except Exception as error:
            words = "%s raised %s when it was closed: mend its close"
            self._reporter.log(logging.ERROR, words, self._name, describe(error), exc_info=True)

    def _had(self, make: Callable[[], Any], when: str) -> Any:
        try:
            with self._meanwhile():
                return make()
        except Exception as error:
            self._reporter.log(logging.DEBUG, "%s cannot be used", self._name, exc_info=True)
            problem = f"raised {describe(error)} when it was {when}"
            raise FrontierSetting(f"{self._name} {problem}: {_REMEDY}") from error


class KnownPages(BaseDupeFilter):
    """Stands in for Scrapy's dupe filter where spiders look at that (``engine._slot.scheduler.df``): the
    frontier says what it has seen. Nothing that is done to it is done to the frontier."""

    def __init__(self, identities: Identities, frontier: Frontier, clean: Callable[[str], str]) -> None:
        self._identities, self._clean = identities, clean
        self.fingerprints: set[str] = _Fingerprints(frontier)

    def request_seen(self, request: Request) -> bool:
        """Whether the frontier knows the page of *request*, which it takes no note of. A lookup; False once
        the frontier is closed."""
        return self.request_fingerprint(request) in self.fingerprints

    def request_fingerprint(self, request: Request) -> str:
        """As Scrapy's filter has it: in hex. That of a link as it would be queued, unless the page of just
        this URL is known, as those of seeds and redirects are."""
        own, clean = self._identities.of(request).hex(), self._clean(request.url)
        if clean == request.url or request.method != "GET" or request.body or own in self.fingerprints:
            return own
        return self._identities.of(copied(request, clean)).hex()


class _Fingerprints(set[str]):
    """Those of the pages that the frontier knows, which are looked up there, and counted. A set, since
    spiders were written for one; it has no members to go through."""

    def __init__(self, frontier: Frontier) -> None:
        super().__init__()
        self._frontier = frontier

    def __len__(self) -> int:
        return self._frontier.totals().known

    def __contains__(self, fingerprint: object) -> bool:
        if super().__contains__(fingerprint):  # the spider has added it
            return True
        try:
            return self._frontier.find(bytes.fromhex(str(fingerprint))) is not None
        except Exception:  # no hex, or of LevelDB, which says that it is closed in more than one way
            return False


class _HeldBack:
    """The *file* of a filter that extends Scrapy's, which gets each row a batch of the frontier's later, and
    none of a request that the frontier did not take, or has in memory alone.

    Else that could be there and not in the frontier, after a kill, say: seen in every later run, and never
    fetched.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._noted: list[Any] = []  # of the request that the filter was asked about last
        self._kept: list[Any] = []  # since the last batch: perhaps it had begun before
        self._written: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, row: Any) -> None:
        self._noted.append(row)

    def take_back(self, size: int) -> None:
        """What the file has beyond *size* bytes was noted of the request that is asked about."""
        self._file.flush()
        with open(self._file.name, "rb+") as file:
            file.seek(size)
            noted = file.read()
            file.truncate(size)
        is_text = isinstance(self._file, TextIOBase)
        self._noted = [noted.decode() if is_text else noted]

    def keep(self) -> None:
        """What was noted last is to be written."""
        self._kept += self._noted
        self.forget()

    def forget(self) -> None:
        """What was noted last is not to be written, unless it was kept."""
        self._noted = []

    def written(self) -> None:
        """A batch of the frontier's is on its way to the disk."""
        for row in self._written:
            self._file.write(row)
        self._kept, self._written = [], self._kept

    def close(self) -> None:
        self.written()  # what came after the last batch is not: that may have failed
        self._file.close()


@contextmanager
def _jobdir(settings: BaseSettings, directory: Path) -> Iterator[None]:
    """Have *settings* say meanwhile that the JOBDIR, if there is one, is *directory*: the ``requests.seen``
    of a filter lies there, however it comes to its path, and goes with the frontier.

    In the JOBDIR it would outlive that and be that of all spiders: what it names none of them would fetch,
    nor what a crawl without a frontier had left there.
    """
    if not settings.get("JOBDIR"):
        yield
        return
    attributes = settings.attributes  # they are frozen, and spiders have the same object
    kept = attributes["JOBDIR"]
    attributes["JOBDIR"] = SettingsAttribute(str(directory), kept.priority)
    try:
        yield
    finally:
        attributes["JOBDIR"] = kept


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
