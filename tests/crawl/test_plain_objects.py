"""What plugins put into ``meta``: simple values, classes, objects that are no more than their attributes."""

from __future__ import annotations

import struct
import subprocess
import threading
from abc import ABC
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, timezone
from enum import Flag
from functools import cached_property
from io import BytesIO
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Field, Item, Request, Spider
from scrapy.http import Response
from server import Answer

from scrapy_frontier.crawl.codec import Codec, Unreadable, Unstorable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Crawl
    from server import Web

URL = "http://example.com/a"
Popen = subprocess.Popen  # as a module has it that imports it by name
Value = TypeVar("Value")
Pair = namedtuple("Pair", "left right")


class Place(NamedTuple):
    name: str
    tags: Any = ()


class Step(Generic[Value]):
    """As plugins have them: what is to be done with a page."""

    def __init__(self, *what: Any) -> None:
        self.what = what
        self.__hidden = {"!": 1}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


class Wait(Step[int], ABC):
    pass


class Slotted:
    __slots__ = ("a",)


class SlottedBelow(Slotted):
    pass


class Listed(list[int]):
    pass


class Callback(Step[int]):
    def __call__(self) -> None:
        pass


class Pickled(Step[int]):
    def __reduce__(self) -> tuple[Any, ...]:
        return Pickled, ()


class Connection(Step[int]):
    def __enter__(self) -> None:
        pass


class Made(Step[int]):
    def __new__(cls, *_: Any) -> Made:
        return object.__new__(cls)


class Trouble(Exception):
    pass


def round_trip(value: Any) -> Any:
    """*value* as another process gets it."""
    payload = Codec(Spider("a")).encode(Request(URL, meta={"value": value}))
    return Codec(Spider("a")).decode(URL, 0, payload).meta["value"]


def holding_itself() -> Step[int]:
    step = Step[int]()
    step.what = (list(range(100_000)), {"me": [step]})
    return step


def chained(length: int) -> Any:
    step: Any = None
    for _ in range(length):
        step = Step(step)
    return step


@pytest.mark.parametrize(
    "value",
    [
        *(Step("click", 1), Step(), Step([Step({"a": (1,)}), Wait("b")], UUID(int=3)), Wait(dict)),
        *(dict, Step, [Wait, Response], {Step: 1}, frozenset({Wait, int})),
        *(Place("a"), Place("a", [Pair(1, {2})]), Pair(Step(), None)),
        *(defaultdict(list, {"a": [1]}), defaultdict(None, {1: 2}), defaultdict(Counter, a=Counter("b"))),
        *(OrderedDict([("b", 1), ("a", 2), ((1,), 3)]), OrderedDict({"!": 1}), Counter("abba")),
        *(deque([1, (2,)], 3), deque(), bytearray(b"\xff"), range(9, 1, -2), SimpleNamespace(a=Step(1))),
        *(timezone.utc, timezone(timedelta(hours=1)), timezone(-timedelta(hours=2), "there")),
        *(time(1, 2, 3, 4), time(5, tzinfo=timezone.utc), Path("/a/b"), PurePath("c"), complex(1, -0.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_comes_back(value: Any) -> None:
    found = round_trip(value)
    assert found == value
    assert type(found) is type(value)
    assert getattr(found, "default_factory", None) is getattr(value, "default_factory", None)
    assert getattr(found, "maxlen", None) == getattr(value, "maxlen", None)


COMPLEX = st.complex_numbers(allow_nan=False)
LEAVES = (
    *(st.integers(), st.text(max_size=3), st.times(), st.timedeltas(), st.uuids(), COMPLEX),
    *(st.builds(range, st.integers(-9, 9), st.integers(-9, 9)), st.sampled_from([Step, int, Path("a")])),
)


def holders(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    texts = st.text(max_size=3)
    return st.one_of(
        st.builds(Step, inner, inner),
        st.builds(Place, texts, inner),
        st.builds(deque, st.lists(inner, max_size=3), st.integers(3, 4)),
        st.dictionaries(texts, inner, max_size=3).map(OrderedDict),
        st.dictionaries(texts, inner, max_size=3).map(lambda items: defaultdict(int, items)),
        st.lists(inner, max_size=3),
    )


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "value",
    [
        *(
            datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=zone)
            for fold in (0, 1)
            for zone in (None, BERLIN, timezone(timedelta(hours=1), "CET"))
        ),
        *(datetime(2026, 10, 25, 2, fold=1, tzinfo=timezone.utc), datetime.max.replace(tzinfo=BERLIN)),
        *(time(2, 30, fold=1), time(2, tzinfo=BERLIN), BERLIN),
    ],
    ids=repr,
)
def test_times_come_back_with_their_zone_and_which_of_two_hours_they_are(value: Any) -> None:
    found = round_trip(value)
    assert repr(found) == repr(value)
    assert getattr(found, "tzinfo", None) == getattr(value, "tzinfo", None)


def test_a_zone_that_has_no_key_is_not_stored() -> None:
    head = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    zone = ZoneInfo.from_file(BytesIO(head + bytes(6) + b"UTC\0"))
    with pytest.raises(Unstorable):
        round_trip(datetime(2026, 1, 2, tzinfo=zone))


@given(st.recursive(st.one_of(*LEAVES), holders, max_leaves=8))
def test_it_comes_back_whatever_holds_it(value: Any) -> None:
    found = round_trip([value])
    assert found == [value]
    assert type(found[0]) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        *(threading.Lock(), Step(threading.Lock()), Step({"a": [open]}), Step(lambda: None), object()),
        *(holding_itself(), chained(100_000)),
        *(Slotted(), SlottedBelow(), Listed(), Callback(), Pickled(), Connection(), Made(), Trouble("a")),
        *(Popen, threading.Thread, threading.Thread(), [threading.Event()], type("Local", (), {})()),
        *(defaultdict(lambda: 1), defaultdict(Step), defaultdict(uuid4), Response(URL), Spider("a")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_more_than_its_attributes_cannot_be_stored(value: Any) -> None:
    with pytest.raises(Unstorable):
        round_trip(value)


def test_what_many_hold_is_not_written_once_for_each_way_to_it() -> None:
    """Two million times for these twenty."""
    steps: list[Step[Any]] = []
    for _ in range(21):
        steps.append(Step(list(steps)))
    with pytest.raises(Unstorable):
        round_trip(steps[-1])
    assert round_trip(steps[5]) == steps[5]


class Size(NamedTuple("Size", [("width", int)])):
    """A named tuple that may have attributes besides."""


class Access(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Product:
    """An item that keeps something beside its fields."""

    number: int
    parts: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.code = f"p{self.number}"

    @cached_property
    def size(self) -> int:
        return 2 * self.number


class Secretive(Item):  # type: ignore[misc]
    number = Field()


def test_what_items_have_beside_their_fields_comes_back_or_they_are_not_stored() -> None:
    product = Product(1)
    product.code = "a"
    assert product.size == 2
    assert round_trip(product).code == "a"
    item = Secretive(number=1)
    assert round_trip(item) == item
    item._from = "elsewhere"
    with pytest.raises(Unstorable):
        round_trip(item)


@dataclass
class Part:
    parts: list[Any]


def test_items_that_many_hold_are_not_written_once_for_each_way_to_them_either() -> None:
    parts: list[Part] = []
    for _ in range(21):
        parts.append(Part(list(parts)))
    with pytest.raises(Unstorable):
        round_trip(parts[-1])
    assert round_trip(parts[5]) == parts[5]


def test_what_would_not_come_back_whole_cannot_be_stored() -> None:
    assert round_trip([Size(1), Access.READ]) == [Size(1), Access.READ]
    size = Size(1)
    size.unit = "cm"
    for value in (size, Access.READ | Access.WRITE, Access(0)):
        with pytest.raises(Unstorable):
            round_trip(value)


def test_it_can_be_stored_again_after_it_could_not() -> None:
    step: Step[int] = Step(threading.Lock())
    with pytest.raises(Unstorable):
        round_trip(step)
    step.what = ("b",)
    assert round_trip([step, step]) == [step, step]


@pytest.mark.parametrize(
    "text",
    [
        *('"class","v":"subprocess.Popen"', '"class","v":"no.such"', '"class","v":"os.system"', '"class"'),
        *(f'"class","v":"{__name__}.Popen"', f'"class","v":"{__name__}.URL"', '"class","v":[]'),
        *(f'"object","class":"{__name__}.{name}","v":{{}}' for name in ("Callback", "Slotted", "Popen")),
        *('"object","class":"builtins.dict","v":{}', '"object","class":"scrapy.Spider","v":{}'),
        *(f'"object","class":"{__name__}.Step","v":[1]', '"object","class":"threading.Thread","v":{}'),
        *('"defaultdict","v":["Popen",{}]', '"range","v":[1.5]', '"UUID","v":["a"]', '"no such"'),
        f'"item","class":"{__name__}.Place","v":{{}}',
    ],
)
def test_a_stranger_makes_nothing_else(text: str) -> None:
    with pytest.raises(Unreadable):
        Codec(Spider("a")).decode(URL, 0, f'{{"meta":{{"value":{{"!":{text}}}}}}}'.encode())


def test_a_field_that_a_named_tuple_got_since_has_its_default() -> None:
    text = f'{{"meta":{{"value":{{"!":"item","class":"{__name__}.Place","v":{{"name":"a","old":1}}}}}}}}'
    assert Codec(Spider("a")).decode(URL, 0, text.encode()).meta["value"] == Place("a")


STOP = {"CLOSESPIDER_PAGECOUNT": 4, "CONCURRENT_REQUESTS": 1}


class StepSpider(Spider):
    """Tells a plugin what is to be done with each page, and where a callback finds what it needs."""

    name = "steps"
    until = datetime(2026, 1, 2, tzinfo=timezone.utc)

    def parse(self, response: Response) -> Iterator[Any]:
        for link in response.css("a::attr(href)").getall():
            meta = {"steps": [Step("wait", timedelta(seconds=1))], "inject": [Wait]}
            yield response.follow(link, self.parse_linked, meta=meta)

    def parse_linked(self, response: Response) -> Iterator[Any]:
        (step,), (wanted,) = response.meta["steps"], response.meta["inject"]
        assert step == Step("wait", timedelta(seconds=1))
        assert wanted is Wait
        yield {"url": response.url}


def test_pages_with_objects_of_plugins_outlive_a_clean_stop(web: Web, run: Callable[..., Crawl]) -> None:
    linked = [f"/{number}" for number in range(20)]
    url = web.link("/", *linked)
    crawls = [run(StepSpider, STOP, start_urls=[url]), run(StepSpider, start_urls=[url])]
    assert sorted(web.paths()) == sorted(["/", *linked])
    assert sum(crawl.stats["item_scraped_count"] for crawl in crawls) == 20
    assert not any("scheduler/unserializable" in crawl.stats for crawl in crawls)


class Rendered(Request):
    """As browser plugins have them: what is to be done comes first, and is kept on the request."""

    def __init__(self, script: Any = None, *given: Any, **named: Any) -> None:
        self.script = script
        super().__init__(*given, **named)


class RenderedSpider(Spider):
    name = "rendered"

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(60):
            yield Rendered(("go", number), response.urljoin(f"/{number}"), self.parse_rendered)

    def parse_rendered(self, response: Response) -> Iterator[Any]:
        request = response.request
        assert isinstance(request, Rendered)
        assert request.script == ("go", int(response.url.rpartition("/")[2]))
        yield {"url": response.url}


@pytest.mark.parametrize("runs", [[STOP, {}], [{"FRONTIER_DIR": None}]], ids=["kept", "temporary"])
def test_pages_of_a_request_class_of_its_own_are_fetched_with_all_it_says(
    web: Web, run: Callable[..., Crawl], runs: list[dict[str, Any]]
) -> None:
    crawls = [run(RenderedSpider, settings, start_urls=[web.url("/")]) for settings in runs]
    assert sorted(web.paths()) == sorted(["/", *(f"/{number}" for number in range(60))])
    assert sum(crawl.stats["item_scraped_count"] for crawl in crawls) == 60


class Zoned(Rendered):
    """Cannot be made without its zone, which is none of its `attributes`."""

    def __init__(self, zone: str, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.zone = zone


class ZonedSpider(Spider):
    name = "zoned"
    paths: tuple[str, ...] = ()

    def parse(self, response: Response) -> Iterator[Any]:
        for path in self.paths:
            yield Zoned("eu", ("go",), response.urljoin(path), self.parse_zoned)

    def parse_zoned(self, response: Response) -> Iterator[Any]:
        request = response.request
        assert isinstance(request, Zoned)
        yield {"kept": (request.zone, request.script)}


@pytest.mark.parametrize("directory", [{}, {"FRONTIER_DIR": None}], ids=["kept", "temporary"])
def test_a_request_class_is_asked_for_nothing_where_its_page_gets_another_url_or_waits(
    web: Web, run: Callable[..., Crawl], directory: dict[str, Any]
) -> None:
    paths = ["/session?PHPSESSID=0123456789abcdef0123456789abcdef", "/state#!x", "/form", "/alias", "/rest"]
    web.on("/form", body='<meta name="fragment" content="!">')
    web.on("/alias", body='<link rel="canonical" href="/canonical">')
    web.on("/rest", Answer(status=503, headers={"Retry-After": "1"}), Answer())
    settings = {"ADDONS": {"scrapy_frontier.Addon": 500}, "FRONTIER_AJAX": True, **directory}
    crawl = run(ZonedSpider, settings, start_urls=[web.url("/")], paths=paths)
    forms = ["/form?_escaped_fragment_=", "/state?_escaped_fragment_=x"]
    fetched = ["/", "/alias", "/canonical", "/form", "/rest", "/rest", "/session", *forms]
    assert sorted(web.paths()) == sorted(fetched)
    assert crawl.stats["item_scraped_count"] == 6
    assert "Traceback" not in crawl.log
