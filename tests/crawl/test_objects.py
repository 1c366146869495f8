"""Requests known again as the objects they were; no crawl."""

from __future__ import annotations

from scrapy import Request

from scrapy_frontier.objects import LIVE, Objects

URL = "http://example.com/a"


def test_a_request_is_given_back_once() -> None:
    for stored in (True, False):
        objects, request = Objects(), Request(URL)
        objects.keep(1, request, stored)
        assert objects.recall(2) is None
        assert objects.recall(1) is request
        assert objects.recall(1) is None


def test_of_very_many_stored_requests_the_last_are_kept_and_all_that_cannot_be_stored() -> None:
    objects, queued = Objects(), [Request(URL) for _ in range(6 * LIVE)]
    for page_id, request in enumerate(queued):
        objects.keep(page_id, request, stored=page_id % 2 == 0)
    assert objects.recall(0) is None
    assert objects.recall(1) is queued[1]
    assert objects.recall(6 * LIVE - 2) is queued[6 * LIVE - 2]
