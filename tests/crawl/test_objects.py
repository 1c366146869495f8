"""Requests known again as the objects they were; no crawl."""

from __future__ import annotations

from scrapy import Request

from scrapy_frontier.objects import LIVE, Objects

URL = "http://example.com/a"


def test_a_stored_request_is_known_again_while_somebody_holds_it() -> None:
    objects, request = Objects(), Request(URL)
    objects.keep(1, request, stored=True)
    assert objects.recall(1) is request
    assert objects.recall(1) is None


def test_a_stored_request_that_nobody_holds_is_not_kept_in_memory() -> None:
    objects = Objects()
    objects.keep(1, Request(URL), stored=True)
    assert objects.recall(1) is None


def test_a_request_that_cannot_be_stored_is_held() -> None:
    objects = Objects()
    objects.keep(1, Request(URL), stored=False)
    found = objects.recall(1)
    assert found is not None
    assert found.url == URL
    assert objects.recall(1) is None


def test_of_very_many_stored_requests_the_last_are_known_and_all_in_memory_are_held() -> None:
    objects, held = Objects(), [Request(URL) for _ in range(6 * LIVE)]
    for page_id, request in enumerate(held):
        objects.keep(page_id, request, stored=page_id % 2 == 0)
    assert objects.recall(0) is None
    assert objects.recall(1) is held[1]
    assert objects.recall(6 * LIVE - 2) is held[6 * LIVE - 2]
