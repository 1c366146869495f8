"""What the commands make of pages that wait for room in a budget, and of links that are traps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from stores import NOW, Frontiers, change, check, fetch, fingerprint, link, pages, rows, start

from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_frontier.core.frontier import Frontier

URLS = [f"http://www{number % 2}.shop.example/{number}" for number in range(10)]


def domain_of(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def begin(directory: Path, host_pages: int = 3) -> Frontier:
    return start(directory, host_pages=host_pages, domain_of=domain_of)


@pytest.fixture
def frontier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """Five pages are let in: three of one host, two of the other; the domain has room for no more."""
    found = begin(tmp_path)
    found.discover([link(url) for url in URLS], NOW)
    fetch(found)
    found.close()
    return Frontiers(tmp_path, capsys)


def waiting(directory: Path) -> list[str]:
    return [page.url for page in pages(directory).values() if page.state is State.SEEN]


def why(frontier: Frontiers, url: str) -> str:
    return str(frontier("why", url, "--json").json["why"])


def test_why_names_the_budget(frontier: Frontiers) -> None:
    since = "It has waited since 2023-11-14 22:13:20 UTC and is not queued: "
    reasons = {page.url: page.reason for page in pages(frontier.directory).values()}
    assert {reasons[url] for url in waiting(frontier.directory)} == {
        "over the budget of 3 pages for host www0.shop.example",
        "over the budget of 3 pages for host www1.shop.example",
    }
    for url in waiting(frontier.directory):
        assert why(frontier, url) == f"{since}{reasons[url]}."


def test_queueing_by_hand_leaves_no_row_behind(frontier: Frontiers) -> None:
    assert "Queued 4 pages" in frontier("requeue", "--state", "seen").out
    assert check(frontier.directory) == []
    assert waiting(frontier.directory) == []
    assert not [key for key in rows(frontier.directory) if key[:1] == keys.DEFERRED]


def test_forgetting_leaves_no_row_behind(frontier: Frontiers) -> None:
    frontier("forget", waiting(frontier.directory)[0])
    assert check(frontier.directory) == []
    frontier("forget", "--host", "www1.shop.example")
    assert all("www0" in url for url in waiting(frontier.directory))


def test_an_export_carries_what_waits_and_what_pages_held(
    frontier: Frontiers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = begin(tmp_path)
    found.close()
    frontier("export", tmp_path / "x.gz")
    new = Frontiers(tmp_path / "new", capsys)
    assert new("import", tmp_path / "x.gz").code == 0
    for prefix in (keys.PAGE, keys.HOST):
        old, moved = (
            {k: v for k, v in rows(each.directory).items() if k[:1] == prefix} for each in (frontier, new)
        )
        assert moved == old
    assert check(new.directory) == []


def test_a_page_whose_row_is_missing_gets_one_and_comes_back(frontier: Frontiers) -> None:
    lost = [key for key in rows(frontier.directory) if key[:1] == keys.DEFERRED]
    change(frontier.directory, delete=tuple(lost))
    assert {finding.kind for finding in check(frontier.directory)} == {"missing row"}
    check(frontier.directory, repair=True)
    assert check(frontier.directory) == []
    expected = set(waiting(frontier.directory))
    found = begin(frontier.directory, host_pages=0)
    while found.lease(NOW) is not None:
        pass
    found.commit()
    queued = {url for url in expected if found.page(found.find(fingerprint(url)) or 0).state is State.QUEUED}  # type: ignore[union-attr]
    assert queued == expected
    found._store.close()


@pytest.mark.parametrize(
    ("url", "limit"),
    [
        ("http://a.example/" + "x/" * 21, "more than 20 segments"),
        ("http://a.example/y/y/y", "repeats itself 3 times"),
        ("http://a.example/" + "z" * 3000, "URLLENGTH_LIMIT = 2083"),
    ],
)
def test_why_says_by_which_limit_a_url_is_a_trap(frontier: Frontiers, url: str, limit: str) -> None:
    answer = frontier("why", url, "--json")
    assert answer.code == 1
    assert limit in answer.json["why"]
    assert "looks like a trap" in answer.json["why"]
