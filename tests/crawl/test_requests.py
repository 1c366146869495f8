"""What a payload says of its request, and how large the rows of a page are; no crawl."""

from __future__ import annotations

from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.request import fingerprint as scrapy_fingerprint

from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.revisits.plans import NO_FACTS, PayloadFacts
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.crawl import payloads as payload_facts
from scrapy_frontier.crawl.codec import (
    Codec,
)
from scrapy_frontier.crawl.meta_keys import UNSET
from scrapy_frontier.crawl.payloads import with_meta, without_meta
from scrapy_frontier.crawl.queued import memory_payload

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.http import Response

URL = "http://example.com/a"


class PayloadSpider(Spider):
    name = "payloads"

    def parse(self, response: Response) -> None:
        pass


class Size(IntEnum):
    LARGE = 3


SPIDER = PayloadSpider()
CODEC = Codec(SPIDER)


# -- facts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"callback": SPIDER.parse, "headers": {"Referer": URL}}, NO_FACTS),
        ({"meta": {"frontier_pattern": "method", "depth": 1}}, NO_FACTS),
        ({"method": "HEAD"}, NO_FACTS),
        ({"method": "POST"}, PayloadFacts(is_plain=False)),
        ({"body": b"x"}, PayloadFacts(is_plain=False)),
        ({"meta": {"frontier_shelf_life": 60, "frontier_refresh": 7.5}}, PayloadFacts(7.5, 60.0)),
        ({"meta": {"frontier_shelf_life": 10**400, "frontier_refresh": -1}}, NO_FACTS),
        ({"meta": {"frontier_shelf_life": "inf", "frontier_refresh": "7.5"}}, PayloadFacts(7.5, inf)),
        ({"meta": {"frontier_shelf_life": inf, "frontier_refresh": None}}, PayloadFacts(None, inf)),
        ({"meta": {"frontier_sitemap": {"depth": 0}}}, PayloadFacts(is_sitemap=True)),
        ({"meta": {"frontier_sitemap": False, "frontier_refresh": None}}, NO_FACTS),
        ({"meta": {"frontier_lastmod": 1}}, PayloadFacts(is_listed=True)),
    ],
)
def test_facts_are_read_of_what_is_written(given: dict[str, Any], facts: PayloadFacts) -> None:
    assert payload_facts.read(CODEC.encode(Request(URL, **given))) == facts


@pytest.mark.parametrize("more", [{}, {1: 2}])
@pytest.mark.parametrize(
    ("value", "is_said"), [(None, False), (False, False), (0, False), (True, True), ("0", True), (0.5, True)]
)
def test_a_key_says_the_same_in_meta_and_in_the_payload(value: Any, is_said: bool, more: Any) -> None:
    keys = {"frontier_sitemap": payload_facts.is_sitemap, "frontier_pattern": payload_facts.has_pattern}
    for key, reads in keys.items():
        meta = {**more, key: value}
        assert (meta.get(key) not in UNSET) == is_said
        assert reads(CODEC.encode(Request(URL, meta=meta))) == is_said
        assert not reads(CODEC.encode(Request(URL, meta={"about": key})))


def test_a_span_in_meta_that_is_none_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        for value in (0, "daily", True, [5], (5,)):
            meta = {"frontier_shelf_life": value, "frontier_refresh": None}
            assert payload_facts.read(CODEC.encode(Request(URL, meta=meta))) == NO_FACTS
    words = "frontier_shelf_life = {} in the meta of a request is not obeyed: set seconds above 0, or inf"
    assert caplog.messages == [words.format(value) for value in ("0", "'daily'", "True", "[5]", "(5,)")]


@pytest.mark.parametrize("key", [Size.LARGE, 1, (1, "a"), "!"])
def test_what_meta_says_counts_beside_keys_that_are_no_text(key: Any) -> None:
    meta = {key: [1], "frontier_shelf_life": 60, "frontier_lastmod": 5, "max_retry_times": 12, "proxy": "p"}
    payload = CODEC.encode(Request(URL, meta=meta))
    assert payload_facts.read(payload) == PayloadFacts(None, 60.0, is_listed=True)
    assert payload_facts.lastmod_of(payload) == 5
    assert payload_facts.meta_of(payload)["max_retry_times"] == 12
    assert payload_facts.proxy_in(payload) == {"proxy": "p"}
    assert not payload_facts.is_bare(payload)
    told = with_meta(payload, {"frontier_lastmod": 7, "frontier_force": 8}) or b""
    assert CODEC.decode(URL, 0, told).meta == {**meta, "frontier_lastmod": 7, "frontier_force": 8}
    assert payload_facts.lastmod_of(told) == 7
    del meta["frontier_lastmod"]
    assert CODEC.decode(URL, 0, without_meta(payload, "frontier_lastmod")).meta == meta


def test_meta_can_be_taken_out_of_any_payload() -> None:
    for key in ("a", 1):
        payload = CODEC.encode(Request(URL, meta={key: 1, "frontier_sitemap": 2}))
        assert CODEC.decode(URL, 0, without_meta(payload, "frontier_sitemap")).meta == {key: 1}
    for meta in ({"!": 1}, {"frontier_sitemap": 2}, {}):
        payload = without_meta(without_meta(CODEC.encode(Request(URL, meta=meta)), "!"), "frontier_sitemap")
        assert payload == b""
    for text in ('{"meta":{"!":"dict","v":5,"a":0}}', '{"meta":{"!":"dict","a":0}}', '{"meta":["a"]}', "[1]"):
        payload = text.encode()
        assert without_meta(payload, "a") == payload
        assert payload_facts.meta_of(payload) == {}
        assert with_meta(payload, {"a": 1}) is None


def test_a_note_of_a_request_says_who_it_is() -> None:
    kept = memory_payload(Request(URL, meta={"is_start_request": True}), b"\0\xff")
    assert kept == b'{"!":"memory","fingerprint":"00ff","meta":{"is_start_request":true}}'
    assert payload_facts.kept_fingerprint(kept) == b"\0\xff"
    assert payload_facts.is_seed(kept)


@pytest.mark.parametrize("payload", [b'{"method":', b'["body"]', b'{"body":' + b"[" * 100_000, b'"method"'])
def test_what_makes_no_request_has_no_facts(payload: bytes) -> None:
    assert payload_facts.read(payload) == NO_FACTS


# -- size -----------------------------------------------------------------------------------------------


def test_page_with_a_callback_costs_less_than_150_bytes_beyond_its_url(tmp_path: Path) -> None:
    """All rows, keys included, on 20 hosts with 100 pages each."""
    pages = [f"http://www{page % 20}.example.com/some/page/{page}.html" for page in range(2000)]
    store = Store(tmp_path)
    frontier = Frontier(store, 1.0)
    for url in pages:
        request = Request(url, SPIDER.parse)
        fingerprint = scrapy_fingerprint(request)
        link = Link(fingerprint, url, url.split("/")[2], payload=CODEC.encode(request), parent=1)
        assert frontier.discover([link], 1.0)[0].is_taken
    frontier.commit()
    total = sum(len(key) + len(value) for key, value in store.scan(b""))
    frontier.close()
    assert total / len(pages) - sum(map(len, pages)) / len(pages) < 150
