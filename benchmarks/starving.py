"""Do retries and small hosts get their turn beside hosts without end?

    python benchmarks/starving.py [--pages 2500] [--seconds 300] [--addon] [--scheduler]

Eight hosts of `hostile.TRICKS` that have always another page to offer, one of which answers every tenth page
with a 503 or a reset the first time, and three good ones of 150 pages each, on loopback; 16 requests at once,
no budget, so many pages in all. Printed for the scheduler alone and for the add-on: how many of the pages
that met trouble were asked for again (those that met it in the last fifth of the crawl do not count), and
after how many requests; how many pages of the good hosts were fetched; and the share of the host that was
asked most. The exit code is 0 where all of them were asked again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

from hostile import GOOD_PAGES, Web
from misbehaving import GOOD, OURS, crawl

ENDLESS = ["calendar", "deep", "sessions", "refreshes", "hops", "spawn", "maps", "moody"]
SETTINGS = {
    "CONCURRENT_REQUESTS": 16,
    "DOWNLOAD_DELAY": 0,
    "RETRY_TIMES": 2,
    "FRONTIER_COOLDOWN": 1,
    "LOG_LEVEL": "ERROR",
}
WAYS: dict[str, dict[str, Any]] = {
    "scheduler": {"SCHEDULER": "scrapy_frontier.FrontierScheduler"},
    "addon": {**OURS, "FRONTIER_HOST_PAGES": 0},
}


def again(visits: list[tuple[float, str, str]]) -> tuple[int, list[int]]:
    """Moody pages that met trouble in the first four fifths; after how many requests each came again."""
    asked: dict[str, int] = {}
    waits = []
    for at, (_, name, path) in enumerate(visits):
        if name != "moody" or path.endswith(("txt", "xml")):
            continue
        number = int(path.rpartition("/")[2] or 0)
        if number % 10 or not number:
            continue
        if path in asked:
            waits.append(at - asked.pop(path))
        else:
            asked[path] = at
    late = [at for at in asked.values() if at > 0.8 * len(visits)]
    return len(asked) - len(late), waits


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=2500)
    parser.add_argument("--seconds", type=float, default=300, help="stop a crawl that lasts longer")
    for way in WAYS:
        parser.add_argument(f"--{way}", action="store_true", help="only this")
    options = parser.parse_args()
    web = Web(ENDLESS, GOOD)
    is_fair = True
    for way in [way for way in WAYS if getattr(options, way)] or WAYS:
        more = {**SETTINGS, **WAYS[way], "CLOSESPIDER_PAGECOUNT": options.pages}
        found = crawl(web, [*web.hosts.values(), *GOOD], options.seconds, more)
        lost, waits = again(found["visits"])
        asked = Counter(name for _, name, _ in found["visits"])
        good = [len({path for _, name, path in found["visits"] if name == each}) for each in GOOD]
        most, times = asked.most_common(1)[0]
        print(
            f"{way}: {len(found['visits'])} requests in {found['seconds']:.0f} s ({found['reason']})\n"
            f"  pages that met trouble: {len(waits)} asked again, after {max(waits, default=0)} requests"
            f" at most; {lost} never\n"
            f"  pages of the good hosts: {good} of {GOOD_PAGES} and robots.txt, sitemaps\n"
            f"  asked most: {most}, {times / len(found['visits']):.0%}; least: {asked.most_common()[-1]}"
        )
        is_fair = is_fair and not lost and bool(waits)
    if not is_fair:
        sys.exit(1)


if __name__ == "__main__":
    main()
