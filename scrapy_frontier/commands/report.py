"""The command that shows a finished crawl on one page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.admin import facts
from ..core.admin.report import report as gather
from ..live.page import page_with
from .output import progress, replacing

if TYPE_CHECKING:
    from .call import Call


def report(call: Call) -> None:
    """Writes a page of HTML that shows the crawl and needs nothing else; reads all hosts, pages and links."""
    project, target = call.project, Path(call.arguments[0])
    with project.joined() as [(_, store)]:
        total = facts.known(store)
        document = gather(
            store,
            project.pauses(store),
            project.now,
            time.perf_counter,
            lambda pages: progress(pages, "pages read", total),
        )
    directory = project.directory
    name = directory.parent.name if directory.name.startswith("frontier") else directory.name
    document |= {"name": name or str(directory), "directory": str(directory)}
    with replacing(target) as partial:
        partial.write_text(page_with("report", document), encoding="utf-8")
    call.output.answer({"file": str(target), "pages": total}, f"{total:,} pages are shown in {target}.")
