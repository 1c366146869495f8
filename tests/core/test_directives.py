"""What pages and headers say to crawlers: the head scanner, robots directives, links, refreshes, waits."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html  # type: ignore[import-untyped]

from scrapy_frontier.core.dates import timestamp
from scrapy_frontier.core.directives import (
    LONGEST_WAIT,
    SCAN_LIMIT,
    Head,
    Refresh,
    canonical,
    location,
    parse_link_header,
    parse_refresh,
    rel_tokens,
    retry_after,
    robots_directives,
    scan_head,
    shared_rel,
)
from scrapy_frontier.core.urls import absolute

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors"
NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


@lru_cache(maxsize=4)
def vectors(name: str) -> dict[str, Any]:
    path = VECTORS / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def cases(name: str, part: str) -> list[Any]:
    return [
        pytest.param(case, id=case.get("id", part))
        for case in vectors(name).get(part, [])
        if not case.get("disputed")
    ]


def clock(case: dict[str, Any]) -> float:
    now = timestamp(case["now"]) if case.get("now") else NOW
    assert now is not None
    return now


@pytest.mark.parametrize("case", cases("robots_meta", "cases"))
def test_robots_meta_vectors(case: dict[str, Any]) -> None:
    page = case.get("html") or "".join(
        f'<meta name="{m["name"]}" content="{m["content"]}">' for m in case.get("meta", ())
    )
    found = robots_directives(case.get("headers", ()), scan_head(page).metas, case["agent"], clock(case))
    # own_scope tells how the source files the rules by agent; there is no such notion here
    for name, value in case["expect"].items():
        if name == "unavailable_after":
            assert found.unavailable_after == timestamp(value)
        elif name != "own_scope":
            assert (getattr(found, name) if hasattr(found, name) else name in found) == value, name


@pytest.mark.parametrize("case", cases("retry_after", "cases"))
def test_retry_after_vectors(case: dict[str, Any]) -> None:
    assert retry_after(case["values"][0], clock(case)) == case["delay"]


@pytest.mark.parametrize("case", cases("redirects", "location"))
def test_location_vectors(case: dict[str, Any]) -> None:
    assert location(case["location"], case["base"]) == case["expected"]


def page_of(case: dict[str, Any]) -> str:
    page: str = case["html"]
    return (
        page.encode("latin-1").decode("utf-8", "replace") if case.get("html_is") == "latin1-bytes" else page
    )


@pytest.mark.parametrize("case", cases("redirects", "refresh"))
def test_refresh_vectors(case: dict[str, Any]) -> None:
    if "content" in case:
        found = parse_refresh(case["content"])
        assert (found and {"seconds": found.seconds, "url": found.url or None}) == case["expected"]
        return
    head = scan_head(page_of(case))
    base = head.base_url(case["base"]) if case.get("base") else None
    target = absolute(head.refresh.url, base) if head.refresh and head.refresh.url else None
    assert (head.refresh and target and {"seconds": head.refresh.seconds, "url": target}) == case["expected"]


@pytest.mark.parametrize("case", cases("redirects", "base_href"))
def test_base_href_vectors(case: dict[str, Any]) -> None:
    url = case["document_url"]
    url = url["bytes"] if isinstance(url, dict) else url
    assert scan_head(page_of(case)).base_url(url) == case["expected"]


# --- the head ---------------------------------------------------------------------------------------------

NOINDEX = "<meta name=robots content=noindex>"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "\ufeff<!DOCTYPE html><html><head>",
        "<!-- <body> -->",
        "<!-->",
        "<!--->",
        "<!-- a -- b --!>",
        '<?php echo "x" ?>',
        "<title>a <b> </p> </titles></title >",
        "<script>if (a<b) document.write('<p>')</script>",
        "<script><!-- <script>x</script> --></script>",
        "<SCRIPT><!-- x --></Script>",
        "<style>a > b {} <p></style>",
        '<noscript><img src="pixel"></noscript>',
        "<template><p><template></template></template>",
        "<meta content='a>b' name=x>",
        "<link rel=stylesheet href='a\">b'>",
        "<base target=_top>",
        "</head>\n",
        "</3>",
        "<link/rel=icon/>",
    ],
)
def test_the_head_goes_on(before: str) -> None:
    assert ("robots", "noindex") in scan_head(before + NOINDEX).metas


@pytest.mark.parametrize(
    "before",
    [
        "text",
        "<",
        "<p>",
        "<body>",
        "</body>",
        "</html>",
        "<h1 hidden>",
        "<!-- ",
        "<!--!>",
        "<title>",
        "<title></titles>",
        "<script>",
        "<script><!-- <script> </script>",
        "<noscript>",
        "<template><template></template>",
        '<meta content="',
        "<svg>",
        "</br>",
        "<linked>",
        " " * SCAN_LIMIT,
    ],
)
def test_what_is_hidden_or_in_the_body_does_not_count(before: str) -> None:
    assert scan_head(before + NOINDEX) == Head()


def test_a_head_is_read_as_written() -> None:
    page = """<!doctype html><HTML><Head>
        <META NAME=" Robots " CONTENT='noindex,&#32;nofollow'>
        <meta name=googlebot content=nosnippet><meta property="og:title" content="x">
        <base><base href="/base/"><base href="/other/">
        <link rel="alternate Canonical" href="page?a=1&amp;b=2&copy=3&lt">
        <link rel="canonical"><link rel=stylesheet href=x.css>
        <meta http-equiv=Refresh content="soon"><meta http-equiv=REFRESH content="5; url='/next'">
        </head><body><meta name=robots content=none>"""
    assert scan_head(page) == Head(
        metas=(("robots", "noindex, nofollow"), ("googlebot", "nosnippet")),
        base="/base/",
        canonicals=("page?a=1&b=2&copy=3<",),
        refresh=Refresh(5, "/next"),
    )


def test_the_first_attribute_of_a_name_counts() -> None:
    assert scan_head("<meta name=robots content=a content=b NAME=x>").metas == (("robots", "a"),)


def test_a_page_that_breaks_off_in_a_tag_keeps_what_is_whole() -> None:
    assert scan_head(NOINDEX + '<meta name=robots content="nofollow"').metas[-1] == ("robots", "nofollow")
    assert scan_head(NOINDEX + '<meta name=robots content="nofoll').metas == (("robots", "noindex"),)


def test_the_base_counts_only_when_it_is_a_web_address() -> None:
    for href in ("data:,x", "javascript:0", "http://[", ""):
        assert scan_head(f'<base href="{href}">').base_url("http://h/a") == "http://h/a"
    assert scan_head("<base href='//cdn/x/'>").base_url("https://h/a") == "https://cdn/x/"


TAGS = st.sampled_from(
    [
        NOINDEX,
        '<meta name="robots" content="nofollow">',
        "<!-- c -->",
        "<title>t</title>",
        "<script>var s = '<meta>';</script>",
        '<link rel="canonical" href="/c">',
        '<link rel="icon" href="/i">',
        "<style>p > a {}</style>",
        "\n",
        '<base href="/b/">',
    ]
)


@given(st.lists(TAGS, max_size=8), st.text(max_size=30))
def test_lxml_finds_the_same_in_a_well_formed_head(tags: list[str], body: str) -> None:
    page = "<!DOCTYPE html><html><head>" + "".join(tags) + "</head><body>"
    tree = html.document_fromstring(page + "</body></html>")
    head = scan_head(page + body)
    assert [content for _, content in head.metas] == tree.xpath("//meta[@name]/@content")
    assert list(head.canonicals) == tree.xpath("//link[@rel='canonical']/@href")
    assert head.base == next(iter(tree.xpath("//base/@href")), None)


@given(st.text(st.sampled_from("<>/!-\"'= \nametnoscripl&;"), max_size=80))
def test_no_text_breaks_the_scanner_and_nothing_after_a_body_counts(text: str) -> None:
    assert scan_head(text + "<body>" + NOINDEX * 2) in (
        scan_head(text + "<body>"),
        scan_head(text + "<body>" + NOINDEX * 2),
    )
    assert scan_head("<body>" + text) == Head()


# --- robots directives ------------------------------------------------------------------------------------


def said(
    *headers: str, agent: str | None = "mybot", metas: tuple[tuple[str, str], ...] = (), now: float = NOW
) -> set[str]:
    found = robots_directives(headers, metas, agent, now)
    return set(found.names) | ({"noindex"} if found.noindex else set())


def test_a_line_may_address_several_agents_one_after_the_other() -> None:
    line = "noarchive, otherbot: noindex, nofollow, MyBot: nosnippet, noimageindex"
    assert said(line) == {"noarchive", "nosnippet", "noimageindex"}
    assert said(line, agent="OtherBot/2") == {"noarchive", "noindex", "nofollow"}
    assert said(line, agent=None) == {"noarchive"}


@pytest.mark.parametrize("agent", ["*", "robots", "MyBot/1.2", "mybot "])
def test_everybody_and_the_crawler_can_be_addressed_by_other_names(agent: str) -> None:
    assert said(f"{agent}: noindex, otherbot: nofollow") == {"noindex"}
    assert said(f"not{agent}: noindex") == set()


@pytest.mark.parametrize("written", ["noindex nofollow", "noindex;nofollow;", "NOINDEX | NOFOLLOW"])
def test_a_list_without_commas_is_still_a_list(written: str) -> None:
    assert said(written) == said(metas=(("robots", written),)) == {"noindex", "nofollow"}
    assert said("noindex this page, nosnippet") == {"noindex this page", "nosnippet"}


def test_lines_are_not_joined() -> None:
    assert said("otherbot: noarchive", "noindex") == {"noindex"}
    assert said("otherbot: noarchive, noindex") == set()


def test_none_is_noindex_and_nofollow_and_nothing_takes_a_ban_back() -> None:
    assert said("none", "index, follow, all") == {"noindex", "nofollow", "index", "follow", "all"}


def test_metas_of_the_crawler_and_of_all_are_added_up() -> None:
    metas = (("robots", "nofollow"), ("mybot", "NOINDEX"), ("otherbot", "noarchive"), ("", "nosnippet"))
    assert said(metas=metas) == {"nofollow", "noindex"}
    assert said(metas=metas, agent=None) == {"nofollow"}
    assert said(metas=(("robots", "otherbot: noindex"),)) == {"otherbot"}  # a meta has no agents inside


@pytest.mark.parametrize(
    ("date", "until"),
    [
        ("2020-01-01", 1_577_836_800.0),
        ("Wed, 01 Jan 2020 00:00:00 GMT", 1_577_836_800.0),
        ("Wednesday, 01-Jan-20 00:00:00 UTC", 1_577_836_800.0),
        ("2020-01-01T00:00:00,5+01:00", 1_577_833_200.5),
        ("1 Jan 2020 00:00:00 PST", 1_577_865_600.0),
    ],
)
def test_a_page_is_not_available_after_its_date(date: str, until: float) -> None:
    line = f"mybot: unavailable_after: {date}, noarchive"
    assert said(line, now=until) == {"noarchive"}
    assert said(line, now=until + 1) == {"noarchive", "noindex"}
    assert said(line, now=until + 1, agent="otherbot") == set()


def test_the_earliest_date_and_the_smallest_limits_hold() -> None:
    found = robots_directives(
        ["unavailable_after: 2031-01-01", "unavailable_after: 2030-01-01, max-snippet: 50, max-snippet:-1"],
        [
            (
                "robots",
                "max-snippet:20, max-image-preview:LARGE, max-video-preview:9, unavailable_after: never",
            )
        ],
        "mybot",
        NOW,
    )
    assert found.unavailable_after == timestamp("2030-01-01")
    assert (found.max_snippet, found.max_image_preview, found.max_video_preview) == (20, "large", 9)
    assert not found.noindex


RULE = st.sampled_from(
    [
        "noindex",
        "nofollow",
        "none",
        "all",
        "index",
        "mybot: noindex",
        "other: none",
        "max-snippet: 3",
        "",
        ":",
    ]
)
LINES = st.lists(st.lists(RULE, max_size=4).map(", ".join), max_size=4)


@given(LINES, LINES)
def test_more_lines_never_allow_more_and_their_order_says_nothing(some: list[str], more: list[str]) -> None:
    assert said(*some) <= said(*some, *more)
    assert said(*some, *more) == said(*more, *some)


# --- links ------------------------------------------------------------------------------------------------


def test_rel_is_a_set_of_words() -> None:
    assert rel_tokens(" NoFollow\tugc\nugc ") == {"nofollow", "ugc"}
    assert rel_tokens(None) == rel_tokens("") == frozenset()


def test_one_link_without_nofollow_is_enough() -> None:
    assert shared_rel([rel_tokens("nofollow ugc"), rel_tokens("ugc")]) == {"ugc"}
    assert shared_rel([rel_tokens("nofollow")]) == {"nofollow"}
    assert shared_rel([]) == frozenset()


def test_a_link_header_may_hold_several_links() -> None:
    line = (
        '</a,b;c>; rel="canonical next" ; title="x, \\"y\\"; rel=no", '
        '<b>;rel=prev;rel=next, <c>; rel=x; anchor="#y", junk'
    )
    assert [(link.target, set(link.rel), link.anchored) for link in parse_link_header(line)] == [
        ("/a,b;c", {"canonical", "next"}, False),
        ("b", {"prev"}, False),
        ("c", {"x"}, True),
    ]


def test_a_link_header_that_breaks_off_keeps_its_whole_links() -> None:
    assert [link.target for link in parse_link_header('<a>; rel="canonical, <b>')] == ["a"]
    assert parse_link_header("rel=canonical") == []


def test_the_canonical_url_is_what_header_and_page_agree_on() -> None:
    page = '<base href="/dir/"><link rel=canonical href="page#top">'
    assert canonical(scan_head(page), [], "https://h/x") == "https://h/dir/page"
    assert (
        canonical(scan_head(page), ['<https://H/dir/page>; rel="canonical"'], "https://h/x")
        == "https://h/dir/page"
    )
    assert (
        canonical(scan_head(page), ["<page>; rel=canonical"], "https://h/x") is None
    )  # from the URL, not from the base
    assert canonical(Head(), ["<page>; rel=canonical"], "https://h/x") == "https://h/page"
    assert canonical(Head(), ["<page>; rel=canonical; anchor=/other"], "https://h/x") is None
    assert canonical(Head(canonicals=("mailto:x", "/y")), [], "https://h/x") == "https://h/y"


# --- refresh and redirects --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0;URL = 'a b'", Refresh(0, "a b")),
        (".9 , /x", Refresh(0, "/x")),
        ("3.7.1; url=x", Refresh(3, "x")),
        ("5; url", Refresh(5, "url")),
        ("5; url=", Refresh(5, "")),
        ("5; 'x'y", Refresh(5, "x")),
        ("5; url='x", Refresh(5, "x")),
        ("9" * 5_000, Refresh(LONGEST_WAIT, "")),
        ("", None),
        (";url=x", None),
        ("x", None),
        ("5x", None),
        ("\xa05; url=x", None),
    ],
)
def test_a_refresh_is_read_as_browsers_read_it(value: str, expected: Refresh | None) -> None:
    assert parse_refresh(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/b", "https://h/b#here"),
        ("/b#there", "https://h/b#there"),
        ("/b#", "https://h/b#"),
        ("?q", "https://h/dir/a?q#here"),
        ("//other", "https://other/#here"),
        ("  /\u00fc ", "https://h/%C3%BC#here"),
        ("ftp://h/x", None),
        ("javascript:0", None),
        ("http://", None),
    ],
)
def test_a_location_starts_from_the_request_and_inherits_its_fragment(
    value: str, expected: str | None
) -> None:
    assert location(value, "https://h/dir/a?x#here") == expected


# --- waits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("\t007 ", 7.0),
        ("0", 0.0),
        ("9" * 6_000, float(LONGEST_WAIT)),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60.0),
        ("Tue Nov 14 22:14:20 2023", 60.0),
        ("Tue, 14 Nov 2023 23:14:20 +0100", 60.0),
        ("Wed, 9 Nov 2033 22:14:20 UTC", timestamp("2033-11-09T22:14:20Z") - NOW),  # type: ignore[operator]
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", float(LONGEST_WAIT)),
        ("-5", None),
        ("+5", None),
        ("1.5", None),
        ("5 seconds", None),
        ("0x10", None),
        ("\u0665", None),
        ("", None),
        ("tomorrow", None),
        ("Tue, 31 Feb 2023 00:00:00 GMT", None),
        ("Tue, 14 Nov 2023 25:00:00 GMT", None),
        ("2023-11-14", None),
    ],
)
def test_retry_after_is_a_number_a_date_or_nothing(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text(max_size=40))
def test_no_text_makes_anyone_wait_less_than_nothing_or_for_ever(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or 0.0 <= seconds <= LONGEST_WAIT
