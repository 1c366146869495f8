"""What a visit showed, and what is kept of it: plain values in and out."""

from __future__ import annotations

from typing import NamedTuple

from ..store.visit_rows import NO_VALIDATORS, NOT_BAD, Validators, Visits
from .signal_trust import Told, after_content, after_unmodified


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


class VisitEnd(NamedTuple):
    """What a further visit of a page came to.

    ``fate``: "changed", "unchanged", "gone", or None where it showed nothing. ``last_visit`` is the one
    before (POSIX seconds), ``before`` and ``digest`` are the digests then and now, empty where there was
    none. ``added`` and ``removed`` are ids of pages that the page links now, or links no more.
    """

    fate: str | None
    last_visit: int
    before: bytes = b""
    digest: bytes = b""
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


def read(before: Visits | None, fetched: Fetched, now: int) -> Visits:
    """What is kept of a page that was fetched."""
    validators = Validators(fetched.etag, fetched.last_modified) if fetched.is_body_whole else NO_VALIDATORS
    if before is None or not before.visits:
        return Visits(
            now,
            now,
            digest=fetched.digest if fetched.is_body_whole else b"",
            content_type=fetched.content_type,
            length=fetched.length,
            validators=validators,
        )
    if not fetched.is_body_whole:
        return before._replace(last=now, visits=before.visits + 1)
    has_changed = bool(before.digest and fetched.digest) and before.digest != fetched.digest
    return before._replace(
        last=now,
        changed=now if has_changed else before.changed,
        due=0,
        visits=before.visits + 1,
        changes=before.changes + has_changed,
        digest=fetched.digest,
        content_type=fetched.content_type,
        length=fetched.length,
        bad=NOT_BAD,
        validators=validators,
        is_signalled=False,
        trust=after_content(
            before.trust,
            Told(*before.validators, before.digest),
            Told(*validators, fetched.digest),
            fetched.was_asked,
        ),
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
        is_signalled=False,
    )
