"""What is kept of sites: their robots.txt, and where their sitemaps are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import lenient
from ..store import keys, site_rows
from ..store.site_rows import RobotsCopy, SiteSitemaps, Verdict

if TYPE_CHECKING:
    from ..store.batch import Batch
    from .giving_up import GiveUpRule


class RobotsAndSitemaps:
    """The rows of sites in the store, by origin (scheme://host:port); no copy of them in memory."""

    def __init__(self, batch: Batch, rule: GiveUpRule | None) -> None:
        self._batch = batch
        self._rule = rule
        self.has_changed = bool(batch.store.keys_of(keys.ROBOTS_CHANGED, b"", 1))
        self._judged_to: dict[str, bytes] = {}  # by site, the last page that was taken since it changed

    def robots_copy(self, origin: str) -> RobotsCopy | None:
        """What is kept of the robots.txt of *origin* (scheme://host:port); one lookup. None for a row
        that cannot be read: the file is asked for again."""
        return lenient(site_rows.decode_copy, self._batch.store.get(keys.robots_key(origin)))

    def retried_sooner(self, copy: RobotsCopy, retry_after: float, now: float) -> RobotsCopy:
        """*copy*; where failed pages are asked for again soon (a `GiveUpRule`), a file that could not be read
        is asked for again as soon as a page would be, its first times. Not where the site answered 429, or
        asked for a pause itself (*retry_after* seconds; 0: it did not). No store read."""
        if self._rule is None or not 0 < copy.failures < self._rule.attempts:
            return copy
        if retry_after or copy.status == 429:
            return copy
        return copy._replace(ask_at=min(copy.ask_at, now + self._rule.pause(copy.failures)))

    def keep_robots_copy(self, origin: str, copy: RobotsCopy) -> None:
        """Keep what was learnt of a robots.txt, for the runs to come too; written before this returns.

        Where it is another file than before, or none any more, the pages it forbade are to be judged again.
        Raises `FrontierUnwritable`.
        """
        self._batch.check()
        before = self.robots_copy(origin)
        is_known = before is not None and before.verdict is not Verdict.POSTPONE
        if before is not None and is_known and (before.verdict, before.body) != (copy.verdict, copy.body):
            self.judge_again(origin)
        self._batch.rows[keys.robots_key(origin)] = site_rows.encode_copy(copy)
        self._batch.commit()

    def judge_again(self, origin: str) -> None:
        """Have the pages that the robots.txt of *origin* forbade judged again, in the open batch."""
        self._batch.rows[keys.changed_key(origin)] = b""
        self._judged_to.pop(origin, None)
        self.has_changed = True

    def changed(self) -> tuple[str, bytes] | None:
        """A site whose robots.txt has become another one, until it is `judged`, and the last of its pages
        that was taken for that; b"" for none. To be called with nothing open."""
        found = self._batch.store.keys_of(keys.ROBOTS_CHANGED, b"", 1) if self.has_changed else []
        self.has_changed = bool(found)
        origin = found[0].decode() if found else ""
        return (origin, self._judged_to.get(origin, b"")) if found else None

    def judged(self, origin: str, to: bytes | None) -> None:
        """The pages that the robots.txt of *origin* forbade are taken to be judged again *to* that one; None:
        all, and its mark goes, in the open batch."""
        if to is not None:
            self._judged_to[origin] = to
            return
        self._judged_to.pop(origin, None)
        self._batch.rows[keys.changed_key(origin)] = None

    def sitemaps_of(self, origin: str) -> SiteSitemaps:
        """What is known of the sitemaps of *origin*; one lookup. Where its row cannot be read it is
        contacted again, and finds its sitemaps known."""
        stored = self._batch.get(keys.sitemaps_key(origin))
        return lenient(site_rows.decode_sitemaps, stored) or SiteSitemaps()

    def keep_sitemaps(self, origin: str, sitemaps: SiteSitemaps) -> None:
        """Remember *sitemaps*: in one batch with what was discovered before, or a later one. Raises
        `FrontierUnwritable` where a write failed before."""
        self._batch.check()
        self._batch.rows[keys.sitemaps_key(origin)] = site_rows.encode_sitemaps(sitemaps)
