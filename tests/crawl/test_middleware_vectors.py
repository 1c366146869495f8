"""Other projects' cases, run through the middlewares; `docs/internals/conformance.md` counts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.statscollectors import MemoryStatsCollector

import scrapy_frontier
from scrapy_frontier.core.parse.headers import timestamp
from scrapy_frontier.crawl.fingerprints import is_same_page
from scrapy_frontier.downloadermiddlewares import directives

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors"


def cases(name: str, part: str) -> list[Any]:
    path = VECTORS / f"{name}.json"
    found = json.loads(path.read_text("utf-8")).get(part, []) if path.exists() else []
    return [pytest.param(case, id=case["id"]) for case in found if not case.get("disputed")]


def build(cls: Any, **settings: Any) -> Any:
    crawler = Crawler(Spider, settings)
    crawler.spider = Spider("vectors")
    crawler.stats = MemoryStatsCollector(crawler)
    return cls.from_crawler(crawler)


@pytest.mark.parametrize("case", cases("robots_meta", "cases"))
def test_robots_meta(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    page = case.get("html") or "".join(
        f'<meta name="{m["name"]}" content="{m["content"]}">' for m in case.get("meta", ())
    )
    now = timestamp(case["now"]) if case.get("now") else 1_700_000_000.0
    monkeypatch.setattr(directives.time, "time", lambda: now)
    middleware = build(directives.DirectivesMiddleware, ROBOTSTXT_USER_AGENT=case["agent"])
    request = Request("http://a.example/")
    headers = {"X-Robots-Tag": case.get("headers", [])}
    response = HtmlResponse(request.url, headers=headers, body=page.encode(), encoding="utf-8")
    middleware.process_response(request, response)
    said = request.meta.get("frontier_directives", {"noindex": False, "nofollow": False, "names": []})
    for name, value in case["expect"].items():
        if name in ("noindex", "nofollow"):
            assert said[name] == value, name
        elif type(value) is bool and name not in ("own_scope", "noai"):
            assert (name in said["names"]) == value, name


REDIRECTS = cases("redirects", "scrapy_middleware")


def request_of(case: dict[str, Any]) -> Request:
    given = case["request"]
    return Request(
        given["url"],
        method=given["method"],
        headers=given["headers"],
        body=given["body"],
        meta=json.loads(json.dumps(given["meta"])),
    )


def response_of(case: dict[str, Any]) -> Response:
    given = case["response"]
    cls = HtmlResponse if case["middleware"] == "MetaRefreshMiddleware" else Response
    url, body = case["request"]["url"], given["body"].encode()
    headers = {name: [line.encode("latin-1") for line in lines] for name, lines in given["headers"].items()}
    return cls(url, given["status"], headers, body, request=request_of(case))


def assert_is(request: Request, expected: dict[str, Any]) -> None:
    assert is_same_page(request.url, expected["url"])  # "http://a.example" is written with a slash by some
    assert request.method == expected["method"]
    assert request.body.decode() == expected["body"]
    headers = {name.lower() for name in expected["headers"]}
    assert {name.decode().lower() for name in request.headers} == headers
    for name, value in expected["meta"].items():
        assert request.meta[name] == value, name


def middleware_of(case: dict[str, Any]) -> Any:
    middleware = build(
        getattr(scrapy_frontier, case["middleware"]), REDIRECT_MAX_TIMES=case["max_redirect_times"]
    )
    if "test_redirect_referer[" in case["test"]:
        middleware._referer_spider_middleware = build(RefererMiddleware)
    return middleware


@pytest.mark.parametrize("case", REDIRECTS)
def test_scrapys_own_cases(case: dict[str, Any]) -> None:
    middleware, request, response = middleware_of(case), request_of(case), response_of(case)
    if "test_spider_handling" in case["test"]:
        middleware.crawler.spider.handle_httpstatus_list = [case["response"]["status"]]
    if case["result"] == "ignored":
        with pytest.raises(IgnoreRequest):
            middleware.process_response(request, response)
        return
    found = middleware.process_response(request, response)
    is_refresh = case["middleware"] == "MetaRefreshMiddleware"
    if case["result"] == "response":
        assert found is response
    elif is_refresh and is_same_page(case["new_request"]["url"], request.url):
        assert found is response, "a page that refreshes to itself is no redirect"
    else:
        assert_is(found, case["new_request"])
