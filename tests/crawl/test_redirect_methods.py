"""With which method and body a redirect is followed: the middleware itself, against RFC 9110 15.4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.statscollectors import MemoryStatsCollector

from scrapy_frontier.downloadermiddlewares.redirect import RedirectMiddleware

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors" / "redirects.json"


def followed(status: int, method: str) -> tuple[str, bool] | None:
    """Method of the next request and whether it carries the body; None where the answer is the last."""
    crawler = Crawler(Spider)
    crawler.spider = Spider("methods")
    crawler.stats = MemoryStatsCollector(crawler)
    body = b"" if method in ("GET", "HEAD") else b"form"
    request = Request("http://a.example/", method=method, body=body)
    response = Response(request.url, status, {"Location": "/next"}, request=request)
    found = RedirectMiddleware.from_crawler(crawler).process_response(request, response)
    if found is response:
        return None
    assert isinstance(found, Request)
    assert found.url == "http://a.example/next"
    return found.method, bool(found.body)


def cases() -> list[dict[str, Any]]:
    return json.loads(VECTORS.read_text("utf-8"))["method"] if VECTORS.exists() else []


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_redirect_method_vectors(case: dict[str, Any]) -> None:
    expected = case["new_method"] and (case["new_method"], case["keeps_body"])
    assert followed(case["status"], case["method"]) == expected


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        (301, "HEAD", ("HEAD", False)),
        (302, "POST", ("GET", False)),
        (301, "PUT", ("PUT", True)),
        (303, "HEAD", ("HEAD", False)),
        (303, "DELETE", ("GET", False)),
        (308, "PATCH", ("PATCH", True)),
        (305, "GET", None),
        (306, "GET", None),
        (200, "GET", None),
    ],
)
def test_how_a_redirect_goes_on(status: int, method: str, expected: tuple[str, bool] | None) -> None:
    assert followed(status, method) == expected
