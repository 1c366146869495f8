"""What the verbs take and answer with beside pages and links, for those who may not look into the store."""

from __future__ import annotations

from ..store.host_rows import LONGEST_ASKED
from ..store.link_rows import CANONICAL, INTERNAL, NOFOLLOW
from ..store.meta_rows import IN_MEMORY
from ..store.page_rows import Page
from ..store.site_rows import RobotsCopy, Verdict
from ..store.states import FINISHED, State
from .leases import WRITTEN_WITHIN

__all__ = [
    "CANONICAL",
    "FINISHED",
    "IN_MEMORY",
    "INTERNAL",
    "LONGEST_ASKED",
    "NOFOLLOW",
    "Page",
    "RobotsCopy",
    "WRITTEN_WITHIN",
    "State",
    "Verdict",
]
