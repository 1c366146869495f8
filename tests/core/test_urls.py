"""URLs: what browsers make of a reference, and what looks like a trap."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_frontier.core import urls
from scrapy_frontier.core.urls import (
    TrapLimits,
    absolute,
    escaped_fragment,
    grows,
    host_name,
    is_private,
    origin,
    path_segments,
    repeats,
    trap,
    without_session,
)

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors" / "url_normalize.json"


# RFC 3986's own examples where a browser departs; the reasons are in `docs/conformance.md`.
RESOLVE_DEPARTURES = {"g:h": None, "//g": "http://g/"}


def cases(name: str) -> list[dict[str, str | None]]:
    return json.loads(VECTORS.read_text("utf-8"))[name] if VECTORS.exists() else []


@pytest.mark.parametrize("case", cases("resolve"), ids=lambda case: case["id"])
def test_resolve_vectors(case: dict[str, str]) -> None:
    expected = RESOLVE_DEPARTURES.get(case["reference"], case["expected"])
    assert absolute(case["reference"], case["base"]) == expected


@pytest.mark.parametrize("case", [case for case in cases("wpt") if case["http"]], ids=lambda case: case["id"])
def test_wpt_vectors(case: dict[str, str | None]) -> None:
    assert case["input"] is not None
    assert absolute(case["input"], case["base"]) == case.get("href")


# --- WHATWG -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("mailto:me@example.org", None),
        ("javascript:void(0)", None),
        ("data:text/html,x", None),
        ("ftp://example.org/", None),
        ("", "https://example.org/dir/page?q"),
        ("\n  next\tpage.html ", "https://example.org/dir/nextpage.html"),
        ("..\\up", "https://example.org/up"),
        ("/a/%2E%2e/b", "https://example.org/b"),
        ("HTTP://EXAMPLE.COM:080/%7efoo", "http://example.com/%7efoo"),
        ("https:rel", "https://example.org/dir/rel"),
        ("http:host", "http://host/"),
        ("//b\u00fccher.example/\u00fc?\u00fc#\u00fc", "https://xn--bcher-kva.example/%C3%BC?%C3%BC#%C3%BC"),
        ("https://fa\u00df.example/", "https://xn--fa-hia.example/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::ffff:10.0.0.1]/", "http://[::ffff:a00:1]/"),
        ("http://[1:2::3%25eth0]/", None),
        ("http://a b/", None),
        ("http://example.org:65536/", None),
        ("http://example.org:" + "0" * 5_000 + "80/", "http://example.org/"),
        ("http://1.2.3.4.5/", None),
        ("http://user:pa:ss@example.org/", "http://user:pa%3Ass@example.org/"),
    ],
)
def test_a_reference_becomes_what_a_browser_would_request(reference: str, expected: str | None) -> None:
    assert absolute(reference, "https://example.org/dir/page?q#f") == expected


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("\u0915\u094d\u200d\u0937", "xn--11b2ezcw70k"),  # behind a virama a joiner shapes the letter
        ("\u0646\u0627\u0645\u0647\u200c\u0627\u06cc", "xn--mgba3gch31f060k"),  # between two that join
        ("ex\u200cample", None),  # shows nothing: another host in the dress of this one
        ("\u200d", None),
        ("xn--bcher-kva.b\u00fccher", "xn--bcher-kva.xn--bcher-kva"),
        ("xn--.\u00fc", None),
        ("xn--abc-.\u00fc", None),  # punycode of plain ASCII
        ("xn--fcher-7ya.\u00fc", "xn--fcher-7ya.xn--tda"),
        ("xn--BCHER-KVA.\u00fc", "xn--bcher-kva.xn--tda"),
        ("xn--a-ecp.\u00fc", None),  # a joiner, in punycode
    ],
)
def test_a_host_of_other_letters_is_what_idna_allows(host: str, name: str | None) -> None:
    """UTS #46 with its checks for joiners and of the labels that come in punycode (WHATWG URL 3.3)."""
    assert host_name(host) == name


def test_without_a_usable_base_only_absolute_urls_count() -> None:
    assert absolute("/page") is None
    assert absolute("/page", "about:blank") is None
    assert absolute("http://example.org", "about:blank") == "http://example.org/"


URL_TEXT = st.text(st.sampled_from("aZ0.-_~%/\\?#@:[]&= \t\u00e9\u3002\U0001f600'\"<"), max_size=40)


@given(URL_TEXT, st.sampled_from(["http://", "https://", "", "//", "http:"]))
def test_what_absolute_returns_it_returns_again(text: str, scheme: str) -> None:
    url = absolute(scheme + text, "http://base.example/a/b?c")
    if url is not None:
        assert url.isascii()
        assert absolute(url) == url


@given(st.from_regex(urls._PLAIN, fullmatch=True))
def test_the_shortcut_for_plain_urls_agrees_with_the_parser(url: str) -> None:
    if "/." not in url:
        assert absolute(url) == url == str(urls._parse(url, None))


@given(st.text(max_size=30))
def test_no_host_name_breaks_the_parser(text: str) -> None:
    name = host_name(text)
    assert name is None or host_name(name) == name


# --- small questions --------------------------------------------------------------------------------------


def test_an_origin_leaves_out_credentials_path_and_default_port() -> None:
    assert origin("https://me:secret@Example.org:443/x?y") == "https://example.org"
    assert origin("http://example.org:8080") == "http://example.org:8080"
    assert origin("mailto:x@y") is None


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("169.254.169.254", True),
        ("[::1]", True),
        ("[fd00::1]", True),
        ("[::ffff:c0a8:1]", True),
        ("224.0.0.1", True),
        ("localhost", True),
        ("printer.local", True),
        ("intranet", True),
        ("93.184.216.34", False),
        ("[2606:2800:220:1:248:1893:25c8:1946]", False),
        ("example.org", False),
        ("local.example.org", False),
    ],
)
def test_private_hosts_are_told_from_public_ones(host: str, private: bool) -> None:
    assert is_private(host) is private


def test_every_notation_of_a_private_address_is_seen_once_it_is_canonical() -> None:
    for notation in ("0x7f000001", "2130706433", "017700000001", "127.1", "%31%32%37.0.0.1"):
        name = host_name(notation)
        assert name == "127.0.0.1"
        assert is_private(name)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/page", None),
        ("http://h/page#top", None),
        ("http://h/page#!", "http://h/page?_escaped_fragment_="),
        ("http://h/page#!a=1&b=2", "http://h/page?_escaped_fragment_=a=1%26b=2"),
        ("http://h/page?q#!k+v %#\u00e9", "http://h/page?q&_escaped_fragment_=k%2Bv%20%25%23%C3%A9"),
    ],
)
def test_hash_bang_becomes_an_escaped_fragment(url: str, expected: str | None) -> None:
    assert escaped_fragment(url) == expected


# --- traps ------------------------------------------------------------------------------------------------


def test_ordinary_urls_are_no_traps() -> None:
    for path in ("", "/", "/a/a/b", "/2024/01/01/index.html", "/en/docs/en/api", "/x" * 20 + "y"):
        limits = TrapLimits(repeats=0) if path.startswith("/x/x") else TrapLimits()
        assert trap("https://example.org" + path, limits) is None


def test_a_trap_is_named() -> None:
    limits = TrapLimits(length=200, depth=10, repeats=3)
    assert trap("http://h/?" + "a" * 200, limits) == "length"
    assert trap("http://h/" + "/".join("abcdefghijk"), limits) == "depth"
    assert trap("http://h/calendar/next/next/next", limits) == "repeated-segments"
    assert trap("http://h/a/b/a/b/a/b/index.html", limits) == "repeated-segments"
    assert trap("http://h/a/b/a/b/index.html", limits) is None


def test_zero_switches_a_check_off() -> None:
    assert trap("http://h/" + "a/" * 3_000, TrapLimits(0, 0, 0)) is None


@given(st.lists(st.sampled_from("ab"), max_size=12))
def test_repeats_is_what_counting_every_run_finds(segments: list[str]) -> None:
    best = 0
    for start in range(len(segments)):
        for period in range(1, len(segments) - start + 1):
            run = segments[start : start + period]
            count = 1
            while segments[start + count * period : start + (count + 1) * period] == run:
                count += 1
            best = max(best, count)
    assert repeats(segments) == best


def test_path_segments_ignore_query_and_doubled_slashes() -> None:
    assert path_segments("http://h//a///b/?c/d") == ["a", "b"]


def test_a_redirect_that_wraps_its_own_address_grows() -> None:
    chain = ["https://h/in?next=/start"]
    for _ in range(4):
        target = (
            chain[-1].removeprefix("https://h").replace("%", "%25").replace("?", "%3F").replace("=", "%3D")
        )
        chain.append(f"https://h/in?next={target}")
    assert grows(chain)
    assert not grows(chain[:4])


def test_a_redirect_that_appends_a_segment_grows_and_one_that_moves_on_does_not() -> None:
    assert grows([f"http://h/a{'/b' * count}" for count in range(5)])
    assert not grows([f"http://h/step/{count}" for count in range(98, 103)])
    assert not grows([f"http://h{count}/a{'/b' * count}" for count in range(5)])


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("http://h/p;jsessionid=0A1B2C3D4E5F?x=1", "http://h/p?x=1"),
        ("http://h/p?PHPSESSID=abcdef0123456789", "http://h/p"),
        ("http://h/p?a=1&sid=abcdef0123456789&b=2#f", "http://h/p?a=1&b=2#f"),
        ("http://h/p?a=1&sid=abcdef0123456789", "http://h/p?a=1"),
        ("http://h/(S(lit3py55t21z5v55vlm25s55))/page.aspx", "http://h/page.aspx"),
        ("http://h/p?sid=12", "http://h/p?sid=12"),
        ("http://h/p?inside=abcdef0123456789", "http://h/p?inside=abcdef0123456789"),
    ],
)
def test_session_identifiers_are_found_and_taken_out(url: str, clean: str) -> None:
    assert without_session(url) == clean


@given(st.from_regex(r"https?://[a-z0-9.:%@-]{1,20}[/?#]?[a-z]?", fullmatch=True))
@example("http://a.example")
@example("http://127.1/")
@example("https://0x7f.1/")
@example("http://a..b/")
@example("http://xn--bcher-kva.example/x")
@example("http://a.example:80/")
def test_an_origin_is_that_of_the_url_as_a_browser_reads_it(url: str) -> None:
    """There is a short way for the usual ones."""
    read = absolute(url)
    expected = None
    if read is not None:
        parts = urlsplit(read)
        expected = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    assert origin(url) == expected
