"""How far a server is believed that says whether its page has changed: one byte in the record of the page.

A server may lie both ways. Its tag may change although the page does not (several machines, each with a
tag of its own; a tag made of the time): then every visit brings the body, and `Last-Modified` would do better
alone. Or it answers 304 although the page has changed (a cache in front of it): then nobody ever sees that,
so now and then the page is asked for as if for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..parse.validators import is_same_tag

if TYPE_CHECKING:
    from ..store.keys import PageId

# The bits of the byte; 0 is the trust in a page that was visited once.
_CHANGED_TAGS = 0x03  # how often in a row the tag was another under equal content
_TAG_IS_NOISE = 0x03
_DOUBTS = 0x0C  # of its 304s
_DOUBT = 0x04
_LIED_TO = 0x08  # a 304 was false: it is asked unconditionally
_QUIET = 0xF0  # 304s in a row
_ONE_QUIET = 0x10

_FULL_AFTER = 9  # 304s in a row comes a full visit
_SPREAD = 6  # or up to so many less one later: not of all pages at once
_FULL_IN_DOUBT = 2


class Served(NamedTuple):
    """What a server told of a page with its content, and the ``digest`` of that; b"": nothing, or unknown."""

    etag: bytes = b""
    last_modified: bytes = b""
    digest: bytes = b""


def may_send(trust: int, page_id: PageId, etag: bytes, last_modified: bytes) -> tuple[bytes, bytes]:
    """With which of the kept validators a page may be asked for now; both b"": unconditionally.

    So it is after 9 to 14 304s in a row, after 2 where one is doubted, and always after one that was false. A
    tag that changes while the page does not is left out. *trust* is the byte in the record of the page.
    """
    most = _FULL_IN_DOUBT if trust & _DOUBTS else _FULL_AFTER + page_id % _SPREAD
    if had_false_304(trust) or _quiet(trust) >= most:
        return b"", b""
    return (b"" if trust & _CHANGED_TAGS == _TAG_IS_NOISE else etag), last_modified


def had_false_304(trust: int) -> bool:
    """Whether a 304 for the page was false, by the byte *trust* in its record."""
    return trust & _DOUBTS >= _LIED_TO


def after_unmodified(trust: int) -> int:
    """The trust in a page after a 304 that answered us, one more in a row; a tag that is noise was not asked
    about."""
    changed = _TAG_IS_NOISE if trust & _CHANGED_TAGS == _TAG_IS_NOISE else 0
    return trust & _DOUBTS | changed | min(_quiet(trust) + 1, 0x0F) * _ONE_QUIET


def after_content(trust: int, kept: Served, new: Served, was_asked: bool) -> int:
    """The trust in a page after its content came; *was_asked*: only if it had changed.

    Where *kept* or *new* has no digest nothing is learnt but that the 304s in a row have ended.
    """
    quiet, trust = _quiet(trust), trust & ~_QUIET
    if not kept.digest or not new.digest or had_false_304(trust):
        return trust
    if kept.digest == new.digest:
        return _tag_bits(trust, kept.etag, new.etag)
    if _would_be_unmodified(trust, kept, new):
        return trust & ~_DOUBTS | _LIED_TO
    if was_asked:  # the server tells what has changed
        return trust & ~_DOUBTS
    # It changed since the last 304, or before that: twice at the very visit that was full is no chance.
    return trust + _DOUBT if quiet >= _FULL_IN_DOUBT else trust


def _quiet(trust: int) -> int:
    return (trust & _QUIET) // _ONE_QUIET


def _tag_bits(trust: int, kept: bytes, new: bytes) -> int:
    """The trust after the same content came with the tag it had, or another: no 304 was false."""
    changed = trust & _CHANGED_TAGS
    if not kept or not new:
        return changed
    return 0 if is_same_tag(kept, new) else min(changed + 1, _TAG_IS_NOISE)


def _would_be_unmodified(trust: int, kept: Served, new: Served) -> bool:
    """Whether a server that compares what it tells now with what it told then would have answered 304."""
    if kept.etag and trust & _CHANGED_TAGS != _TAG_IS_NOISE:
        return bool(new.etag) and is_same_tag(kept.etag, new.etag)
    return bool(kept.last_modified) and kept.last_modified == new.last_modified
