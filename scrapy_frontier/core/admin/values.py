"""What facts are about, and how URLs are read, for those who may not look into store and parsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..parse.urls import host_of, without_session
from ..store.link_rows import Edge
from ..store.meta_rows import IN_MEMORY
from ..store.page_rows import Page
from ..store.states import State

if TYPE_CHECKING:
    from ..ranking.graph import Links as Links
    from ..ranking.scorer import Scorer as Scorer
    from ..store.leveldb import Store as Store

__all__ = ["IN_MEMORY", "Edge", "Page", "State", "host_of", "without_session"]
