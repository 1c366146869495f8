"""What we have to do with Scrapy's scraper, which runs callbacks and errbacks: see to what comes of them, and
hand it an error."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.core import scraper as scraper_module
from scrapy.spidermiddlewares.httperror import HttpError, HttpErrorMiddleware
from twisted.python.failure import Failure

from .compat import call_later, engine_of, spider_middlewares, wake

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

# Seconds that Scrapy up to 2.17 sleeps before each callback.
SLEEP_BEFORE_CALLBACK = 0.1 if hasattr(scraper_module, "_defer_sleep_async") else 0.0


def stand_before_scraper(crawler: Crawler, handle: Callable[..., Awaitable[None]]) -> None:
    """Have *handle* called with what a callback yields, behind all spider middlewares, in the place of the
    scraper's own method, which is its first argument."""
    scraper = engine_of(crawler).scraper
    own = getattr(scraper, "handle_spider_output_async", None)
    if getattr(own, "__qualname__", "") == "Scraper.handle_spider_output_async":  # not somebody else's
        scraper.handle_spider_output_async = partial(handle, own)


def watch_spider_errors(crawler: Crawler, raised: Callable[[BaseException, Request, Any], None]) -> None:
    """Have *raised* called with what a callback or errback raised, its request, and the response or failure
    that was to be dealt with, before the scraper deals with that: Scrapy sends no signal for `CloseSpider`.
    """
    scraper = engine_of(crawler).scraper
    own = scraper.handle_spider_error

    def watched(failure: Any, request: Request, result: Any, *more: Any, **arguments: Any) -> Any:
        raised(failure.value, request, result)
        return own(failure, request, result, *more, **arguments)

    scraper.handle_spider_error = watched


def have_fail(crawler: Crawler, request: Request, error: Exception) -> None:
    """Have *request* end with *error* soon, as if it had been sent, so that its errback is called."""

    def fail() -> None:
        ended = engine_of(crawler).scraper.enqueue_scrape(Failure(error), request)  # type: ignore[no-untyped-call]
        ended.addBoth(lambda _: wake(crawler))  # which may have nothing else to do

    call_later(0, fail)


def http_error_of(crawler: Crawler, response: Response, request: Request) -> HttpError | None:
    """What `HttpErrorMiddleware`, or what a project made of that, raises for *response*, so that no callback
    sees it; None where it lets it pass. It is asked once more than Scrapy asks it."""
    if response.request is None:  # the engine has not come to that
        response = response.replace(request=request)
    for each in spider_middlewares(crawler):
        if isinstance(each, HttpErrorMiddleware):
            ask: Callable[..., None] = each.process_spider_input
            try:
                ask(response) if _takes_one(ask) else ask(response, crawler.spider)
            except HttpError as error:
                return error
            except Exception:  # it will raise the same for Scrapy, and be told
                return None
    return None


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:  # as projects wrote it for years: with the spider
        return False
    return True
