"""The page of a finished crawl: what it tells, that it stands alone, and that nothing in it is obeyed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from stores import NOW, Frontiers, crawl, crawl_web, fetch, link, pages, start

from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.parse.urls import host_of
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def data_in(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    found: dict[str, Any] = json.loads(data)
    return found


def reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    said = Frontiers(tmp_path / "frontier", capsys)("report", tmp_path / "page.html")
    assert (said.code, said.err) == (0, "")
    return data_in(tmp_path / "page.html")


def test_a_crawl_is_told_in_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl_web(tmp_path / "frontier", pages=300, read=120)
    found = reported(tmp_path, capsys)
    known = sum(found["summary"]["states"].values())
    growth = found["growth"]
    assert growth["times"][0] == NOW
    assert growth["times"][-1] == NOW + 119
    assert (growth["known"][-1], growth["ended"][-1]) == (known, 120)
    assert growth["ended"][60] == 61  # a page a second
    assert sum(level["known"] for level in found["depths"]) == known
    assert sum(level["read"] for level in found["depths"]) == found["summary"]["states"]["done"] == 119
    assert found["statuses"] == [[200, 119], [301, 1]]
    assert [host["host"] for host in found["hosts"]] == sorted(
        (host["host"] for host in found["hosts"]), key=lambda name: -_ok(found, name)
    )
    order = found["order"]
    assert order["shares"][-1] == order["crawl"][-1] == order["found"][-1] == order["best"][-1] == 1
    assert all(best >= other - 1e-4 for best, other in zip(order["best"], order["crawl"], strict=True))
    assert [page["score"] for page in found["best"]] == sorted(
        (page["score"] for page in found["best"]), reverse=True
    )


def _ok(found: dict[str, Any], name: str) -> int:
    return next(host["ok"] for host in found["hosts"] if host["host"] == name)


def test_links_between_hosts_are_counted_and_those_within_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = crawl_web(tmp_path / "frontier", pages=40, read=30)
    found = reported(tmp_path, capsys)
    hosts = {page_id: host_of(page.url) for page_id, page in pages(tmp_path / "frontier").items()}
    between = sum(hosts[page] != hosts[edge.target] for page, out in edges.items() for edge in out)
    assert sum(number for _, _, number in found["links"]) == between > 0


def test_every_end_is_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl(tmp_path / "frontier")
    found = reported(tmp_path, capsys)
    assert "order" not in found  # no links are kept
    assert dict(found["reasons"])["status"] == found["summary"]["errors"] == 8
    assert found["changes"] == [0, 0, 0, 0, 0]


def test_a_frontier_without_pages_makes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(tmp_path / "frontier").close()
    assert reported(tmp_path, capsys)["growth"] == {"times": [], "known": [], "ended": []}


def test_markup_in_a_url_and_in_a_reason_stays_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frontier = start(tmp_path / "frontier")
    bad = "</script><script>alert(1)</script><!--"
    frontier.discover([link(f"http://a.example/{bad}", host="a.example")], NOW)
    fetch(frontier, Outcome(Event.FAILED, 500, bad))
    frontier.close()
    assert reported(tmp_path, capsys)["summary"]["states"]["failed"] == 1
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 2
    assert "Content-Security-Policy" in text
    assert re.findall(r'(?:src|href)="(?!data:)', text) == []  # nothing from outside
