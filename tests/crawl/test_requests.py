"""Requests as payloads and back, and their fingerprints; no crawl."""

from __future__ import annotations

import json
import string
import threading
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from functools import cached_property, partial, partialmethod
from math import inf
from types import MethodType
from typing import TYPE_CHECKING, Any

import attrs
import numpy
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scrapy import Field, FormRequest, Item, Request, Spider
from scrapy.http import HtmlResponse, JsonRequest, Response, XmlRpcRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.settings import Settings
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.utils.request import RequestFingerprinter, fingerprint

from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.revisits.plans import NO_FACTS, PayloadFacts
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.crawl import fingerprints
from scrapy_frontier.crawl import payloads as payload_facts
from scrapy_frontier.crawl.bulk_follow import BuiltIns, Referrers
from scrapy_frontier.crawl.codec import (
    Codec,
    Unreadable,
    Unstorable,
    copied,
    dumps,
    from_plain,
    meta_payload,
    own_attributes,
    to_plain,
)
from scrapy_frontier.crawl.fingerprints import plain_fingerprint
from scrapy_frontier.crawl.meta_keys import UNSET
from scrapy_frontier.crawl.payloads import with_meta, without_meta
from scrapy_frontier.crawl.queued import memory_payload

if TYPE_CHECKING:
    from pathlib import Path

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


class PayloadSpider(Spider, Mixin):
    name = "payloads"
    reference = parse_outside

    def __init__(self) -> None:
        super().__init__()
        self.delegate = Delegate()
        self.delegated = Delegate().parse

    def parse(self, response: Response) -> None:
        pass

    def failed(self, failure: Any) -> None:
        pass

    def _hidden(self, response: Response) -> None:
        pass

    def __mangled(self, response: Response) -> None:
        pass

    def mangled(self) -> Any:
        return self.__mangled

    @classmethod
    def parse_of_class(cls, response: Response) -> None:
        pass


class LabelRequest(Request):
    """A subclass with an attribute of its own."""

    attributes = (*Request.attributes, "label")

    def __init__(self, *given: Any, label: Any = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self.label = label


class PlainSubclass(Request):
    pass


SPIDER = PayloadSpider()
CODEC = Codec(SPIDER)


def round_trip(request: Request) -> Request:
    """*request* as a new process with a spider of the same class would rebuild it."""
    payload = CODEC.encode(request)
    return Codec(SPIDER).decode(request.url, request.priority, payload)


def assert_same(found: Request, request: Request) -> None:
    assert type(found) is type(request)
    for name in type(request).attributes:
        assert getattr(found, name) == getattr(request, name), name
        assert type(getattr(found, name)) is type(getattr(request, name)), name


# -- round trips ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"callback": SPIDER.parse},
        {"callback": SPIDER._hidden, "errback": SPIDER.failed},
        {"callback": SPIDER.mangled()},
        {"callback": SPIDER.callback()},
        {"callback": SPIDER.reference},
        {"callback": SPIDER.delegated},
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
        {"cb_kwargs": {"item": {"a": (1, [2], frozenset({3}))}, "on": date(2026, 1, 2)}},
        {"cb_kwargs": {"zone": datetime(2026, 1, 2, tzinfo=timezone.utc), "infinite": float("inf")}},
    ],
)
@pytest.mark.parametrize("kind", [Request, PlainSubclass, LabelRequest])
def test_every_attribute_comes_back(kind: type[Request], given: dict[str, Any]) -> None:
    request = kind(URL, **given)
    assert_same(round_trip(request), request)


@pytest.mark.parametrize(
    "request_",
    [
        FormRequest(URL, formdata={"a": "b", "c": ["d", "\u00e4"]}),
        FormRequest(URL, method="GET", formdata={"a": "b"}),
        JsonRequest(URL, data={"a": [1, None]}, dumps_kwargs={"indent": 4}),
        XmlRpcRequest(URL, methodname="login", params=("a", "b"), encoding="latin-1"),
        LabelRequest(URL, label={"any": ("plain", "data")}),
    ],
    ids=lambda request: type(request).__name__,
)
def test_subclasses_come_back(request_: Request) -> None:
    assert_same(round_trip(request_), request_)


class Waiting(Request):
    """As plugins have them: no URL in front, and what is waited for is no attribute by Scrapy's word."""

    def __init__(self, wait_time: Any = None, *given: Any, **named: Any) -> None:
        self.wait_time = wait_time
        super().__init__(*given, **named)


class Query(Request):
    """Makes its URL and its body itself, and keeps one thing in a slot."""

    __slots__ = ("page",)
    base = "http://example.com/api"

    def __init__(self, path: str, query: str, page: Any = None) -> None:
        self.page = page
        super().__init__(self.base + path, method="POST", body=json.dumps({"query": query}), meta={"a": (1,)})


class Sited(Request):
    @cached_property
    def site(self) -> str:
        return self.url.split("/")[2]


class Lined(JsonRequest):
    @cached_property
    def lines(self) -> list[bytes]:
        return self.body.splitlines()


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (Waiting(url=URL, callback=SPIDER.parse, priority=3, headers={"A": "b"}), {"wait_time": None}),
        (Waiting((1, {"a"}), url=URL), {"wait_time": (1, {"a"})}),
        (Query("/a", "{ all }", {1: b"x"}), {"page": {1: b"x"}}),
        (Lined(URL, data=[1]), {"_dumps_kwargs": {"sort_keys": True}}),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_request_of_any_class_comes_back_with_all_it_keeps(request_: Request, kept: dict[str, Any]) -> None:
    if isinstance(request_, Lined):
        assert request_.lines
    assert own_attributes(request_) == kept
    found = round_trip(request_)
    assert_same(found, request_)
    assert own_attributes(found) == kept


@pytest.mark.parametrize("url", ["", "http://example.com/\u00e4 b"])
@pytest.mark.parametrize(
    "request_",
    [
        Request(URL, flags=["a"], headers={"A": "b"}),
        Waiting(1, url=URL, callback=SPIDER.parse, cb_kwargs={"a": 1}, encoding="latin-1", headers={"A": 1}),
        Query("/a", "{ all }", 3),
        Lined(URL, data=[1]),
        FormRequest(URL, formdata={"a": "b"}),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_copy_has_all_that_its_class_keeps_and_another_url(request_: Request, url: str) -> None:
    found = copied(request_, url)
    assert type(found) is type(request_)
    assert found.url == (Request(url, encoding=request_.encoding).url if url else request_.url)
    assert own_attributes(found) == own_attributes(request_)
    for name in set(Request.attributes) - {"url"}:
        assert getattr(found, name) == getattr(request_, name), name
    for name in ("meta", "headers", "cb_kwargs", "flags"):
        assert getattr(found, name) is not getattr(request_, name), name


def test_a_copy_for_another_url_works_out_anew_what_comes_of_that() -> None:
    request = Sited(URL)
    assert request.site == "example.com"
    found = copied(request, "http://other.example/")
    assert isinstance(found, Sited)
    assert found.site == "other.example"


def test_a_request_of_a_class_is_read_as_earlier_versions_wrote_it() -> None:
    payload = json.dumps({"class": f"{__name__}.LabelRequest", "method": "POST", "extra": {"label": [1]}})
    assert_same(CODEC.decode(URL, 0, payload.encode()), LabelRequest(URL, method="POST", label=[1]))


def test_what_a_request_keeps_and_cannot_be_stored_is_not_dropped() -> None:
    request = Waiting(url=URL)
    for name, value in (("lock", object()), ("replace", 1)):
        vars(request)[name] = value
        with pytest.raises(Unstorable):
            CODEC.encode(request)
        del vars(request)[name]
    assert own_attributes(round_trip(request)) == {"wait_time": None}


@pytest.mark.parametrize("name", ["callback", "_url", "replace", "__class__", 1])
def test_what_every_request_has_is_none_of_what_it_keeps(name: Any) -> None:
    fields = {"class": f"{__name__}.Waiting", "kept": {"!": "dict", "v": [[name, "x"]]}}
    with pytest.raises(Unreadable):
        CODEC.decode(URL, 0, dumps(fields).encode())


def test_spider_of_the_next_run_gets_its_own_methods() -> None:
    payload = CODEC.encode(Request(URL, SPIDER.parse, errback=SPIDER.failed))
    other = PayloadSpider()
    found = Codec(other).decode(URL, 0, payload)
    assert (found.callback, found.errback) == (other.parse, other.failed)


class HandlingSpider(PayloadSpider):
    """Keeps one of its methods, and one of another, under names that come before those of the class."""

    def __init__(self, handler: str, others: Delegate) -> None:
        super().__init__()
        self.a_handler = getattr(self, handler)
        self.another = others.parse

    def parse_book(self, response: Response) -> None:
        pass

    def parse_film(self, response: Response) -> None:
        pass


def test_a_method_is_known_by_its_own_name_whatever_the_spider_keeps() -> None:
    first, second = (HandlingSpider(name, Delegate()) for name in ("parse_book", "parse_film"))
    codec = Codec(first)
    payloads = [codec.encode(Request(URL, first.a_handler))]
    first.a_handler = first.parse_film
    payloads.append(codec.encode(Request(URL, first.a_handler)))
    found = [Codec(second).decode(URL, 0, payload).callback for payload in payloads]
    assert found == [second.parse_book, second.parse_film]


def test_a_callback_is_not_taken_for_another_that_the_spider_kept_under_its_name() -> None:
    spider = HandlingSpider("parse_book", Delegate())
    codec, kept = Codec(spider), spider.another
    payload = codec.encode(Request(URL, kept))
    spider.another = Delegate().parse
    with pytest.raises(Unstorable, match="another"):
        codec.encode(Request(URL, spider.another))
    assert codec.decode(URL, 0, payload).callback == kept


class Shy:
    """Can be called, but not for the asking."""

    def __call__(self) -> None:
        pass

    def __get__(self, spider: Any, kind: Any) -> Any:
        raise LookupError("not yet")


class TouchySpider(PayloadSpider):
    """Opens a browser, or needs what the first page brings, wherever somebody looks at a property."""

    a_shy = Shy()
    opened = 0

    def __init__(self) -> None:
        super().__init__()
        self.parse_later = MethodType(parse_later, self)

    @property
    def a_browser(self) -> Any:
        TouchySpider.opened += 1
        return TouchySpider.parse_book

    @cached_property
    def base(self) -> str:
        raise KeyError("no page yet")

    @classmethod
    def parse_all(cls, response: Response) -> None:
        pass

    def parse_book(self, response: Response) -> None:
        pass

    parse_first = partialmethod(parse_book)


def parse_later(spider: Spider, response: Response) -> None:
    pass


def test_no_property_is_looked_at_to_find_the_name_of_a_callback() -> None:
    spider = TouchySpider()
    for name in ("parse_book", "parse_all", "parse_later", "parse"):
        assert Codec(spider).callbacks.name_of(getattr(spider, name)) == name
    with pytest.raises(Unstorable):
        Codec(spider).callbacks.name_of(spider.parse_first)
    assert TouchySpider.opened == 0


def test_plain_request_is_no_bytes_at_all() -> None:
    assert CODEC.encode(Request(URL, priority=3)) == b""


class LocalRequest(Request):
    pass


LocalRequest.__qualname__ = "nowhere.LocalRequest"


@pytest.mark.parametrize(
    "given",
    [
        {"callback": lambda response: None},
        {"callback": parse_outside},
        {"callback": partial(SPIDER.parse)},
        {"callback": Delegate().parse},
        {"callback": SPIDER.delegate.parse},
        {"callback": SPIDER.log},
        {"errback": SPIDER.update_settings},
        {"callback": PayloadSpider().parse},
        {"errback": lambda failure: None},
        {"meta": {"lock": object()}},
        {"meta": {"deep": [{"in": (Response(URL),)}]}},
        {"meta": {object(): 1}},
        {"cb_kwargs": {"response": Response(URL)}},
        {"cb_kwargs": {"generator": (number for number in ())}},
        {"cb_kwargs": {"function": parse_outside}},
        {"cookies": {"a": object()}},
        {"flags": [object()]},
    ],
)
def test_what_is_no_plain_data_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Unstorable):
        CODEC.encode(Request(URL, **given))


def test_class_that_cannot_be_imported_is_refused() -> None:
    with pytest.raises(Unstorable, match="LocalRequest"):
        CODEC.encode(LocalRequest(URL))


@pytest.mark.parametrize("depth", [None, 100_000])
def test_endless_and_very_deep_data_is_refused(depth: int | None) -> None:
    endless: list[Any] = []
    if depth is None:
        endless.append(endless)
    for _ in range(depth or 0):
        endless = [endless]
    with pytest.raises(Unstorable):
        CODEC.encode(Request(URL, meta={"endless": endless}))


def test_class_method_comes_back() -> None:
    request = Request(URL, SPIDER.parse_of_class)
    assert_same(round_trip(request), request)


# -- plain data -----------------------------------------------------------------------------------------

TIMES = st.datetimes().map(lambda time: time.replace(fold=0))
LEAVES = st.text(max_size=5) | st.integers() | st.sampled_from([True, None, "!", b"", b"\xff", 0.5])
KEYS = LEAVES | st.tuples(LEAVES, LEAVES) | st.frozensets(LEAVES, max_size=2)
PLAIN = st.recursive(
    LEAVES | st.floats(allow_nan=False) | TIMES | st.dates() | st.binary(max_size=5),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=3),
        st.sets(KEYS, max_size=3),
    ),
    max_leaves=8,
)


@given(PLAIN)
@settings(max_examples=3 * EXAMPLES)
def test_plain_data_comes_back_from_json_with_its_types(value: Any) -> None:
    found = from_plain(json.loads(json.dumps(to_plain(value))))
    assert found == value
    assert repr(typed(found)) == repr(typed(value))


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Book(Item):
    title = Field()
    parts = Field()


@dataclass(frozen=True)
class Price:
    amount: Decimal
    when: date | None = None


@attrs.define
class Shop:
    name: str
    prices: list[Price]


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Size.LARGE,
        Decimal("1.10"),
        Book(title="T", parts=[Book(title="t"), {1}]),
        Price(Decimal(1), date(2020, 1, 2)),
        Shop("S", [Price(Decimal(2))]),
        {Colour.RED: (Size.LARGE, Book())},
    ],
    ids=repr,
)
def test_items_and_the_like_come_back(value: Any) -> None:
    found = CODEC.decode(URL, 0, CODEC.encode(Request(URL, meta={"value": value}))).meta["value"]
    assert found == value
    assert type(found) is type(value)


def test_text_of_parsers_comes_back_as_text() -> None:
    response = HtmlResponse(URL, body=b"<a href='/b'>a <b>link</b></a>")
    meta = {"link_text": LinkExtractor().extract_links(response)[0].text, "n": numpy.float64(0.5)}
    found = CODEC.decode(URL, 0, CODEC.encode(Request(URL, meta=meta))).meta
    assert found == {"link_text": "a link", "n": 0.5}
    assert [type(each) for each in found.values()] == [str, float]


@pytest.mark.parametrize(
    "path", ["os.system", "subprocess.Popen", "builtins.dict", "scrapy.Spider", "no.such"]
)
def test_a_payload_makes_nothing_but_items(path: str) -> None:
    payload = json.dumps({"meta": {"x": {"!": "item", "class": path, "v": {}}}}).replace(" ", "")
    with pytest.raises(Unreadable):
        CODEC.decode(URL, 0, payload.encode())


def typed(value: Any) -> Any:
    """*value* with the types of all it holds and in an order of its own: equals have one `repr`."""
    if isinstance(value, dict):
        pairs = [(typed(key), typed(item)) for key, item in value.items()]
        return ["dict", sorted(pairs, key=repr)]
    if isinstance(value, set | frozenset):
        return [type(value).__name__, sorted(map(typed, value), key=repr)]
    if isinstance(value, list | tuple):
        return [type(value).__name__, list(map(typed, value))]
    return [type(value).__name__, value]


@given(*[st.dictionaries(st.text(max_size=5), PLAIN, max_size=3)] * 2)
def test_any_plain_meta_comes_back(meta: dict[str, Any], cb_kwargs: dict[str, Any]) -> None:
    meta.pop("verbatim_url", None)
    request = Request(URL, meta=meta, cb_kwargs=cb_kwargs)
    found = round_trip(request)
    assert typed(found.meta) == typed(meta)
    assert typed(found.cb_kwargs) == typed(cb_kwargs)


@given(st.dictionaries(st.text(max_size=5), PLAIN, max_size=3))
def test_a_payload_of_meta_alone_is_that_of_a_request_with_it(meta: dict[str, Any]) -> None:
    meta.pop("verbatim_url", None)
    assert meta_payload(meta) == Codec(Spider("any")).encode(Request("http://h/", meta=meta))


@pytest.mark.parametrize("callbacks", [(None, None), (SPIDER.parse, None), (SPIDER.parse, SPIDER.failed)])
@pytest.mark.parametrize("referer", [None, "http://h/a?b=c", 'http://h/\u00e4"quoted"'])
@pytest.mark.parametrize("meta", [{}, {"depth": 1}, {"rule": 0, "link_text": '\ufdd0"\ud800', "depth": 2}])
def test_a_payload_of_a_link_is_that_of_a_request_for_it(
    callbacks: tuple[Any, Any], referer: str | None, meta: dict[str, Any]
) -> None:
    headers = None if referer is None else {"Referer": referer}
    request = Request(URL, callbacks[0], errback=callbacks[1], headers=headers, meta=meta)
    assert Codec(SPIDER).of_link(*callbacks, referer, meta) == Codec(SPIDER).encode(request)


# -- garbage --------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
FIELDS = st.sampled_from(
    [
        *Request.attributes,
        "class",
        "extra",
        "kept",
        "callback",
        "headers",
        "!",
        "v",
        "priority",
        "unknown",
        "",
    ]
)
TAGGED = st.fixed_dictionaries(
    {"!": st.sampled_from(["dict", "tuple", "set", "bytes", "datetime", "date", "frozenset", "x"]), "v": JSON}
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
@example(b'{"class": "scrapy_frontier.crawl.codec.Codec"}')
@example(b'{"callback": "__init__"}')
@example(b'{"callback": "."}')
@settings(max_examples=5 * EXAMPLES)
def test_garbage_is_unreadable_and_nothing_worse(payload: bytes) -> None:
    try:
        found = CODEC.decode(URL, 0, payload)
    except Unreadable:
        return
    assert isinstance(found, Request)


@pytest.mark.parametrize("url", ["", "no-scheme", ":", "//host/"])
def test_url_that_makes_no_request_is_unreadable(url: str) -> None:
    with pytest.raises(Unreadable):
        CODEC.decode(url, 0, b"")


@given(st.text())
@settings(max_examples=3 * EXAMPLES)
def test_any_url_comes_back(text: str) -> None:
    """The URL of a request is clean already: to build it again changes nothing."""
    try:
        request = Request(f"http://example.com/{text}")
    except ValueError:
        assume(False)
    assert round_trip(request).url == request.url


@pytest.mark.parametrize("callbacks", [{}, {"callback": SPIDER.parse}, {"errback": SPIDER.failed}])
@pytest.mark.parametrize("referer", [None, 'http://example.com/\u00e4"quoted"', ["a", "b"]])
def test_referer_comes_back(callbacks: dict[str, Any], referer: Any) -> None:
    request = Request(URL, headers={"Referer": referer} if referer else None, **callbacks)
    assert_same(round_trip(request), request)


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


# -- fingerprints ---------------------------------------------------------------------------------------

FINGERPRINTER = RequestFingerprinter()

LABELS = st.one_of(
    st.sampled_from(["example", "a", "a-b", "-a", "a-", "xn--mnchen-3ya", "xn--", "UPPER", "1", "a_b", ""]),
    st.sampled_from(["a" * 63, "a" * 64, "m\u00fcnchen", "\u4e2d", "stra\u00dfe", "\u0130", "%41"]),
    st.text(string.ascii_lowercase + string.digits + "-", max_size=4),
)
PORTS = st.sampled_from(["", "", ":", ":80", ":443", ":0080", ":8080", ":0", ":99999", ":x"])
SEGMENTS = st.sampled_from(
    ["", "a", "B", "..", ".", "...", "~", "%7E", "%2F", "%zz", "a b", "+", "a;p=1", ";", "\u00e4", "i.html"]
)
WORDS = st.sampled_from(
    ["", "a", "b", "B", "1", "10", "a.b", "~", "%20", "+", "\u00e4", ";", "=", "%26", "a;b"]
)
PAIRS = st.one_of(
    st.tuples(WORDS, WORDS).map("=".join), WORDS, st.text(string.ascii_letters + "=.&;", max_size=5)
)
COMMON = st.from_regex(r"https?://[a-z0-9.-]{1,8}(:[0-9]+)?(/[a-z./~;]*)?(\?[ab=&.;]*)?(#a)?", fullmatch=True)


@st.composite
def urls(draw: st.DrawFn) -> str:
    scheme = draw(st.sampled_from(["http", "https", "HTTP", "ftp"]))
    user = draw(st.sampled_from(["", "", "", "user@", "user:pass@"]))
    host = ".".join(draw(st.lists(LABELS, min_size=1, max_size=3)))
    path = draw(st.sampled_from(["", "/"])) + "/".join(draw(st.lists(SEGMENTS, max_size=4)))
    query = draw(st.sampled_from(["", "?"])) and "?" + "&".join(draw(st.lists(PAIRS, max_size=4)))
    fragment = draw(st.sampled_from(["", "#", "#a", "#!a", "#a?b#c", "#\u00e4"]))
    return f"{scheme}://{user}{host}{draw(PORTS)}{path}{query}{fragment}"


# Known to be wrong; `test_url_is_plain_to_us_and_not_to_scrapy` keeps them in mind.


@given(urls() | COMMON, urls() | COMMON)
@example("http://h:80/a", "http://h/b")
@example("https://h:443/a", "https://h/b")
@example("https://h/a", "http://h/b")
@example("http://h/a", "ftp://h/b")
def test_referer_is_that_of_scrapy(page: str, link: str) -> None:
    for policy in ("scrapy-default", "no-referrer-when-downgrade"):
        asked = RefererMiddleware(Settings({"REFERRER_POLICY": policy}))
        try:
            wanted = asked.policy(Response(page), Request("http://h/")).referrer(page, link)
        except ValueError:  # a port that is none
            continue
        assert Referrers(BuiltIns([asked]), Response(page)).of(link) == wanted


@given(urls() | COMMON)
@settings(max_examples=10 * EXAMPLES)
def test_plain_fingerprint_is_that_of_scrapy(url: str) -> None:
    """Wherever it answers; and it has to be asked for requests only, whose URLs are clean."""
    try:
        request = Request(url)
    except ValueError:
        assume(False)
    fast = plain_fingerprint(request.url)
    assert fast is None or fast == FINGERPRINTER.fingerprint(request)


@given(urls() | COMMON)
@settings(max_examples=5 * EXAMPLES)
def test_url_that_was_never_cleaned_is_cleaned_when_its_request_is_built(url: str) -> None:
    try:
        request = Request(url)
    except ValueError:
        assume(False)
    assert CODEC.decode(url, 0, b"").url == request.url


@pytest.mark.parametrize("path", [":0080/", "/..", "/a/../b", "/a/./b", "/a/."])
def test_url_is_plain_to_us_and_not_to_scrapy(path: str) -> None:
    url = f"http://example.com{path}"
    assert plain_fingerprint(url) in (None, FINGERPRINTER.fingerprint(Request(url)))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "http://example.com/",
        "http://example.com:8080/a/b.html",
        "https://example.com/a?b=c",
        "https://example.com/?z=1&a=2&a=1&b=",
        "http://example.com/a/b#c",
        "http://127.0.0.1:8080/",
    ],
)
def test_plain_fingerprint_answers_for_common_urls(url: str) -> None:
    assert plain_fingerprint(url) == FINGERPRINTER.fingerprint(Request(url))


# -- size -----------------------------------------------------------------------------------------------


def test_page_with_a_callback_costs_less_than_150_bytes_beyond_its_url(tmp_path: Path) -> None:
    """All rows, keys included, on 20 hosts with 100 pages each."""
    pages = [f"http://www{page % 20}.example.com/some/page/{page}.html" for page in range(2000)]
    store = Store(tmp_path)
    frontier = Frontier(store, 1.0)
    for url in pages:
        request = Request(url, SPIDER.parse)
        fingerprint = FINGERPRINTER.fingerprint(request)
        link = Link(fingerprint, url, url.split("/")[2], payload=CODEC.encode(request), parent=1)
        assert frontier.discover([link], 1.0)[0].is_taken
    frontier.commit()
    total = sum(len(key) + len(value) for key, value in store.scan(b""))
    frontier.close()
    assert total / len(pages) - sum(map(len, pages)) / len(pages) < 150


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example",
        "http://a.example/b?z=1&a=2#part",
        "http://a.example/%7Ea;p?q=%20&q=+",
        "http://a.example/ä?ö=ü",
        "HTTP://A.example:80/../x",
    ],
)
def test_the_key_of_a_page_is_its_fingerprint(url: str) -> None:
    assert fingerprints.page_fingerprint(url) == fingerprint(Request(url))
    assert fingerprints.is_same_page(url, url)
    assert not fingerprints.is_same_page(url, "http://b.example/")


class LockedRequest(LabelRequest):
    """Keeps what cannot be stored, which its constructor makes; and that lifts its priority."""

    def __init__(self, *given: Any, priority: int = 0, **named: Any) -> None:
        super().__init__(*given, priority=priority + 10, **named)
        self.lock = threading.Lock()


class FilteredRequest(Request):
    """Is given a function, or has another one."""

    def __init__(self, *given: Any, clean: Any = str.strip, **named: Any) -> None:
        super().__init__(*given, **named)
        self.clean = clean


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (LockedRequest(URL, label="name", meta={"a": 1}), "lock is not plain data"),
        (FilteredRequest(URL), "method_descriptor is not plain data"),
        (FilteredRequest(URL, clean=parse_outside), "function is not plain data"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_no_constructor_stands_in_for_what_cannot_be_stored(request_: Request, reason: str) -> None:
    """It might do to the rest what it has done before, or not know what it was given."""
    with pytest.raises(Unstorable, match=reason):
        CODEC.encode(request_)


class ShopRequest(Request):
    """Calls its URL something else."""

    def __init__(self, shop_url: str, *given: Any, **named: Any) -> None:
        super().__init__(shop_url, *given, **named)


def test_a_request_that_an_earlier_version_wrote_of_any_class_is_read() -> None:
    path = f"{__name__}.ShopRequest"
    payload = json.dumps({"class": path, "extra": {}}).encode()
    found = CODEC.decode("http://a.example/", 3, payload)
    assert (type(found), found.url, found.priority) == (ShopRequest, "http://a.example/", 3)
