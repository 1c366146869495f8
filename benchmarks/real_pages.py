"""Pages of real sites without HTTP: their links with anchors, and what their text is about.

A folder of sites as ``manifest.json`` describes them (a name, a network location and start pages each) is
read once, as a static server would show it, from the start pages on; the result is kept in a file.

    python benchmarks/real_pages.py FOLDER FILE
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np
from lxml import etree

PAGE, REDIRECT, MISSING = 0, 1, 2
# What a page is about if its text has one of the phrases that often.
TOPICS = {
    "garbage collection": (2, ("garbage collect", "garbage-collect")),
    "leap seconds": (1, ("leap second", "leap-second", "leap year", "leap-year")),
    "time zones": (3, ("time zone", "timezone", "time-zone")),
    "transactions": (5, ("transaction",)),
    "regular expressions": (5, ("regular expression", "regexp", "regex")),
    "matrices": (5, ("matrix", "matrices")),
    "threads": (5, ("thread",)),
    "deprecated": (3, ("deprecated",)),
    "german": (20, (" und ", " nicht ", " werden ")),
    "long prose": (100, ()),
    # the following are not among those that anything was chosen on
    "encryption": (4, ("encrypt", "cipher")),
    "unicode": (5, ("unicode", "utf-8")),
    "floating point": (2, ("floating point", "floating-point")),
    "french": (20, (" les ", " dans ", " pour ")),
    "fonts": (6, ("font",)),
    "sockets": (5, ("socket",)),
    "checksums": (2, ("checksum",)),
    "printing": (4, ("printer",)),
    "interpolation": (3, ("interpolat",)),
    "licences": (4, ("license", "licence")),
}
_LONG = 60  # words of a paragraph of long prose


class Pages(NamedTuple):
    """``sources``, ``targets`` and ``anchors`` (a number of ``texts``) are links in the order of the page.

    ``about[topic]`` tells how often a page speaks of it.
    """

    urls: list[str]
    kind: np.ndarray
    site: np.ndarray
    seeds: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    anchors: np.ndarray
    texts: list[str]
    about: dict[str, np.ndarray]

    def relevant(self, topic: str, most: float = 0.0) -> np.ndarray:
        """Which pages are about a topic; with *most* all that speak of it, at least so often that they are at
        most that part of the pages."""
        about, least = np.where(self.kind == PAGE, self.about[topic], 0), TOPICS[topic][0]
        if most:
            least = 1 + int(np.sort(about)[-1 - int(most * np.count_nonzero(self.kind == PAGE))])
        return about >= least


def load(path: str | Path) -> Pages:
    file = np.load(path)
    about = {name: file["about"][number] for number, name in enumerate(TOPICS)}
    arrays = (file[name] for name in ("kind", "site", "seeds", "sources", "targets", "anchors"))
    urls, texts = (bytes(file[name]).decode().split("\n") for name in ("urls", "texts"))
    return Pages(urls, *arrays, texts, about)


def _look_up(root: str, path: str) -> tuple[int, str]:
    full = Path(root, unquote(path).lstrip("/"))
    try:
        if full.is_dir():
            if not path.endswith("/"):
                return REDIRECT, path + "/"
            for index in ("index.html", "index.htm"):
                if (full / index).is_file():
                    return PAGE, str(full / index)
        elif full.is_file() and full.suffix.lower() in (".html", ".htm", ".xhtml", ".shtml"):
            return PAGE, str(full)
        elif full.is_file():
            return -1, str(full)  # a file that is no page: nobody follows it
    except (ValueError, OSError):
        pass
    return MISSING, ""


class _Reader:
    def __init__(self, folder: Path) -> None:
        sites = json.loads((folder / "manifest.json").read_text())["sites"]
        self.roots = {site["netloc"]: str(folder / "www" / site["name"]) for site in sites}
        self.numbers = {site["netloc"]: number for number, site in enumerate(sites)}
        self.ids: dict[str, int] = {}
        self.urls: list[str] = []
        self.kind: list[int] = []
        self.site: list[int] = []
        self.where: list[str] = []
        self.texts: dict[str, int] = {}
        self.links: list[tuple[int, int, int]] = []
        self.about: list[list[int]] = []
        self.seeds = [self.page(f"http://{site['netloc']}{seed}") for site in sites for seed in site["seeds"]]

    def page(self, url: str) -> int:
        found = self.ids.get(url)
        if found is not None:
            return found
        parts = urlsplit(url)
        root = self.roots.get(parts.netloc)
        kind, where = (-1, "") if root is None else _look_up(root, parts.path or "/")
        if kind < 0:
            self.ids[url] = -1
            return -1
        self.ids[url] = len(self.kind)
        self.urls.append(url)
        self.kind.append(kind)
        self.site.append(self.numbers[parts.netloc])
        self.where.append(f"http://{parts.netloc}{where}" if kind == REDIRECT else where)
        return len(self.kind) - 1

    def read_all(self) -> None:
        at = 0
        while at < len(self.kind):
            counts = [0] * len(TOPICS)
            if self.kind[at] == REDIRECT:
                self.links.append((at, self.page(self.where[at]), 0))
            elif self.kind[at] == PAGE:
                counts = self.read(at)
            self.about.append(counts)
            at += 1

    def read(self, page: int) -> list[int]:
        data = Path(self.where[page]).read_bytes()
        root = etree.fromstring(data or b"<html/>", etree.HTMLParser(recover=True, huge_tree=True))
        if root is None:
            return [0] * len(TOPICS)
        base = url = self.urls[page]
        for element in root.iter("base"):
            base = urljoin(url, element.get("href") or "")
            break
        found: dict[str, int] = {}
        hrefs: set[str] = set()
        for element in root.iter("a", "area"):
            href = element.get("href")
            if not href or href in hrefs or href[0] == "#":
                continue
            hrefs.add(href)
            try:
                target = urljoin(base, href.strip()).partition("#")[0]
            except ValueError:
                continue
            if target in found or target[:7] != "http://":
                continue
            text = " ".join("".join(element.itertext()).split())[:100]
            found[target] = self.texts.setdefault(text, len(self.texts))
        for target, text in found.items():
            number = self.page(target)
            if number >= 0:
                self.links.append((page, number, text))
        etree.strip_elements(root, "script", "style", with_tail=False)
        text = " ".join(etree.tostring(root, method="text", encoding="unicode").lower().split())
        paragraphs = (len("".join(element.itertext()).split()) for element in root.iter("p"))
        long = sum(words for words in paragraphs if words >= _LONG)
        return [sum(map(text.count, words)) if words else long for _, words in TOPICS.values()]

    def save(self, path: Path) -> None:
        sources, targets, anchors = np.array(self.links, np.int32).T
        arrays = {"kind": self.kind, "site": self.site, "seeds": self.seeds}
        texts = {"urls": self.urls, "texts": list(self.texts)}
        np.savez_compressed(
            path,
            sources=sources,
            targets=targets,
            anchors=anchors,
            about=np.array(self.about, np.int32).T,
            **{name: np.array(values, np.int32) for name, values in arrays.items()},
            **{name: _packed(values) for name, values in texts.items()},
        )


def _packed(texts: list[str]) -> np.ndarray:
    return np.frombuffer("\n".join(texts).encode("utf-8", "replace"), np.uint8)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("file", type=Path)
    options = arguments.parse_args()
    reader = _Reader(options.folder)
    reader.read_all()
    reader.save(options.file)
    print(f"{len(reader.kind)} pages, {len(reader.links)} links, {len(reader.texts)} anchors")


if __name__ == "__main__":
    main()
