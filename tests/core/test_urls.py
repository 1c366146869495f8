"""URLs: what browsers make of a reference, and the parts of one."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_frontier.core.parse import urls
from scrapy_frontier.core.parse.urls import absolute, escaped_fragment, host_name, origin_of, origin_text

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors" / "url_normalize.json"

# RFC 3986's own examples where a browser departs; the reasons are in `docs/internals/conformance.md`.
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


# --- small questions --------------------------------------------------------------------------------------


def test_an_origin_leaves_out_credentials_path_and_default_port() -> None:
    assert origin_of("https://me:secret@Example.org:443/x?y") == "https://example.org"
    assert origin_of("http://example.org:8080") == "http://example.org:8080"
    assert origin_of("mailto:x@y") is None
    assert origin_text("https://me:secret@Example.org:443/x?y") == "https://me:secret@Example.org:443"


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
    assert origin_of(url) == expected


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


@pytest.mark.parametrize(
    ("reference", "encoding", "url"),
    [
        ("/\u00e9?\u00e9#\u00e9", "cp1252", "/%C3%A9?%E9#%C3%A9"),
        ("?\u00e9=1&b=\u20ac", "cp1252", "/?%E9=1&b=%80"),
        ("?\u4e2d\u6587", "gb18030", "/?%D6%D0%CE%C4"),
        ("?\u65e5\u8868", "shift_jis", "/?%93%FA%95\\"),
        ("?a\u65e5b", "iso2022_jp", "/?a%1B$BF|%1B(Bb"),
        ("?\u0416\u00e9 \u0416", "cp1252", "/?%26%231046%3B%E9%20%26%231046%3B"),
        ("?\u00e9", "utf-16", "/?%C3%A9"),
        ("?\u00e9", "utf-32-be", "/?%C3%A9"),
        ("?\u00e9", "hex", "/?%C3%A9"),
        ("?\u00e9", "nonsense", "/?%C3%A9"),
        ("?%E9", "cp1252", "/?%E9"),
        ("/x#?\u00e9", "cp1252", "/x#?%C3%A9"),
    ],
)
def test_a_query_is_sent_in_the_encoding_of_its_page(reference: str, encoding: str, url: str) -> None:
    assert absolute(reference, "http://h/", encoding) == "http://h" + url


def test_a_query_of_characters_that_its_encoding_lacks_costs_no_more_than_its_length() -> None:
    url = absolute("?" + "\u00e9\u0416" * 5_000, "http://h/", "cp1252")
    assert url == "http://h/?" + "%E9%26%231046%3B" * 5_000


@pytest.mark.parametrize(
    ("reference", "url"), [("g:h", None), ("//g", "http://g/"), ("http:g", "http://a/b/c/g")]
)
def test_examples_of_rfc_3986_that_browsers_read_otherwise(reference: str, url: str | None) -> None:
    """5.4.1 and 5.4.2; the others come out as they stand there."""
    assert absolute(reference, "http://a/b/c/d;p?q") == url


HALVES = st.text(st.sampled_from("ab\u00e9%C3/?#:@[].!\ud800\udbff\udc00\udce9\udfff"), max_size=12)


@given(HALVES)
def test_half_a_character_breaks_nothing(text: str) -> None:
    """Whoever decodes with surrogateescape, or reads JSON, may have one."""
    for url in (f"http://{text}", f"http://h/{text}", f"http://h/#!{text}", text):
        for made in (absolute(url), absolute(text, "http://h/", "cp1252"), origin_of(url)):
            assert made is None or made.isascii()
        escaped_fragment(url)
    assert (host_name(text) or "").isascii()
