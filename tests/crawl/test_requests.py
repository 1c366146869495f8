"""What a payload says of its request, and how large the rows of a page are; no crawl."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.request import fingerprint as scrapy_fingerprint

from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import RequestFacts
from scrapy_frontier.crawl.codec import (
    Codec,
)
from scrapy_frontier.crawl.payloads import facts_of, kept_fingerprint, memory_payload, meta_of, proxy_in

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.http import Response

URL = "http://example.com/a"


class PayloadSpider(Spider):
    name = "payloads"

    def parse(self, response: Response) -> None:
        pass


SPIDER = PayloadSpider()
CODEC = Codec(SPIDER)


# -- facts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"callback": SPIDER.parse, "headers": {"Referer": URL}, "meta": {"depth": 1}}, {}),
        ({"method": "HEAD", "dont_filter": True}, {"insists": True}),
        ({"method": "POST"}, {"is_unsafe": True}),
        ({"body": b"x"}, {"is_unsafe": True}),
        ({"meta": {"is_start_request": True}}, {"is_seed": True}),
        ({"meta": {"frontier_pattern": "method"}}, {"has_pattern": True}),
        ({"meta": {"frontier_pattern": False, "frontier_sitemap": 0, "frontier_refresh": None}}, {}),
        ({"meta": {"frontier_sitemap": {"depth": 0}}}, {"is_sitemap": True}),
        (
            {"meta": {"frontier_shelf_life": 60, "frontier_refresh": "7.5"}},
            {"shelf_life": 60, "refresh": 7.5},
        ),
        ({"meta": {"frontier_shelf_life": 10**400, "frontier_refresh": -1}}, {}),
        ({"meta": {"frontier_shelf_life": "inf"}}, {"shelf_life": inf}),
    ],
)
def test_what_the_frontier_keeps_of_a_request(given: dict[str, Any], facts: dict[str, Any]) -> None:
    assert facts_of(Request(URL, **given)) == RequestFacts(**facts)
    assert facts_of(Request(URL, **given), is_stored=False) == RequestFacts(**facts, is_in_memory=True)


def test_a_span_in_meta_that_is_none_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        for value in (0, "daily", True, [5], (5,)):
            assert facts_of(Request(URL, meta={"frontier_shelf_life": value})).shelf_life is None
    words = "frontier_shelf_life = {} in the meta of a request is not obeyed: set seconds above 0, or inf"
    assert caplog.messages == [words.format(value) for value in ("0", "'daily'", "True", "[5]", "(5,)")]


@pytest.mark.parametrize("key", [1, (1, "a"), "!"])
def test_meta_is_read_beside_keys_that_are_no_text(key: Any) -> None:
    payload = CODEC.encode(Request(URL, meta={key: [1], "max_retry_times": 12, "proxy": "p"}))
    assert meta_of(payload)["max_retry_times"] == 12
    assert proxy_in(payload) == {"proxy": "p"}


def test_a_note_of_a_request_says_who_it_is() -> None:
    kept = memory_payload(b"\0\xff")
    assert kept == b'{"!":"memory","fingerprint":"00ff"}'
    assert kept_fingerprint(kept) == b"\0\xff"


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
