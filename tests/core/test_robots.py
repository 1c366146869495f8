"""robots.txt as RFC 9309 wants it read. Section numbers in the names of stories are the RFC's."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.parse.robots_txt import BODY_LIMIT, Hours, RequestRate, Rules, parse, product_token

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors" / "robots_txt.json"

# What other parsers' suites expect and we do not do; `docs/internals/conformance.md` says why. Tested.
DIRECTIVE_DEPARTURES = {
    "rd-023": "a bare URL on a line is no Sitemap line",
    "rd-085": "what stands before the first user-agent line belongs to nobody (2.2.1)",
    "rd-088": "what stands before the first user-agent line belongs to nobody (2.2.1)",
}


@lru_cache(maxsize=1)
def vectors() -> dict[str, Any]:
    return json.loads(VECTORS.read_text("utf-8")) if VECTORS.exists() else {}


def body_of(case: dict[str, Any]) -> bytes:
    stored = vectors()["robots_bodies"][case["robots"]]
    return stored["text"].encode() if "text" in stored else base64.b64decode(stored["base64"])


def rules_of(case: dict[str, Any]) -> Rules:
    return parse(body_of(case), case.get("agents") or case["agent"], case.get("robots_url") or "")


AGREED = [case for case in vectors().get("match", []) if case["agreed"]]
DECIDED = [case for case in vectors().get("match", []) if not case["agreed"] and case.get("rfc9309")]


@pytest.mark.parametrize("case", AGREED, ids=lambda case: case["id"])
def test_agreed_vectors(case: dict[str, Any]) -> None:
    assert rules_of(case).allowed(case["url"]) is case["allowed"]


@pytest.mark.parametrize("case", DECIDED, ids=lambda case: case["id"])
def test_decided_vectors(case: dict[str, Any]) -> None:
    by_the_rfc = {"expected": case["allowed"], "not expected": not case["allowed"]}
    assert rules_of(case).allowed(case["url"]) is by_the_rfc.get(case["rfc9309"], True)


def midnight_seconds(text: str | None) -> int | None:
    if text is None:
        return None
    hour, minute = text.removeprefix("datetime.time(").removesuffix(")").split(", ")
    return int(hour) * 3_600 + int(minute) * 60


def directive(rules: Rules, name: str) -> object:
    if name == "crawl-delay":
        return rules.crawl_delay
    if name == "sitemap":
        return list(rules.sitemaps)
    if name == "request-rate":
        return rules.request_rate[-1] if rules.request_rate else None
    if name == "visit-time":
        return rules.visit_time[-1] if rules.visit_time else None
    raise KeyError(name)


def expected_directive(case: dict[str, Any]) -> object:
    value = case["value"]
    if case["directive"] == "sitemap":
        return value or []
    if not isinstance(value, dict):
        return value
    start, end = midnight_seconds(value.get("start_time")), midnight_seconds(value.get("end_time"))
    hours = None if start is None or end is None else Hours(start, end)
    return (
        hours
        if case["directive"] == "visit-time"
        else RequestRate(value["requests"], value["seconds"], hours)
    )


DIRECTIVES = [case for case in vectors().get("directives", []) if case["directive"] != "host"]


@pytest.mark.parametrize("case", DIRECTIVES, ids=lambda case: case["id"])
def test_directive_vectors(case: dict[str, Any]) -> None:
    agrees = directive(rules_of(case), case["directive"]) == expected_directive(case)
    assert agrees is (case["id"] not in DIRECTIVE_DEPARTURES)


# --- groups -----------------------------------------------------------------------------------------------


def allowed(text: str, url: str = "http://h/x", agent: str = "mybot") -> bool:
    return parse(text.encode(), agent).allowed(url)


def test_2_2_1_every_group_that_names_the_crawler_counts_and_no_other() -> None:
    text = (
        "User-agent: mybot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n\n"
        "User-agent: other\nUser-agent: MyBot\nDisallow: /c\n"
    )
    assert [allowed(text, f"http://h/{page}") for page in "abc"] == [False, True, False]
    assert [allowed(text, f"http://h/{page}", "stranger") for page in "abc"] == [True, False, True]


@pytest.mark.parametrize("agent", ["mybot", "MYBOT", "MyBot/2.1", "mybot (+https://example.org/bot)"])
@pytest.mark.parametrize("line", ["mybot", "MyBot/1.0", "MyBot # us", "mybot and friends"])
def test_2_2_1_the_product_token_is_what_is_compared(agent: str, line: str) -> None:
    assert not allowed(f"User-agent: {line}\nDisallow: /", agent=agent)


@pytest.mark.parametrize("line", ["my", "mybots", "bot", "my-bot", "mybot2", "other mybot"])
def test_2_2_1_a_part_of_the_token_or_more_than_it_is_another_crawler(line: str) -> None:
    assert allowed(f"User-agent: {line}\nDisallow: /")


@pytest.mark.parametrize(
    "agent",
    [
        "Mozilla/5.0 (compatible; MyBot/1.0; +https://example.org/bot)",
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; MyBot/2.1; +https://example.org)",
    ],
)
def test_a_bot_dressed_as_a_browser_is_the_bot(agent: str) -> None:
    assert product_token(agent) == "mybot"


def test_several_agents_obey_what_any_of_them_is_asked() -> None:
    text = b"User-agent: mybot\nDisallow: /a\nUser-agent: parent\nDisallow: /b\nUser-agent: *\nDisallow: /c\n"
    rules = parse(text, ["mybot", "parent"])
    assert [rules.allowed(f"http://h/{page}") for page in "abc"] == [False, False, True]


@pytest.mark.parametrize(
    "between", ["Sitemap: http://h/s.xml", "Crawl-delay: 3", "Host: h", "Noindex: /x", "nonsense"]
)
def test_2_2_4_other_lines_end_no_group(between: str) -> None:
    text = f"User-agent: mybot\n{between}\nUser-agent: *\nDisallow: /\n"
    assert not allowed(text)
    assert not allowed(text, agent="stranger")


@pytest.mark.parametrize(
    "prose",
    [
        *(
            "User agent names are listed below",
            "User-agent lines follow, one a bot",
            "Disallow everything below",
        ),
        *("Allow us a moment", "Disallow / and allow", "Sitemap of our site", "Crawl delay for all bots"),
        *("Host of this site", "Visit time is money", "Request rate limits apply"),
    ],
)
def test_2_2_4_prose_is_no_field_and_ends_no_group(prose: str) -> None:
    text = f"User-agent: mybot\n{prose}\nUser-agent: other\n{prose}\nDisallow: /x\n{prose}\nDisallow: /y"
    rules = parse(text.encode(), "mybot", "https://h/robots.txt")
    assert [rules.allowed(f"https://h/{page}") for page in "xyz"] == [False, False, True]
    assert (rules.sitemaps, rules.crawl_delay, rules.request_rate, rules.visit_time) == ((), None, (), ())


def test_a_field_without_its_colon_is_read_where_its_value_looks_like_one() -> None:
    text = (
        b"user agent mybot\nallow /x/open\ndisallow /x\ncrawl delay 3\nrequest rate 1/5 0600-0800\n"
        b"visit time 0600-0845\nsitemap https://h/s.xml\nsitemap /t.xml\ndisallow *.pdf"
    )
    rules = parse(text, "mybot", "https://h/robots.txt")
    assert [rules.allowed(f"https://h/{path}") for path in ("x", "x/open", "a.pdf", "y")] == [
        *(False, True, False, True)
    ]
    assert (rules.crawl_delay, len(rules.request_rate), len(rules.visit_time)) == (3.0, 1, 1)
    assert rules.sitemaps == ("https://h/s.xml", "https://h/t.xml")


def test_a_user_agent_line_in_the_disguise_of_browsers_names_mozilla() -> None:
    text = "User-agent: Mozilla/5.0 (compatible; Butterfly/1.0)\nDisallow: /\n"
    assert allowed(text, agent="Butterfly/1.0")
    assert allowed(text, agent="Mozilla/5.0 (compatible; Butterfly/1.0)")
    assert not allowed(text, agent="Mozilla/5.0")


def test_an_empty_disallow_ends_a_run_of_user_agent_lines_and_forbids_nothing() -> None:
    text = "User-agent: mybot\nDisallow:\nUser-agent: *\nDisallow: /\n"
    assert allowed(text)
    assert not allowed(text, agent="stranger")


def test_rules_before_the_first_user_agent_line_are_nobodys() -> None:
    assert allowed("Disallow: /\nUser-agent: other\nAllow: /\n")


def test_an_unreadable_user_agent_line_takes_its_rules_with_it() -> None:
    assert allowed("User-agent: other\nUser-agent:\nDisallow: /\n")
    assert allowed("User-agent: *\nDisallow: /a\nUser-agent: !!\nDisallow: /x\n")


# --- bytes and lines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\n\n\r"])
def test_2_2_every_line_end_counts_and_no_other_character_does(end: str) -> None:
    assert not allowed(f"User-agent: *{end}Disallow: /x{end}")
    assert allowed("User-agent: *\nAllow: /\x0b\x0c\u2028\x85Disallow: /x\n")


def test_2_3_1_5_lines_that_cannot_be_read_harm_no_others() -> None:
    text = "<html>\nUser-agent: *\n<br/>\n:::\nDisallow\nDisallow: /x\n\x00\xff"
    assert not allowed(text)


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    text = "User-agent: *\nDisallow: /x\n"
    assert not parse(b"\xef\xbb\xbf" + text.encode(), "mybot").allowed("http://h/x")
    assert not parse(text.encode("utf-16"), "mybot").allowed("http://h/x")


def test_octets_that_are_no_utf_8_match_their_own_escapes() -> None:
    rules = parse(b"User-agent: *\nDisallow: /caf\xe9\n", "mybot")
    assert not rules.allowed("http://h/caf%E9")
    assert rules.allowed("http://h/caf%C3%A9")


def test_2_5_five_hundred_kibibytes_are_read_and_no_line_is_halved() -> None:
    head = b"User-agent: *\n"
    padding = b"#" * (BODY_LIMIT - len(head) - 12) + b"\n"
    crossing, beyond = b"Disallow: /inside-and-on\n", b"Disallow: /beyond\n"
    rules = parse(head + padding + crossing + beyond, "mybot")
    assert not rules.allowed("http://h/inside-and-on")
    assert rules.allowed("http://h/inside")
    assert rules.allowed("http://h/beyond")


@pytest.mark.parametrize(
    "line", ["disallow /x", "Dissallow: /x", "DISALLOW:/x", " \tDisallow\t :\t/x\t", "disallow: /x # no"]
)
def test_what_a_site_clearly_means_is_read(line: str) -> None:
    assert not allowed(f"user agent *\n{line}\n")


@given(st.binary(max_size=300), st.text(max_size=20), st.text(max_size=40))
def test_no_bytes_break_the_parser(body: bytes, agent: str, path: str) -> None:
    rules = parse(body, agent, "http://h/robots.txt")
    assert rules.allowed("http://h/" + path) in (True, False)
    assert rules.delay(0.0) >= 0.0
    assert 0.0 <= rules.opens_in(0.0) < 86_400.0


# --- what else a host asks --------------------------------------------------------------------------------


def test_crawl_delay_is_for_the_agents_right_before_it_even_where_rules_come_later() -> None:
    text = b"User-agent: a\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 2.5\nUser-agent: *\nDisallow: /x\n"
    assert [parse(text, agent).crawl_delay for agent in ("a", "b", "c")] == [1.0, 2.5, None]
    assert [parse(text, agent).allowed("http://h/x") for agent in ("a", "b", "c")] == [False] * 3


def test_of_several_delays_the_largest_holds_and_nonsense_is_none() -> None:
    text = "User-agent: *\n" + "".join(
        f"Crawl-delay: {value}\n" for value in ("3", "-9", "1e3", "inf", "nan", "7s", "4.")
    )
    assert parse(text.encode(), "mybot").crawl_delay == 4.0


@pytest.mark.parametrize("written", ["30<BR>", "30 seconds", "30, please", "30;", "30.0<br/>", "30 # s"])
def test_a_delay_is_the_number_that_its_value_begins_with(written: str) -> None:
    assert parse(f"User-agent: *\nCrawl-delay: {written}\n".encode(), "mybot").crawl_delay == 30.0


def test_request_rates_say_how_far_apart_requests_are() -> None:
    rules = parse(
        b"User-agent: *\nRequest-rate: 1/5\nRequest-rate: 10/15m 2200-0600\nRequest-rate: 0/1\n", "mybot"
    )
    assert rules.request_rate == (RequestRate(1, 5), RequestRate(10, 900, Hours(22 * 3_600, 6 * 3_600)))
    noon, night = 12 * 3_600.0, 23 * 3_600.0
    assert rules.delay(noon) == 5.0
    assert rules.delay(night) == rules.delay(night + 86_400 * 365) == 90.0
    assert Rules().delay(noon) == 0.0


def test_visit_time_tells_how_long_to_wait() -> None:
    rules = parse(
        b"User-agent: *\nVisit-time: 0600-0845\nVisit-time: 2359-0010\nVisit-time: 2561-0700\n", "mybot"
    )
    assert rules.visit_time == (Hours(21_600, 31_500), Hours(86_400, 600))
    assert rules.opens_in(7 * 3_600.0) == 0.0
    assert rules.opens_in(31_500.0) == 86_400.0 - 31_500.0
    assert rules.opens_in(86_400.0 + 300.0) == 0.0
    assert rules.opens_in(3_600.0) == 5 * 3_600.0
    assert Rules().opens_in(0.0) == 0.0


@pytest.mark.parametrize(
    "hours", ["0900-1530", "9:00-15:30", "09.00 - 15.30", "0900-1530 UTC", "09:00-15:30gmt"]
)
def test_hours_are_written_in_many_ways(hours: str) -> None:
    rules = parse(f"User-agent: *\nRequest-rate: 1/9 {hours}\nVisit-time: {hours}".encode(), "mybot")
    assert rules.visit_time == (Hours(9 * 3_600, 15 * 3_600 + 1_800),)
    assert rules.request_rate == (RequestRate(1, 9, rules.visit_time[0]),)


@pytest.mark.parametrize("written", ["<https://h/s.xml>", '"https://h/s.xml"', "'/s.xml'"])
def test_a_sitemap_in_quotes_is_the_url_in_them(written: str) -> None:
    assert parse(f"Sitemap: {written}".encode(), "mybot", "https://h/robots.txt").sitemaps == (
        "https://h/s.xml",
    )


@pytest.mark.parametrize(
    "value",
    [
        *(
            "https://[domain]/sitemap.xml",
            "http://h:port/s.xml",
            "http://h:99999/s.xml",
            "mailto:x",
            "http://",
        ),
        *("//", "https:///", "http://[::1/s.xml", "http://a b/s.xml", "http://caf\udce9.example/s.xml"),
    ],
)
def test_a_sitemap_line_that_names_no_address_is_none(value: str) -> None:
    body = f"Sitemap: /s.xml\nSitemap: {value}\nUser-agent: *\nDisallow: /x".encode(errors="surrogateescape")
    rules = parse(body, "mybot", "https://h/robots.txt")
    assert rules.sitemaps == ("https://h/s.xml",)
    assert not rules.allowed("https://h/x")


def test_octets_of_a_sitemap_that_are_no_utf_8_are_sent_as_they_are() -> None:
    assert parse(b"Sitemap: /caf\xe9.xml", "mybot", "https://h/robots.txt").sitemaps == (
        "https://h/caf%E9.xml",
    )


def test_sitemaps_are_everybodys_absolute_and_listed_once() -> None:
    text = (
        b"Sitemap: /s.xml\nUser-agent: other\nSitemap: https://x/t.xml\nDisallow: /\nSITEMAP:https://h/s.xml"
    )
    assert parse(text, "mybot", "https://h/robots.txt").sitemaps == ("https://h/s.xml", "https://x/t.xml")


def test_the_same_body_gives_equal_rules() -> None:
    body = b"User-agent: *\nDisallow: /x*y\nAllow: /x\n"
    assert parse(body, "mybot") == parse(body.replace(b"\n", b"\r\n"), "MyBot/3")
    assert parse(body, "mybot") != Rules()
