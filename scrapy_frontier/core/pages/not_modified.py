"""What a 304 comes to (RFC 9110 13), and of whom none is asked for; what the same content comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import reasons
from ..parse.validators import answers
from ..revisits.policy import Result
from ..revisits.validator_trust import had_false_304
from ..revisits.visits import Fetched
from ..transitions import Event, event_at
from .leases import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..parse.directives import Consequences
    from ..store.keys import PageId
    from .leases import Lease

    Pair = tuple[bytes, bytes]

_FALSE_OF_A_HOST = 3  # pages with a false 304, after which the whole host is asked unconditionally


class False304s:
    """The hosts and pages that answered 304 in this run and should not have. In memory only.

    Of hosts the pages that were found to have a false 304, as far as they were visited; of pages those whose
    304 says nothing of what is kept: they are asked without validators until that visit ends.
    """

    def __init__(self) -> None:
        self._pages: dict[str, set[PageId]] = {}
        self._contradicted: set[PageId] = set()

    def note(self, host: str, page_id: PageId, trust: int) -> None:
        """A revisit of the page has ended with that *trust*: where that says that a 304 was false, it counts
        for *host*."""
        self._contradicted.discard(page_id)
        if had_false_304(trust) and not self.are_many(host):
            self._pages.setdefault(host, set()).add(page_id)

    def are_many(self, host: str) -> bool:
        """Whether nothing is asked conditionally of *host*: three of its pages were answered by a false 304.
        O(1)."""
        return len(self._pages.get(host, ())) >= _FALSE_OF_A_HOST

    def validators(self, lease: Lease) -> tuple[bytes, bytes]:
        """The tag and the date to ask for a page with, as its server sent them; both b"": unconditionally. As
        in `Lease.may_send`, but none for a host that answered "not modified" falsely on three pages, or for a
        page that did so just now."""
        is_doubted = lease.page_id in self._contradicted or self.are_many(lease.host)
        return (b"", b"") if is_doubted else lease.may_send

    def judge_304(self, lease: Lease, sent: Pair, received: Pair, consequences: Consequences) -> Outcome:
        """How a 304 ends *lease*: *sent* and *received* are tag and date it was asked with and that it has,
        *consequences* those of its directives.

        Fetched, if it answers that. Else the page is put back, once, to be asked for without validators; and
        fails where it was, or nobody waits for it any longer. What is new of its links has to be read on the
        page, too.
        """
        page, page_id = lease.page, lease.page_id
        noindex = reasons.new_notes(consequences.notes_of_items, page.reason)
        is_settled = lease.is_last or not reasons.new_notes(consequences.notes_of_links, page.reason)
        if is_settled and any(sent) and answers(sent[0], received[0]):
            reason = reasons.BETWEEN.join(filter(None, (*noindex, page.reason)))
            result = Result.NOINDEX if noindex else Result.UNCHANGED
            return Outcome(Event.FETCHED, 304, reason, page.target, result=result, fetched=Fetched(*received))
        is_second = page_id in self._contradicted if lease.comes_back else page.status == 304
        if is_second or lease.is_last:  # as it answers whoever asks
            return Outcome(event_at(304), 304, reasons.STATUS(status=304))
        if lease.comes_back:
            self._contradicted.add(page_id)
        return Outcome(Event.POSTPONED, 304, reasons.NOT_ASKED())


def judge_same(lease: Lease, status: int, fetched: Fetched, notes: Sequence[str] | None) -> Outcome | None:
    """How a page that was *fetched* with this *status* ends *lease* if it is as it was: unchanged, and as its
    record says. None where it is to be read.

    That it is where its content is another or nobody can tell (`Lease.has_changed`), and where its directives
    say something new: *notes* are theirs, None of a sitemap, whose record keeps none.
    """
    page = lease.page
    if lease.has_changed(fetched.digest) is not False:
        return None
    if notes is not None and not reasons.are_as_before(notes, page.reason):
        return None
    return Outcome(Event.FETCHED, status, page.reason, page.target, result=Result.UNCHANGED, fetched=fetched)
