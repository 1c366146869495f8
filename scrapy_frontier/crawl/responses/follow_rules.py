"""By which ways the links of a page are followed: the rules of Scrapy's `CrawlSpider`, or one way for all.

The rules are known by names that are private to that spider; all of these are here, but for those
of `compat.callback_in_the_end`.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from .fast_link_extractor import PageReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request, Spider
    from scrapy.http import HtmlResponse
    from scrapy.link import Link

_OWN = ("_requests_to_follow", "_build_request", "_callback", "_errback", "parse_with_rules")
_PLAIN_RULE = Rule()


class Extractor(Protocol):
    """Scrapy's, or what is like them: it finds the links of a page."""

    def extract_links(self, response: HtmlResponse) -> Iterable[Link]:
        """The links, absolute, each once."""


class Way(NamedTuple):
    """Links that *reader* finds go to *callback* (None: the spider's own), by rule number *rule* of a
    `CrawlSpider` (None: by none)."""

    reader: PageReader
    callback: Callable[..., Any] | None = None
    errback: Callable[..., Any] | None = None
    rule: int | None = None

    def meta(self, text: str) -> dict[str, Any]:
        """The meta of a request for a link with that anchor *text*, as `CrawlSpider` has it."""
        return {} if self.rule is None else {"rule": self.rule, "link_text": text}


def one_way(spider: Spider | None, callback: Callable[..., Any] | None = None) -> Way:
    """All links to *callback*, found by the spider's own ``link_extractor``, or Scrapy's default one. Raises
    `TypeError` where the spider's is none: it was meant to keep the crawl in."""
    extractor: Any = getattr(spider, "link_extractor", None)
    if extractor is None:
        extractor = LinkExtractor()
    if isinstance(extractor, type) or not callable(getattr(extractor, "extract_links", None)):
        raise TypeError(f"link_extractor = {reprlib.repr(extractor)} has no extract_links to call")
    return Way(PageReader(extractor), callback)


class SpiderRules:
    """The rules of *spider*, a `CrawlSpider`; false where it is none, or has none."""

    def __init__(self, spider: Any) -> None:  # of whose class nothing more is known
        self._spider = spider
        if isinstance(spider, CrawlSpider) and not hasattr(spider, "_rules"):
            spider._compile_rules()  # its own __init__ leaves out that of its class, as others may
        self._rules: list[Rule] = list(spider._rules) if isinstance(spider, CrawlSpider) else []
        self.is_taken_over = False
        self.ways = tuple(
            Way(PageReader(rule.link_extractor), spider._callback, spider._errback, number)
            for number, rule in enumerate(self._rules)
        )

    def __bool__(self) -> bool:
        return bool(self._rules)

    def bar(self) -> str:
        """What keeps links of the rules from being followed without a request for each: something of them is
        a function. Empty where nothing does."""
        for name in _OWN:
            if getattr(type(self._spider), name, None) is not getattr(CrawlSpider, name, None):
                return f"the spider has a {name} of its own"
        for number, rule in enumerate(self._rules):
            for name in ("process_links", "process_request"):
                if getattr(rule, name) is not getattr(_PLAIN_RULE, name):
                    return f"rule {number} has {name}"
        return ""

    def take_over(self) -> None:
        """Have the spider itself follow nothing from now on; ``is_taken_over`` if it did before."""
        self.is_taken_over = bool(getattr(self._spider, "_follow_links", False))
        self._spider._follow_links = False

    def lead_on_from(self, request: Request) -> bool:
        """Whether the spider would follow links of the page that *request* brings, as its rules say."""
        callback = request.callback
        if callback is None or callback == self._spider._parse:
            return True
        number = request.meta.get("rule")
        if callback != self._spider._callback or not isinstance(number, int) or number >= len(self._rules):
            return False
        return self._rules[number].follow

    def requests(self, response: HtmlResponse) -> Iterator[Request]:
        """Requests for the links of *response*, as the spider itself makes them."""
        for request in self._spider._requests_to_follow(response):
            if request is not None:
                yield request
