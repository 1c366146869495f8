"""Shards behind the verbs of one frontier, on LevelDB alone."""

from __future__ import annotations

from collections import Counter
from inspect import signature
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from web import NOW, Crawl, link_to, make_web

from scrapy_frontier.core.frontier import Event, Frontier, LinkVerdict, Outcome
from scrapy_frontier.core.store.keys import LAST_BATCH, OUTBOX
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.shared.letters import Order, PostedLink, Ranks, posted_link, unpack
from scrapy_frontier.shared.letters import pack as pack_letter
from scrapy_frontier.shared.outbox import Outbox, compress, decompress, pack, unpack_rows
from scrapy_frontier.shared.outbox import unpack as unpack_batch
from scrapy_frontier.shared.shards import ID_BITS, Shards, shard_of_domain

if TYPE_CHECKING:
    from pathlib import Path


def test_a_domain_always_falls_to_the_same_shard() -> None:
    """Vectors: a crawl goes on with the same shards for ever."""
    vectors = {"example.com": 1, "example.org": 2, "scrapy.org": 1, "python.org": 1}
    assert {name: shard_of_domain(name, 16) for name in vectors} == vectors
    counts = Counter(shard_of_domain(f"site{n}.example", 16) for n in range(16_000))
    assert len(counts) == 16
    assert max(counts.values()) < 1.2 * min(counts.values())


def test_every_page_of_a_web_is_fetched_once(tmp_path: Path) -> None:
    web, fetched, carried = make_web(12, 20, 1), Counter[str](), dict[int, int]()
    crawl = Crawl(tmp_path, 4, fetched)
    crawl.shards.discover_one(link_to("http://site0.example/0", is_named=True), NOW)
    crawl.shards.commit()
    while crawl.step(web) or crawl.carry_letters(carried):
        pass
    assert fetched == Counter(web.keys())
    hosts = {
        n: {url.split("/")[2] for url in web if crawl.shards.shard_of(url.split("/")[2]) == n}
        for n in range(4)
    }
    for n, (frontier, _) in crawl.shards.open.items():
        assert frontier.totals().states["done"] == 20 * len(hosts[n])
    crawl.kill()


def test_no_page_is_promised_while_none_may_be_handed_out(tmp_path: Path) -> None:
    """Else a crawl would ask again and again for as long as its database is away."""
    crawl = Crawl(tmp_path, 4, Counter())
    crawl.shards.discover_one(link_to("http://site0.example/0", is_named=True), NOW)
    assert crawl.shards.wake_at() is not None
    crawl.shards.may_hand_out = lambda: False
    assert crawl.shards.lease(NOW) is None
    assert crawl.shards.wake_at() is None
    crawl.kill()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_by_kills(tmp_path: Path, seed: int) -> None:
    """Only pages under way at a kill are fetched again: none here, for each is released at once."""
    web, fetched, carried = make_web(12, 20, seed), Counter[str](), dict[int, int]()
    crawl = Crawl(tmp_path, 4, fetched)
    crawl.shards.discover_one(link_to("http://site0.example/0", is_named=True), NOW)
    crawl.shards.commit()
    steps = 0
    while crawl.step(web) or crawl.carry_letters(carried):
        steps += 1
        if steps % 17 == 0:
            crawl.kill()
            crawl = Crawl(tmp_path, 4, fetched)
            # What a flush did not acknowledge may arrive twice.
            carried = {n: max(number - 2, 0) for n, number in carried.items()}
    assert fetched == Counter(web.keys())
    crawl.kill()


def test_a_copy_from_the_outbox_has_the_same_rows(tmp_path: Path) -> None:
    web, fetched, carried = make_web(6, 20, 1), Counter[str](), dict[int, int]()
    crawl = Crawl(tmp_path / "original", 2, fetched)
    crawl.shards.discover_one(link_to("http://site0.example/0", is_named=True), NOW)
    crawl.shards.commit()
    while crawl.step(web) or crawl.carry_letters(carried):
        run = crawl.shards.rank_due()
        if run is not None:
            for _ in crawl.shards.rank_steps(run, run.compute(lambda: False, lambda: 0.0), lambda: 0.0):
                pass
            run.close()
    for n, (frontier, outbox) in crawl.shards.open.items():
        frontier.end_run()
        copy: dict[bytes, bytes] = {}
        packed = [batch.rows for _, batch in outbox.batches(0, 1 << 20, 1 << 30)]
        for key, value in decompress(compress(packed)):
            if value is None:
                copy.pop(key, None)
            else:
                copy[key] = value
        with_own = dict(outbox.store.scan(b""))
        original = {key: value for key, value in with_own.items() if key[:1] != OUTBOX and key != LAST_BATCH}
        missing = {key for key in original if key not in copy}
        assert missing == {b"mformat", b"mscheme"}  # written before the first batch
        assert copy == {key: value for key, value in original.items() if key in copy}
        assert n in (0, 1)
    crawl.kill()


def test_a_ranking_counts_what_pages_of_other_shards_pay(tmp_path: Path) -> None:
    """All pages of shard 0 link to one of the 40 that shard 1 knows: it comes first there once both have
    ranked. What was told is not told again, not after a kill either."""
    names = {shard_of_domain(f"site{n}.example", 2): f"http://site{n}.example" for n in range(12)}
    web = {f"{names[0]}/{page}": [f"{names[1]}/25"] for page in range(40)}
    web[f"{names[0]}/0"] += [f"{names[0]}/{page}" for page in range(1, 40)]
    web[f"{names[1]}/0"] = [f"{names[1]}/{page}" for page in range(1, 40)]
    crawl, carried = Crawl(tmp_path, 2, Counter()), dict[int, int]()
    for n, steps in ((1, 1), (0, 40)):
        crawl.shards.leaving = {1 - n}
        crawl.shards.discover_one(link_to(f"{names[n]}/0", is_named=True), NOW)
        assert all(crawl.step(web) for _ in range(steps))
    assert crawl.carry_letters(carried) == 1
    for letters in (1, 0):
        crawl.rank(0)
        assert crawl.carry_letters(carried) == letters
    crawl.rank(1)
    crawl.kill()
    crawl = Crawl(tmp_path, 2, Counter())
    crawl.rank(0)
    assert crawl.carry_letters(carried) == 0
    crawl.rank(1)
    lease = crawl.shards.open[1].frontier.lease(crawl.now)
    assert lease is not None
    assert lease.page.url == f"{names[1]}/25"
    crawl.kill()


def test_a_link_that_cannot_be_stored_is_refused_elsewhere(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, 4, Counter())
    seed = link_to("http://site0.example/0", is_named=True)
    answer = crawl.shards.discover_one(seed, NOW)
    assert answer.verdict is LinkVerdict.NEW
    assert answer.page_id is not None
    assert answer.page_id >> ID_BITS == crawl.shards.shard_of("site0.example")
    lease = crawl.shards.lease(NOW)
    assert lease is not None
    others = [f"http://site{n}.example/0" for n in range(12)]
    foreign = next(url for url in others if crawl.shards.shard_of(url.split("/")[2]) != lease.shard)
    link = link_to(foreign)
    link.facts = link.facts._replace(is_in_memory=True)
    refused = crawl.shards.discover_one(link, NOW, lease)
    assert (refused.verdict, refused.kind) == (LinkVerdict.REFUSED, "foreign")
    crawl.kill()


def test_a_page_of_another_shard_that_was_only_seen_is_posted_once_it_is_wanted(tmp_path: Path) -> None:
    """One dropped as too deep, say, and then found by a shorter way."""
    crawl, carried = Crawl(tmp_path, 4, Counter()), dict[int, int]()
    crawl.shards.discover_one(link_to("http://site0.example/0", is_named=True), NOW)
    own = crawl.shards.shard_of("site0.example")
    names = (f"site{n}.example" for n in range(12))
    foreign = next(f"http://{name}/0" for name in names if crawl.shards.shard_of(name) != own)
    crawl.shards.discover([link_to(f"http://site0.example/{page}") for page in range(1, 4)], NOW)
    for page in range(4):
        lease = crawl.shards.lease(NOW + page)
        assert lease is not None
        link = link_to(foreign)
        link.only_seen = "" if page else "out of scope"
        crawl.shards.discover([link], NOW, lease)
        crawl.shards.release(lease, Outcome(Event.FETCHED, 200, has_links=True), NOW + page)
        assert crawl.carry_letters(carried) == (page == 1)
    crawl.kill()


def test_what_began_before_a_shard_was_lost_does_not_end_in_the_one_taken_again(tmp_path: Path) -> None:
    crawl, url = Crawl(tmp_path, 1, Counter()), "http://site0.example"
    crawl.shards.discover([link_to(f"{url}/{page}") for page in range(2)], NOW)
    assert crawl.shards.begin_side_request("site0.example", NOW) == 0
    expired = crawl.shards.lease(NOW)
    assert expired is not None
    later = NOW + 7200
    crawl.shards.open[0].frontier.lease(later)  # the first has expired, and belongs to no shard any more
    crawl.kill()
    crawl = Crawl(tmp_path, 1, Counter())
    shards, lease = crawl.shards, crawl.shards.lease(later)
    assert lease is not None
    assert lease.id == expired.id
    shards.end_side_request("site0.example", later)
    assert shards.release(expired, Outcome(Event.FETCHED, 200), later).is_late
    assert not shards.release(lease, Outcome(Event.FETCHED, 200), later).is_late
    assert shards.begin_side_request("site0.example", later) == 0
    crawl.kill()


@given(
    rows=st.dictionaries(st.binary(max_size=20), st.none() | st.binary(max_size=20)),
    mail=st.lists(st.tuples(st.integers(0, 1000), st.binary(max_size=30))),
    taken=st.lists(st.integers(0, 2**63 - 1)),
)
@settings(max_examples=100)
def test_batches_come_back_as_they_were(
    rows: dict[bytes, bytes | None], mail: list[tuple[int, bytes]], taken: list[int]
) -> None:
    packed = unpack_batch(pack(rows, mail, taken))
    assert dict(unpack_rows(packed.rows)) == rows
    assert (packed.mail, packed.taken) == (mail, taken)


def test_letters_come_back_as_they_were() -> None:
    link = link_to("http://site1.example/0", is_named=True)
    link.priority, link.anchor, link.visit_payload = -5, "a word \ud800", b'{"body":"\xed\xa0\x80"}'
    posted, payload = posted_link(link, 0.25), '{"body":"\ud800"}'
    assert posted == PostedLink(link.url, -5, payload, link.anchor, 0.25, None, True, False)
    ranks = Ranks({"01" * 20: 2.5, "02" * 60: -0.125})
    for letter in (posted, ranks, Order("block", {"host": "site1.example"})):
        assert unpack(pack_letter(letter)) == letter


def test_an_outbox_with_a_gap_does_not_follow(tmp_path: Path) -> None:
    store = Store(tmp_path, "scheme")
    outbox = Outbox(store)

    def write_batches(count: int) -> None:
        for _ in range(count):
            rows: dict[bytes, bytes | None] = {b"p": b"1"}
            outbox.add_to(rows)
            store.write(rows)
            outbox.was_written()

    write_batches(3)
    assert [outbox.follows(sent) for sent in (0, 1, 3, 4)] == [True, True, True, False]
    store.write({b"z" + (2).to_bytes(8, "big"): None})
    assert [Outbox(store).follows(sent) for sent in (0, 1, 2, 3)] == [False, False, True, True]
    write_batches(2500)
    outbox.drop(2502)
    assert [number for number, _ in outbox.batches(0, 10, 1000)] == [2503]
    store.close()


def test_an_outbox_without_batches_has_none_to_drop(tmp_path: Path) -> None:
    """As in a copy that was loaded: a million deletions would be written otherwise."""
    store = Store(tmp_path, "scheme")
    store.write({LAST_BATCH: (5000).to_bytes(8, "big")})
    files = {path: path.stat().st_size for path in tmp_path.rglob("*.log")}
    Outbox(store).drop(5000)
    assert {path: path.stat().st_size for path in tmp_path.rglob("*.log")} == files
    store.close()


def test_shards_have_every_verb_that_a_crawl_calls() -> None:
    """With the same arguments; those that only commands, the server and tests call are listed."""
    elsewhere = (
        "abort best_head block clock close end_run forget forget_host is_loaded is_refilling leases "
        "next_page order_delay owed rank_now scorer unblock waiting_for_room was_clean"
    )
    verbs = {name for name in vars(Frontier) if not name.startswith("_")}
    assert verbs - set(vars(Shards)) == set(elsewhere.split()) & verbs
    for name in verbs & set(vars(Shards)) - {"commit"}:
        ours, theirs = getattr(Shards, name), getattr(Frontier, name)
        if callable(theirs):
            assert list(signature(ours).parameters) == list(signature(theirs).parameters), name
