"""Sitemaps and feeds: what is in them, and what they may not do."""

from __future__ import annotations

import base64
import gzip
import json
import time
import tracemalloc
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.hosts.sites import is_under
from scrapy_frontier.core.parse.headers import timestamp
from scrapy_frontier.core.parse.robots_txt import parse
from scrapy_frontier.core.parse.sitemaps import CHUNK, Entry, Kind, Slice, read
from scrapy_frontier.core.parse.urls import absolute

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors" / "sitemaps.json"
URL = "https://example.org/sitemap.xml"

# What another parser's suite expects and we do not do; `docs/internals/conformance.md` says why. Tested.
DEPARTURES = {"sm-010": "broken XML is read as far as it goes, not refused"}


@lru_cache(maxsize=1)
def vectors() -> dict[str, Any]:
    return json.loads(VECTORS.read_text("utf-8")) if VECTORS.exists() else {}


def body_of(case: dict[str, Any]) -> bytes:
    stored = vectors()["bodies"][case["body"]]
    return stored["text"].encode() if "text" in stored else base64.b64decode(stored["base64"])


def as_entry(expected: dict[str, Any]) -> Entry:
    return Entry(expected["loc"], timestamp(expected.get("lastmod") or ""))


def agrees(case: dict[str, Any]) -> bool:
    expected = case["expect"]
    url = case["url"] or URL
    slices = list(read(body_of(case), url))
    found = all_of(slices)
    if "error" in expected:
        return bool(slices[-1].problem) and not found
    if not expected.get("raw"):
        if case["options"]["strict"] and slices[-1].kind is not Kind.INDEX:
            found = [entry for entry in found if is_under(entry.url, url)]
        if slices[-1].kind.value != expected["kind"]:
            return False
    return found == [as_entry(entry) for entry in expected["entries"]]


def all_of(slices: list[Slice]) -> list[Entry]:
    return [entry for one in slices for entry in one.entries]


@pytest.mark.parametrize("case", vectors().get("cases", []), ids=lambda case: case["id"])
def test_sitemap_vectors(case: dict[str, Any]) -> None:
    assert agrees(case) is (case["id"] not in DEPARTURES)


@pytest.mark.parametrize(
    "case", vectors().get("robots_lines", []), ids=lambda case: case["test"].partition("::")[2]
)
def test_robots_line_vectors(case: dict[str, Any]) -> None:
    assert list(parse(case["robots"].encode(), "mybot", case["base"]).sitemaps) == case["sitemaps"]


# --- what is in them --------------------------------------------------------------------------------------


def found(body: bytes | str, **limits: int) -> tuple[Kind, list[Entry], str]:
    slices = list(read(body.encode() if isinstance(body, str) else body, URL, **limits))
    return slices[-1].kind, all_of(slices), slices[-1].problem


def urls_of(body: bytes | str) -> list[str]:
    return [entry.url for entry in found(body)[1]]


def test_a_sitemap_lists_pages() -> None:
    body = """<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
      <url><lastmod>2024-02-29</lastmod><loc> /caf\u00e9?a=1&amp;b=2 </loc><priority>0.9</priority>
        <image:image><image:loc>https://cdn/i.png</image:loc></image:image></url>
      <url><loc>https://example.org/b</loc><lastmod>soon</lastmod>
        <priority>7</priority><changefreq>daily</changefreq></url>
      <url><lastmod>2024-01-01</lastmod></url><url><loc>mailto:x@y</loc></url>
    </urlset>"""
    assert found(body) == (
        Kind.PAGES,
        [
            Entry("https://example.org/caf%C3%A9?a=1&b=2", 1_709_164_800.0),
            Entry("https://example.org/b"),
        ],
        "",
    )


def test_feeds_and_indexes_list_urls_with_their_dates() -> None:
    rss = """<rss xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><link>https://example.org/</link>
        <item><link>/a</link><pubDate>Thu, 29 Feb 2024 01:00:00 +0100</pubDate></item>
        <item><guid>https://example.org/b</guid><dc:date>2024-02-29</dc:date></item>
        <item><guid>tag:b</guid></item></channel></rss>"""
    atom = """<feed xmlns="http://www.w3.org/2005/Atom"><link href="/feed" rel="self"/>
        <entry><link rel="edit" href="/e"/><link href="/a"/><published>2023-01-01</published>
        <updated>2024-02-29T00:00:00Z</updated></entry></feed>"""
    expected = [
        Entry("https://example.org/a", 1_709_164_800.0),
        Entry("https://example.org/b", 1_709_164_800.0),
    ]
    assert found(rss) == (Kind.RSS, expected, "")
    assert found(atom) == (Kind.ATOM, expected[:1], "")
    index = "<sitemapindex><sitemap><loc>/a</loc><lastmod>2024-02-29</lastmod></sitemap></sitemapindex>"
    assert found(index) == (Kind.INDEX, expected[:1], "")
    assert urls_of("<feed><entry><id>https://example.org/name</id></entry></feed>") == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_text_file_lists_a_url_a_line(end: str) -> None:
    lines = "\ufeffhttps://example.org/a\t0.5", "", " https://example.org/\u00fc ", "# no", "/relative"
    body = end.join([*lines, "https://example.org/z"])
    expected = ["https://example.org/a", "https://example.org/%C3%BC", "https://example.org/z"]
    assert found(body)[0] is Kind.TEXT
    for packed in (body, gzip.compress(body.encode())):
        assert urls_of(packed) == expected


@pytest.mark.parametrize(
    "body", ["", "<!DOCTYPE html><html><url>https://example.org/</url></html>", "Not found", "\x00\x01"]
)
def test_what_is_no_sitemap_gives_nothing_and_a_problem(body: str) -> None:
    assert found(body) == (Kind.UNKNOWN, [], "no sitemap")


# --- as sites write them ----------------------------------------------------------------------------------

ONE = "<urlset><url><loc>https://example.org/a?b=1&amp;c=2</loc></url></urlset>"


@pytest.mark.parametrize(
    "body",
    [
        "\ufeff \n" + '<?xml version="1.0" encoding="UTF-8"?>' + ONE,
        "<b>Warning</b>: cannot modify headers in x.php\n" + '<?xml version="1.0"?>' + ONE,
        ONE.replace("&amp;", "&"),
        ONE.replace("https:", "<![CDATA[https:").replace("&amp;c=2", "&c=2]]>"),
        ONE.replace("a?b", "&#97;?b").replace("&amp;", "&#x26;"),
        ONE.replace("<url>", '<url xmlns="urn:x">'),
        ONE.replace("urlset", "ns:urlset").replace("url>", "ns:url>").replace("loc>", "ns:loc>"),
        ONE.replace("</urlset>", ""),
        ONE.replace("<url>", "<url><x>&nbsp;</y>"),
        ONE + "<junk",
    ],
)
def test_broken_xml_is_read_as_far_as_it_goes(body: str) -> None:
    assert urls_of(body) == ["https://example.org/a?b=1&c=2"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1"])
def test_the_encoding_may_be_declared_or_shown_by_its_mark(encoding: str) -> None:
    declaration = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>'
    body = declaration + "<urlset><url><loc>/\u00fc</loc></url></urlset>"
    assert urls_of(body.encode(encoding)) == ["https://example.org/%C3%BC"]


SURROGATES = ["&#xD800;", "&#xdfff;", "&#55296;", "&#057343;", "&#x00dABC;"]


@pytest.mark.parametrize("reference", SURROGATES)
@pytest.mark.parametrize(
    "entry",
    [
        "<url><loc>/a{}</loc></url>",
        "<url><lastmod>{}</lastmod><loc>/a</loc></url>",
        "<url><loc>/a<x/>{}</loc></url>",
        '<url x="{}"><loc>/a</loc></url>',
        '<url xmlns="{}"><loc>/a</loc></url>',
        '<url xmlns:x="{}"><x:note/><loc>/a</loc></url>',
        "<url><loc>/a</loc></url>{}",
    ],
)
def test_a_reference_to_half_a_character_costs_no_other_entry(entry: str, reference: str) -> None:
    others = [f"<url><loc>/{name}</loc></url>" for name in "bc"]
    found = urls_of(f"<urlset>{others[0]}{entry.format(reference)}{others[1]}</urlset>")
    assert [url for url in found if "/a" not in url] == ["https://example.org/b", "https://example.org/c"]
    assert found[1].partition("%EF%BF%BD")[0] == "https://example.org/a"


def test_a_file_that_breaks_off_keeps_its_whole_entries() -> None:
    body = "<urlset>" + "".join(f"<url><loc>/{number}</loc></url>" for number in range(3_000)) + "</urlset>"
    packed = gzip.compress(body.encode())
    kind, entries, problem = found(packed[: len(packed) // 2])
    assert kind is Kind.PAGES
    assert problem == "gzip data break off"
    assert 100 < len(entries) < 3_000
    assert [entry.url for entry in entries] == [f"https://example.org/{n}" for n in range(len(entries))]
    damaged = found(packed[:-8] + b"\xff" * 8)
    assert "broken gzip" in damaged[2]
    assert damaged[1] == found(body)[1][: len(damaged[1])] != []
    assert found(packed + b"\0" * 99)[1:] == (found(body)[1], "")
    assert found(packed * 2)[1:] == (found(body)[1], "more than one gzip file")


def test_an_entry_that_was_not_closed_still_gives_its_locations() -> None:
    body = "<urlset><url><loc>/a</loc><lastmod>2024</lastmod><loc>/b</loc><url><loc>/c</loc></url></url>"
    assert urls_of(body) == [f"https://example.org/{name}" for name in "abc"]


# --- what they may not do ---------------------------------------------------------------------------------


def test_the_location_of_an_image_is_no_page() -> None:
    space = "http://www.google.com/schemas/sitemap-image/1.1"
    image = "<image:loc>https://example.org/i.png</image:loc>"
    inside = f"<url><loc>https://example.org/b</loc><image:image>{image}</image:image></url></urlset>"
    beside = f'<urlset xmlns:image="{space}"><url>{image}<loc>https://example.org/a</loc></url>'
    assert urls_of(beside + inside) == ["https://example.org/a", "https://example.org/b"]
    assert urls_of("<urlset>" + inside) == ["https://example.org/b"]


@pytest.mark.parametrize("name", ["utf-16", "UTF-16", "utf-16le", "ucs-2"])
def test_a_file_that_says_it_is_utf_16_and_is_not_is_read_as_utf_8(name: str) -> None:
    body = f"<?xml version='1.0' encoding='{name}'?><urlset><url><loc>https://example.org/\u00fc</loc></url></urlset>"
    assert urls_of(body) == ["https://example.org/%C3%BC"]


def test_empty_lines_before_a_file_are_nothing() -> None:
    xml = "<urlset><url><loc>https://example.org/a</loc></url></urlset>"
    for body in (xml, "https://example.org/a"):
        assert urls_of("\r\n" * 5_000 + body) == ["https://example.org/a"]
    assert urls_of("x" * 5_000 + xml) == []


def test_entities_are_never_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("https://example.org/secret")
    body = f"""<!DOCTYPE urlset [<!ENTITY own "inside"><!ENTITY file SYSTEM "{secret.as_uri()}">
        <!ENTITY % remote SYSTEM "{secret.as_uri()}"> %remote;]>
        <urlset><url><loc>/a&own;&file;</loc></url><url><loc>&file;</loc></url>
        <url><loc>/b</loc></url></urlset>"""
    assert urls_of(body) == ["https://example.org/a", "https://example.org/b"]


def test_entities_within_entities_are_nothing() -> None:
    nested = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 10))
    entry = "<urlset x='&e9;'><url><loc>/a&e9;</loc></url></urlset>"
    body = f'<!DOCTYPE urlset [<!ENTITY e0 "{"x" * 99}">{nested}]>{entry}'
    assert urls_of(body) == ["https://example.org/a"]


def test_a_bomb_stops_at_the_limit_and_memory_stays_flat() -> None:
    entry = b"<url><loc>https://example.org/a</loc></url>"
    bomb = gzip.compress(b"<urlset>" + entry * 100_000)
    tracemalloc.start()
    seen = sum(len(one.entries) for one in read(bomb, URL, max_bytes=1_000_000, max_entries=10**9))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 1_000_000 // len(entry) - 2 <= seen <= 1_000_000 // len(entry)
    assert peak < 3_000_000
    assert found(bomb, max_bytes=1_000_000, max_entries=10**9)[2] == "too many bytes"


@pytest.mark.parametrize(
    "filling",
    [b"<a/>", b"<a>", b"<", b">", b"&", b"x", b'<url a="', b"<!---->", b"<url/>", b"<![CDATA[", b"]]&"],
)
def test_a_file_without_entries_is_given_up(filling: bytes) -> None:
    body = b"<urlset><url>" + filling * (3_000_000 // len(filling))
    slices = list(read(body, URL))
    assert all_of(slices) == []
    assert slices[-1].problem == "no entry in too many bytes"


LOCATION = "<loc>/a</loc>"
LINK = '<entry><link href="a"/></entry>'
HEAVY = {
    "usual": "<urlset>" + "<url><loc>https://example.org/1</loc></url>" * 5_000,
    "locations": "<urlset><url>" + LOCATION * 9_000 + "</url></urlset>",
    "empty fields": "<urlset><url>" + "<a/>" * 40_000 + LOCATION + "</url></urlset>",
    "empty elements": "<urlset>"
    + "<a/>" * 40_000
    + f"<url><loc>{'<a/>' * 40_000}</loc>{LOCATION}</url></urlset>",
    "texts": "<urlset><url>" + "x<a/>" * 40_000 + LOCATION + "</url></urlset>",
    "links": "<feed><entry>" + '<link href="//["/>' * 20_000 + "</entry>" + LINK,
    "characters": "<urlset><url><loc>" + "&eacute;" * 60_000 + f"</loc>{LOCATION}</url></urlset>",
    "ampersands": "<urlset><url><loc>" + "&" * 500_000 + f"</loc>{LOCATION}</url></urlset>",
    "lastmod": f"<urlset><url>{LOCATION}<lastmod>2024-01-01T00:00:00.{'1' * 900_000}x</lastmod></url>",
    "lines": "http:\n" * 150_000 + "http://example.org/",
}


@pytest.mark.parametrize("name", HEAVY)
def test_no_slice_holds_an_event_loop(name: str) -> None:
    body, gaps, entries = HEAVY[name].encode(), [], 0
    slices = read(body, URL)
    while True:
        before = time.thread_time()
        one = next(slices, None)
        gaps.append(time.thread_time() - before)
        if one is None:
            break
        entries += len(one.entries)
    assert entries
    assert sorted(gaps)[-2] < 0.05  # the machine may stall once


def test_more_entries_than_allowed_are_left_out_and_told() -> None:
    body = "<urlset>" + "".join(f"<url><loc>/{number}</loc></url>" for number in range(11)) + "</urlset>"
    assert len(found(body, max_entries=11)[1]) == 11
    assert found(body, max_entries=11)[2] == ""
    assert len(found(body, max_entries=10)[1]) == 10
    assert found(body, max_entries=10)[2] == "more than 10 entries"


def test_a_location_is_shorter_than_2048_characters() -> None:
    start = "https://example.org/"
    for length, kept in ((2_047, 1), (2_048, 0)):
        assert (
            len(urls_of(f"<urlset><url><loc>{start}{'x' * (length - len(start))}</loc></url></urlset>"))
            == kept
        )
    assert urls_of(start + "x" * 500_000 + "\n" + start) == [start]


def test_a_sitemap_speaks_for_its_own_directory() -> None:
    sitemap = "https://example.org/shop/sitemap.xml"
    assert is_under("https://example.org/shop/a?b", sitemap)
    assert not is_under("https://example.org/shopping", sitemap)
    assert not is_under("https://example.org/", sitemap)
    assert not is_under("http://example.org/shop/a", sitemap)
    assert not is_under("https://www.example.org/shop/a", sitemap)
    assert is_under("https://example.org", "https://example.org/sitemap.xml")


# --- properties -------------------------------------------------------------------------------------------

PATHS = st.lists(st.text(st.sampled_from("ab/&<>'\"?=;#]-\u00e9 "), max_size=12), max_size=20)


@given(PATHS, st.integers(0, 40), st.booleans())
def test_what_is_written_is_read_wherever_a_chunk_ends(paths: list[str], shift: int, packed: bool) -> None:
    urls = [f"https://example.org/x{path}" for path in paths]
    text = "".join(f"<url><loc>{escape(url)}</loc></url>" for url in urls)
    filling = " " * (CHUNK - len(text.encode()) // 2 - shift)
    body = f"<urlset>{filling}{text}</urlset>".encode()
    body = gzip.compress(body) if packed else body
    assert urls_of(body) == [absolute(url) for url in urls]


PARTS = (
    "<urlset>|<url>|</url>|<url/>|<loc>|</loc>|<lastmod>|</lastmod>|<a/>|</a>|<rss>|<item>|</item>|<link>"
    '|</link>|<link href="|"/>|<feed>|<entry>|</entry>|">|<guid>|<!DOCTYPE urlset ['
    '|<!ENTITY e "'
    "|]>|&e;|&|&#38;#xD800;|&#xD800;|&#57343;|&eacute;|&#0;|<![CDATA[|]]>|<!--|-->|<?x |?>|\n|\t|http://|h|/|?"
    '|#|[|:99999|\u00e9|\ufffe|2024-02-30|\0|<x:url| xmlns="'
)
MARKUP = PARTS.split("|")
GARBAGE = st.lists(
    st.one_of(st.sampled_from(MARKUP).map(str.encode), st.binary(max_size=6)), max_size=40
).map(b"".join)


@given(
    GARBAGE,
    st.sampled_from(
        [b"", b"<urlset>", b"<rss><item>", b"<feed><entry>", b"\x1f\x8b", b"\xff\xfe", b"<url><loc>"]
    ),
    st.booleans(),
    st.sampled_from([URL, "", "null"]),
)
def test_no_bytes_break_the_reader(body: bytes, start: bytes, packed: bool, url: str) -> None:
    body = start + body
    slices = list(read(gzip.compress(body) if packed else body, url))
    assert all(entry.url.startswith("http") and entry.url.isascii() for entry in all_of(slices))
