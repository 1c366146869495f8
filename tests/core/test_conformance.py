"""What `docs/internals/conformance.md` counts is what there is. Skipped where the vectors are absent."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import test_directives
import test_headers
import test_robots
import test_sitemaps
import test_urls
from vectors import VECTORS

pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason="the vectors are not here")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/internals/conformance.md").read_text(encoding="utf-8")


def run(module: Any, name: str) -> int:
    """How many cases the test *name* has."""
    return len(getattr(module, f"test_{name}_vectors").pytestmark[0].args[1])


def stored(file: str) -> dict[str, list[dict[str, Any]]]:
    """The cases of *file* by its parts."""
    parts = json.loads((VECTORS / f"{file}.json").read_text("utf-8"))
    return {part: cases for part, cases in parts.items() if isinstance(cases, list)}


def rows() -> list[tuple[str, str, int, int, int]]:
    """File, part, and how many cases of it are hard, passed and not tested."""
    found, file = [], ""
    for line in re.findall(r"^\|(.*)\|$", PAGE.partition("|---|")[2].partition("\n\n")[0], re.MULTILINE):
        name, part, *counts = (cell.strip() for cell in re.split(r"(?<!\\)\|", line))
        file = name.strip("`").removesuffix(".json") or file
        hard, passed, untested = (int((re.match(r"\d+", cell) or "0")[0]) for cell in counts[:3])
        found.append((file, part, hard, passed, untested))
    return found


def test_the_table_counts_the_cases_that_are_tested() -> None:
    methods = len(stored("redirects")["method"])
    counted = [
        run(test_robots, "agreed"),
        run(test_robots, "decided"),
        run(test_robots, "directive"),
        run(test_directives, "robots_meta"),
        run(test_headers, "retry_after"),
        run(test_headers, "http_date"),
        methods + run(test_headers, "location"),
        run(test_sitemaps, "sitemap"),
        run(test_headers, "date"),
        run(test_sitemaps, "robots_line"),
        run(test_urls, "resolve"),
        run(test_urls, "wpt"),
    ]
    assert [hard for *_, hard, _, _ in rows() if hard] == counted
    runs = re.findall(r"# (\d+) passed", PAGE)
    assert [int(each) for each in runs] == [sum(counted) - methods, methods]


def test_the_table_counts_those_that_fail_on_purpose() -> None:
    departures = [
        test_robots.DIRECTIVE_DEPARTURES,
        test_sitemaps.DEPARTURES,
        test_urls.RESOLVE_DEPARTURES,
    ]
    failed = [hard - passed for *_, hard, passed, _ in rows() if hard != passed]
    assert failed == [len(each) for each in departures]


def test_the_table_leaves_out_no_case() -> None:
    for file in {file for file, *_ in rows()}:
        told = sum(hard + untested for name, _, hard, _, untested in rows() if name == file)
        assert told == sum(len(cases) for part, cases in stored(file).items() if part != "scrapy_middleware")


def test_the_cases_that_pass_through_the_middlewares_are_counted() -> None:
    runs = stored("redirects")["scrapy_middleware"]
    refreshes = [case for case in runs if case["middleware"] == "MetaRefreshMiddleware"]
    told = re.findall(r"all (\d+) runs|, (\d+) passed\)", PAGE)
    passed = run(test_directives, "robots_meta") + len(runs) + len(refreshes)
    assert [int(one or other) for one, other in told] == [len(runs), passed]
