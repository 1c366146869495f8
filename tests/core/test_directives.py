"""What a page asks of crawlers, and of which ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vectors import NOW, cases, clock

from scrapy_frontier.core import reasons
from scrapy_frontier.core.parse.directives import (
    NO_CONSEQUENCES,
    Consequences,
    Directives,
    Obeyed,
    canonical,
    consequences,
    robots_directives,
)
from scrapy_frontier.core.parse.headers import timestamp
from scrapy_frontier.core.parse.html import Head, scan_head


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
            assert [robots_directives(*given, when).expired for when in (until, until + 1)] == [False, True]
        elif name == "noai":
            assert (not found.names.isdisjoint(("noai", "noimageai"))) == value
        elif name != "own_scope" and not name.startswith("max_"):
            assert getattr(found, name, name in found.names) == value, name


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


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("noindex: true, nofollow", {"noindex", "nofollow"}),
        ("NoIndex : 1", {"noindex"}),
        ("noindex: false, nofollow", {"nofollow"}),
        ("none: yes, noarchive", {"noindex", "nofollow", "noarchive"}),
        ("max-audio-preview: 10, noindex", {"noindex"}),
        ("max-snippet:, noindex", {"noindex"}),
        ("mybot: noindex: true, nofollow", {"noindex", "nofollow"}),
        ("otherbot: noindex: true, nofollow", set()),
        ("otherbot: max-audio-preview: 10, nofollow", set()),
        ("unavailable_after: Friday, January 1, 2027 10:00:00 GMT, noindex", {"noindex"}),
        ("unavailable_after: Fri, 1 Jan, 2027 10:00:00, noindex", {"noindex"}),
        ("noarchive, 01 Jan 2027 10:00:00 GMT, noindex", {"noarchive", "noindex"}),
        ("otherbot: unavailable_after: Friday, January 1, 2027 10:00, noindex", set()),
    ],
)
def test_a_rule_with_a_value_is_no_agent_and_takes_nothing_with_it(line: str, names: set[str]) -> None:
    assert said(line) == names


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


def test_the_earliest_date_holds() -> None:
    lines = [
        "unavailable_after: 2031-01-01",
        "unavailable_after: 2030-01-01, max-snippet: 50, max-snippet:-1",
    ]
    metas = [("robots", "max-snippet:20, max-image-preview:LARGE, unavailable_after: never")]
    until = 1_893_456_000.0
    found = robots_directives(lines, metas, "mybot", until)
    assert found.names == frozenset()
    assert not found.noindex
    assert robots_directives(lines, metas, "mybot", until + 1).noindex


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


# --- canonical --------------------------------------------------------------------------------------------


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


def test_a_canonical_url_has_its_ajax_state_where_that_is_wanted() -> None:
    head = Head(canonicals=("/y#!a", "/y?_escaped_fragment_=a#top"))
    assert canonical(head, [], "https://h/x") is None  # two pages
    assert canonical(head, [], "https://h/x", has_ajax=True) == "https://h/y?_escaped_fragment_=a"


# --- what follows -----------------------------------------------------------------------------------------


def told(noindex: bool = False, nofollow: bool = False, canonical: str | None = None) -> Directives:
    return {"noindex": noindex, "nofollow": nofollow, "names": [], "canonical": canonical}


@pytest.mark.parametrize(
    ("mode", "notes"), [("skip", (reasons.SKIPPED(),)), ("drop-items", (reasons.NOINDEX(),)), ("ignore", ())]
)
def test_what_a_page_says_has_consequences_where_it_is_obeyed(mode: str, notes: tuple[str, ...]) -> None:
    page, named = "http://a.example/2?session=1", "http://www.a.example/2"
    found = consequences(told(True, True, named), page, Obeyed(mode, True, True))
    assert found == Consequences(mode == "skip", mode == "drop-items", True, named, named)
    assert found.notes_of_items == notes
    assert found.notes_of_links == (reasons.NOFOLLOW(), f"alias of {named}")
    not_obeyed = consequences(told(False, True, named), page, Obeyed(mode, False, False))
    assert not_obeyed == Consequences(canonical=named)


def test_no_other_site_is_the_better_self_of_a_page() -> None:
    everything = Obeyed("skip", True, True)
    found = consequences(told(canonical="http://b.example/"), "http://a.example/", everything)
    assert (found.alias_of, found.canonical) == (None, "http://b.example/")
    assert consequences(told(), "http://a.example/", everything) == NO_CONSEQUENCES
    assert consequences(None, "http://a.example/", everything) == NO_CONSEQUENCES
