"""The requests of queued pages: as records on disk, and as objects where no record stands for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .codec import memory_record
from .plain_data import Unstorable

if TYPE_CHECKING:
    from scrapy import Request

    from ..core.frontier import PageId
    from .codec import Codec
    from .identity import Identities
    from .request_cache import Objects
    from .stats import Notes


class Records:
    """What is kept of requests, by *codec* and in *objects*."""

    def __init__(
        self, codec: Codec, objects: Objects, identities: Identities, notes: Notes, is_temporary: bool
    ) -> None:
        self._codec = codec
        self._objects = objects
        self._identities = identities
        self._notes = notes
        self._is_temporary = is_temporary

    def of(self, request: Request) -> tuple[bytes, bool]:
        """The record of *request*, and whether it is more than a note that this process has it."""
        try:
            return self._codec.encode(request), True
        except Unstorable as reason:
            record = memory_record(request, self._identities.of(request))
            if self._is_temporary:  # nothing survives a restart
                return record, False
            self._notes.tally["scheduler/unserializable"] += 1
            self._notes.say_once(
                "unstorable",
                logging.WARNING,
                "Unable to serialize request: %s - reason: %s; it would not survive a restart (said once)",
                request,
                reason,
            )
            return record, False

    def queued(self, page_id: PageId, request: Request, is_stored: bool) -> None:
        """*request* is queued as that page."""
        self._notes.tally["scheduler/enqueued/disk" if is_stored else "scheduler/enqueued/memory"] += 1
        if is_stored:
            self._objects.keep(page_id, request)
        else:
            self._objects.hold(page_id, request)

    def instead(self, page_id: PageId, child: Request) -> bytes | None:
        """The record of *child*, which takes the place of the request of its page; None where there is none:
        then the old one stands for the page after a restart."""
        payload, is_stored = self.of(child)
        if is_stored:
            self._objects.drop(page_id)
            return payload
        self._objects.hold(page_id, child)
        return None
