"""Decides whether a known page that is requested again, by a seed or a forced visit, is fetched again.

Pure functions of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store.keys import DONE, FAILED, REDIRECTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.keys import PageId
    from ..store.records import Page

_MOST_STEPS = 20  # redirects that are followed from page to page, as Scrapy does


def has_failed(page: Page, page_of: Callable[[PageId], Page | None]) -> bool:
    """Return whether *page*, that of a seed, failed in an earlier run, or redirected to a page that did, so
    that the seed is fetched again. *page_of* finds pages by their ids."""
    last: Page | None = page
    for _ in range(_MOST_STEPS):
        if last is None or last.state is not REDIRECTED or last.target is None:
            break
        last = page_of(last.target)
    return last is not None and last.state is FAILED


def was_visited_before(page: Page, when: float) -> bool:
    """Return whether *page* was visited last before *when* (POSIX seconds), or never. An answer from a cache
    is no visit, but its end counts here, so that pages that redirect to each other are not fetched for
    ever."""
    if page.visits is None:
        return page.changed < int(when)
    ended = page.changed if page.state in (DONE, REDIRECTED) else 0
    return max(page.visits.last, ended) < int(when)


def after_visits_until(now: float) -> int:
    """Return a time that is after every visit until *now* (POSIX seconds), of which only the whole second is
    stored."""
    return int(now) + 1


def is_left_to_filter(page: Page | None) -> bool:
    """Return whether the project's own filter may drop a request for *page*: one that is unknown (None) or
    was only seen. Any other has passed the filter before."""
    return page is None or page.is_only_seen
