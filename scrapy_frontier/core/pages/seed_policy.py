"""Known pages that are requested again, by a seed, a forced visit or a link: which of them are fetched.

Pure: records and facts in, yes or no out.
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
    """Return whether a seed whose *page* ended so in an earlier run is fetched again: it failed, or its
    redirects led to a page that did. *page_of* finds pages by their ids."""
    last: Page | None = page
    for _ in range(_MOST_STEPS):
        if last is None or last.state is not REDIRECTED or last.target is None:
            break
        last = page_of(last.target)
    return last is not None and last.state is FAILED


def was_visited_before(page: Page, when: float) -> bool:
    """Return whether the last visit of *page* was before *when* (POSIX seconds), or there was none. An answer
    from a cache is not a visit, but the page ended by it: pages that lead to each other must not be fetched
    for ever."""
    if page.visits is None:
        return page.changed < int(when)
    ended = page.changed if page.state in (DONE, REDIRECTED) else 0
    return max(page.visits.last, ended) < int(when)


def after_visits_until(now: float) -> int:
    """Return a time (POSIX seconds) that is after every visit until *now*: of these the whole second is
    kept."""
    return int(now) + 1


def is_left_to_filter(page: Page | None) -> bool:
    """Return whether a filter of the project's may drop a request for *page*: it is unknown (None), or was
    only seen and does not wait for a budget. Any other has passed the filter before."""
    return page is None or page.is_only_seen
