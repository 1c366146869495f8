"""Requests known again as the objects they were; no crawl."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from scrapy import Field, Item, Request, Spider
from scrapy.http import JsonRequest, Response
from scrapy.utils.request import RequestFingerprinter
from test_requests import LabelRequest, Lined, Size, Waiting

from scrapy_frontier.crawl.fingerprints import Identities
from scrapy_frontier.crawl.log import Reporter
from scrapy_frontier.crawl.queued import LIVE, QueuedRequests, mutable_in

URL = "http://example.com/a"


class Book(Item):
    title = Field()


@dataclass
class Shop:
    name: str


@dataclass(frozen=True)
class Price:
    amount: Decimal
    history: Any = ()


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [{}, [], deque(), {"a": 1}, Book(), Shop("s"), (1, ("a", [])), Price(Decimal(1), [2]), Response(URL)],
    ids=repr,
)
def test_what_can_be_changed_is_found_wherever_a_callback_gets_it(value: Any) -> None:
    assert mutable_in(Request(URL, cb_kwargs={"a": 1, "item": value})) == "cb_kwargs['item']"
    assert mutable_in(Request(URL, meta={"depth": 1, 5: value})) == "meta[5]"
    assert mutable_in(LabelRequest(URL, label=value)) == "attribute['label']"


class Zone(tzinfo):
    """Of no class that a payload can name."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1)


class Text(str):
    pass


def text_with_a_tag() -> Text:
    text = Text("a")
    text.tag = "h1"
    return text


@pytest.mark.parametrize(
    "value",
    [text_with_a_tag(), datetime(2026, 1, 2, tzinfo=Zone()), time(1, tzinfo=Zone())],
    ids=["text", "datetime", "time"],
)
def test_what_would_come_back_with_less_is_as_what_can_be_changed(value: Any) -> None:
    assert mutable_in(Request(URL, meta={"a": value})) == "meta['a']"


@pytest.mark.parametrize(
    "value",
    [
        *("a", 1, 1.5, True, None, b"a", date(2026, 1, 2), Decimal(1), Colour.RED, Size.LARGE),
        *(Text("a"), datetime(2026, 1, 2), time(1, tzinfo=ZoneInfo("UTC")), ZoneInfo("UTC")),
        *((1, ("a", None)), frozenset({1}), Price(Decimal(1), ("a",)), Shop, timedelta(1), Path("a")),
    ],
    ids=repr,
)
def test_what_cannot_be_changed_may_be_a_copy(value: Any) -> None:
    given = {"meta": {"value": value, "depth": 1}, "cb_kwargs": {"value": value}}
    assert mutable_in(LabelRequest(URL, label=value, **given)) == ""


def test_what_scrapy_keeps_for_itself_is_handed_on_by_nobody() -> None:
    meta = {"redirect_urls": [URL], "redirect_reasons": [301], "handle_httpstatus_list": [404]}
    for kind in (JsonRequest, Lined):
        assert mutable_in(kind(URL, data={"a": []}, meta=meta, cookies={"a": "b"}, flags=["f"])) == ""


def test_of_very_many_stored_requests_the_last_are_kept_and_all_that_cannot_be_stored() -> None:
    spider, identities = Spider("a"), Identities(RequestFingerprinter())
    requests = QueuedRequests(spider, identities, Reporter(logging.getLogger(__name__)), is_temporary=False)
    queued = [Request(URL) for _ in range(6 * LIVE)]
    for page_id, request in enumerate(queued):
        requests.queued(page_id, request, is_stored=page_id % 2 == 0)
    assert 0 not in requests.live
    assert requests.live[6 * LIVE - 2] is queued[6 * LIVE - 2]
    assert list(requests.in_memory.values()) == queued[1::2]
    requests.replace(1, queued[0])
    assert 1 not in requests.in_memory, "there is a payload of it now"


@pytest.mark.parametrize("is_temporary", [False, True])
def test_a_request_of_somebodys_own_class_is_the_very_object_where_nothing_outlives_the_crawl(
    is_temporary: bool,
) -> None:
    spider, identities = Spider("a"), Identities(RequestFingerprinter())
    requests = QueuedRequests(spider, identities, Reporter(logging.getLogger(__name__)), is_temporary)
    assert requests.payload_of(JsonRequest(URL, data=[1]))[1] is True
    assert requests.payload_of(Waiting(url=URL))[1] is not is_temporary
