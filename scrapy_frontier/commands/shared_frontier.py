"""A shared crawl as commands see it: copies of its shards to look at, and letters to steer it by."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from scrapy.exceptions import UsageError

from ..core.store.keys import ID_BITS, MAX_ID, PageId
from ..crawl.control import Added, requests_of_hosts
from ..crawl.directory import open_store
from ..crawl.orders import PAGES_AT_ONCE
from ..crawl.politeness_key import registered_domain
from ..live.client import RemoteEdits, told_place
from ..shared.copies import Copies, follow
from ..shared.database import Database
from ..shared.letters import Order, pack
from ..shared.shards import shard_of_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ..core.store.leveldb import Store
    from ..core.store.queue_keys import QueuePlace
    from ..settings import FrontierSettings

T = TypeVar("T")


class SharedFrontier(RemoteEdits):
    """The shared crawl *name*: its shards are read from the journal, into copies below *directory*, and
    changed by letters to their owners. The ids of its pages name their shards.

    *politeness_key_of* returns the name of the queue of a URL; *user* is what uses the frontier, in words.
    All methods raise `SharedCrawlError` if the database cannot be asked.
    """

    def __init__(
        self,
        settings: FrontierSettings,
        name: str,
        directory: Path,
        politeness_key_of: Callable[[str], str],
        user: str,
    ) -> None:
        assert settings.shared is not None
        self._settings, self._politeness_key_of, self._user = settings, politeness_key_of, user
        self.database = Database(settings.shared, name)
        with self.database.asking() as database:
            about = database.about()
            if not about:
                words = "the database has no shared crawl {!r}: write --spider NAME, or set FRONTIER_CRAWL"
                raise UsageError(words.format(name))
            rows = database.all_shards()
        self.shards, self._scheme = int(str(about["shards"])), str(about["key scheme"])
        self._copies = Copies(directory / "read", self._scheme, self.shards)
        self._copies.remove_others(rows)

    def shard_of(self, host: str) -> int:
        """Returns the shard of a host."""
        return shard_of_domain(registered_domain(host), self.shards)

    def state(self) -> str:
        """Returns in words how far the crawl is."""
        with self.database.asking() as database:
            (run, seeded, ended), count = database.run_of(), len(database.processes())
        state = "has ended" if ended else "goes on" if seeded else "has not all its seeds yet"
        return f"run {run} {state}, {count or 'no'} process{'' if count == 1 else 'es'} in it"

    @contextmanager
    def open(self, n: int, scheme: str) -> Iterator[Store]:
        """Yields a copy of shard *n* as the database has it now. A first one takes 5 to 10 s for a million
        URLs; it stays, and only what came since is read by the next command.

        *scheme* as for `Store`. Raises what that does, `FrontierLocked` while another command reads the same
        copy.
        """
        with self.database.asking() as database:
            copy = database.shard(n).copy or UUID(int=0)
            path, is_whole = self._copies.path(n, copy), False
            while not is_whole:
                with closing(open_store(path, self._scheme, user=self._user)) as store:
                    is_whole = follow(database, n, store)
                if not is_whole:
                    self._copies.remove(n, copy)
        with closing(open_store(path, scheme, user=self._user)) as store:
            yield store

    # -- orders ----------------------------------------------------------------------------------------

    def call(self, name: str, **arguments: Any) -> Any:
        """Posts an order to the shard of a ``host``; to all shards if its pages are to be forgotten, because
        any of them may lead to some."""
        is_for_all, own = name == "forget_host", self.shard_of(arguments["host"])
        self._post(name, [(n, arguments) for n in (range(self.shards) if is_for_all else [own])])
        return 0

    def _post(self, name: str, orders: Iterable[tuple[int, dict[str, Any]]]) -> None:
        """Posts orders to shards, with the arguments of each; all or none."""
        with self.database.asking() as database:
            database.post((n, pack(Order(name, arguments))) for n, arguments in orders)

    def add(
        self, urls: Iterable[str], priority: int = 0, pattern: str | None = None, force: bool = False
    ) -> Added:
        """Has the pages of *urls* queued; counts all as new."""
        requests, refused = requests_of_hosts(urls, self._settings)
        wanted = [(self.shard_of(self._politeness_key_of(each.url)), each.url) for each in requests]
        how = {"priority": priority, "pattern": pattern, "force": force}
        size = 1 if force or pattern else PAGES_AT_ONCE  # what one batch takes in
        self._post("add", [(n, {"urls": some, **how}) for n, some in _by_shard(wanted, size)])
        return Added(len(wanted), 0, refused)

    def requeue(self, page_ids: Iterable[PageId], force: bool = False) -> int:
        """Has pages queued again; returns how many."""
        wanted = [(each >> ID_BITS, each & MAX_ID) for each in page_ids]
        parts = _by_shard(wanted, PAGES_AT_ONCE)
        self._post("requeue", [(n, {"pages": some, "force": force}) for n, some in parts])
        return len(wanted)

    def forget(self, page_id: PageId, place: QueuePlace | None = None) -> bool:
        """Has all that is known of a page removed."""
        self._post("forget", [(page_id >> ID_BITS, {"page": page_id & MAX_ID, "place": told_place(place)})])
        return True


def _by_shard(wanted: Iterable[tuple[int, T]], most: int) -> Iterator[tuple[int, list[T]]]:
    """Yields the shard and a part of what is *wanted*, which names the shard of each; at most so much a
    part."""
    shards = defaultdict[int, list[T]](list)
    for n, each in wanted:
        shards[n].append(each)
    for n, every in shards.items():
        for at in range(0, len(every), most):
            yield n, every[at : at + most]
