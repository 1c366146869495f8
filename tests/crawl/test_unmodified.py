"""What the head of a 304 says of a page counts as that of a 200 does (RFC 9110 15.4.5, RFC 9111 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from changing import Document, daily
from server import Answer
from test_thirty_days import SETTINGS, Keeper, told

from scrapy_frontier.core import reasons

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from changing import ChangingWeb
    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]
    Pages = Callable[[], dict[str, Page]]

NOINDEX, NOFOLLOW = reasons.NOINDEX(), reasons.NOFOLLOW()


def says(name: str, value: str, first: float = 2.5, last: float = 99.0) -> Document:
    """A page that never changes; in between its server sends that header line."""
    return Document(
        headers=lambda day: {name: value} if first <= day < last else {}, links=lambda _: ["/target"]
    )


@pytest.fixture
def crawl(changing: ChangingWeb, run: Run, tmp_path: Path) -> Run:
    """Crawl "/" and what it links until the morning of a day."""

    def crawl(last_day: float, **settings: Any) -> Crawl:
        seed, file = changing.url("/"), tmp_path / "told"
        done = run(Keeper, {**SETTINGS, "LAST_DAY": last_day, **settings}, urls=[seed], file=str(file))
        assert done.reason == "finished", done.log
        assert "Traceback" not in done.log
        return done

    return crawl


@pytest.mark.parametrize(("noindex", "reason"), [("drop-items", NOINDEX), ("skip", reasons.SKIPPED())])
def test_a_noindex_that_appears_on_a_304_is_told_as_gone(
    changing: ChangingWeb, crawl: Run, pages: Pages, tmp_path: Path, noindex: str, reason: str
) -> None:
    """The page itself stays: it is asked for conditionally as before, and keeps its links."""
    seed = changing.document("/", says("X-Robots-Tag", "noindex"))
    done = crawl(6.5, FRONTIER_NOINDEX=noindex)
    assert changing.statuses("/") == [200, *[304] * 7]
    (gone,) = (line for line in told(tmp_path / "told")["/"] if line["what"] == "gone")
    assert gone["reason"] == "noindex"
    page = pages()[seed]
    assert (page.state.name, page.status, page.reason) == ("DONE", 200, reason)
    assert page.visits is not None
    assert (page.visits.visits, page.visits.changes, bool(page.visits.digest)) == (8, 0, True)
    assert (done.stats["frontier/visits/gone"], done.stats["frontier/noindex/pages"]) == (1, 1)
    again = [seen.asked for seen in changing.of("/")]
    assert all(again[1:])


@pytest.mark.parametrize(
    ("name", "value", "notes"),
    [
        ("X-Robots-Tag", "nofollow", NOFOLLOW),
        ("X-Robots-Tag", "none", f"{NOINDEX}; {NOFOLLOW}"),
        ("Link", "</target>; rel=canonical", "alias of {target}"),
    ],
)
def test_for_what_concerns_its_links_a_page_is_read_once_more(
    changing: ChangingWeb, crawl: Run, pages: Pages, name: str, value: str, notes: str
) -> None:
    seed = changing.document("/", says(name, value))
    target = changing.document("/target", Document())
    crawl(5.5, FRONTIER_REVISIT_BOUNDS="60,172800")
    statuses = changing.statuses("/")
    assert statuses[:5] == [200, 304, 304, 304, 200], "at once"
    assert set(statuses[5:]) <= {304}
    assert pages()[seed].reason == notes.format(target=target)
    assert pages()[seed].state.name == "DONE"


def test_a_noindex_that_goes_is_a_change(changing: ChangingWeb, crawl: Run, tmp_path: Path) -> None:
    """With a 304 that does not say so any more nothing is known: what is kept stands, until the page is
    fetched in full."""
    changing.document("/", says("X-Robots-Tag", "noindex", 2.5, 6.5))
    crawl(18.5)
    assert changing.statuses("/").count(200) == 2
    assert [line["what"] for line in told(tmp_path / "told")["/"]] == ["parsed", "gone", "parsed", "changed"]


def test_validators_that_a_304_names_are_sent_next(changing: ChangingWeb, crawl: Run, pages: Pages) -> None:
    """A tag that was weak became strong; what a 304 does not name stands, and a date goes back as it came."""
    since = "Sat, 29-Oct-94 19:43:31 gmt"
    seed = changing.on(
        "/",
        Answer(body="hello", headers={"ETag": 'W/"1"', "Last-Modified": since}),
        Answer(304, headers={"ETag": '"1"', "Cache-Control": "max-age=5"}),
        Answer(304),
    )
    crawl(2.5)
    asked = [(seen.asked, seen.since) for seen in changing.of("/")]
    assert asked == [("", ""), ('W/"1"', since), ('"1"', since), ('"1"', since)]
    visits = pages()[seed].visits
    assert visits is not None
    assert visits.validators == (b'"1"', since.encode())


def test_a_304_about_other_content_than_is_kept_is_asked_once_more_without_validators(
    changing: ChangingWeb, crawl: Run
) -> None:
    changing.on(
        "/", Answer(body="one", headers={"ETag": '"1"'}), Answer(304, headers={"ETag": '"2"'}), Answer()
    )
    crawl(1.5)
    assert [(seen.status, seen.asked) for seen in changing.of("/")][:3] == [
        (200, ""),
        (304, '"1"'),
        (200, ""),
    ]


def test_a_sitemap_that_says_noindex_is_read_as_ever(changing: ChangingWeb, crawl: Run) -> None:
    """Many do, with every answer: nobody is told that a page is gone."""
    entry = f"<urlset><url><loc>{changing.url('/page')}</loc></url></urlset>"
    changing.document("/", Document())
    changing.document("/page", Document(daily))
    tag = {"ETag": '"1"', "X-Robots-Tag": "noindex, follow", "Content-Type": "text/xml"}
    first, then = Answer(body=f'<?xml version="1.0"?>{entry}', headers=tag), Answer(304, headers=tag)
    changing.on("/sitemap.xml", first, then)
    done = crawl(4.5, FRONTIER_SITEMAPS=True)
    assert set(changing.statuses("/sitemap.xml")[1:]) == {304}
    assert "frontier/visits/gone" not in done.stats
    assert set(changing.statuses("/page")) == {200}
