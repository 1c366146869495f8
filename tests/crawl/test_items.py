"""Items in requests: they come back whole, or stay in memory; and nothing that they do loses a request."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
import pytest
from scrapy import Field, Item, Request, Spider
from test_plain_objects import Step, round_trip

from scrapy_frontier.crawl.codec import Codec, Unstorable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

URL = "http://example.com/a"
Value = TypeVar("Value")


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
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.record = Lazy()


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(URL, meta={"a": Lazy()}), "raised .*Closed"),
        (Request(URL, cb_kwargs={"a": [Lazy()]}), "raised .*Closed"),
        (Request(URL, Unhashable()), "raised KeyError: 'a'"),
        (LazyRequest(URL), "raised .*Closed"),
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


@dataclass
class Unset:
    number: int
    text: str = field(init=False, repr=False)


@attrs.define
class UnsetSlot(Generic[Value]):
    number: Value
    text: str = attrs.field(init=False, repr=False, eq=False)


@dataclass(frozen=True)
class Price(Generic[Value]):
    amount: Value
    text: str = field(init=False, repr=False, compare=False)


@pytest.mark.parametrize("value", [Unset(1), UnsetSlot(1), Price(1)], ids=repr)
def test_a_field_that_is_not_set_yet_is_not_set_when_it_comes_back(value: Any) -> None:
    found = round_trip(value)
    assert type(found) is type(value)
    assert not hasattr(found, "text")
    object.__setattr__(value, "text", "a")
    assert round_trip(value).text == "a"


def test_the_types_chosen_for_a_generic_class_are_no_part_of_its_objects() -> None:
    items = [Price[int](1), Price[Any](Price[str]("a")), UnsetSlot[int](1)]
    assert round_trip(items) == items
    assert vars(round_trip(Step[int]("a"))) == vars(Step("a"))


@dataclass
class Row(dict[str, Any]):
    number: int = 1


@attrs.define(slots=False)
class Rows(list[int]):
    number: int = 1


@dataclass(eq=False)
class Numbers(set[int]):
    number: int = 1


@dataclass(frozen=True)
class Named(str):
    number: int = 1


@attrs.frozen(slots=False)
class Counted(int):
    number: int = 1


@dataclass
class Trouble(Exception):
    number: int = 1


class Noted:
    __slots__ = ("note",)


@dataclass
class Note(Noted):
    number: int = 1


@attrs.define
class Listing(Noted):
    """As the items of zyte-common-items."""

    number: int = 1

    def __attrs_post_init__(self) -> None:
        self.note = {}


@pytest.mark.parametrize("kind", [Note, Listing])
def test_what_an_item_has_in_a_slot_beside_its_fields_comes_back(kind: type) -> None:
    item = kind(2)
    item.note = {"unknown": (1,)}
    found = round_trip([item, item])
    assert found == [item, item]
    assert [each.note for each in found] == [{"unknown": (1,)}] * 2
    item.note = threading.Lock()
    with pytest.raises(Unstorable):
        round_trip(item)
    del item.note
    assert not hasattr(round_trip(item), "note")


@pytest.mark.parametrize("value", [Row(), Rows(), Numbers(), Named("a"), Counted(2), Trouble()], ids=repr)
def test_items_that_are_more_than_their_fields_cannot_be_stored(value: Any) -> None:
    with pytest.raises(Unstorable):
        round_trip(value)


@attrs.define(slots=False, unsafe_hash=True, cache_hash=True)
class Hashed:
    text: str


@attrs.frozen(cache_hash=True)
class HashedSlot:
    text: str


class Hashing(Hashed):
    """Keeps something besides."""


def hashing() -> Hashing:
    value = Hashing("a")
    value.more = 1
    return value


@pytest.mark.parametrize("value", [Hashed("a"), HashedSlot("a"), hashing()], ids=repr)
def test_the_hash_of_another_process_is_not_stored(value: Any) -> None:
    assert str(hash(value)) not in Codec(Spider("a")).encode(Request(URL, meta={"a": value})).decode()
    assert round_trip({value}) == {value}


@dataclass
class Measured:
    """A field that is a property is in another one, by which it is set in a way of its own."""

    inches: float = field(init=False)
    size: float

    @property
    def size(self) -> float:
        return self.inches

    @size.setter
    def size(self, size: float) -> None:
        self.inches = size / 2.5


class Kept:
    """Keeps a field of its items by itself."""

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}

    def __get__(self, item: Any, kind: type) -> Any:
        return self.kept[id(item)]

    def __set__(self, item: Any, part: Any) -> None:
        self.kept[id(item)] = part


@dataclass
class Keeping:
    number: int
    text: str = field(init=False)


Keeping.text = Kept()


class Whole:
    """Keeps a field of an item in another attribute of it."""

    def __get__(self, item: Any, kind: type) -> Any:
        return item._whole

    def __set__(self, item: Any, part: Any) -> None:
        item._whole = int(part)


@dataclass
class Rounded:
    number: int = field(init=False)


Rounded.number = Whole()


def test_a_field_that_is_none_comes_back_by_what_it_stands_for() -> None:
    assert round_trip(Measured(5.0)).size == 2
    rounded = Rounded()
    rounded.number = 1.5
    assert round_trip(rounded).number == 1
    with pytest.raises(Unstorable, match="'text'"):
        round_trip(Keeping(1))


class Dated(Item):  # type: ignore[misc]
    text = Field()
    date = Field()

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.setdefault("date", "today")

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value + "!")


def test_an_item_is_not_made_once_more() -> None:
    item = Dated(text="a")
    del item["date"]
    assert dict(round_trip(item)) == {"text": "a!"}


@dataclass
class Shop:
    offers: list[Any]


def test_an_item_may_hold_many_others_and_these_share_some() -> None:
    currency = Price("EUR")
    offers = [Price((number, Shop([currency]))) for number in range(6000)]
    for shop in (Shop(offers), Shop([currency] * 6000), Shop([{"is": currency} for _ in range(6000)])):
        assert round_trip(shop) == shop


def test_it_is_said_which_items_are_held_in_too_many_ways() -> None:
    shop: Any = Price(1)
    for _ in range(20):
        shop = Shop([shop, shop])
    with pytest.raises(Unstorable, match=r"\.(Price|Shop) is held in too many ways"):
        round_trip(shop)
    price = Price(shop)
    shop.offers = [Price(price)]
    with pytest.raises(Unstorable, match=r"\.Shop holds itself"):
        round_trip(shop)
    shop.offers = []
    assert round_trip(price) == price
