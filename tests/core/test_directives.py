"""The head of a page, what it asks of crawlers and of which ones, and which redirects are followed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html  # type: ignore[import-untyped]
from vectors import NOW, cases, clock

from scrapy_frontier.core import reasons
from scrapy_frontier.core.parse.directives import (
    MOST_SAID,
    NO_CONSEQUENCES,
    Consequences,
    Directives,
    Obeyed,
    consequences,
    refusal,
    robots_directives,
    without_foreign_userinfo,
)
from scrapy_frontier.core.parse.headers import (
    has_rel,
    timestamp,
)
from scrapy_frontier.core.parse.html import MOST_PARTS, SCAN_LIMIT, Head, scan_head

NOINDEX = "<meta name=robots content=noindex>"


GOES_ON = (
    *("", "\ufeff<!DOCTYPE html><html><head>", "<!-- <body> -->", "<!-->", "<!--->", "<!-- a -- b --!>"),
    *('<?php echo "x" ?>', "<title>a <b> </p> </titles></title >", "</head>\n", "</3>", "<link/rel=icon/>"),
    "<script>if (a<b) document.write('<p>')</script>",
    "<SCRIPT><!-- x --></Script>",
    *("<style>a > b {} <p></style>", '<noscript><img src="pixel"></noscript>'),
    "<template><p></template>",
    *("<meta content='a>b' name=x>", "<link rel=stylesheet href='a\">b'>", "<base target=_top>"),
)
IS_OVER = (
    *("text", "<", "<p>", "<body>", "</body>", "</html>", "<h1 hidden>", "<!-- ", "<!--!>", "<title>"),
    *("<title></titles>", "<script>", "<noscript>", "<svg>", "</br>"),
    *("<template>", '<meta content="', "<linked>", " " * SCAN_LIMIT, "<!---->" * MOST_PARTS),
    *("<meta name " + "a/" * MOST_PARTS + ">", "<link '' " + "b " * MOST_PARTS + ">"),
)


@pytest.mark.parametrize(("before", "counts"), [(b, True) for b in GOES_ON] + [(b, False) for b in IS_OVER])
def test_a_head_ends_where_a_browser_begins_the_body(before: str, counts: bool) -> None:
    assert (("robots", "noindex") in scan_head(before + NOINDEX).metas) == counts
    if not counts:
        assert scan_head(before + NOINDEX) == Head()


def test_a_head_is_read_as_written() -> None:
    page = """<!doctype html><HTML><Head>
        <META NAME=" Robots " CONTENT='noindex,&#32;nofollow'>
        <meta name=googlebot content=nosnippet><meta property="og:title" content="x">
        <base><base href="/base/"><link rel="Canonical nofollow" href="/a?b&amp;c"><link rel=canonical>
        <meta name=next content="page?a=1&amp;b=2&copy=3&lt"><link rel=stylesheet href=x.css>
        <meta http-equiv=Refresh content="soon"><meta http-equiv=REFRESH content="5; url='/next'">
        </head><body><meta name=robots content=none>"""
    assert scan_head(page) == Head(
        metas=(("robots", "noindex, nofollow"), ("googlebot", "nosnippet"), ("next", "page?a=1&b=2&copy=3<")),
        has_refresh=True,
        canonicals=("/a?b&c",),
    )


def test_a_tag_is_read_as_far_as_it_is_whole() -> None:
    assert scan_head("<meta name=robots content=a content=b NAME=x>").metas == (("robots", "a"),)
    assert scan_head(NOINDEX + '<meta name=robots content="nofollow"').metas[-1] == ("robots", "nofollow")
    assert scan_head(NOINDEX + '<meta name=robots content="nofoll').metas == (("robots", "noindex"),)
    assert scan_head(f'<meta name=robots content="{"1" * 250_000}">').metas == (("robots", ""),)


TAGS = st.sampled_from(
    [
        *(NOINDEX, '<meta name="robots" content="nofollow">', "<!-- c -->", "<title>t</title>", "\n"),
        *("<script>var s = '<meta>';</script>", '<link rel="canonical" href="/c">', '<base href="/b/">'),
        *('<link rel="icon" href="/i">', "<style>p > a {}</style>"),
    ]
)


@given(st.lists(TAGS, max_size=8), st.text(max_size=30))
def test_lxml_finds_the_same_in_a_well_formed_head(tags: list[str], body: str) -> None:
    page = "<!DOCTYPE html><html><head>" + "".join(tags) + "</head><body>"
    tree = html.document_fromstring(page + "</body></html>")
    head = scan_head(page + body)
    assert [content for _, content in head.metas] == tree.xpath("//meta[@name]/@content")


@given(st.text(st.sampled_from("<>/!-\"'= \nametnoscripl&;"), max_size=80))
def test_no_text_breaks_the_scanner_and_nothing_after_a_body_counts(text: str) -> None:
    assert scan_head(text + "<body>" + NOINDEX * 2) in (
        scan_head(text + "<body>"),
        scan_head(text + "<body>" + NOINDEX * 2),
    )
    assert scan_head("<body>" + text) == Head()


# --- robots directives ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("robots_meta", "cases"))
def test_robots_meta_vectors(case: dict[str, Any]) -> None:
    page = case.get("html") or "".join(
        f'<meta name="{m["name"]}" content="{m["content"]}">' for m in case.get("meta", ())
    )
    given = case.get("headers", ()), scan_head(page).metas, case["agent"]
    found = robots_directives(*given, clock(case))
    # own_scope tells how the source files the rules by agent, max_snippet and the like what to show of a
    # page; there are no such notions here
    for name, value in case["expect"].items():
        if name == "unavailable_after":
            until = timestamp(value)
            assert until is not None
            assert robots_directives(*given, until + 1)["noindex"]
        elif name == "noai":
            assert (not {"noai", "noimageai"}.isdisjoint(found["names"])) == value
        elif name != "own_scope" and not name.startswith("max_"):
            assert dict(found).get(name, name in found["names"]) == value, name


def said(
    *headers: str, agent: str | None = "mybot", metas: tuple[tuple[str, str], ...] = (), now: float = NOW
) -> set[str]:
    found = robots_directives(headers, metas, agent, now)
    return set(found["names"]) | ({"noindex"} if found["noindex"] else set())


@pytest.mark.parametrize(
    ("line", "agent", "names"),
    [
        (
            LINE := "noarchive, otherbot: noindex, nofollow, MyBot: nosnippet",
            "mybot",
            {"noarchive", "nosnippet"},
        ),
        (LINE, "OtherBot/2", {"noarchive", "noindex", "nofollow"}),
        (LINE, None, {"noarchive"}),
        *(
            (f"{agent}: noindex, otherbot: nofollow", "mybot", {"noindex"})
            for agent in ("*", "robots", "MyBot/1.2")
        ),
        *((f"not{agent}: noindex", "mybot", set()) for agent in ("*", "robots", "MyBot/1.2", "mybot ")),
        ("noindex this page, nosnippet", "mybot", {"noindex this page", "nosnippet"}),
        ("noindex: true, nofollow", "mybot", {"noindex", "nofollow"}),
        ("noindex: false, nofollow", "mybot", {"nofollow"}),
        ("none: yes, noarchive", "mybot", {"noindex", "nofollow", "noarchive"}),
        ("max-audio-preview: 10, noindex", "mybot", {"noindex"}),
        ("max-snippet:, noindex", "mybot", {"noindex"}),
        ("mybot: noindex: true, nofollow", "mybot", {"noindex", "nofollow"}),
        ("otherbot: noindex: true, nofollow", "mybot", set()),
        ("otherbot: max-audio-preview: 10, nofollow", "mybot", set()),
        ("unavailable_after: Friday, January 1, 2027 10:00:00 GMT, noindex", "mybot", {"noindex"}),
        ("unavailable_after: Fri, 1 Jan, 2027 10:00:00, noindex", "mybot", {"noindex"}),
        ("noarchive, 01 Jan 2027 10:00:00 GMT, noindex", "mybot", {"noarchive", "noindex"}),
        ("otherbot: unavailable_after: Friday, January 1, 2027 10:00, noindex", "mybot", set()),
    ],
)
def test_a_line_is_a_list_of_rules_for_agents(line: str, agent: str | None, names: set[str]) -> None:
    assert said(line, agent=agent) == names


@pytest.mark.parametrize("written", ["noindex nofollow", "noindex;nofollow;", "NOINDEX | NOFOLLOW"])
def test_a_list_without_commas_is_still_a_list(written: str) -> None:
    assert said(written) == said(metas=(("robots", written),)) == {"noindex", "nofollow"}


def test_lines_and_metas_are_added_up_and_not_joined() -> None:
    assert said("otherbot: noarchive", "noindex") == {"noindex"}
    assert said("none", "index, follow, all") == {"noindex", "nofollow", "index", "follow", "all"}
    metas = (("robots", "nofollow"), ("mybot", "NOINDEX"), ("otherbot", "noarchive"), ("", "nosnippet"))
    assert said(metas=metas) == {"nofollow", "noindex"}
    assert said(metas=metas, agent=None) == {"nofollow"}
    assert said(metas=(("robots", "otherbot: noindex"),)) == {"otherbot"}  # a meta has no agents inside


def test_what_is_beyond_16384_characters_says_nothing() -> None:
    long = "x" * (MOST_SAID - 10)
    assert said("noindex", long, "nofollow") == {"noindex", long}
    assert said(metas=(("robots", "noindex"), ("robots", long), ("robots", "nofollow"))) == {"noindex", long}


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


def test_the_earliest_date_holds() -> None:
    lines = [
        "unavailable_after: 2031-01-01",
        "unavailable_after: 2030-01-01, max-snippet: 50, max-snippet:-1",
    ]
    metas = [("robots", "max-snippet:20, max-image-preview:LARGE, unavailable_after: never")]
    until = 1_893_456_000.0
    found = robots_directives(lines, metas, "mybot", until)
    assert not (found["noindex"])
    assert not (found["nofollow"])
    assert not (found["names"])
    assert robots_directives(lines, metas, "mybot", until + 1)["noindex"]


RULES = (
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
)
LINES = st.lists(st.lists(st.sampled_from(RULES), max_size=4).map(", ".join), max_size=4)


@given(LINES, LINES)
def test_more_lines_never_allow_more_and_their_order_says_nothing(some: list[str], more: list[str]) -> None:
    assert said(*some) <= said(*some, *more)
    assert said(*some, *more) == said(*more, *some)


# --- what follows -----------------------------------------------------------------------------------------


def told(noindex: bool = False, nofollow: bool = False, canonical: str | None = None) -> Directives:
    return {"noindex": noindex, "nofollow": nofollow, "names": [], "canonical": canonical}


@pytest.mark.parametrize(
    ("mode", "notes"), [("skip", (reasons.SKIPPED(),)), ("drop-items", (reasons.NOINDEX(),)), ("ignore", ())]
)
def test_what_a_page_says_has_consequences_where_it_is_obeyed(mode: str, notes: tuple[str, ...]) -> None:
    found_rels = [
        each for each in ("nofollow", "ugc", "follow") if has_rel(" NoFollow\tugc\nugc ", frozenset({each}))
    ]
    assert found_rels == ["nofollow", "ugc"]
    every, none = Obeyed(mode, nofollow=True, canonical=True), Obeyed(mode, nofollow=False, canonical=False)
    found = consequences(told(True, True, "http://a/b"), every)
    assert found == Consequences(mode == "skip", mode == "drop-items", True, "http://a/b")
    assert found.notes_of_items == notes
    assert found.notes_of_links == (reasons.NOFOLLOW(), "alias of http://a/b")
    assert consequences(told(False, True, "http://a/b"), none) == NO_CONSEQUENCES
    assert consequences(told(), every) == NO_CONSEQUENCES
    assert consequences(None, every) == NO_CONSEQUENCES


# --- redirects --------------------------------------------------------------------------------------------

A, B = "http://a.example/", "http://b.example/"
HOSTS = [f"http://{name}.example/" for name in "abcde"]


@pytest.mark.parametrize(
    ("chain", "target", "why"),
    [
        (
            ["http://t.example/x", "http://bit.example/y", "http://s.example/p?u=1"],
            "https://www.s.example/p",
            "",
        ),
        *(([A], target, "scheme") for target in ("ftp://a.example/", "file:///etc/passwd", "data:,x")),
        ([A], A, ""),
        ([A, B, A, B, A], B, ""),  # many set a cookie on the way round
        ([A, B, A, B, A, B], A + "#top", "loop"),
        ([A, A, A], A, "loop"),
        (HOSTS, "http://f.example/", "hosts"),
        (HOSTS, "https://e.example:8443/", ""),
        *(([A], f"http://{host}/", "private") for host in ("10.0.0.1", "127.1", "[::1]:8080", "localhost")),
        *(([A], f"http://{host}/", "private") for host in ("user@172.16.0.1", "intranet", "router.local")),
    ],
)
def test_a_redirect_is_followed_or_refused_by_name(chain: list[str], target: str, why: str) -> None:
    found = refusal(chain, target, allows_private=False)
    assert (found.name if found else "") == why
    freed = refusal(chain, target, allows_private=True)
    assert (freed.name if freed else "") == why.replace("private", "")


def test_credentials_in_a_url_stay_with_their_origin() -> None:
    own = "http://me:secret@a.example/next"
    assert without_foreign_userinfo(own, "http://me:secret@a.example/") == own
    assert without_foreign_userinfo(own, B) == "http://a.example/next"
    assert without_foreign_userinfo(own, "https://a.example/") == "http://a.example/next"
    assert without_foreign_userinfo("http://me@a.example:81/?x@y", A) == "http://a.example:81/?x@y"
    assert without_foreign_userinfo("http://b.example/@me", A) == "http://b.example/@me"
