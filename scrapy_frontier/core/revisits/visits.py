"""What a visit showed, and what is kept of it: plain values in and out."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..store.visit_rows import NO_HISTORY, NO_VALIDATORS, NOT_BAD, Validators, Visits, new_visits
from .validator_trust import Served, after_content, after_unmodified

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.page_rows import Page
    from .policy import Result


class Fetched(NamedTuple):
    """What the response of a visit was.

    The two validators as the server sent them; ``digest`` of its content, five bytes, or none where nobody
    wants it; ``content_type`` without parameters, in lower case; ``length`` of the body in bytes. A body that
    broke off is no observation. ``was_asked``: with validators, so that it came because it had changed.
    """

    etag: bytes = b""
    last_modified: bytes = b""
    digest: bytes = b""
    content_type: str = ""
    length: int = 0
    is_body_whole: bool = True
    was_asked: bool = False


# `Fetched` of a tuple of all fields, in half the time.
new_fetched: Callable[[tuple[bytes, bytes, bytes, str, int, bool, bool]], Fetched]
new_fetched = partial(tuple.__new__, Fetched)


class Conclusion(str, Enum):
    """What a revisit means to those who keep an index of the pages."""

    NEW = "new"  # its callback saw it, for the first time
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"
    STILL_GONE = "still gone"  # they were told before
    UNDECIDED = "undecided"  # it showed nothing


class VisitEnd(NamedTuple):
    """What a revisit came to: its ``conclusion``, and the ``result``, which is what it met.

    ``was`` is the record of the page until then, ``before`` and ``digest`` are the digests then and now,
    empty where there was none. ``added`` and ``removed`` are ids of pages that the page links now, or links
    no more. ``blamed`` is its host, where most pages of that were gone within the hour, so that none ends for
    that.
    """

    conclusion: Conclusion
    result: Result
    was: Page
    before: bytes = b""
    digest: bytes = b""
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    blamed: str = ""


def as_given(digest: bytes) -> bytes:
    """The *digest* of what the spider says is the content of a page: its last bit is 1, that of others 0."""
    return digest[:-1] + bytes((digest[-1] | 1,)) if digest else b""


def differ(one: bytes, other: bytes) -> bool | None:
    """Whether two digests are of different content; None where nobody can tell: one is missing, or they are
    made of two kinds of content (`as_given`)."""
    return None if not one or not other or (one[-1] ^ other[-1]) & 1 else one != other


def read(before: Visits | None, fetched: Fetched, now: int) -> Visits:
    """What is kept of a page that was fetched at *now*: its record was *before*, None where it had none.

    A body that broke off adds a visit and its time, no more; validators are kept of a whole one alone.
    """
    etag, last_modified, digest, content_type, length, is_body_whole, _ = fetched
    is_bare = not (is_body_whole and (etag or last_modified))
    validators = NO_VALIDATORS if is_bare else Validators(etag, last_modified)
    if before is None or not before.visits:
        digest = digest if is_body_whole else b""
        about = now, now, 0, 0, 1, 0, NO_HISTORY, digest, content_type, length, NOT_BAD, validators, 0, False
        return new_visits(about)
    if not is_body_whole:
        return before._replace(last=now, visits=before.visits + 1)
    has_changed = bool(before.digest and digest) and before.digest != digest
    kept, new = Served(*before.validators, before.digest), Served(*validators, digest)
    return before._replace(
        last=now,
        changed=now if has_changed else before.changed,
        due=0,
        visits=before.visits + 1,
        changes=before.changes + has_changed,
        digest=digest,
        content_type=content_type,
        length=length,
        bad=NOT_BAD,
        validators=validators,
        is_hinted=False,
        trust=after_content(before.trust, kept, new, fetched.was_asked),
    )


def not_modified(before: Visits, fetched: Fetched | None, now: int) -> Visits:
    """What is kept of a page that the server says has not changed: its body stands, and what of its
    validators the answer did not name."""
    old, new = before.validators, fetched or Fetched()
    return before._replace(
        last=now,
        due=0,
        visits=before.visits + 1,
        bad=NOT_BAD,
        validators=Validators(new.etag or old.etag, new.last_modified or old.last_modified),
        trust=after_unmodified(before.trust),
        is_hinted=False,
    )
