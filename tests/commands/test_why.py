"""`why`: the right sentence for every state and every reason that the code can give."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from stores import NOW, Frontiers, change, crawl, fetch, link, start

from scrapy_frontier.core import reasons
from scrapy_frontier.core.admin import explain
from scrapy_frontier.core.errors import moment
from scrapy_frontier.core.hosts.host import Politeness, Trouble
from scrapy_frontier.core.hosts.robots_policy import Answer, after_answer
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.parse.directives import REFUSALS
from scrapy_frontier.core.reasons import REASONS, reason_of
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import IN_MEMORY, Page, RequestFacts, encode_page
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.crawl.host_trouble import error_of
from scrapy_frontier.crawl.in_flight import REASON, ActiveRequest, HandledResponse, outcome_of

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_frontier.core.store.records import RobotsCopy

URL = "http://a.example/page"
WHEN = "2023-11-14 22:13:20 UTC"


def active(**seen: Any) -> ActiveRequest:
    found = ActiveRequest(Request(URL), None)  # type: ignore[arg-type]
    for name, value in seen.items():
        setattr(found, name, value)
    return found


class CancelledError(Exception):
    pass


def raised(error: Exception, is_closing: bool = False) -> Outcome:
    return outcome_of(active(error=error), is_closing)


def ignored(reason: str) -> Outcome:
    error = IgnoreRequest("ignored")
    setattr(error, REASON, reason)
    return raised(error)


def fetched(*notes: str, **seen: Any) -> Outcome:
    return outcome_of(active(**{"is_fetched": True, "status": 200, "notes": notes, **seen}))


def ended(event: Event, reason: str, **more: Any) -> Outcome:
    return Outcome(event, reason=reason, **more)


def sitemap(note: str) -> Outcome:
    return raised(HandledResponse(Outcome(Event.FETCHED, 200, note)))


SITE, OTHER = "http://a.example", "http://b.example/(x)"
FOUND, READ = f"It must not be fetched, as was found on {WHEN}: ", f"It was fetched on {WHEN}"
FAILED_AT = f"It failed on {WHEN}, at attempt 1: "
NEXT = "It is queued: it is the next page of a.example, and the host may be visited now"
AGAIN = "attempt 2 of 10, because the last one ended with: "
RULE = f"robots.txt of {SITE}: Disallow: /p"
POSTPONED, RETRIED, FAILED = Event.POSTPONED, Event.RETRIED, Event.FAILED

# How a lease ends, and words of what `why` then says.
STORIES: list[tuple[Outcome, str]] = [
    (fetched(), f"{READ} with HTTP 200, at attempt 1."),
    (fetched(reasons.NOINDEX(), reasons.NOFOLLOW()), f"{reasons.NOINDEX()}; {reasons.NOFOLLOW()}."),
    (fetched(reasons.ALIAS(url=SITE)), f"; alias of {SITE}."),
    (sitemap("sitemap of 2 entries"), "; sitemap of 2 entries."),
    (sitemap("sitemap broken after 1 entry: cut off"), "; sitemap broken after 1 entry: cut off."),
    (fetched(status=404), f"The server said on {WHEN} that it does not exist: HTTP 404."),
    (fetched(status=500), f"{FAILED_AT}HTTP 500."),
    (fetched(spider_error=KeyError("x")), f"{FAILED_AT}callback raised KeyError: 'x'."),
    (raised(TimeoutError("180 s")), f"{FAILED_AT}TimeoutError: 180 s."),
    (outcome_of(active()), f"{FAILED_AT}ended without a response."),
    (raised(IgnoreRequest("Forbidden")), f"{FOUND}Forbidden."),
    (raised(IgnoreRequest()), f"{FOUND}IgnoreRequest."),
    (ignored(RULE), f"{FOUND}{RULE}."),
    (ignored(reasons.SKIPPED()), f"{FOUND}{reasons.SKIPPED()}."),
    (ignored(reasons.PRIVATE(address="10.0.0.1")), "its address is private (10.0.0.1)."),
    (outcome_of(active(follow_up=Request(OTHER))), "led to a request that was dropped"),
    (ended(Event.REDIRECTED, reasons.LED(url=OTHER)), f"It was redirected on {WHEN}: led to {OTHER}."),
    (ended(FAILED, reasons.UNREADABLE(cause="why")), f"{FAILED_AT}unreadable record: why."),
    (ended(Event.LOST, reasons.LOST()), f"It is known but not queued: {reasons.LOST()}."),
    (raised(CancelledError(), is_closing=True), f"{NEXT}."),
    (ended(POSTPONED, reasons.HANDED_BACK()), f"{NEXT}."),
    (ended(POSTPONED, reasons.ROBOTS_UNREADABLE(origin=SITE), delay=60.0), "(in 60 s) for attempt 1 of 10"),
    (ended(RETRIED, "HTTP 503", status=503), f"{NEXT}; this will be {AGAIN}HTTP 503."),
    (ended(RETRIED, reasons.RETRIED(), delay=5.0), f"(in 5 s) for {AGAIN}{reasons.RETRIED()}."),
    (ended(RETRIED, reasons.TO_ITSELF()), f"{AGAIN}redirected to itself."),
    (ended(Event.EXPIRED, reasons.EXPIRED()), f"{AGAIN}not released in time."),
]
STORIES += [
    (ended(Event.EXCLUDED, reasons.NOT_FOLLOWED(why=each.reason, url=OTHER), status=302), f": {each.reason}")
    for each in REFUSALS
]
STORIES += [
    (outcome_of(active(error=error_of(Trouble(text), Request(URL)))), f"{FOUND}{text}.")
    for text in (
        reasons.BLOCKED(host="a.example"),
        reasons.DELAY(source="http://a.example", span="2 h"),
        reasons.PAUSE_TOO_LONG(),
        reasons.CONNECTION_REFUSED(),
        reasons.NO_SUCH_NAME(),
        reasons.TIMED_OUT(),
        reasons.CONNECTION_LOST(),
        reasons.ROBOTS_STATUS(status=429),
        reasons.COOLDOWN_UNREADABLE(),
    )
]


def said(frontier: Frontiers, url: str = URL) -> str:
    found: str = frontier("why", url, "--json").json["why"]
    return found


@pytest.fixture
def frontier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    return Frontiers(tmp_path, capsys)


@pytest.mark.parametrize(("outcome", "words"), STORIES, ids=str)
def test_every_way_a_lease_can_end(frontier: Frontiers, outcome: Outcome, words: str) -> None:
    pages = start(frontier.directory)
    pages.discover([link(URL)], NOW)
    fetch(pages, outcome)
    kept = pages.page(0)
    assert kept is not None
    assert kept.reason == outcome.reason
    pages.close()
    assert words in said(frontier)


def test_a_chain_of_redirects_is_told_to_its_end(frontier: Frontiers) -> None:
    urls = [URL, "http://b.example/", "http://c.example/", "http://d.example/"]
    pages = start(frontier.directory)
    pages.discover([link(url, priority=-number) for number, url in enumerate(urls)], NOW)
    for number, url in enumerate(urls[1:], 1):
        fetch(pages, Outcome(Event.REDIRECTED, 301, f"led to {url}", target=number))
    pages.close()
    told = f"It led on {WHEN} to {urls[1]}, which led to {urls[2]}, which led to {urls[3]}, which is "
    assert said(frontier) == f"{told}queued."
    pages = start(frontier.directory)
    fetch(pages, Outcome(Event.GONE, 404, "HTTP 404"))
    pages.close()
    assert said(frontier) == f"{told}gone."
    frontier("forget", urls[3])
    assert said(frontier).endswith("which led to a page that was forgotten.")


def test_a_page_that_a_sitemap_listed(frontier: Frontiers) -> None:
    pages = start(frontier.directory)
    sitemap = "http://a.example/sitemap.xml"
    pages.discover([link(sitemap, facts=RequestFacts(is_sitemap=True))], NOW)
    pages.discover([link(URL, parent=0), link("http://a.example/linked", parent=1)], NOW)
    pages.close()
    sentence = f"It was first listed in the sitemap {sitemap}."
    assert said(frontier).endswith(f"visited now. {sentence}")
    assert "sitemap" not in said(frontier, "http://a.example/linked")


def test_a_page_that_was_asked_for_by_post_is_not_denied(frontier: Frontiers) -> None:
    posted = replace(link(URL, payload=b'{"method":"POST"}'), fingerprint=b"posted" * 3 + b"..")
    pages = start(frontier.directory)
    pages.discover([posted], NOW)
    pages.close()
    for name in ("why", "links", "forget"):
        answer = frontier(name, URL)
        assert answer.code == 1
        assert " ".join(answer.out.split()).endswith(explain.BY_FIND)
    assert URL in frontier("find", "page").out


def test_the_clock_of_its_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = start(tmp_path)
    pages.discover([link("http://a.example/"), link(URL)], NOW)
    fetch(pages)
    pages.close()
    slow = Frontiers(tmp_path, capsys, DOWNLOAD_DELAY=30)
    assert said(slow) == (
        "It is queued: it is the next page of a.example, and the host may be visited again in 30 s "
        "(delay 30 s, by DOWNLOAD_DELAY)."
    )
    slots = Frontiers(tmp_path, capsys, DOWNLOAD_SLOTS={"a.example": {"delay": 600}})
    assert "again in 10 min (delay 10 min, by DOWNLOAD_SLOTS)" in said(slots)
    slow("delay", "a.example", "2.5")
    assert "again in 2.5 s (delay 2.5 s, set by the operator)" in said(slow)


def test_a_host_that_rests_after_trouble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = start(tmp_path, default_politeness=Politeness(30.0, 1))
    pages.discover([link(URL), link("http://a.example/other")], NOW)
    lease = pages.lease(NOW)
    assert lease is not None
    rest = pages.record_cooldown(lease.host, Trouble("HTTP 429", 7200, sent=NOW, page_id=lease.page_id), NOW)
    pages.release(lease, Outcome(Event.POSTPONED, 429, "a.example rests: HTTP 429"), NOW)
    pages.close()
    slow = Frontiers(tmp_path, capsys, DOWNLOAD_DELAY=30)
    until = moment(rest.cooldown.until)
    assert said(slow) == (
        f"It is queued: it is the next page of a.example, but a.example rests until {until} (in 2 h) after "
        "strike 1: HTTP 429."
    )
    (host,) = slow("hosts", "--json").lines
    assert (host["delay"], host["delay_from"]) == (30, "DOWNLOAD_DELAY")
    assert (host["strikes"], host["trouble"], host["cooling_until"]) == (1, "HTTP 429", rest.cooldown.until)
    assert host["ready_at"] == host["cooling_until"]
    assert "2 h            1  HTTP 429" in slow("hosts").out
    assert slow("queue", "--json").lines[0]["at"] == rest.cooldown.until

    assert slow("unblock", "a.example").out == "a.example may be visited.\n"
    assert "a.example, and the host may be visited again in 30 s" in said(slow)


@pytest.mark.parametrize(
    ("backoff", "begins"),
    [
        (60, "It is queued: its backoff ends at 2023-11-14 22:14:20 UTC (in 60 s), but a.example rests"),
        (86400, "It waits until 2023-11-15 22:13:20 UTC (in 24 h) for attempt 2 of 10"),
    ],
)
def test_a_backoff_and_a_rest_of_the_host(frontier: Frontiers, backoff: float, begins: str) -> None:
    """The later of the two is what the page waits for."""
    pages = start(frontier.directory, default_politeness=Politeness(0.0, 2))
    pages.discover([link(URL), link("http://a.example/other")], NOW)
    fetch(pages, Outcome(Event.RETRIED, 500, "HTTP 500", delay=backoff))
    other = pages.lease(NOW)
    assert other is not None
    pages.record_cooldown(other.host, Trouble("HTTP 503", 3600, sent=NOW, page_id=other.page_id), NOW)
    pages.release(other, Outcome(Event.POSTPONED, 503, "a.example rests: HTTP 503"), NOW)
    pages.close()
    assert said(frontier).startswith(begins)
    assert said(frontier).endswith("attempt 2 of 10, because the last one ended with: HTTP 500.")
    queued = {turn["url"]: turn["at"] for turn in frontier("queue", "--json").lines}
    assert queued[URL] >= NOW + max(3600, backoff)


def test_a_blocked_host(frontier: Frontiers) -> None:
    pages = start(frontier.directory)
    pages.discover([link(URL)], NOW)
    pages.close()
    frontier("block", "a.example")
    assert said(frontier) == (
        "It is queued, but a.example is blocked: no page of it is fetched until "
        "`scrapy frontier unblock a.example`."
    )


def with_robots(tmp_path: Path, capsys: pytest.CaptureFixture[str], copy: RobotsCopy) -> Frontiers:
    pages = start(tmp_path)
    pages.discover([link(URL)], NOW)
    pages.keep_robots_copy("http://a.example", copy)
    pages.close()
    return Frontiers(tmp_path, capsys, ROBOTSTXT_OBEY=True, USER_AGENT="mybot/1.0")


def test_a_host_whose_robots_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = after_answer(after_answer(None, Answer(None), NOW - 100), Answer(503), NOW)
    assert said(with_robots(tmp_path, capsys, copy)) == (
        "It is queued, but robots.txt of http://a.example has not been readable since 2023-11-14 22:11:40 "
        "UTC (HTTP 503, asked 2 times): no page is fetched before it is, and it is requested again at "
        "2023-11-14 22:15:20 UTC (in 2 min)."
    )
    again = with_robots(tmp_path, capsys, after_answer(None, Answer(None), NOW - 100))
    assert "(no answer, asked 1 time)" in said(again)
    assert said(again).endswith("it is requested again when a crawl runs.")


def test_hours_that_robots_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = after_answer(None, Answer(200, b"User-agent: *\nVisit-time: 0400-0500\n"), NOW)
    assert said(with_robots(tmp_path, capsys, copy)) == (
        "It is queued, but robots.txt of http://a.example asks for other hours: they begin at "
        "2023-11-15 04:00:00 UTC (in 6 h)."
    )


def test_a_queued_page_that_robots_forbids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = after_answer(None, Answer(200, b"User-agent: mybot\nDisallow: /page\n"), NOW)
    frontier = with_robots(tmp_path, capsys, copy)
    assert said(frontier) == (
        "It is queued, but robots.txt of http://a.example forbids it (Disallow: /page): "
        "it is excluded when its turn comes."
    )
    frontier = Frontiers(tmp_path, capsys)  # nobody obeys it
    assert "it is the next page of a.example" in said(frontier)


def test_the_delay_that_robots_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frontier = with_robots(
        tmp_path, capsys, after_answer(None, Answer(200, b"User-agent: *\nCrawl-delay: 30\n"), NOW)
    )
    assert said(frontier).endswith("and the host may be visited now, then every 30 s (by robots.txt).")
    (host,) = frontier("hosts", "--json").lines
    assert (host["delay"], host["delay_from"]) == (30.0, "robots.txt")
    frontier("delay", "a.example", "2")
    assert said(frontier).endswith("then every 2 s (set by the operator).")


OVER = "over the budget of 1,000 pages for host a.example"
DROPPED = (
    "It is known but not queued: pages link to it, but the spider follows none of these links, or a filter "
    "drops them (allowed domains, a depth limit, a middleware)."
)
UNREAD = "Its record (page 0) cannot be read: `scrapy frontier check --repair` mends it."


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (
            Page(URL, State.SEEN, reason=OVER, changed=int(NOW), is_deferred=True),
            f"It has waited since {WHEN} and is not queued: {OVER}.",
        ),
        (Page(URL, State.SEEN, reason=reasons.OUT_OF_SCOPE(), changed=1), DROPPED),
        (Page(URL, State.SEEN), "It is known but not queued: no reason was kept."),
        (
            Page(URL, State.FAILED, 3, changed=int(NOW), reason=reasons.DAMAGED()),
            f"It failed on {WHEN}, at attempt 3: {reasons.DAMAGED()}.",
        ),
        (
            Page(URL, State.QUEUED, facts=IN_MEMORY),
            "It is queued, but its request could not be stored: it ends with the crawl that has it.",
        ),
        (
            Page(URL, State.LEASED),
            "It is queued, but no queue has it: `scrapy frontier check --repair` mends that.",
        ),
        (None, UNREAD),
    ],
)
def test_states_that_no_lease_ends_in(frontier: Frontiers, page: Page | None, sentence: str) -> None:
    pages = start(frontier.directory)
    pages.discover([link(URL)], NOW)
    pages.close()
    change(frontier.directory, {keys.page_key(0): encode_page(page) if page else b"?"})
    assert said(frontier) == sentence


UNKNOWN = "No plain GET of it is known: no link to it was accepted, and it is no seed"


def test_a_url_that_is_not_known(frontier: Frontiers) -> None:
    crawl(frontier.directory)
    answer = frontier("why", "http://nobody.example/")
    assert answer.code == 1
    assert " ".join(answer.out.split()) == f"{UNKNOWN}. {explain.BY_FIND}"


VALUES: dict[str, Any] = {
    "status": 503,
    "attempts": 10,
    "reason": "HTTP 503 (what it says)",
    "host": "a.example",
    "origin": "http://a.example:80",
    "url": "http://a.example/a (b)?c=d; e",
    "address": "10.0.0.1",
    "error": "ValueError: led to nothing",
}
ONLY_POSTPONED = {"robots_hours", "robots_unknown", "rests", "rests_after", "address"}
ONLY_POSTPONED.add("not_sent")
ONLY_SEEN = {"foreign", "scope", "pattern", "nofollow_page", "nofollow_link", "budget"}


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.code)
def test_every_reason_is_read_as_it_was_written(reason: reasons.Reason) -> None:
    names = re.findall(r"\{(\w+)", reason.template)
    values = {name: VALUES.get(name, f"some {name}") for name in names}
    text = reason(**values)
    assert reason_of(text) is reason
    assert reason.read(text) == {name: str(value) for name, value in values.items()}


def test_a_new_reason_needs_a_story_here() -> None:
    """Who ends a page for a new reason sees here what `why` makes of it."""
    texts = [text for each, _ in STORIES for text in (each.reason, *each.reason.split(reasons.BETWEEN))]
    told = {found.code for text in texts if (found := reason_of(text)) is not None}
    untold = {reason.code for reason in REASONS} - told
    assert untold == ONLY_POSTPONED | ONLY_SEEN | {"attempts_used_up", "damaged"}
