"""Settings that make no sense are refused, with what to set instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_frontier import settings as frontier_settings
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.crawl import politeness_key
from scrapy_frontier.crawl.politeness_key import PolitenessKeys, registered_domain
from scrapy_frontier.settings import FrontierSetting, FrontierSettings, unknown_names


def read(**settings: Any) -> FrontierSettings:
    return FrontierSettings(Settings(settings))


@pytest.mark.parametrize(
    ("settings", "meta", "attempts"),
    [
        ({}, {}, 10),
        ({"RETRY_TIMES": 20}, {}, 21),
        ({}, {"max_retry_times": 2}, 10),
        ({}, {"max_retry_times": 15}, 16),
        ({}, {"max_retry_times": "many"}, 10),
        ({"FRONTIER_MAX_ATTEMPTS": 5}, {"max_retry_times": 15}, 5),
    ],
)
def test_attempts_are_those_that_somebody_asks_for(
    settings: dict[str, Any], meta: dict[str, Any], attempts: int
) -> None:
    assert read(**settings).attempts_for(meta) == attempts


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("FRONTIER_COOLDOWN", -1, "a number of at least 0"),
        ("FRONTIER_COOLDOWN", "soon", "a number of at least 0"),
        ("FRONTIER_END_WAIT", "inf", "a number of at least 0"),
        ("FRONTIER_POLITENESS_KEY", "hosts", "'host', 'domain', 'ip' or a function"),
        ("FRONTIER_POLITENESS_KEY", "nowhere.function", "'host', 'domain', 'ip' or a function"),
        ("FRONTIER_POLITENESS_KEY", 5, "'host', 'domain', 'ip' or a function"),
        ("FRONTIER_CLOCK", "nowhere.clock", "a function that returns seconds"),
        ("FRONTIER_REVISIT", "daily", "'never', 'interval', 'adaptive'"),
        ("FRONTIER_SHELF_LIFE", "weekly", "set seconds, at least 1, or inf"),
        ("FRONTIER_SHELF_LIFE", {"/news(": 5}, "no regular expression"),
        ("FRONTIER_SHELF_LIFE", {"/news": 0}, "set seconds, at least 1, or inf"),
        ("FRONTIER_REVISIT_HORIZON", -1, "set seconds, at least 0, or inf"),
        ("FRONTIER_REVISIT_BOUNDS", (9, 5), "the least and the most seconds"),
        ("FRONTIER_REVISIT_BOUNDS", "5", "the least and the most seconds"),
        ("FRONTIER_REVISIT_BOUNDS", (5, float("inf")), "the least and the most seconds"),
        ("FRONTIER_REVISIT_SHARE", 50, "a share, 0 to 1"),
        ("FRONTIER_HUBS", 5, "URLs or patterns"),
        ("FRONTIER_DIGEST", "words", "'body', 'text', 'links' or a function"),
        ("FRONTIER_UNCHANGED", "tell", "'skip', 'call'"),
        ("RETRY_TIMES", "x", "= 'x': set a whole number"),
        ("DOWNLOAD_TIMEOUT", "soon", "= 'soon': set a number"),
        ("URLLENGTH_LIMIT", "2k", "= '2k': set a whole number"),
        ("RETRY_ENABLED", "some", "= 'some': set True or False"),
        ("FRONTIER_NOFOLLOW", "['nofollow', 'ugc']", 'a list of words, as ["nofollow"]'),
        ("FRONTIER_NOFOLLOW", '["nofollow"', 'a list of words, as ["nofollow"]'),
        ("FRONTIER_NOFOLLOW", '{"nofollow": true}', 'a list of words, as ["nofollow"]'),
        ("FRONTIER_NOFOLLOW", ["nofollow ugc"], 'a list of words, as ["nofollow"]'),
    ],
)
def test_a_senseless_value_is_refused(name: str, value: Any, remedy: str) -> None:
    with pytest.raises(FrontierSetting, match=name) as refused:
        read(**{name: value})
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('["nofollow", "UGC"]', {"nofollow", "ugc"}),
        ("nofollow, ugc", {"nofollow", "ugc"}),
        (("nofollow",), {"nofollow"}),
        ("[]", set()),
        ("", set()),
    ],
)
def test_link_types_may_be_written_as_on_a_command_line(value: Any, found: set[str]) -> None:
    assert read(FRONTIER_NOFOLLOW=value).nofollow_rels == found


def test_every_setting_there_is_is_known() -> None:
    text = Path(frontier_settings.__file__).read_text(encoding="utf-8")
    names = set(re.findall(r'"(FRONTIER_\w+)"', text))
    assert len(names) == 33
    assert unknown_names(Settings(dict.fromkeys(names))) == []
    assert unknown_names(Settings({"FRONTIER": 1, "FRONTIERS": 1, "MY_FRONTIER_DIR": 1})) == []


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.com", "example.com"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("example.com", "example.com"),
        ("co.uk", "co.uk"),
        ("k12.ak.us", "k12.ak.us"),  # a suffix of three labels
        ("a.b.ide.kyoto.jp", "b.ide.kyoto.jp"),
        ("www.city.kobe.jp", "city.kobe.jp"),  # an exception of the list
        ("localhost", "localhost"),
        ("127.0.0.2", "127.0.0.2"),
        ("2001:db8::1", "2001:db8::1"),
        ("", ""),
    ],
)
def test_registered_domains(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


def test_the_unit_of_a_url() -> None:
    url = "https://www.example.com:8080/a"
    assert PolitenessKeys("host").of(url) == "www.example.com"
    assert PolitenessKeys("domain").of(url) == "example.com"
    by_address = PolitenessKeys("ip")
    assert by_address.of(url) == "www.example.com"
    by_address.learn("www.example.com", "192.0.2.1")
    assert by_address.of(url) == "192.0.2.1"


@pytest.mark.parametrize("answer", [None, "", 5, ValueError("no")])
def test_a_function_without_an_answer_loses_no_url(answer: Any) -> None:
    def function(url: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert PolitenessKeys(function).of("http://a.example/") == "a.example"
    assert PolitenessKeys(lambda url: "a\0b").of("http://a.example/") == "ab"


def test_addresses_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(politeness_key, "_MOST_ADDRESSES", 10)
    units, urls = PolitenessKeys("ip"), [f"http://h{number}.example/" for number in range(25)]
    for number in range(25):
        units.learn(f"h{number}.example", "192.0.2.1")
    assert units.of(urls[-1]) == "192.0.2.1"
    assert sum(units.of(url) == "192.0.2.1" for url in urls) <= 10


def test_pages_are_visited_once_unless_one_says_more() -> None:
    assert read(FRONTIER_SHELF_LIFE=5).revisits is None
    rule = read(FRONTIER_REVISIT="interval").revisits
    assert rule == RevisitRule()


@pytest.mark.parametrize(
    ("name", "value", "field", "found"),
    [
        ("FRONTIER_SHELF_LIFE", "3600", "shelf_life", 3600.0),
        ("FRONTIER_SHELF_LIFE", "inf", "shelf_life", float("inf")),
        ("FRONTIER_SHELF_LIFE", {"/a": 5, "": 7}, "shelf_lives", (("/a", 5.0),)),
        ("FRONTIER_SHELF_LIFE", '{"/a": 5, "": 70}', "shelf_life", 70.0),
        ("FRONTIER_SHELF_LIFE", 60, "bounds", (60.0, 3888000.0)),
        ("FRONTIER_SHELF_LIFE", 10**8, "bounds", (3600.0, 1e8)),
        ("FRONTIER_REVISIT_BOUNDS", "60, 600", "bounds", (60.0, 600.0)),
        ("FRONTIER_REVISIT_BOUNDS", (60, 600), "bounds", (60.0, 600.0)),
        ("FRONTIER_REVISIT_HORIZON", "inf", "horizon", float("inf")),
        ("FRONTIER_REVISIT_SHARE", "0", "share", 0.0),
        ("FRONTIER_HUBS", "seeds", "hubs", (("seeds", 86400.0),)),
        ("FRONTIER_HUBS", ["/a", "http://b/"], "hubs", (("/a", 86400.0), ("http://b/", 86400.0))),
        ("FRONTIER_HUBS", '{"seeds": 60}', "hubs", (("seeds", 60.0),)),
        ("FRONTIER_HUBS", ["http://b/?c[]=1"], "hubs", (("http://b/?c[]=1", 86400.0),)),
    ],
)
def test_when_pages_come_back(name: str, value: Any, field: str, found: Any) -> None:
    rule = read(FRONTIER_REVISIT="interval", **{name: value}).revisits
    assert rule is not None
    assert getattr(rule, field) == found
