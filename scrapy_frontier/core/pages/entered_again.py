"""Known pages that are entered again, by a seed or to force a visit: which are fetched, and by whose request.
Pure: a record and facts in, yes or no out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..parse.directives import LOOP, TOO_LONG, TOO_MANY_HOSTS
from ..reasons import BEHIND, BUDGET, NOT_FOLLOWED
from ..store.keys import DONE, EXCLUDED, FAILED, FINISHED, QUEUED, REDIRECTED, SEEN
from . import traps

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..store.keys import PageId
    from ..store.records import Page

# In which states a known page is queued again that a request forces: one that waits is fetched anyway, and
# one that is only seen comes in as a new one does.
FORCED = FINISHED
_SHOWN = (DONE, REDIRECTED)  # the states of pages that lead on
# Of seeds that are known from an earlier run: which, if not queued again, are left.
LEFT = (SEEN, *FINISHED)
_ENOUGH = LOOP.reason, TOO_LONG.reason, TOO_MANY_HOSTS.reason
_OVER_BUDGET = BUDGET, BEHIND
_MOST_STEPS = 256  # of a way that is followed


def was_visited_before(page: Page, when: float) -> bool:
    """Whether *page* was visited last before *when* (POSIX seconds), if ever. What a cache answered is no
    visit, but the page ended by it: pages that lead to each other must not be fetched for ever. One that
    failed, is gone, or was not to be asked for, leads nowhere."""
    if page.visits is None:
        return page.changed < int(when)
    shown = page.changed if page.state in _SHOWN else 0
    return max(page.visits.last, shown) < int(when)


def after_visits_until(now: float) -> int:
    """A time (POSIX seconds) before which every visit until *now* was: of those the whole second is kept.
    Visits between *now* and then pass for earlier ones, too."""
    return int(now) + 1


def is_tried_again(page: Page) -> bool:
    """Whether a seed whose *page* ended so in an earlier run is fetched again: it failed, or was redirected
    until that was enough, as sites do on a bad day, or to a trap, or over a budget."""
    if page.state not in (EXCLUDED, REDIRECTED):
        return page.state is FAILED
    found = NOT_FOLLOWED.read(page.reason)
    return found is not None and _may_be_over(found["why"])


def _may_be_over(why: str) -> bool:
    """Whether a redirect that was refused for this reason may be followed today: the site goes round no more,
    or the settings that it was over have been raised."""
    return why in _ENOUGH or why in traps.WORDS.values() or any(each.read(why) for each in _OVER_BUDGET)


def is_left_to_filter(page: Page | None) -> bool:
    """Whether a filter of the project's may have a request for *page* dropped: nobody knows it (None), or it
    was only seen, and does not wait for a budget. Any other has passed the filter, and when it is fetched is
    known."""
    return page is None or page.is_only_seen


def is_repeated(page: Page | None, is_of_this_run: bool, was_seed: bool, is_by_parent: bool | None) -> bool:
    """Whether a seed has its known *page* (None: it has no row) visited once more.

    Seeds come at every start: of those of an earlier run few are fetched (`is_tried_again`). Repeated within
    one run they are meant, if the page *was_seed* before. Where another page leads to it, so is one that
    leads there again (*is_by_parent*: it did so first; None: none leads to it).
    """
    if page is None or page.state is SEEN:  # not wanted so far, unless it waits for a budget
        return page is None or not page.is_deferred
    return (is_of_this_run and was_seed) if is_by_parent is None else is_by_parent


def is_on_the_way(page: Page, has_led_here: bool, leads_back: bool) -> bool:
    """Whether a seed that is sent to a known *page* goes there, since it went away for a cookie, say, and
    comes back: that page *has_led_here* itself, or *leads_back* to where the seed has been. The limits of
    redirects end what goes round for ever."""
    return page.state in FINISHED and (has_led_here or (page.state is REDIRECTED and leads_back))


def is_back(page: Page, has_led_here: bool) -> bool:
    """Whether the *page* of a seed is to be read at last: it was never more than where redirects began, and
    these lead back to it (`is_on_the_way`). Then it is queued itself, so that whatever ends the run there is
    one request for it."""
    return page.state is REDIRECTED and page.parent is None and has_led_here


def goes_round(
    page_id: PageId,
    page: Page | None,
    page_of: Callable[[PageId], Page | None],
    or_elsewhere: bool = True,
    tried_again: Collection[PageId] = (),
) -> bool:
    """Whether a *page* led back to itself, or, *or_elsewhere*, into a circle or where redirects were enough,
    and was not read in the end; *page_of* finds those on the way. Where one of them is being *tried_again*
    it no longer says where it led to, and it was on such a way itself."""
    met = {page_id}
    while page is not None and page.state is REDIRECTED and page.target is not None:
        if page.target in met or len(met) == _MOST_STEPS:
            return page.target == page_id or or_elsewhere
        met.add(page.target)
        page = page_of(page.target)
    if page is None or not or_elsewhere:
        return False
    if page.state in (EXCLUDED, REDIRECTED):  # it led to nothing that is known
        return is_tried_again(page)
    return page.state is QUEUED and not met.isdisjoint(tried_again)


def steps_to(
    page_id: PageId,
    page: Page,
    page_of: Callable[[PageId], Page | None],
    tried_again: Collection[PageId] = (),
) -> int:
    """How many redirects led to a *page* when it was found, on pages that *page_of* finds. One that is being
    *tried_again* no longer says where it led to."""
    steps = 0
    while page.parent is not None and steps < _MOST_STEPS:
        parent = page_of(page.parent)
        is_led = parent is not None and (parent.target == page_id or page.parent in tried_again)
        if parent is None or not is_led:
            break
        page_id, page, steps = page.parent, parent, steps + 1
    return steps


def takes_request(page: Page, has_pattern: bool = False, comes_back: bool = False) -> bool:
    """Whether a seed's request takes the place of that of its known *page*: of one that waits if either
    *has_pattern*, of one that ended if it *comes_back*."""
    return has_pattern if page.state is QUEUED else comes_back and page.state in FINISHED
