"""The head of a page: what stands in it for crawlers, and where it ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html  # type: ignore[import-untyped]
from vectors import cases

from scrapy_frontier.core.parse.headers import Refresh, parse_refresh
from scrapy_frontier.core.parse.html import SCAN_LIMIT, Head, scan_head
from scrapy_frontier.core.parse.urls import absolute

NOINDEX = "<meta name=robots content=noindex>"


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


# --- the head ---


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
