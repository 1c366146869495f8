"""Signals about revisited pages: changed, unchanged, gone. They keep an index, or a copy, in step.

Connect to them as to Scrapy's own signals; ``spider`` is sent along with each. A page that is fetched for the
first time sends none of them: its callback sees it.
"""

from __future__ import annotations

# url, digest_before, digest (bytes, b"" where unknown), links_added, links_removed (lists of URLs): the page
# was fetched, its callback has seen it, and it is another one than at the visit before.
page_changed = object()
# url: the page was visited, and is as it was. Its callback was called only if ``FRONTIER_UNCHANGED`` says so.
page_unchanged = object()
# url, reason: 404, 410, redirected, robots or noindex. The page is no longer what it was; sent once.
page_gone = object()
