"""robots.txt as RFC 9309 wants it read. Section numbers in the names of stories are the RFC's."""

from __future__ import annotations

import base64
import json
import time as clock
from datetime import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_frontier.core.parse.robots_txt import BODY_LIMIT, Rules, counted_part, parse

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


def time_of(text: str | None) -> time | None:
    if text is None:
        return None
    hour, minute = text.removeprefix("datetime.time(").removesuffix(")").split(", ")
    return time(int(hour), int(minute))


def directive(rules: Rules, name: str) -> object:
    if name == "crawl-delay":
        return rules.crawl_delay
    if name == "sitemap":
        return list(rules.sitemaps)
    found = rules.request_rates if name == "request-rate" else rules.visit_times
    return found[-1] if found else None


def expected_directive(case: dict[str, Any]) -> object:
    value = case["value"]
    if case["directive"] == "sitemap":
        return value or []
    if not isinstance(value, dict):
        return value
    hours = time_of(value.get("start_time")), time_of(value.get("end_time"))
    return hours if case["directive"] == "visit-time" else (value["requests"], value["seconds"], *hours)


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
    both = parse(text.encode(), ["mybot", "other"])
    assert [both.allowed(f"http://h/{page}") for page in "abc"] == [False, True, False]


@pytest.mark.parametrize(
    ("line", "agent", "is_meant"),
    [
        *((line, "mybot", True) for line in ("mybot", "MyBot/1.0", "MyBot # us", "mybot and friends")),
        *(("mybot", agent, True) for agent in ("MYBOT", "MyBot/2.1", "mybot (+https://example.org/bot)")),
        ("mybot", "Mozilla/5.0 (compatible; MyBot/1.0; +https://example.org/bot)", True),
        ("mybot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; MyBot/2.1; +x)", True),
        *((line, "mybot", False) for line in ("my", "mybots", "bot", "my-bot", "mybot2", "other mybot")),
        ("Mozilla/5.0 (compatible; Butterfly/1.0)", "Butterfly/1.0", False),
        ("Mozilla/5.0 (compatible; Butterfly/1.0)", "Mozilla/5.0", True),
    ],
)
def test_2_2_1_the_product_token_is_what_is_compared(line: str, agent: str, is_meant: bool) -> None:
    assert allowed(f"User-agent: {line}\nDisallow: /", agent=agent) is not is_meant


PROSE = (
    *("User agent names are listed below", "User-agent lines follow, one a bot", "Disallow everything below"),
    *("Allow us a moment", "Disallow / and allow", "Sitemap of our site", "Crawl delay for all bots"),
    *("Host of this site", "Visit time is money", "Request rate limits apply"),
)


@pytest.mark.parametrize(
    "between",
    [*PROSE, "Sitemap: http://h/s.xml", "Crawl-delay: 3", "Host: h", "Noindex: /x", "nonsense"],
)
def test_2_2_4_other_lines_and_prose_end_no_group(between: str) -> None:
    text = (
        f"User-agent: mybot\n{between}\nUser-agent: other\n{between}\nDisallow: /x\n{between}\nDisallow: /y"
    )
    rules = parse(text.encode(), "mybot", "https://h/robots.txt")
    assert [rules.allowed(f"https://h/{page}") for page in "xyz"] == [False, False, True]
    assert (bool(rules.sitemaps), rules.crawl_delay) == (":/" in between, 3.0 if "3" in between else None)
    assert rules.request_rates == rules.visit_times == ()


def test_a_field_without_its_colon_is_read_where_its_value_looks_like_one() -> None:
    text = (
        b"user agent mybot\nallow /x/open\ndisallow /x\ncrawl delay 3\nrequest rate 1/5 0600-0800\n"
        b"visit time 0600-0845\nsitemap https://h/s.xml\nsitemap /t.xml\ndisallow *.pdf"
    )
    rules = parse(text, "mybot", "https://h/robots.txt")
    paths = {"x": False, "x/open": True, "a.pdf": False, "y": True}
    assert {path: rules.allowed(f"https://h/{path}") for path in paths} == paths
    assert (rules.crawl_delay, len(rules.request_rates), len(rules.visit_times)) == (3.0, 1, 1)
    assert rules.sitemaps == ("https://h/s.xml", "https://h/t.xml")


@pytest.mark.parametrize(
    ("text", "is_allowed", "for_stranger"),
    [
        ("User-agent: mybot\nDisallow:\nUser-agent: *\nDisallow: /\n", True, False),  # empty: ends the run
        ("Disallow: /\nUser-agent: other\nAllow: /\n", True, True),  # before the first user-agent line
        ("User-agent: other\nUser-agent:\nDisallow: /\n", True, True),  # unreadable user-agent lines
        ("User-agent: *\nDisallow: /a\nUser-agent: !!\nDisallow: /x\n", True, True),
        *(
            (f"user agent *\n{line}\n", False, False)
            for line in ("disallow /x", "Dissallow: /x", "DISALLOW:/x")
        ),
        ("user agent *\n \tDisallow\t :\t/x\t# no\n", False, False),
    ],
)
def test_rules_are_of_the_group_they_stand_in(text: str, is_allowed: bool, for_stranger: bool) -> None:
    assert (allowed(text), allowed(text, agent="stranger")) == (is_allowed, for_stranger)


# --- bytes and lines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\n\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_2_2_line_ends_and_byte_order_marks(end: str, encoding: str) -> None:
    text = f"User-agent: *{end}Disallow: /x{end}Allow: /x/\u00e9{end}"
    rules = parse(text.encode(encoding), "mybot")
    assert not rules.allowed("http://h/x")
    assert rules.allowed("http://h/x/%C3%A9")


@given(st.integers(-50, 50), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_2_5_five_hundred_kibibytes_are_read_and_no_line_is_halved(shift: int, end: bytes) -> None:
    head = b"User-agent: *" + end + b"Disallow: /a" + end
    body = head + b"#" * (BODY_LIMIT + shift - len(head) - len(end)) + end
    body += b"Disallow: /crosses" + end + b"Disallow: /beyond" + end
    rules = parse(body, "mybot")
    for line in (b"/a", b"/crosses", b"/beyond"):
        is_read = body.index(b"Disallow: " + line) <= BODY_LIMIT
        assert rules.allowed(f"http://h{line.decode()}") is not is_read
    assert parse(counted_part(body), "mybot").disallowed == rules.disallowed


def test_broken_utf_16_counts_up_to_its_first_error() -> None:
    """To read on takes .2 us an error: 124 ms for a megabyte of halves of characters."""
    body = "\ufeffUser-agent: *\nDisallow: /x\n\ud800\nDisallow: /y\n".encode("utf-16-le", "surrogatepass")
    rules = parse(body, "mybot")
    assert [rules.allowed(f"http://h/{name}") for name in "xy"] == [False, True]


def test_half_a_line_at_the_end_of_what_was_read_is_no_rule() -> None:
    body = b"User-agent: *\n".ljust(BODY_LIMIT - 5, b"#") + b"\nDisallow: /private-no"
    assert counted_part(body) == body[: BODY_LIMIT - 4]
    assert counted_part(b"x" * (3 * BODY_LIMIT)) == b""


@given(st.binary(max_size=300), st.text(max_size=20), st.text(max_size=40))
def test_no_bytes_break_the_parser(body: bytes, agent: str, path: str) -> None:
    rules = parse(body, agent, "http://h/robots.txt")
    assert rules.allowed("http://h/" + path) or rules.where("http://h/" + path)
    assert rules.delay(0.0) >= 0.0
    assert 0.0 <= rules.opens_in(0.0) < 86_400.0


# --- which rule decides -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "decided"),
    [
        (["Disallow: /a", "Allow: /a/b"], {"/a": False, "/a/b/c": True, "/": True}),  # the longest
        (["Allow: /a/b", "Disallow: /a"], {"/a": False, "/a/b/c": True}),  # in any order
        (["Disallow: /a", "Allow: /a"], {"/a": True}),  # Allow of equals
        (["Disallow: /*?", "Allow: /abc"], {"/abc?x": True, "/ab?x": False}),  # "?" counts as one octet
        (["Disallow: /a*", "Allow: /a$"], {"/a": True, "/ab": False}),  # "*" and "$" count, too
        (["Disallow: /*\u00e9", "Allow: /abcd"], {"/abcd\u00e9": False}),  # an escaped octet as three
        (["Disallow: /", "Allow: /shop/index.html"], {"/shop/": True, "/shop/cart": False}),
        (["Disallow: /"], {"/robots.txt": True, "/robots.txt?v=2": True, "/robots.txt.bak": False}),
        (["Disallow: /?", "Disallow: /y"], {"?q": False, "/y": False, "/x?u=http://y/y": True, "#/y": True}),
    ],
)
def test_2_2_2_the_longest_rule_decides(rules: list[str], decided: dict[str, bool]) -> None:
    text = "\n".join(("User-agent: *", *rules))
    assert {path: allowed(text, f"http://user:y@host:80{path}") for path in decided} == decided


@pytest.mark.parametrize(
    ("rule", "matching", "others"),
    [
        ("/x$", ["/x"], ["/xy", "/x/", "/x$"]),
        ("/x*y", ["/xy", "/xzzy", "/x/y/z"], ["/x", "/y"]),
        ("/x$yz", ["/x$yz", "/x%24yz"], ["/x"]),
        ("/x%24", ["/x$", "/x%24y"], ["/x"]),
        ("/x%2A", ["/x*", "/x%2ay"], ["/xy"]),
        ("/?", ["/?", "/?q"], ["/", "/x?q"]),
        ("/*?id=", ["/?id=1", "/a?id="], ["/a?x=1&id=", "/id="]),
        ("/a**b", ["/ab", "/axb"], ["/a"]),
        ("/*$", ["/", "/x"], []),
        ("/%62%61%7A", ["/baz"], []),
        ("/~joe", ["/%7Ejoe"], []),
        ("/caf\u00e9", ["/caf%C3%A9", "/caf%c3%a9"], ["/caf%E9"]),
        ("/a%3cb", ["/a<b"], []),
        ("/a b", ["/a%20b"], []),
        ("/a,b", ["/a%2Cb"], []),
        ("/a%2fb", ["/a%2Fb"], ["/a/b"]),
        ("/a/", ["/a/b"], ["/a%2Fb"]),
        ("/a%3Fb", ["/a%3fb"], ["/a?b"]),
        ("/go?to=https%3A%2F%2Fx", ["/go?to=https://x", "/go?to=https%3A%2F%2Fx"], []),
        ("/go?to=https://x", ["/go?to=https://x", "/go?to=https%3A%2F%2Fx"], []),
        ("/*/admin", ["/x/admin"], ["/login?next=%2Fadmin"]),
        ("/%zz%", ["/%zz%"], []),
        ("/A", [], ["/a"]),
        ("/caf\udce9", ["/caf%E9"], ["/caf%C3%A9"]),  # no UTF-8
    ],
)
def test_2_2_3_what_a_rule_matches(rule: str, matching: list[str], others: list[str]) -> None:
    rules = parse(f"User-agent: *\nDisallow: {rule}\n".encode(errors="surrogateescape"), "mybot")
    assert not [path for path in matching if rules.allowed("http://h" + path)]
    assert not [path for path in others if not rules.allowed("http://h" + path)]


def test_the_line_that_forbids_can_be_told() -> None:
    lines = "Disallow: /\nDISALLOW : /a*b$ # why\nAllow: /a\nDisallow: /a/b\nDisallow: /a/b/c\n"
    rules = parse(f"User-agent: *\n{lines}".encode(), "mybot")
    told = {
        "axb": "DISALLOW : /a*b$",
        "b": "Disallow: /",
        "a/bc": "Disallow: /a/b",
        "a/b/c": "Disallow: /a/b/c",
    }
    assert {path: rules.where(f"http://h/{path}") for path in told} == told


@given(st.text(st.sampled_from("ab/?%E9*$\ud800\udc7f\udce9\udfff"), max_size=10), st.booleans())
@example("/", True)  # a path that begins with two slashes
def test_half_a_character_breaks_no_rule_and_no_url(text: str, in_rule: bool) -> None:
    body = f"User-agent: *\nDisallow: /{text if in_rule else ''}\n".encode(errors="surrogatepass")
    rules = parse(body, "mybot")
    assert rules.allowed(f"http://h/{text}") is rules.allowed(f"/{text}")


def slow_match(pattern: str, path: str) -> bool:
    """The definition, octet by octet: *places* are all positions a prefix of the pattern can end at."""
    anchored = pattern.endswith("$")
    places = {0}
    for char in pattern[:-1] if anchored else pattern:
        if char == "*":
            places = {later for place in places for later in range(place, len(path) + 1)}
        else:
            places = {place + 1 for place in places if path[place : place + 1] == char}
    return len(path) in places if anchored else bool(places)


PATTERNS = st.tuples(st.text(st.sampled_from("ab/*?&"), max_size=10), st.sampled_from(["", "$"])).map("".join)


@given(
    st.lists(st.tuples(st.booleans(), PATTERNS), max_size=8), st.text(st.sampled_from("ab/?&"), max_size=14)
)
def test_2_2_the_definition_agrees(rules: list[tuple[bool, str]], path: str) -> None:
    """The RFC's rules in the plainest way: the longest pattern that matches, and Allow of equals."""
    text = "User-agent: *\n" + "".join(
        f"{'Allow' if allow else 'Disallow'}: /{end}\n" for allow, end in rules
    )
    matching = [(len(end), allow) for allow, end in rules if slow_match(f"/{end}", f"/{path}")]
    assert allowed(text, f"http://h/{path}") is (not matching or max(matching)[1])


# --- hostile files ----------------------------------------------------------------------------------------

HOSTILE = {
    "one long line": "Disallow: /" + "*a" * 40_000,
    "long lines": "".join(f"Disallow: /{'*a' * 1_000}*{number}\n" for number in range(40)),
    "many lines": "".join(f"Disallow: *a{number}z\n" for number in range(4_000)),
    "queries": "".join(f"Disallow: /*?a/{number}\n" for number in range(4_000)),
    "ends": "".join(f"Disallow: /*a{number}$\n" for number in range(4_000)),
    "needles": "".join(f"Disallow: /*{'a' * 500}{number}b{'a' * 490}\n" for number in range(400)),
    "rates": "".join(f"Request-rate: 1/{number}\n" for number in range(1, 10_000)),
    "prefixes": "".join(f"Disallow: /a{number}\n" for number in range(26_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_makes_a_url_expensive(name: str) -> None:
    """50 ms is the promise; the bound leaves room for a busy machine. A matcher that backtracks takes
    days."""
    rules = parse(f"User-agent: *\n{HOSTILE[name]}".encode(), "mybot")
    for path in ("a" * 2_000, "a" * 8_000, "?" + "%2F" * 600, "ab" * 4_000):
        url, begin = f"http://h/{path}", clock.process_time()
        if not rules.allowed(url):
            rules.where(url)
        rules.delay(begin)
        assert clock.process_time() - begin < 2.5  # what it guards against takes minutes


def test_beyond_two_thousand_wildcards_more_is_forbidden_and_not_less() -> None:
    lines = "".join(f"Allow: /open/*{number}\nDisallow: /shut/*{number}\n" for number in range(1_500))
    rules = parse(f"User-agent: *\nDisallow: /open\n{lines}".encode(), "mybot")
    assert rules.allowed("http://h/open/7")
    assert not rules.allowed("http://h/open/x1499") or not rules.allowed("http://h/shut/x")


# --- what else a host asks --------------------------------------------------------------------------------


def test_crawl_delay_is_for_the_agents_right_before_it_even_where_rules_come_later() -> None:
    text = b"User-agent: a\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 2.5\nUser-agent: *\nDisallow: /x\n"
    assert [parse(text, agent).crawl_delay for agent in ("a", "b", "c")] == [1.0, 2.5, None]
    assert [parse(text, agent).allowed("http://h/x") for agent in ("a", "b", "c")] == [False] * 3


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (["3", "-9", "1e3", "inf", "nan", "7s", "4."], 4.0),  # the largest; nonsense is none
        *(([text], 30.0) for text in ("30<BR>", "30 seconds", "30, please", "30;", "30.0<br/>", "30 # s")),
    ],
)
def test_a_delay_is_the_number_that_its_value_begins_with(written: list[str], seconds: float) -> None:
    text = "User-agent: *\n" + "".join(f"Crawl-delay: {value}\n" for value in written)
    assert parse(text.encode(), "mybot").crawl_delay == seconds


def test_request_rates_say_how_far_apart_requests_are() -> None:
    lines = (
        b"Request-rate: 1/5\nRequest-rate: 10/15m 2200-0600\nRequest-rate: 0/1\nRequest-rate: 1/" + b"9" * 500
    )
    rules = parse(b"User-agent: *\n" + lines, "mybot")
    noon, night = 12 * 3_600.0, 23 * 3_600.0
    assert rules.delay(noon) == 5.0
    assert rules.delay(night) == rules.delay(night + 86_400 * 365) == 90.0
    assert parse(b"", "mybot").delay(noon) == 0.0


def test_visit_time_tells_how_long_to_wait() -> None:
    lines = b"Visit-time: 0600-0845\nVisit-time: 2359-0010\nVisit-time: 2561-0700\n"
    rules = parse(b"User-agent: *\n" + lines, "mybot")
    waits = {7 * 3_600.0: 0.0, 31_500.0: 86_340.0 - 31_500.0, 86_400.0 + 300.0: 0.0, 3_600.0: 5 * 3_600.0}
    assert {now: rules.opens_in(now) for now in waits} == waits
    assert parse(b"", "mybot").opens_in(0.0) == 0.0


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        *((hours, (time(9), time(15, 30))) for hours in ("0900-1530", "9:00-15:30", "0900 - 1530")),
        *((hours, (time(9), time(15, 30))) for hours in ("0900-1530 UTC", "09:00-15:30gmt")),
        ("0000-2400", (time(0), time(0))),
    ],
)
def test_hours_are_written_in_many_ways(hours: str, expected: tuple[time, time]) -> None:
    rules = parse(f"User-agent: *\nRequest-rate: 1/9 {hours}\nVisit-time: {hours}".encode(), "mybot")
    assert rules.visit_times == (expected,)
    assert rules.request_rates == ((1, 9, *expected),)


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        *(
            (value, ["https://h/t.xml"])
            for value in ("/t.xml", "<https://h/t.xml>", '"https://h/t.xml"', "'/t.xml'")
        ),
        *((value, []) for value in ("https://[domain]/t.xml", "http://h:port/t.xml", "http://h:99999/t.xml")),
        *(
            (value, [])
            for value in ("mailto:x", "http://", "//", "https:///", "http://[::1/t.xml", "http://a b/t.xml")
        ),
        ("http://caf\udce9.example/t.xml", []),
        *(
            (value, [])
            for value in ('<a href="/t.xml">map</a>', "/t.xml</body>", '/t.xml"><br>', "/a map.xml")
        ),
        ("/caf\udce9.xml", ["https://h/caf%E9.xml"]),  # no UTF-8: sent as it is
        ("/s.xml", []),  # listed once
    ],
)
def test_a_sitemap_line_names_one_absolute_address_or_none(value: str, urls: list[str]) -> None:
    body = f"Sitemap: /s.xml\nUser-agent: other\nSITEMAP:{value}\nUser-agent: *\nDisallow: /x"
    rules = parse(body.encode(errors="surrogateescape"), "mybot", "https://h/robots.txt")
    assert rules.sitemaps == ("https://h/s.xml", *urls)
    assert not rules.allowed("https://h/x")


def test_a_sitemap_with_a_very_long_address_is_none() -> None:
    text = b"Sitemap: /" + b"1" * 500_000 + b"\nSitemap: /s.xml"
    assert parse(text, "mybot", "https://h/robots.txt").sitemaps == ("https://h/s.xml",)
