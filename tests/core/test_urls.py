"""URLs: what browsers make of a reference, the parts of one, and which hosts are private."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_frontier.core.parse import urls
from scrapy_frontier.core.parse.urls import (
    absolute,
    escaped_fragment,
    is_private_url,
    origin_of,
    origin_text,
    without_session,
)

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors" / "url_normalize.json"

# RFC 3986's own examples from which browsers depart; the reasons are in `docs/internals/conformance.md`.
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
    assert absolute(case["input"], case["base"] or "") == case.get("href")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("mailto:me@example.org", None),
        ("javascript:void(0)", None),
        ("ftp://example.org/", None),
        ("", "https://example.org/dir/page?q"),
        ("\n  next\tpage.html ", "https://example.org/dir/nextpage.html"),
        ("/a/%2E%2e/b", "https://example.org/b"),
        ("HTTP://EXAMPLE.COM:080/%7efoo", "http://example.com/%7efoo"),
        ("https:rel", "https://example.org/dir/rel"),
        ("http:host", "http://host/"),
        ("//b\u00fccher.example/\u00fc?\u00fc#\u00fc", "https://xn--bcher-kva.example/%C3%BC?%C3%BC#%C3%BC"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[1:2::3%25eth0]/", None),
        ("http://a b/", None),
        ("http://ex\u200cample/", None),  # a joiner that shows nothing: another host in the dress of this one
        ("http://example.org:65536/", None),
        ("/x\ud800", "https://example.org/x%EF%BF%BD"),
    ],
)
def test_a_reference_becomes_what_a_browser_would_request(reference: str, expected: str | None) -> None:
    assert absolute(reference, "https://example.org/dir/page?q#f") == expected


@pytest.mark.parametrize("base", ["", "about:blank", "http://[", "http://\ud800["])
def test_without_a_usable_base_only_absolute_urls_count(base: str) -> None:
    assert absolute("/page", base) is None
    assert absolute("http://example.org", base) == "http://example.org/"


URL_TEXT = st.text(
    st.sampled_from("aZ0.-_~%/\\?#@:[]&= \t\u00e9\u3002\U0001f600'\"<\ud800\udfff"), max_size=40
)


@given(URL_TEXT, st.sampled_from(["http://", "https://", "", "//", "http:"]))
def test_what_absolute_returns_it_returns_again(text: str, scheme: str) -> None:
    url = absolute(scheme + text, "http://base.example/a/b?c")
    if url is not None:
        assert url.isascii()
        assert absolute(url) == url
    escaped_fragment(f"http://h/#!{text}")


@given(st.from_regex(urls._PLAIN, fullmatch=True))
def test_the_shortcut_for_plain_urls_agrees_with_the_parser(url: str) -> None:
    if "/." not in url:
        assert absolute(url) == url == urls._parsed(url).href


@given(st.from_regex(r"https?://[a-z0-9.:%@-]{1,20}[/?#]?[a-z]?", fullmatch=True))
@example("https://me:secret@example.org:443/x?y")
@example("https://0x7f.1/")
@example("http://a..b/")
@example("http://a.example:80/")
def test_an_origin_is_that_of_the_url_as_a_browser_reads_it(url: str) -> None:
    """The usual ones take a shortcut."""
    read = absolute(url)
    expected = None
    if read is not None:
        parts = urlsplit(read)
        expected = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    assert origin_of(url) == expected
    assert url.startswith(origin_text(url))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/page#top", None),
        ("http://h/page#!", "http://h/page?_escaped_fragment_="),
        ("http://h/page#!a=1&b=2", "http://h/page?_escaped_fragment_=a=1%26b=2"),
        ("http://h/page?q#!k+v %#\u00e9", "http://h/page?q&_escaped_fragment_=k%2Bv%20%25%23%C3%A9"),
    ],
)
def test_hash_bang_becomes_an_escaped_fragment(url: str, expected: str | None) -> None:
    assert escaped_fragment(url) == expected


HEX = "0123456789abcdef0123456789ABCDEF"


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("http://h/p;jsessionid=0A1B2C3D4E5F0A1B.node1?x=1", "http://h/p?x=1"),
        (f"http://h/p?PHPSESSID={HEX}", "http://h/p"),
        (f"http://h/p?a=1&sid={HEX}&b=2#f", "http://h/p?a=1&b=2#f"),
        (f"http://h/p?a=1&session_id={HEX}", "http://h/p?a=1"),
        ("http://h/(S(lit3py55t21z5v55vlm25s55))/page.aspx", "http://h/page.aspx"),
        *(
            (f"http://h/{content}",) * 2
            for content in (
                "article.php?sid=20240501",
                "modules.php?name=News&file=article&sid=10000001",
                "agenda?sessionId=1712345678901AbCd",
                "session?session_id=90000001",
                "survey?sid=" + "1" * 40,
                "p?sessionid=" + "introduction-to-" * 3,
                f"p?inside={HEX}",
                "p?PHPSESSID=short",
            )
        ),
    ],
)
def test_only_what_looks_like_a_session_is_taken_out(url: str, clean: str) -> None:
    assert without_session(url) == clean


@pytest.mark.parametrize(
    ("host", "private"),
    [
        *((host, True) for host in ("127.0.0.1", "10.1.2.3", "169.254.169.254", "224.0.0.1")),
        *((host, True) for host in ("0x7f000001", "2130706433", "017700000001", "127.1", "%31%32%37.0.0.1")),
        *((host, True) for host in ("[::1]", "[fd00::1]", "[::ffff:c0a8:1]")),
        # IPv4-compatible, NAT64, local NAT64, 6to4, IPv4-translated, site-local
        *((host, True) for host in ("[::7f00:1]", "[64:ff9b::a00:1]", "[64:ff9b:1::a00:1]")),
        *((host, True) for host in ("[2002:a00:1::]", "[::ffff:0:7f00:1]", "[fec0::1]")),
        *((host, True) for host in ("localhost", "printer.local", "intranet")),
        *((host, False) for host in ("[64:ff9b::808:808]", "[2002:808:808::]")),
        *((host, False) for host in ("93.184.216.34", "[2606:2800:220:1:248:1893:25c8:1946]")),
        *((host, False) for host in ("example.org", "local.example.org", "a b")),
    ],
)
def test_private_hosts_are_told_from_public_ones(host: str, private: bool) -> None:
    assert is_private_url(f"http://{host}/") is private
