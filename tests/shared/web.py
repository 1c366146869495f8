"""A small web without HTTP, and a crawl of it by shards on LevelDB alone: letters are carried by hand."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from scrapy_frontier.core.frontier import Event, Frontier, FrontierOptions, Link, Outcome
from scrapy_frontier.core.parse.urls import host_of
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.shared.letters import PostedLink, Ranks, unpack
from scrapy_frontier.shared.outbox import Outbox
from scrapy_frontier.shared.scorer import ShardScorer
from scrapy_frontier.shared.shards import Open, Shards

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000.0


def make_web(sites: int, pages: int, seed: int) -> dict[str, list[str]]:
    """Links by URL: within a site, and to others; every page can be reached from the first of any site."""
    rng = random.Random(seed)
    urls = [[f"http://site{site}.example/{page}" for page in range(pages)] for site in range(sites)]
    every = [url for site in urls for url in site]
    web = {url: rng.sample(every, 4) for url in every}
    for site, own in enumerate(urls):
        for page, url in enumerate(own):
            web[url].append(own[(page + 1) % pages])
        web[own[0]].append(urls[(site + 1) % sites][0])
    return web


def link_to(url: str, is_named: bool = False) -> Link:
    host = host_of(url)
    return Link(url.encode().rjust(60, b"."), url, host, text=url, payload=b"p", is_named=is_named)


class Crawl:
    """Shards in *directory*, as after a start or a kill; ``fetched`` goes on over kills."""

    def __init__(self, directory: Path, shards: int, fetched: dict[str, int]) -> None:
        self.directory, self.fetched = directory, fetched
        self.shards = Shards(shards, lambda host: host)
        self.now = NOW
        for n in range(shards):
            store = Store(directory / f"{n}", "scheme")
            outbox = Outbox(store)
            options = FrontierOptions(
                before_commit=outbox.add_to,
                on_commit=outbox.was_written,
                scorer=ShardScorer(),
                part=shards,
            )
            self.shards.add(n, Open(Frontier(store, self.now, options), outbox))
        while not self.shards.load(self.now):
            pass

    def carry_letters(self, carried: dict[int, int]) -> int:
        """Take each letter of a batch that was written to its shard, once; *carried* has how far it came."""
        count = 0
        for n, (_, outbox) in list(self.shards.open.items()):
            for number, packed in outbox.batches(carried.get(n, 0), 1000, 1 << 30):
                for to, letter in packed.mail:
                    content = unpack(letter)
                    if isinstance(content, Ranks):
                        self.shards.take_ranks(to, content)
                    else:
                        assert isinstance(content, PostedLink)
                        link = link_to(content.url)
                        link.paid = content.paid
                        assert self.shards.shard_of(link.host) == to
                        self.shards.discover_one(link, self.now)
                    self.shards.open[to].frontier.commit()
                    count += 1
                carried[n] = number
        return count

    def step(self, web: dict[str, list[str]]) -> bool:
        """Fetch a page; false if none can be had."""
        self.now += 1
        lease = self.shards.lease(self.now)
        if lease is None:
            return False
        url = lease.page.url
        self.fetched[url] = self.fetched.get(url, 0) + 1
        links = [link_to(target) for target in web[url] if not self.shards.recognize(target, lease)]
        self.shards.discover(links, self.now, lease)
        self.shards.release(lease, Outcome(Event.FETCHED, 200, has_links=True), self.now)
        return True

    def rank(self, n: int) -> None:
        """Rank the pages of shard *n* now."""
        run = self.shards.open[n].frontier.rank_now()
        run.shard = n
        for _ in self.shards.rank_steps(run, run.compute(lambda: False, lambda: 0.0), lambda: self.now):
            pass
        run.close()

    def kill(self) -> None:
        for frontier, _ in self.shards.open.values():
            frontier.abort()
