"""The part of one process in a shared crawl: it opens and closes shards, takes letters in, and learns when
the whole crawl has ended.

Everything here runs in the thread of the crawl; `shared.process` speaks with the database in another.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import UsageError
from scrapy.utils.misc import load_object

from ..core import reasons
from ..core.pages.leases import Outcome
from ..core.store.keys import FORMAT_VERSION
from ..core.transitions import Event
from ..settings import DOMAIN, HOST, FrontierSetting
from ..shared.copies import Copies
from ..shared.database import Database, SharedCrawlError
from ..shared.process import Process
from ..shared.shards import Open, Shards
from . import scrapy_internals
from .clock import boot_time
from .politeness_key import registered_domain, suffixes_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier, Lease
    from ..settings import FrontierSettings
    from ..shared.database import Mail
    from ..shared.outbox import Outbox
    from .in_flight import ActiveRequests

logger = logging.getLogger(__name__)

MOUNTS = Path("/proc/mounts")
TICK = 0.1  # seconds
TELL = 0.5  # seconds between two times that each shard's state is told: .5 ms for 16 shards
MAIL_TIME = 0.02  # seconds of a tick that mail may take, and a step or two more
SEEDS_LOOK = 0.2  # seconds between two looks at which process passes the seeds on
LONGEST = 180.0  # seconds that a request may last if DOWNLOAD_TIMEOUT is 0
NOT_HEARD_OF = "the shared crawl's database did not answer, or another process has its shard"


class SharedCrawl:
    """Takes part in the shared crawl that *settings* name, with copies in *directory*.

    *open_frontier* makes the frontier of a shard. Raises `SharedCrawlError`, and `FrontierSetting` for what
    does not go together with a shared crawl.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: FrontierSettings,
        directory: Path,
        scheme: str,
        clock: Callable[[], float],
        open_frontier: Callable[[Outbox], Frontier],
    ) -> None:
        assert settings.shared is not None
        _refuse(settings, crawler, directory)
        self._crawler, self._clock, self._open_frontier = crawler, clock, open_frontier
        self._patience, self._directory = settings.end_wait, directory
        self.shards = Shards(settings.shards, registered_domain)
        assert crawler.spider is not None
        crawl = settings.crawl or crawler.spider.name
        self._timeout = crawler.settings.getfloat("DOWNLOAD_TIMEOUT") or LONGEST
        copies = Copies(directory / "shards", scheme, settings.shards)
        lease = self._timeout + settings.patience
        self._process = Process(Database(settings.shared, crawl), copies, boot_time, lease, settings.patience)
        about = {
            "store format": FORMAT_VERSION,
            "shards": settings.shards,
            "key scheme": scheme,
            "FRONTIER_POLITENESS_KEY": settings.politeness_key,
            "FRONTIER_SCORER": settings.scorer,
            "public suffix list": suffixes_digest(),
        }
        self._process.join_crawl(about)
        self.shards.may_hand_out = self._process.is_in_time
        self._run = self._process.look.run
        self._begun: tuple[Mail, Open | None, Iterator[object]] | None = None  # the letter being taken in
        self._told_at = 0.0
        self._timer: Any = None

    def check_sending(self, request: Request, active_requests: ActiveRequests) -> None:
        """Raise what *request* ends with if it may not be sent: the database did not answer lately, or the
        shard of its page was lost since it was handed out. The page of a robots.txt is the one that needs it.

        Cuts the time limit of the request to ``DOWNLOAD_TIMEOUT``, because the lease has to last longer.
        """
        page = request.page if isinstance(request, scrapy_internals.SideRequest) else request
        active = None if page is None else active_requests.get(page)
        if self._process.is_in_time() and (active is None or self._has(active.lease)):
            timeout = request.meta.get("download_timeout")
            request.meta["download_timeout"] = min(timeout or self._timeout, self._timeout)
            return
        reason = reasons.NOT_SENT(cause=NOT_HEARD_OF)
        if active is None or page is not request:
            raise OSError(reason)
        raise active.ends_silently(Outcome(Event.POSTPONED, reason=reason))

    def _has(self, lease: Lease) -> bool:
        """Whether this process has had the shard of *lease* ever since that was granted."""
        shard = self.shards.open.get(lease.shard)
        return shard is not None and not shard.outbox.is_lost

    def begin(
        self,
        take_in: Callable[[Shards, int, bytes], Iterator[object]],
        loaded: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Begin to follow what the process does. *take_in* gets the letters to a shard; *loaded* is called
        when there is a new shard to load; errors go to *failed*."""
        self._take_in, self._loaded, self._failed = take_in, loaded, failed
        self._timer = scrapy_internals.create_looping_call(self._tick)
        self._timer.start(TICK)

    def _tick(self) -> None:
        try:
            self._follow()
        except Exception as error:  # a looping call that raises is never called again
            self._failed(error)

    def _follow(self) -> None:
        process, shards = self._process, self.shards
        if process.error is not None:
            raise SharedCrawlError(f"the shared crawl cannot go on here: {process.error}") from process.error
        shards.leaving = process.handing_over & shards.open.keys()
        for n, (frontier, outbox) in list(shards.open.items()):
            if outbox.is_lost or (n in shards.leaving and not frontier.leased):
                self._finish(n)
        # After the end of lost shards, of which one may be here again. One a tick, as it takes some 20 ms.
        if not process.gained.empty():
            self._gain(*process.gained.get())
        touched = self._take_mail()
        for n in touched:
            shards.open[n].frontier.commit(is_needed=True)  # it notes which letters were taken in
        self._tell_state()
        look = process.look
        if look.ended or look.run != self._run:  # the next may begin right behind it
            shards.is_over = True
        if touched or shards.is_over:
            scrapy_internals.wake(self._crawler)

    def _gain(self, n: int, outbox: Outbox) -> None:
        if outbox.is_lost:  # meanwhile
            outbox.is_finished = True
            return
        outbox.is_open = True
        self.shards.add(n, Open(self._open_frontier(outbox), outbox))
        self._loaded()
        scrapy_internals.wake(self._crawler)

    def _finish(self, n: int) -> None:
        """Stop working on shard *n*, and write its open batch unless the shard was lost."""
        frontier, outbox = self.shards.remove(n)
        if not outbox.is_lost:
            outbox.totals = _told(frontier)
            frontier.end_run()
        outbox.is_finished = True

    def _take_mail(self) -> set[int]:
        """Take letters in for a while; returns the shards of those that are done.

        What `add` and `requeue` change is written in one batch with the end of their letter, so that no kill
        repeats them. All other letters do no harm if the next owner of the shard begins them anew.
        """
        done: set[int] = set()
        until = time.perf_counter() + MAIL_TIME
        while time.perf_counter() < until and (self._begun or not self._process.letters.empty()):
            if self._begun is None:
                letter = self._process.letters.get()
                n = letter.to_shard
                self._begun = letter, self.shards.open.get(n), self._take_in(self.shards, n, letter.rows)
            (letter, shard, steps), self._begun = self._begun, None
            try:
                if shard is not None and self.shards.open.get(letter.to_shard) is shard:
                    # A letter of one step is never interrupted between the step and its end.
                    for count, _ in enumerate(steps):
                        if count and time.perf_counter() >= until:
                            self._begun = letter, shard, steps
                            return done
                    shard.outbox.took(letter.id)
                    done.add(letter.to_shard)
            except (UsageError, KeyError, TypeError, ValueError) as error:
                words = "Letter %d to shard %d cannot be read, and is set aside: %r"
                logger.error(words, letter.id, letter.to_shard, error)
                self._process.unreadable.put(letter)
        return done

    def _tell_state(self) -> None:
        """Tell the other thread of each shard whether it is idle, and what it holds."""
        if time.monotonic() < self._told_at + TELL:
            return
        self._told_at, now = time.monotonic(), self._clock()
        for n, (frontier, outbox) in self.shards.open.items():
            frontier.commit()
            outbox.idle_as_of = outbox.last if self.shards.is_idle(n, now, self._patience) else -1
            outbox.totals = _told(frontier)

    # -- seeds -----------------------------------------------------------------------------------------

    async def passes_seeds(self) -> bool:
        """Whether this process passes its seeds on: it has shard 0, in a run whose seeds are not known yet.
        Waits until that is decided."""
        while not self.shards.is_over:
            if self._process.look.seeded:
                return False
            if 0 in self.shards.open:
                return True
            await scrapy_internals.sleep(SEEDS_LOOK)
        return False

    def seeds_ended(self) -> None:
        """Say that all seeds have been passed on."""
        if 0 in self.shards.open:
            self.shards.commit()
            self._process.seeds_in = {n: outbox.last for n, (_, outbox) in self.shards.open.items()}

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the crawl; other processes may have the shards at once if all was sent in time."""
        if self._timer is not None and self._timer.running:
            self._timer.stop()
        for n in list(self.shards.open):
            self._finish(n)
        if not self._process.leave():
            logger.warning(
                "Not all of this process could be sent to the database of the shared crawl: the rest is in "
                "%s, and the next process there sends it",
                self._directory,
            )


def _told(frontier: Frontier) -> str:
    """Return the counts of *frontier* as JSON, for the row of its shard."""
    return json.dumps(frontier.totals()._asdict())


def _refuse(settings: FrontierSettings, crawler: Crawler, directory: Path) -> None:
    """Raise `FrontierSetting` for what does not go together with a shared crawl."""
    key, dupe_filter = settings.politeness_key, crawler.settings["DUPEFILTER_CLASS"]
    has_addon = scrapy_internals.has_middleware(crawler, "FrontierSpiderMiddleware")
    refusals = {
        f"FRONTIER_POLITENESS_KEY = {key!r}: set {HOST!r} or {DOMAIN!r}": key not in (HOST, DOMAIN),
        "FRONTIER_CLOCK is for simulations: unset it": settings.clock is not None,
        f"DUPEFILTER_CLASS = {dupe_filter!r} knows only the requests of its own process: unset it": (
            load_object(dupe_filter) not in (RFPDupeFilter, BaseDupeFilter)
        ),
        'A shared crawl needs the add-on: set ADDONS = {"scrapy_frontier.Addon": 500}': not has_addon,
        f"{directory} is on a network file system, where a lock proves nothing: set FRONTIER_DIR to a "
        "directory of this machine": is_on_network(directory),
    }
    for why, is_so in refusals.items():
        if is_so:
            raise FrontierSetting(f"{why}, or unset FRONTIER_SHARED")


def is_on_network(directory: Path, mounts: Path = MOUNTS) -> bool:
    """Return whether *directory*, which need not exist, is on NFS or SMB by the list of *mounts*; False if
    there is none."""
    if not mounts.exists():
        return False
    lines = mounts.read_text(errors="replace").splitlines()
    kinds = {place: kind for _, place, kind, *_ in map(str.split, lines)}
    path = directory.resolve()
    nearest = next((str(each) for each in (path, *path.parents) if str(each) in kinds), "")
    return kinds.get(nearest, "").startswith(("nfs", "cifs", "smb"))
