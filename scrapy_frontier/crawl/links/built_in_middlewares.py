"""What Scrapy's own spider middlewares do to the requests of a page, worked out once for all of them.

Depth, Referer and the longest URL are the same for nearly all links of a page; carried through the
middlewares one by one, each new link costs 60 us. Their objects are asked, so what they were told holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.spidermiddlewares import referer
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware
from scrapy.spidermiddlewares.start import StartSpiderMiddleware
from scrapy.spidermiddlewares.urllength import UrlLengthMiddleware

from ...core.parse.urls import origin_text
from ..requests.fingerprints import is_plain
from .callback_requests import usual_listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from .callback_requests import CallbackOutput

# Nothing else that these do to the request of a callback can be seen.
BUILT_IN = (
    *(StartSpiderMiddleware, HttpErrorMiddleware, DepthMiddleware, UrlLengthMiddleware),
    referer.RefererMiddleware,
)
_BY_SCHEME = (referer.NoReferrerWhenDowngradePolicy, referer.DefaultReferrerPolicy)
_TO_WEB = ("http:", "https")
_OF_ITS_OWN = frozenset(("referrer_policy", "depth_reset"))  # meta: what the page says is not asked
_NO_REQUEST = Request("http://none.invalid/")  # says nothing of a Referer


class BuiltIns:
    """Those of *middlewares* that see the requests of a callback, ``depth``, ``length`` and ``referer``; None
    where one is not at work. Whether nothing else is: they ``are_all``."""

    def __init__(self, middlewares: Iterable[Any] = ()) -> None:
        found = {type(each): each for each in middlewares}
        self.are_all = all(cls in BUILT_IN for cls in found)
        self.depth = found.get(DepthMiddleware)
        self.length = found.get(UrlLengthMiddleware)
        self.referer = found.get(referer.RefererMiddleware)
        self._deepest = -1  # that the stats have been told

    @property
    def longest(self) -> int:
        """Characters of a URL that `UrlLengthMiddleware` lets pass; 0 without a limit."""
        return 0 if self.length is None else int(self.length.maxlength)

    def reached(self, depth: int) -> None:
        """Links of that *depth* go on to the engine: Scrapy's stat of the deepest follows."""
        if self.depth is not None and depth > self._deepest:
            self._deepest = depth
            self.depth.stats.max_value("request_depth_max", depth)


class Depth:
    """What `DepthMiddleware`, if it is at work, makes of the links of a page by the depth ``of_page``, which
    a callback may change: their depth, what it adds to their priority, and whether that is too deep."""

    def __init__(self, built_ins: BuiltIns, response: Response) -> None:
        self._built_ins = built_ins
        self.of_page = response.meta.get("depth", 0)
        self.of_links: int | None = None
        self.priority, self.is_too_deep = 0, False
        self.sees_each = False  # it drops, or counts, each of them by itself
        if built_ins.depth is not None:
            depth = self.of_links = int(self.of_page) + 1
            self.priority = -depth * built_ins.depth.prio
            self.is_too_deep = 0 < built_ins.depth.maxdepth < depth
            self.sees_each = self.is_too_deep or built_ins.depth.verbose_stats

    def count_links(self, count: int) -> None:
        """Have Scrapy's stats say that so many links went on, or were too deep."""
        middleware = self._built_ins.depth
        if middleware is None or self.of_links is None or not count:
            return
        if self.is_too_deep:
            if hasattr(middleware, "_ignored_logged"):  # Scrapy 2.14 does not count them
                middleware.stats.inc_value("depth/request_ignored_count", count)
            return
        if middleware.verbose_stats:
            middleware.stats.inc_value(f"request_depth_count/{self.of_links}", count)
        self._built_ins.reached(self.of_links)


class Referrers:
    """What `RefererMiddleware`, if it is at work, has links of a page say where they come from."""

    def __init__(self, built_ins: BuiltIns, response: Response) -> None:
        self._page = response.url
        self._policy: referer.ReferrerPolicy | None = None
        if built_ins.referer is not None:
            self._policy = built_ins.referer.policy(response, _NO_REQUEST)
        self._is_by_origin = type(self._policy).__module__ == referer.__name__
        self._is_by_scheme = type(self._policy) in _BY_SCHEME
        self._known: dict[str, str | None] = {}

    def of(self, url: str) -> str | None:
        """The Referer of a request for *url*, None for none. The policy is asked once for all of an origin,
        or a scheme, where it is one of Scrapy's: they say the same of all."""
        policy = self._policy
        if policy is None:
            return None
        if not self._is_by_origin:
            return policy.referrer(self._page, url)
        # `origin_text` without a call, .1 us less a link
        key = url[:5] if self._is_by_scheme else "/".join(url.split("/", 3)[:3])
        if key not in self._known:
            is_bare = self._is_by_scheme and key in _TO_WEB and _is_bare(self._page)
            self._known[key] = self._of_bare(key) if is_bare else policy.referrer(self._page, url)
        return self._known[key]

    def _of_bare(self, scheme: str) -> str | None:
        """What policies by scheme say of a page whose URL they leave as it is: 2 us for 30."""
        return None if self._page.startswith("https") and scheme != "https" else self._page


def _is_bare(url: str) -> bool:
    """Whether of *url* nothing has to be left out where it stands as Referer."""
    return is_plain(url) and not url.split("/", 3)[2].endswith((":80", ":443"))


def known_ending(crawler: Crawler, built_ins: BuiltIns, response: Response) -> str | None:
    """How URLs begin whose requests need go no further from the page of *response*, but for its first, if
    their pages are known; None where all must: somebody is to see them, or refusals are counted.

    Nine links of ten lead to known pages, and the scheduler drops their requests. What Scrapy does with each
    on the way there (depth, referrer, length, offsite) costs ten times as much, and leaves nothing behind.
    """
    request, spider = response.request, crawler.spider
    if request is None or not built_ins.are_all or Depth(built_ins, response).sees_each:
        return None
    if usual_listeners(crawler) is None:
        return None
    offsite = crawler.get_downloader_middleware(OffsiteMiddleware)
    if offsite is None or spider is None or not getattr(spider, "allowed_domains", None):
        return ""
    if not offsite.should_follow(request, spider):
        return None
    return origin_text(response.url) + "/"  # no more offsite than the page itself


def bypass(built_ins: BuiltIns, response: Response, output: CallbackOutput | None) -> Callable[[Any], bool]:
    """What takes the requests of one callback past the middlewares of *built_ins*, if that are all there are.

    It says whether it has taken an output, in 4 us, to where *output* gathers what callbacks ask for. What a
    middleware would drop or log, and what has a word of its own, goes the usual way.
    """
    take = None if output is None else output.taking(response)
    if take is None or not built_ins.are_all or response.request is None:
        return _takes_none
    way = _Bypass(built_ins, response, take)
    return _takes_none if way.is_closed else way.takes


def _takes_none(output: Any) -> bool:
    return False


class _Bypass:
    """`bypass`; all it needs of the page is asked with its first request, but for the depth of the page."""

    def __init__(self, built_ins: BuiltIns, response: Response, take: Callable[[Request], None]) -> None:
        self._built_ins = built_ins
        self._response, self._meta = response, response.meta
        self._depth = Depth(built_ins, response)
        self._referrers: Referrers | None = None
        self._longest = built_ins.longest
        self._take = take
        self.is_closed = self._depth.sees_each

    def takes(self, output: Any) -> bool:
        """Whether *output* was a plain request, which is then on its way with depth, priority and Referer;
        Scrapy's own have to do with all else."""
        if not isinstance(output, Request) or output.encoding != "utf-8":
            return False
        url, meta, depth = output.url, output.meta, self._depth
        if 0 < self._longest < len(url) or not _OF_ITS_OWN.isdisjoint(meta):
            return False
        if self._meta.get("depth", 0) != depth.of_page:
            depth = Depth(self._built_ins, self._response)
            if depth.sees_each:
                return False
            self._depth = depth
        if depth.of_links is not None:
            meta["depth"] = depth.of_links
            output.priority += depth.priority
            self._built_ins.reached(depth.of_links)
        if self._referrers is None:
            self._referrers = Referrers(self._built_ins, self._response)
        referrer = self._referrers.of(url)
        if referrer is not None:  # as `Headers.setdefault` does it
            dict.setdefault(output.headers, b"Referer", [referrer.encode()])
        self._take(output)
        return True
