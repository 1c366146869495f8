"""Requests known again as the objects they were; no crawl."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from scrapy import Field, Item, Request
from scrapy.http import JsonRequest, Response
from test_requests import LabelRequest, Size

from scrapy_frontier.crawl.request_cache import LIVE, Objects, mutable_in

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
    [{}, [], set(), {"a": 1}, Book(), Shop("s"), (1, ("a", [])), Price(Decimal(1), [2]), Response(URL), Shop],
    ids=repr,
)
def test_what_can_be_changed_is_found_wherever_a_callback_gets_it(value: Any) -> None:
    assert mutable_in(Request(URL, cb_kwargs={"a": 1, "item": value})) == "cb_kwargs['item']"
    assert mutable_in(Request(URL, meta={"depth": 1, 5: value})) == "meta[5]"
    assert mutable_in(LabelRequest(URL, label=value)) == "attribute['label']"


@pytest.mark.parametrize(
    "value",
    [
        *("a", 1, 1.5, True, None, b"a", date(2026, 1, 2), Decimal(1), Colour.RED, Size.LARGE),
        *((1, ("a", None)), frozenset({1}), Price(Decimal(1), ("a",))),
    ],
    ids=repr,
)
def test_what_cannot_be_changed_may_be_a_copy(value: Any) -> None:
    given = {"meta": {"value": value, "depth": 1}, "cb_kwargs": {"value": value}}
    assert mutable_in(LabelRequest(URL, label=value, **given)) == ""


def test_what_scrapy_keeps_for_itself_is_handed_on_by_nobody() -> None:
    meta = {"redirect_urls": [URL], "redirect_reasons": [301], "handle_httpstatus_list": [404]}
    assert mutable_in(JsonRequest(URL, data={"a": []}, meta=meta, cookies={"a": "b"}, flags=["f"])) == ""


def test_a_request_that_is_stored_is_given_back_once() -> None:
    objects, request = Objects(), Request(URL)
    objects.keep(1, request)
    assert objects.recall(2) is None
    assert objects.recall(1) is request
    assert objects.recall(1) is None


def test_one_that_no_record_stands_for_is_held_until_it_is_let_go() -> None:
    objects, request, retry = Objects(), Request(URL), Request(URL)
    objects.hold(1, request)
    assert objects.recall(1) is request
    objects.hold(1, retry)
    assert (objects.recall(1), objects.holds(1)) == (retry, True)
    objects.drop(1)
    assert (objects.recall(1), objects.holds(1)) == (None, False)


def test_of_very_many_stored_requests_the_last_are_kept_and_all_that_cannot_be_stored() -> None:
    objects, queued = Objects(), [Request(URL) for _ in range(6 * LIVE)]
    for page_id, request in enumerate(queued):
        (objects.hold if page_id % 2 else objects.keep)(page_id, request)
    assert objects.recall(0) is None
    assert objects.recall(1) is queued[1]
    assert objects.recall(6 * LIVE - 2) is queued[6 * LIVE - 2]
