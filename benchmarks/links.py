"""What bulk following reads from real pages, beside Scrapy's link extractor: the same links, in which time?

    python benchmarks/links.py FOLDER [--pages 10000] [--every]

FOLDER holds HTML files, a folder for each host. Of each page both read the links: as URLs that a request
would have, without fragments, in order. Printed: pages, links, and every page on which the two differ in a
link or in the order; and the processor's time for both, with the parsing, which both need, told apart.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from scrapy_frontier.crawl.link_extractor import PageReader

if TYPE_CHECKING:
    from collections.abc import Iterator

HTML = (".html", ".htm")


def pages(folder: Path, count: int) -> Iterator[HtmlResponse]:
    """*count* pages of all hosts, drawn by chance, always the same."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in HTML and path.is_file())
    random.Random(1).shuffle(files)
    for path in files[:count]:
        host, *rest = path.relative_to(folder).parts
        yield HtmlResponse(f"http://{host}.example/{'/'.join(rest)}", body=path.read_bytes())


def by_scrapy(extractor: LinkExtractor, response: HtmlResponse) -> list[str]:
    found = []
    for link in extractor.extract_links(response):
        try:
            found.append(Request(link.url).url)
        except ValueError:  # noqa: PERF203 - the others go on
            found.append(f"no request: {link.url}")
    return found


def by_us(reader: PageReader, response: HtmlResponse) -> list[str]:
    return [link[0] for link in reader.read(response) if link]


def distinct(urls: list[str]) -> list[str]:
    return list(dict.fromkeys(url.partition("#")[0] for url in urls))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--every", action="store_true", help="every difference, not three of a kind")
    given = parser.parse_args()
    extractor = LinkExtractor()
    reader = PageReader(extractor)
    count = links = 0
    taken: Counter[str] = Counter()
    differences: dict[str, list[str]] = {}
    for response in pages(given.folder, given.pages):
        begin = time.process_time()
        _ = response.selector.root
        parsed = time.process_time()
        ours = by_us(reader, response)
        middle = time.process_time()
        theirs = by_scrapy(extractor, response)
        taken.update(parsing=parsed - begin, ours=middle - parsed, theirs=time.process_time() - middle)
        ours, theirs = distinct(ours), distinct(theirs)
        count, links = count + 1, links + len(theirs)
        for kind, urls in (
            ("only Scrapy", [url for url in theirs if url not in set(ours)]),
            ("only we", [url for url in ours if url not in set(theirs)]),
            ("order", [] if set(ours) != set(theirs) or ours == theirs else [response.url]),
        ):
            differences.setdefault(kind, []).extend(f"{url}   on {response.url}" for url in urls)
    print(f"{count} pages, {links} distinct links")
    for kind, found in differences.items():
        print(f"{kind}: {len(found)}")
        for line in found if given.every else found[:3]:
            print(f"    {line[:300]}")
    for name, seconds in taken.items():
        print(f"{name}: {seconds / count * 1e6:.0f} us a page, {seconds / max(links, 1) * 1e6:.2f} us a link")


if __name__ == "__main__":
    main()
