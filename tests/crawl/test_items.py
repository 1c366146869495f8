"""Items in requests: they come back whole, or stay in memory; and nothing that they do loses a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider

from scrapy_frontier.crawl.requests.class_paths import Unstorable
from scrapy_frontier.crawl.requests.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

URL = "http://example.com/a"


class Closed(Exception):
    def __str__(self) -> str:
        raise ValueError


@dataclass
class Lazy:
    """As a record of a database whose connection is closed."""

    number: int = 1

    def __getattribute__(self, name: str) -> Any:
        raise Closed


class Unhashable:
    def __call__(self, response: Response) -> None:
        pass

    def __hash__(self) -> int:
        raise KeyError("a")


class LazyRequest(Request):
    attributes = (*Request.attributes, "label")

    @property
    def label(self) -> str:
        raise RuntimeError("not loaded")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(URL, meta={"a": Lazy()}), "raised .*Closed"),
        (Request(URL, cb_kwargs={"a": [Lazy()]}), "raised .*Closed"),
        (Request(URL, Unhashable()), "raised KeyError: 'a'"),
        (LazyRequest(URL), "raised RuntimeError: not loaded"),
    ],
)
def test_what_raises_when_it_is_looked_at_cannot_be_stored(request_: Request, reason: str) -> None:
    with pytest.raises(Unstorable, match=reason):
        Codec(Spider("a")).encode(request_)


class LazySpider(Spider):
    name = "lazy"

    def parse(self, response: Response) -> Iterator[Request]:
        yield response.follow("/b", self.parse_b, cb_kwargs={"record": Lazy()})
        yield response.follow("/c", self.parse_b, cb_kwargs={"record": None})

    def parse_b(self, response: Response, record: Any) -> None:
        pass


def test_a_request_with_such_a_value_is_kept_in_memory(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = run(LazySpider, start_urls=[web.link("/", "/b", "/c")])
    assert sorted(web.paths()) == ["/", "/b", "/c"]
    assert crawl.stats["scheduler/unserializable"] == 1
    assert "frontier/errors" not in crawl.stats
    assert "Traceback" not in crawl.log
