"""A 304 ends the visit of a page, and the validators that it names are kept (RFC 9110 15.4.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from changing import Document, daily
from server import Answer
from test_thirty_days import SETTINGS, Keeper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from changing import ChangingWeb
    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]
    Pages = Callable[[], dict[str, Page]]


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
