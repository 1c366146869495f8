"""Whose sitemaps there are, and whose pages they may list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.hosts.sites import (
    SitemapScope,
    SitemapsToRead,
    contact,
    is_hint_of_change,
    named_by_robots,
)
from scrapy_frontier.core.store.records import SiteSitemaps

DAY = 86400.0
A, B = "http://a.example", "http://b.example"
URLS = st.lists(st.sampled_from([f"{A}/{number}.xml" for number in range(6)]), unique=True).map(tuple)
SITEMAPS = st.builds(SiteSitemaps, URLS, st.booleans())


# -- contact -------------------------------------------------------------------------------------------


def test_contact_takes_what_is_listed_else_the_usual_path() -> None:
    listed = (f"{A}/1.xml", f"{A}/2.xml")
    assert contact(SiteSitemaps(listed), A) == SitemapsToRead(listed, SiteSitemaps(listed, True))
    assert contact(SiteSitemaps(), A) == SitemapsToRead((f"{A}/sitemap.xml",), SiteSitemaps((), True))


@given(SITEMAPS, URLS)
def test_every_listed_sitemap_is_queued_once(sitemaps: SiteSitemaps, urls: tuple[str, ...]) -> None:
    """By contact or by what was heard later, whichever comes last."""
    told = named_by_robots(sitemaps, urls)
    queued = set(told.queue)
    if not told.sitemaps.is_contacted:
        queued |= set(contact(told.sitemaps, A).queue)
        assert set(urls) <= queued
    else:
        assert queued == set(urls) - set(sitemaps.listed)


# -- whose pages ---------------------------------------------------------------------------------------


def judge(*names: str, speaks_for: str = A, **listed: tuple[str, ...]) -> SitemapScope:
    return SitemapScope(names or (f"{A}/s/map.xml",), speaks_for, lambda site: listed.get(site[7], ()))


@pytest.mark.parametrize(
    ("url", "is_accepted"),
    [
        (f"{A}/", True),
        (f"{A}/elsewhere?x=http://b.example/", True),
        ("https://a.example/", True),  # the same site, over https
        (f"{A}:8080/", False),
        ("http://www.a.example/", False),
        (f"{B}/", False),
        (f"{A}.b.example/", False),
        (f"{B}/?{A}/", False),
        ("http://a.example@b.example/", False),
    ],
)
def test_a_site_lists_its_own_pages_only(url: str, is_accepted: bool) -> None:
    judged = judge()
    assert judged.accepts(url) == is_accepted
    assert judged.foreign == (not is_accepted)


def test_a_file_on_another_host_lists_what_lies_below_it() -> None:
    judged = judge(f"{B}/maps/a.xml")
    assert judged.accepts(f"{A}/x")
    assert judged.accepts(f"{B}/maps/y")
    assert not judged.accepts(f"{B}/z")


def test_another_site_gives_its_word_in_its_robots_txt() -> None:
    judged = judge(f"{A}/s/new.xml", f"{A}/s/old.xml", b=(f"{A}/s/old.xml",), c=(f"{A}/other.xml",))
    assert judged.accepts(f"{B}/x")
    assert not judged.accepts("http://c.example/x")
    assert not judged.accepts("http://c.example/y")
    assert not judged.accepts("http://d.example/")
    assert judged.foreign == 3


# -- order ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "last_visit", "is_hint"),
    [
        (100, 50, True),
        (100, 300, True),  # that it was told otherwise before counts
        (None, 150, True),
        (None, 200, False),
        (None, 300, False),
        (100, None, False),
        (None, None, False),
    ],
)
def test_another_lastmod_is_a_hint_and_the_first_only_where_it_is_younger_than_the_visit(
    kept: int | None, last_visit: int | None, is_hint: bool
) -> None:
    assert is_hint_of_change(kept, 200, last_visit) == is_hint
