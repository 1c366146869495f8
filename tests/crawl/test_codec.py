"""Requests as payloads and back: what comes back, what stays in memory, what a stranger cannot make."""

from __future__ import annotations

import json
import struct
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial, partialmethod
from io import BytesIO
from math import inf
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import attrs
import numpy
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scrapy import Field, FormRequest, Item, Request, Spider
from scrapy.http import HtmlResponse, JsonRequest, Response, XmlRpcRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.utils.request import fingerprint as scrapy_fingerprint

from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import RequestFacts
from scrapy_frontier.crawl.codec import (
    Codec,
    Unreadable,
    Unstorable,
    copied,
    fingerprint_in,
    memory_payload,
    meta_in,
    meta_payload,
    own_attributes,
)
from scrapy_frontier.crawl.meta_values import facts_of
from scrapy_frontier.crawl.queued import has_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from server import Web

URL = "http://example.com/a"
EXAMPLES = settings().max_examples


class Mixin:
    def __private(self, response: Response) -> None:
        """Mangled to the name of this class, not the spider's."""

    def callback(self) -> Any:
        return self.__private


class Delegate:
    def parse(self, response: Response) -> None:
        pass


def parse_outside(response: Response) -> None:
    pass


def parse_later(spider: Any, response: Response) -> None:
    pass


class Shy:
    """Can be called, and raises when it is looked at."""

    def __call__(self) -> None:
        pass

    def __get__(self, spider: Any, kind: Any) -> Any:
        raise LookupError


class CodecSpider(Spider, Mixin):
    name = "codec"
    reference = parse_outside
    a_shy = Shy()
    looks = 0

    def __init__(self, handler: str = "parse") -> None:
        super().__init__()
        self.a_handler = getattr(self, handler)
        self.delegate = Delegate()
        self.delegated = Delegate().parse
        self.parse_later = MethodType(parse_later, self)

    @property
    def a_browser(self) -> Any:
        CodecSpider.looks += 1
        return None

    @cached_property
    def base(self) -> str:
        raise KeyError("no page yet")

    def parse(self, response: Response) -> None:
        pass

    def parse_book(self, response: Response) -> None:
        pass

    def __mangled(self, response: Response) -> None:
        pass

    def mangled(self) -> Any:
        return self.__mangled

    @classmethod
    def parse_of_class(cls, response: Response) -> None:
        pass

    parse_first = partialmethod(parse_book)


SPIDER = CodecSpider()
CODEC = Codec(SPIDER)


def round_trip(request: Request) -> Request:
    """*request* as a later process rebuilds it."""
    return Codec(SPIDER).decode(request.url, request.priority, CODEC.encode(request))


def value_back(value: Any) -> Any:
    return round_trip(Request(URL, meta={"value": value})).meta["value"]


def assert_same(found: Request, request: Request) -> None:
    assert type(found) is type(request)
    for name in type(request).attributes:
        assert getattr(found, name) == getattr(request, name), name
        assert type(getattr(found, name)) is type(getattr(request, name)), name
    assert own_attributes(found) == own_attributes(request)


# -- requests ------------------------------------------------------------------------------------------


class LabelRequest(Request):
    attributes = (*Request.attributes, "label")

    def __init__(self, *given: Any, label: Any = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self.label = label


class Waiting(Request):
    """As plugins have them: no URL in front, and what it waits for is not among its `attributes`."""

    def __init__(self, wait_time: Any = None, *given: Any, **named: Any) -> None:
        self.wait_time = wait_time
        super().__init__(*given, **named)


class Query(Request):
    """Makes its URL and its body itself, raises its priority each time, and keeps one thing in a slot."""

    __slots__ = ("page",)

    def __init__(self, path: str, page: Any = None) -> None:
        self.page = page
        super().__init__("http://example.com/api" + path, method="POST", body="{}", priority=10)


GIVEN: list[dict[str, Any]] = [
    {},
    {"callback": SPIDER.parse},
    {"callback": SPIDER.parse_book, "errback": SPIDER.parse_later},
    {"callback": SPIDER.mangled()},
    {"callback": SPIDER.callback()},
    {"callback": SPIDER.reference},
    {"callback": SPIDER.delegated},
    {"callback": SPIDER.parse_of_class},
    {"method": "POST", "body": b"\0\xff body"},
    {"method": "put", "body": "text"},
    {"headers": {"Accept": "a", "X": ["1", "2"], b"Y": b"\xe4", "Z": "\u00e4"}},
    {"cookies": {"currency": "\u0440\u0443\u0431"}},
    {"cookies": [{"name": "a", "value": "b", "domain": "example.com", "path": "/"}]},
    {"encoding": "latin-1", "body": "\u00e4"},
    {"priority": -7, "dont_filter": True, "flags": ["a", "b"]},
    {"meta": {"depth": 1, "download_slot": "x", "list": [1, 2.5, None, True], "!": "tag"}},
    {"meta": {1: "one", (1, 2): {"set"}, b"bytes": b"\0", "when": datetime(2026, 1, 2, 3, 4, 5)}},
    {"meta": {"verbatim_url": True, "text": "\ud800 lone"}},
    {"cb_kwargs": {"item": {"a": (1, [2], frozenset({3}))}, "infinite": float("inf")}},
]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("kind", [Request, LabelRequest])
def test_every_attribute_comes_back(kind: type[Request], given: dict[str, Any]) -> None:
    request = kind(URL, **given)
    assert_same(round_trip(request), request)


OF_CLASSES = [
    FormRequest(URL, formdata={"a": "b", "c": ["d", "\u00e4"]}),
    FormRequest(URL, method="GET", formdata={"a": "b"}),
    JsonRequest(URL, data={"a": [1, None]}, dumps_kwargs={"indent": 4}),
    XmlRpcRequest(URL, methodname="login", params=("a", "b"), encoding="latin-1"),
    LabelRequest(URL, label={"any": ("plain", "data")}),
    Waiting((1, {"a"}), url=URL, callback=SPIDER.parse, priority=3, headers={"A": "b"}),
    Query("/a", {1: b"x"}),
]


@pytest.mark.parametrize("request_", OF_CLASSES, ids=lambda request: type(request).__name__)
def test_a_request_of_any_class_comes_back_with_all_it_keeps(request_: Request) -> None:
    """No constructor runs: it might take something else, or do once more what it has done."""
    assert_same(round_trip(request_), request_)


@pytest.mark.parametrize("url", ["", "http://example.com/\u00e4 b"])
@pytest.mark.parametrize("request_", OF_CLASSES, ids=lambda request: type(request).__name__)
def test_a_copy_has_containers_of_its_own_and_another_url(request_: Request, url: str) -> None:
    found = copied(request_, url)
    assert type(found) is type(request_)
    assert found.url == (Request(url, encoding=request_.encoding).url if url else request_.url)
    assert own_attributes(found) == own_attributes(request_)
    for name in set(Request.attributes) - {"url"}:
        assert getattr(found, name) == getattr(request_, name), name
    for name in ("meta", "headers", "cb_kwargs", "flags"):
        assert getattr(found, name) is not getattr(request_, name), name


@pytest.mark.parametrize(("name", "value"), [("lock", object()), ("replace", 1)])
def test_what_a_request_keeps_and_cannot_be_stored_is_not_dropped(name: str, value: Any) -> None:
    request = Waiting(url=URL)
    vars(request)[name] = value
    with pytest.raises(Unstorable):
        CODEC.encode(request)


def test_a_plain_request_is_no_bytes_at_all() -> None:
    assert CODEC.encode(Request(URL, priority=3)) == meta_payload({}) == b""


@given(st.text())
@settings(max_examples=3 * EXAMPLES)
def test_any_url_comes_back(text: str) -> None:
    try:
        request = Request(f"http://example.com/{text}")
    except ValueError:
        assume(False)
    assert round_trip(request).url == request.url


# -- callbacks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"callback": lambda response: None},
        {"callback": parse_outside},
        {"callback": partial(SPIDER.parse)},
        {"callback": SPIDER.parse_first},
        {"callback": Delegate().parse},
        {"callback": SPIDER.delegate.parse},
        {"callback": SPIDER.log},
        {"errback": SPIDER.update_settings},
        {"callback": CodecSpider().parse},
        {"errback": lambda failure: None},
    ],
)
def test_what_is_not_a_callback_of_the_spider_cannot_be_stored(given: dict[str, Any]) -> None:
    with pytest.raises(Unstorable):
        CODEC.encode(Request(URL, **given))


def test_no_property_is_read_to_find_the_name_of_a_callback() -> None:
    for name in ("parse", "parse_book", "parse_of_class", "parse_later"):
        assert Codec(SPIDER).callbacks.name_of(getattr(SPIDER, name)) == name
    assert CodecSpider.looks == 0


def test_a_method_has_its_own_name_whatever_the_spider_keeps() -> None:
    spider, other = CodecSpider("parse_book"), CodecSpider("parse")
    payload = Codec(spider).encode(Request(URL, spider.a_handler))
    assert Codec(other).decode(URL, 0, payload).callback == other.parse_book


# -- values --------------------------------------------------------------------------------------------


class Book(Item):
    title = Field()
    parts = Field()

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, f"{value}!" if name == "title" else value)


@dataclass(frozen=True)
class Price:
    amount: Any
    when: date | None = None
    unset: str = field(init=False, repr=False, compare=False)


@attrs.define
class Shop:
    name: str
    prices: list[Price]


class Noted:
    __slots__ = ("note",)


@attrs.define
class Listing(Noted):
    """Keeps something beside its fields, as the items of zyte-common-items do."""

    number: int = 1

    def __attrs_post_init__(self) -> None:
        self.note = {"unknown": (1,)}


@dataclass
class Product:
    number: int

    def __post_init__(self) -> None:
        self.code = f"p{self.number}"


@pytest.mark.parametrize(
    "value",
    [
        *(Decimal("1.10"), date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=timezone.utc)),
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-2))),
        *(Book(title="T", parts=[Book(title="t"), {1}]), Price(Decimal(1), date(2020, 1, 2))),
        *(Shop("S", [Price(2)]), {(1, 2): (3, Book())}),
    ],
    ids=repr,
)
def test_plain_data_and_items_come_back(value: Any) -> None:
    found = value_back(value)
    assert found == value
    assert type(found) is type(value)


def test_items_come_back_with_what_they_have_beside_their_fields_and_without_what_is_not_set() -> None:
    product, listing, price = Product(1), Listing(2), Price(3)
    product.code = "changed"
    assert value_back(product).code == "changed"
    assert value_back(listing).note == {"unknown": (1,)}
    assert not hasattr(value_back(price), "unset")
    del listing.note
    assert not hasattr(value_back(listing), "note")


def test_text_and_numbers_of_parsers_come_back_as_plain_ones() -> None:
    response = HtmlResponse(URL, body=b"<a href='/b'>a <b>link</b></a>")
    found = value_back([LinkExtractor().extract_links(response)[0].text, numpy.float64(0.5)])
    assert found == ["a link", 0.5]
    assert [type(each) for each in found] == [str, float]


TIMES = st.datetimes().map(lambda time: time.replace(fold=0))
LEAVES = st.text(max_size=5) | st.integers() | st.sampled_from([True, None, "!", b"", b"\xff", 0.5])
KEYS = LEAVES | st.tuples(LEAVES, LEAVES) | st.frozensets(LEAVES, max_size=2)
PLAIN = st.recursive(
    LEAVES | st.floats(allow_nan=False) | TIMES | st.dates(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=3),
        st.sets(KEYS, max_size=3),
        st.builds(Price, inner),
    ),
    max_leaves=8,
)


def typed(value: Any) -> Any:
    """*value* with the types of all it holds and in an order of its own: equals have one `repr`."""
    if isinstance(value, dict):
        return ["dict", sorted(([typed(key), typed(item)] for key, item in value.items()), key=repr)]
    if isinstance(value, set | frozenset):
        return [type(value).__name__, sorted(map(typed, value), key=repr)]
    if isinstance(value, list | tuple):
        return [type(value).__name__, list(map(typed, value))]
    return ["Price", typed(value.amount)] if isinstance(value, Price) else [type(value).__name__, value]


@given(*[st.dictionaries(st.text(max_size=5), PLAIN, max_size=3)] * 2)
@settings(max_examples=3 * EXAMPLES)
def test_any_plain_meta_comes_back(meta: dict[str, Any], cb_kwargs: dict[str, Any]) -> None:
    meta.pop("verbatim_url", None)
    request = Request(URL, meta=meta, cb_kwargs=cb_kwargs)
    found = round_trip(request)
    assert repr(typed(found.meta)) == repr(typed(meta))
    assert repr(typed(found.cb_kwargs)) == repr(typed(cb_kwargs))
    assert meta_payload(meta) == CODEC.encode(Request(URL, meta=meta))


# -- what stays in memory --------------------------------------------------------------------------------


class Step:
    """An object of a plugin's."""


class Colour(Enum):
    RED = "red"


class Place(NamedTuple):
    name: str


@dataclass
class Row(dict[str, Any]):
    number: int = 1


@dataclass
class Trouble(Exception):
    number: int = 1


@dataclass
class Acting:
    def __call__(self) -> None:
        pass


class Lazy(dict[str, Any]):
    """As a record of a database whose connection is closed."""

    def __iter__(self) -> Any:
        raise OSError


class LocalRequest(Request):
    pass


LocalRequest.__qualname__ = "nowhere.LocalRequest"


def endless() -> list[Any]:
    held: list[Any] = []
    held.append(held)
    return held


def deep(depth: int) -> list[Any]:
    held: list[Any] = []
    for _ in range(depth):
        held = [held]
    return held


def zone_without_key() -> ZoneInfo:
    head = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    return ZoneInfo.from_file(BytesIO(head + bytes(6) + b"UTC\0"))


@pytest.mark.parametrize(
    "value",
    [
        *(threading.Lock(), object(), Step(), Step, parse_outside, Response(URL), Spider("a"), {object(): 1}),
        *(
            [{"deep": (Response(URL),)}],
            (number for number in ()),
            Price(threading.Lock()),
            Book(parts=Step()),
        ),
        *(Row(), Trouble(), Acting(), defaultdict(list), OrderedDict(a=1), Counter("ab"), deque()),
        *(Colour.RED, Place("a"), timedelta(1), datetime(2026, 1, 2, tzinfo=zone_without_key())),
        *(endless(), deep(100_000), 10**5000, Lazy(), type("Local", (), {})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_neither_plain_data_nor_an_item_cannot_be_stored(value: Any) -> None:
    with pytest.raises(Unstorable):
        CODEC.encode(Request(URL, cb_kwargs={"value": value}))


def test_a_class_that_cannot_be_found_by_its_name_cannot_be_stored() -> None:
    with pytest.raises(Unstorable, match="LocalRequest"):
        CODEC.encode(LocalRequest(URL))


class Unhashable:
    def __call__(self, response: Response) -> None:
        pass

    def __hash__(self) -> int:
        raise KeyError("a")


def test_what_raises_when_it_is_looked_at_cannot_be_stored() -> None:
    with pytest.raises(Unstorable, match="raised KeyError: 'a'"):
        CODEC.encode(Request(URL, Unhashable()))


MUTABLE = [{}, [], deque(), Book(), Shop("s", []), (1, ("a", [])), Response(URL), Step()]


@pytest.mark.parametrize("value", MUTABLE, ids=lambda value: type(value).__name__)
def test_what_callbacks_can_share_is_found(value: Any) -> None:
    assert has_shared(Request(URL, cb_kwargs={"a": 1, "item": value}))
    assert has_shared(Request(URL, meta={"depth": 1, 5: value}))
    assert has_shared(LabelRequest(URL, label=value))


FIXED = ["a", 1, None, b"a", date(2026, 1, 2), Decimal(1), (1, ("a", None)), frozenset({1})]


@pytest.mark.parametrize("value", FIXED, ids=repr)
def test_what_cannot_be_changed_may_be_a_copy(value: Any) -> None:
    meta = {"value": value, "redirect_urls": [URL], "handle_httpstatus_list": [404]}
    assert not has_shared(LabelRequest(URL, label=value, meta=meta, cb_kwargs={"value": value}))
    assert not has_shared(JsonRequest(URL, data={"a": []}, cookies={"a": "b"}, flags=["f"]))


# -- strangers -----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
FIELDS = st.sampled_from(
    [*Request.attributes, "class", "kept", "callback", "headers", "!", "v", "priority", "unknown", ""]
)
TAGGED = st.fixed_dictionaries(
    {
        "!": st.sampled_from(["dict", "tuple", "set", "bytes", "datetime", "date", "item", "x"]),
        "v": JSON,
    }
)
CLASSES = st.sampled_from(["scrapy.FormRequest", "scrapy.Spider", "no.such", "os", "", "scrapy.Item"])


@given(
    st.one_of(
        st.binary(min_size=1),
        JSON.map(json.dumps).map(str.encode),
        st.dictionaries(FIELDS, JSON | TAGGED | CLASSES, min_size=1).map(json.dumps).map(str.encode),
    )
)
@example(b"[" * 100_000)
@example(b'{"meta":' * 100_000)
@example(b"1" * 10_000)
@example(b'{"callback": "__init__"}')
@settings(max_examples=5 * EXAMPLES)
def test_garbage_is_unreadable_and_nothing_worse(payload: bytes) -> None:
    try:
        found = CODEC.decode(URL, 0, payload)
    except Unreadable:
        return
    assert isinstance(found, Request)


@pytest.mark.parametrize(
    "fields",
    [
        *({"class": path} for path in ("os.system", "scrapy.Spider", "no.such", f"{__name__}.URL")),
        *({"class": f"{__name__}.Waiting", "kept": {name: 1}} for name in ("callback", "_url", "replace")),
        *({"callback": name} for name in ("__init__", ".", "update_settings", "delegate.parse", "a_browser")),
        *(
            {"meta": {"value": {"!": "item", "class": path, "v": {}}}}
            for path in ("subprocess.Popen", "builtins.dict", "threading.Thread", "scrapy.Spider", "no.such")
        ),
        *(
            {"meta": {"value": {"!": "item", "class": f"{__name__}.{name}", "v": {}}}}
            for name in ("Row", "Acting")
        ),
        {"meta": {"value": {"!": "item", "class": f"{__name__}.Shop", "v": {"no_such": 1}}}},
        *({"meta": {"value": {"!": tag, "v": "a"}}} for tag in ("object", "class", "no such")),
    ],
    ids=str,
)
def test_a_stranger_makes_nothing_else(fields: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        CODEC.decode(URL, 0, json.dumps(fields).encode())


@pytest.mark.parametrize("url", ["", "no-scheme", ":", "//host/", "file:///etc/passwd", "s3://bucket/key"])
def test_a_url_that_makes_no_request_is_unreadable(url: str) -> None:
    with pytest.raises(Unreadable):
        CODEC.decode(url, 0, b"")


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
    assert len(caplog.messages) == 5
    assert "frontier_shelf_life = 'daily'" in caplog.text


@pytest.mark.parametrize("key", [1, (1, "a"), "!"])
def test_meta_is_read_without_making_a_request(key: Any) -> None:
    meta = {key: [1], "max_retry_times": 12, "proxy": "p"}
    assert meta_in(CODEC.encode(Request(URL, meta=meta))) == meta
    for garbage in (b"[", b"[1]", b'{"meta":5}', b'{"meta":{"!":"dict","v":5}}', b"\xff"):
        assert meta_in(garbage) == {}


def test_the_payload_of_a_request_in_memory_is_its_fingerprint() -> None:
    kept = memory_payload(b"\0\xff")
    assert kept == b'{"!":"memory","fingerprint":"00ff"}'
    assert fingerprint_in(kept) == b"\0\xff"
    assert fingerprint_in(CODEC.encode(Request(URL, meta={"a": 1}))) is None
    with pytest.raises(Unreadable):
        CODEC.decode(URL, 0, kept)


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


# -- in crawls -----------------------------------------------------------------------------------------


class Rendered(Request):
    """As browser plugins have them: what is to be done comes first, and is kept on the request."""

    def __init__(self, script: Any = None, *given: Any, **named: Any) -> None:
        self.script = script
        super().__init__(*given, **named)


class RenderedSpider(Spider):
    name = "rendered"

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(20):
            yield Rendered(("go", number), response.urljoin(f"/{number}"), self.parse_rendered)
        for number in range(20, 25):
            yield response.follow(f"/{number}", self.parse_step, cb_kwargs={"step": Step()})

    def parse_rendered(self, response: Response) -> Iterator[Any]:
        request = response.request
        assert isinstance(request, Rendered)
        assert request.script == ("go", int(response.url.rpartition("/")[2]))
        yield {"url": response.url}

    def parse_step(self, response: Response, step: Step) -> Iterator[Any]:
        yield {"url": response.url}


STOP = {"CLOSESPIDER_PAGECOUNT": 4, "CONCURRENT_REQUESTS": 1}


def test_requests_outlive_a_stop_and_those_with_objects_are_counted(
    web: Web, run: Callable[..., Crawl]
) -> None:
    """What is in memory is lost by the stop, and said; a link would bring it back."""
    crawls = [run(RenderedSpider, settings, start_urls=[web.url("/")]) for settings in (STOP, {})]
    items = sum(crawl.stats.get("item_scraped_count", 0) for crawl in crawls)
    assert len(set(web.paths())) == len(web.paths()) == items + 1
    assert set(web.paths()) >= {"/", *(f"/{number}" for number in range(20))}
    assert crawls[0].stats["scheduler/unserializable"] == 5
    assert crawls[0].log.count("Unable to serialize request") == 1
