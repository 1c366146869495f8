"""What is the same content, and what is a visit: digests, the HTTP cache, files that list pages."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from changing import DAY, Document
from server import Answer
from test_revisits_crawl import INTERVAL, Follower
from test_thirty_days import SETTINGS, Keeper, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from changing import ChangingWeb
    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]
    Pages = Callable[[], dict[str, Page]]

BODY = "<html><title>T</title>hello</html>"


def crawl(run: Run, web: ChangingWeb, settings: dict[str, Any], **arguments: Any) -> Crawl:
    done = run(Follower, {**INTERVAL, **settings}, url=web.url("/"), **arguments)
    assert done.reason == "finished", done.log
    return done


def test_a_body_that_is_compressed_from_now_on_is_the_same(
    changing: ChangingWeb, run: Run, pages: Pages
) -> None:
    zipped = Answer(body=gzip.compress(BODY.encode()), headers={"ETag": '"2"', "Content-Encoding": "gzip"})
    url = changing.on("/", Answer(body=BODY, headers={"ETag": '"1"'}), zipped)
    crawl(run, changing, {})
    changing.clock.jump(changing.clock() + 7 * DAY)
    assert crawl(run, changing, {}).stats["frontier/visits/unchanged"] == 1
    visits = pages()[url].visits
    assert visits is not None
    assert (visits.visits, visits.changes, visits.validators.etag) == (2, 0, b'"2"')


@pytest.mark.parametrize(("unchanged", "calls"), [("skip", 0), ("call", 1)])
def test_a_noindex_that_is_ignored_is_no_change(
    changing: ChangingWeb, run: Run, unchanged: str, calls: int
) -> None:
    """Who wants to mark its items has the callback called anyway."""
    changing.on("/", Answer(body=BODY), Answer(body=BODY, headers={"X-Robots-Tag": "noindex"}))
    settings = {"FRONTIER_NOINDEX": "ignore", "FRONTIER_UNCHANGED": unchanged}
    crawl(run, changing, settings)
    changing.clock.jump(changing.clock() + 7 * DAY)
    stats = crawl(run, changing, settings).stats
    assert (stats["frontier/visits/unchanged"], stats.get("item_scraped_count", 0)) == (1, calls)


FEED = '<rss version="2.0"><channel><item><link>{page}</link></item></channel></rss>'
INDEX = (
    '<?xml version="1.0"?><sitemapindex><sitemap><loc>{one}</loc></sitemap>'
    "<sitemap><loc>{other}</loc></sitemap></sitemapindex>"
)
URLSET = '<?xml version="1.0"?><urlset><url><loc>{page}</loc></url></urlset>'


def test_indexes_and_feeds_come_back_conditionally_once_a_day(
    changing: ChangingWeb, run: Run, tmp_path: Path
) -> None:
    """The feed has changed whenever it is read, the others never."""
    web, page = changing, changing.document("/page", Document())
    files = {
        "/sitemap.xml": INDEX.format(one=web.url("/child.xml"), other=web.url("/feed.xml")),
        "/child.xml": URLSET.format(page=page),
    }
    kind = {"Content-Type": "application/xml"}
    for path, body in files.items():
        tag = {**kind, "ETag": '"1"'}
        web.on(path, Answer(body=body, headers=tag), Answer(304, headers=tag))
    feeds = [FEED.format(page=web.url(f"/news{number}")) for number in range(500)]
    web.on("/feed.xml", *(Answer(body=feed, headers=kind) for feed in feeds))
    seed, file = web.document("/", Document()), tmp_path / "told"
    settings = {**SETTINGS, "FRONTIER_SHELF_LIFE": 30 * DAY, "FRONTIER_SITEMAPS": True, "LAST_DAY": 6.5}
    done = run(Keeper, settings, urls=[seed], file=str(file))
    assert done.reason == "finished", done.log
    for path in files:
        assert set(web.statuses(path)[1:]) == {304}, path
        assert len(web.of(path)) == len(web.of("/feed.xml")), path
    news = {path for path in told(file) if path.startswith("/news")}
    assert len(web.of("/feed.xml")) - len(news) in (0, 1), "what it lists newly is fetched"
    assert len(web.of("/page")) == 1
