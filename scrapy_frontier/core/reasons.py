"""Reasons for the state of a page: each has a code, and a template that writes its text and reads it back.

The text is kept in the record of the page. A text that no template reads was written by something else, an
extension that drops a request say, and is shown as it is.
"""

from __future__ import annotations

import re

LONGEST_URL = 200  # characters of a URL in a reason


class Reason:
    """A *template* with the ``{names}`` of its values, ``{name:d}`` for a number."""

    def __init__(self, code: str, template: str) -> None:
        self.code = code
        self.template = template
        pattern = re.sub(r"\\\{(\w+)(:d)?\\\}", _group, re.escape(template))
        self._match = re.compile(pattern, re.DOTALL).fullmatch

    def __call__(self, **values: object) -> str:
        """Return the text for the record. Raises `KeyError` unless *values* has all that the template
        names."""
        return self.template.format_map(values)

    def read(self, text: str) -> dict[str, str] | None:
        """Return the values in a *text* that this reason wrote, as strings; None for any other text."""
        found = self._match(text)
        return None if found is None else found.groupdict()


def _group(name: re.Match[str]) -> str:
    return rf"(?P<{name[1]}>\d+)" if name[2] else f"(?P<{name[1]}>.*?)"


# How a lease ends
ATTEMPTS_USED_UP = Reason("attempts_used_up", "{reason} ({attempts:d} attempts)")
STATUS = Reason("status", "HTTP {status:d}")
NO_RESPONSE = Reason("no_response", "ended without a response")
CALLBACK = Reason("callback", "callback raised {error}")
UNREADABLE = Reason("unreadable", "unreadable record: {cause}")
LOST = Reason(
    "lost", "its request was only in the memory of a crawl that has ended; a link or a seed brings it back"
)
CANCELLED = Reason("cancelled", "cancelled")
EXPIRED = Reason("expired", "not released in time")
RETRIED = Reason("retried", "to be retried")
HANDED_BACK = Reason("handed_back", "handed back by a middleware")
DAMAGED = Reason("damaged", "its record was damaged; what it was is set aside")

# Redirects
LED_TO_DROPPED = Reason("led_to_dropped", "led to a request that was dropped")
LED = Reason("led", "led to {url}")
TO_ITSELF = Reason("to_itself", "redirected to itself")
NOT_FOLLOWED = Reason("redirect_refused", "redirect refused: {why} ({url})")
PRIVATE = Reason("private", "a public page led to it, and its address is private ({address})")

# robots.txt, and trouble of the host
FORBIDDEN = Reason("robots", "robots.txt of {origin}: {rule}")
ROBOTS_UNREADABLE = Reason("robots_unreadable", "robots.txt of {origin} cannot be read")
ROBOTS_HOURS = Reason("robots_hours", "robots.txt of {origin} asks for other hours")
ROBOTS_UNKNOWN = Reason("robots_unknown", "robots.txt of {origin} is not known yet")
RESTS_AFTER = Reason("rests_after", "{host} rests: {trouble}")
RESTS = Reason("rests", "{host} rests")
ADDRESS = Reason("address", "{host} has the address {address}")

# Notes on a page that was fetched; one may have several
SKIPPED = Reason("noindex_skip", "noindex: the page asks to be kept nowhere")
NOINDEX = Reason("noindex", "noindex: its items were dropped")
NOFOLLOW = Reason("nofollow", "nofollow: its links were not followed")
ALIAS = Reason("alias", "alias of {url}")
SITEMAP = Reason("sitemap", "sitemap of {entries}")
BROKEN_SITEMAP = Reason("sitemap_broken", "sitemap broken after {entries}: {problem}")

# Why a page is only seen
FOREIGN = Reason("foreign", "it belongs to another shard of the crawl")
OUT_OF_SCOPE = Reason("scope", "out of scope")
NOFOLLOW_PAGE = Reason("nofollow_page", "linked by {url}, which says nofollow")
NOFOLLOW_LINK = Reason("nofollow_link", "linked with rel={rels} by {url}")
OUTSIDE = Reason("pattern", "outside the pattern {pattern} of {url}")
BUDGET = Reason("budget", "over the budget of {most} for host {host}")

# Why a host is shut; its pages get this reason if they are given up
BLOCKED = Reason("blocked", "{host} is blocked")
DELAY = Reason("delay", "{source} asks for {span} between two pages")
PAUSE_TOO_LONG = Reason("pause_too_long", "the pause before another attempt is longer than the crawl lasts")
CONNECTION_REFUSED = Reason("connection_refused", "connection refused")
NO_SUCH_NAME = Reason("no_such_name", "its name does not resolve")
TIMED_OUT = Reason("timed_out", "timed out")
CONNECTION_LOST = Reason("connection_lost", "connection lost")
NOT_SENT = Reason("not_sent", "this machine could not send the request: {cause}")
ROBOTS_STATUS = Reason("robots_status", "HTTP {status:d} for robots.txt")
COOLDOWN_UNREADABLE = Reason("cooldown_unreadable", "its row could not be read")

OTHER = "other"
BETWEEN = "; "  # two notes of one page

REASONS = tuple(each for each in list(globals().values()) if isinstance(each, Reason))


def reason_of(text: str) -> Reason | None:
    """Return the reason that wrote *text*; None if none did. Matches one pattern after the other."""
    return next((reason for reason in REASONS if reason.read(text) is not None), None)


def codes_in(text: str) -> list[str]:
    """Return the codes of the notes in *text*; ``other`` if no reason wrote any of them. 20 us."""
    found = [reason.code for note in text.split(BETWEEN) if (reason := reason_of(note)) is not None]
    return found or [OTHER]


def has_note(text: str, *notes: str) -> bool:
    """Return whether one of *notes* is among those on a page; *text* is the ``reason`` of its record."""
    return not set(notes).isdisjoint(text.split(BETWEEN))
