"""How robots.txt rules match. Section numbers in the names are those of RFC 9309."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from protego import Protego

from scrapy_frontier.core.parse.robots_txt import parse


def allowed(text: str, url: str) -> bool:
    return parse(text.encode(), "mybot").allowed(url)


def test_2_2_2_the_longest_rule_decides_and_allow_wins_a_tie() -> None:
    text = (
        "User-agent: *\nDisallow: /shop\nAllow: /shop/open\nDisallow: /shop/open/secret\n"
        "Allow: /same\nDisallow: /same\n"
    )
    answers = {"/shop": False, "/shop/open": True, "/shop/open/secret": False, "/same": True, "/sho": True}
    assert {path: allowed(text, "http://h" + path) for path in answers} == answers


def test_2_2_2_a_wildcard_rule_counts_as_long_as_it_is_written() -> None:
    text = "User-agent: *\nAllow: /p*ge$\nDisallow: /page\n"
    assert allowed(text, "http://h/page")  # six octets against five
    assert not allowed(text, "http://h/pages")


@pytest.mark.parametrize(
    ("rule", "matching", "others"),
    [
        ("/*.php$", ["/a.php", "/a/b.php"], ["/a.php5", "/a.php?x"]),
        ("/fish*", ["/fish", "/fishes", "/fish/x"], ["/Fish", "/a/fish"]),
        ("/a*b*c", ["/abc", "/axbxc", "/a/b/c?d"], ["/acb", "/ab"]),
        ("*/private", ["/private", "/a/b/private/c"], ["/privat"]),
        ("/x$", ["/x"], ["/x/", "/x$", "/xy"]),
        ("/x$y", ["/x$yz", "/x%24y"], ["/x"]),
        ("/x%24", ["/x$", "/x%24y"], ["/x"]),
        ("/x%2A", ["/x*", "/x%2ay"], ["/xy"]),
        ("/?", ["/?", "/?q"], ["/", "/x?q"]),
        ("/*?id=", ["/?id=1", "/a?id="], ["/a?x=1&id=", "/id="]),
        ("/a**b", ["/ab", "/axb"], ["/a"]),
        ("/*$", ["/", "/x"], []),
    ],
)
def test_2_2_3_special_characters(rule: str, matching: list[str], others: list[str]) -> None:
    text = f"User-agent: *\nDisallow: {rule}\n"
    assert not [path for path in matching if allowed(text, "http://h" + path)]
    assert not [path for path in others if not allowed(text, "http://h" + path)]


@pytest.mark.parametrize(
    ("rule", "path", "equal"),
    [
        ("/%62%61%7A", "/baz", True),
        ("/~joe", "/%7Ejoe", True),
        ("/caf\u00e9", "/caf%C3%A9", True),
        ("/caf%c3%a9", "/caf\u00e9", True),
        ("/a%3cb", "/a<b", True),
        ("/a b", "/a%20b", True),
        ("/a,b", "/a%2Cb", True),
        ("/a%2Fb", "/a/b", False),
        ("/a%3Fb", "/a?b", False),
        ("/a%2fb", "/a%2Fb", True),
        ("/go?to=https%3A%2F%2Fx", "/go?to=https://x", True),
        ("/go?to=https://x", "/go?to=https%3A%2F%2Fx", True),
        ("/*%2Fx", "/go?to=%2Fx", True),
        ("/%zz%", "/%zz%", True),
        ("/A", "/a", False),
    ],
)
def test_2_2_2_octets_are_compared_in_one_spelling(rule: str, path: str, equal: bool) -> None:
    assert allowed(f"User-agent: *\nDisallow: {rule}\n", "http://h" + path) is not equal


def test_2_2_2_robots_txt_itself_is_allowed() -> None:
    text = "User-agent: *\nDisallow: /\n"
    assert allowed(text, "http://h/robots.txt")
    assert allowed(text, "http://h/robots.txt?v=2")
    assert not allowed(text, "http://h/robots.txt.bak")


def test_only_path_and_query_of_a_url_are_compared() -> None:
    text = "User-agent: *\nDisallow: /?\nDisallow: /y\n"
    assert not allowed(text, "http://host?q")
    assert not allowed(text, "http://user:y@host:80/y#z")
    assert allowed(text, "http://host/x?u=http://y/y")
    assert allowed(text, "http://host#/y")


def test_allowing_an_index_page_allows_its_directory_only() -> None:
    text = "User-agent: *\nDisallow: /\nAllow: /shop/index.html\n"
    assert allowed(text, "http://h/shop/")
    assert not allowed(text, "http://h/shop/cart")


def test_the_line_that_decides_can_be_told() -> None:
    rules = parse(b"User-agent: *\nDISALLOW : /a*b$ # why\nAllow: /a\n", "mybot")
    assert rules.where("http://h/axb") == "DISALLOW : /a*b$ (line 2)"
    assert rules.where("http://h/ax") == "Allow: /a (line 3)"
    assert rules.where("http://h/") == ""


def test_the_line_that_decides_is_told_with_its_number() -> None:
    body = b"User-agent: other\nDisallow: /a\n\nUser-agent: *\nDisallow: /a # all of it\nDisallow: /b\n"
    rules = parse(body, "mybot")
    assert rules.where("http://a.example/a/x") == "Disallow: /a (line 5)"
    assert rules.where("http://a.example/c") == ""


def test_many_wildcards_cost_no_more_than_their_number() -> None:
    """A backtracking matcher would try 2000 over 60 places here."""
    rules = parse(b"User-agent: *\nDisallow: /" + b"a*" * 60 + b"b\n", "mybot")
    assert rules.allowed("http://h/" + "a" * 2_000)
    assert not rules.allowed("http://h/" + "a" * 2_000 + "b")


HOSTILE = {
    "one long line": "Disallow: /" + "*a" * 40_000,
    "long lines": "".join(f"Disallow: /{'*a' * 1_000}*{number}\n" for number in range(40)),
    "many lines": "".join(f"Disallow: *a{number}z\n" for number in range(4_000)),
    "queries": "".join(f"Disallow: /*?a/{number}\n" for number in range(4_000)),
    "ends": "".join(f"Disallow: /*a{number}$\n" for number in range(4_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_it_costs_to_ask_is_not_told_too_low(name: str) -> None:
    """A call takes 0.1 us at least."""
    rules = parse(f"User-agent: *\n{HOSTILE[name]}".encode(), "mybot")
    usual = parse(b"User-agent: *\nDisallow: /private\nDisallow: /*.pdf$\n", "mybot")
    for path in ("a" * 2_000, "x" * 2_000, "?" + "%2F" * 600, "a"):
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        rules.allowed(f"http://h/{path}")
        sys.setprofile(None)
        assert rules.cost(f"http://h/{path}") > 1e-7 * (calls - 20)
    assert rules.cost("http://h/" + "a" * 2_000) > 100 * usual.cost("http://h/" + "a" * 2_000)


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


@given(
    st.text(st.sampled_from("ab/*"), max_size=10), st.booleans(), st.text(st.sampled_from("ab/"), max_size=14)
)
def test_the_matcher_agrees_with_the_definition(pattern: str, anchored: bool, path: str) -> None:
    pattern = "/" + pattern + ("$" if anchored else "")
    expected = slow_match(pattern, "/" + path)
    assert allowed(f"User-agent: *\nDisallow: {pattern}\n", "http://h/" + path) is not expected


PATHS = st.lists(st.sampled_from(["a", "b", "ab", "index", "x-1"]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
RULES = st.lists(
    st.tuples(st.sampled_from(["Allow", "Disallow"]), PATHS, st.sampled_from(["", "*", "$", "*/b"])),
    max_size=8,
)


@given(RULES, PATHS)
def test_protego_agrees_where_it_follows_the_rfc(rules: list[tuple[str, str, str]], path: str) -> None:
    """One group, nothing escaped: there Scrapy's parser and ours must say the same."""
    text = "User-agent: mybot\n" + "".join(f"{name}: {value}{end}\n" for name, value, end in rules)
    assert allowed(text, "http://h" + path) is Protego.parse(text).can_fetch("http://h" + path, "mybot")
