"""The keys of ``Request.meta`` that the frontier reads and writes, `docs/reference/meta-keys.md` in code."""

from __future__ import annotations

UNSET = None, False  # by these a switch, a time or a pattern says nothing; 0 is one of them
SLOT = "download_slot"  # meta: Scrapy's own
VERBATIM = "verbatim_url"  # meta: Scrapy's own; the URL is taken as it is
LATENCY = "download_latency"  # meta: set by Scrapy's download handlers
START = "is_start_request"
EVERY_RUN = "frontier_every_run"  # meta of a seed: fetch it in every run, though it is known
PATTERN = "frontier_pattern"  # meta: only links in whose URL this regular expression is found are followed
FORCE = "frontier_force"  # meta: POSIX seconds; fetch the page if it was visited last before
NOFOLLOW_META = "frontier_nofollow"  # meta: the link counts for nothing; False from a spider: follow it
FOLLOW = "frontier_follow"  # meta: whether the links of the page are followed, or the callback they get
DIRECTIVES = "frontier_directives"  # meta: what the page that was fetched says to crawlers
SHELF_LIFE = "frontier_shelf_life"  # meta: seconds after which the page comes back
REFRESH = "frontier_refresh"  # meta: seconds after which the page comes back as a hub
LAST_VISIT = "frontier_last_visit"  # meta: when the page was visited before (POSIX s)
CHANGED = "frontier_changed"  # meta: whether it has changed since
LINK_SCORE = "frontier_link_score"  # meta: the weight of the link that the request is
CONTENT_SCORE = "frontier_content_score"  # the same: what its content is worth for ranking
LASTMOD = "frontier_lastmod"  # meta: when a sitemap says the page changed last (POSIX s)
# What tells of one visit of one page, and not of the next one with the same meta.
OF_ONE_VISIT = (LATENCY, LAST_VISIT, CHANGED, LASTMOD, CONTENT_SCORE)
REDIRECTED_BY = "redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons"  # Scrapy's
# What tells of one request alone, and not of another one that is made of it.
NOT_INHERITED = frozenset(
    (*(NOFOLLOW_META, DIRECTIVES, START, SHELF_LIFE, REFRESH, "retry_times"), *OF_ONE_VISIT, *REDIRECTED_BY)
)
SITEMAP = "frontier_sitemap"  # meta: the response is a sitemap; a URL: of the site whose pages it may list
# Ours and not the user's: never in a payload, neither written nor believed.
NOT_STORED = frozenset((DIRECTIVES, LAST_VISIT, CHANGED, LASTMOD))
