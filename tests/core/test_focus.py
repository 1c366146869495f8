"""Focus: what the words of links say of pages that are not read yet, and the order that follows from it."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openings import NOW, let_go, opened, start  # noqa: F401 - `let_go` works by being here

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.admin.focus import expectation
from scrapy_frontier.core.admin.scores import leaders, scores
from scrapy_frontier.core.errors import UnreadableRow
from scrapy_frontier.core.frontier import Event, Frontier, Lease, Link, Outcome
from scrapy_frontier.core.ranking.focus import SIZE, WORDS, Focus, code_of, codes_of, words_of
from scrapy_frontier.core.store import keys, queue_keys

if TYPE_CHECKING:
    from pathlib import Path

SITE = "http://a.example"
any_score = st.floats(0, 2**24, width=32)


@pytest.mark.parametrize(
    ("url", "anchor", "words"),
    [
        (f"{SITE}/", "", []),
        (f"{SITE}/reg-exp_syntax2.html", "", ["reg", "exp", "syntax", "html"]),
        (f"{SITE}/java/util/HashMapIterator.html", "", ["hash", "map", "iterator", "java", "util"]),
        (f"{SITE}/x?id=7&lang=de", "", ["x", "id", "lang", "de"]),
        (f"{SITE}/12", "Zeit im Überblick", ["@zeit", "@im", "@überblick"]),
        (f"{SITE}/%C3%BCber", "", ["über"]),
    ],
)
def test_a_link_is_known_by_its_words(url: str, anchor: str, words: list[str]) -> None:
    found = words_of(url, anchor)
    assert "a.example" in found
    assert set(words) <= set(found)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_link_fits_in_its_codes(path: str, anchor: str) -> None:
    words = words_of(f"{SITE}/{path}", anchor)
    assert len(set(words)) == len(words) < WORDS
    codes = np.frombuffer(codes_of(words), np.uint16)
    assert len(codes) == WORDS
    assert codes.max() < SIZE


def taught(low: float, high: float, pages: int = 600) -> Focus:
    """A model told that every third page, of the word "good", is worth *high*, and the others *low*."""
    focus = Focus()
    for number in range(pages):
        is_good = number % 3 == 0
        place = focus.keep(codes_of(["good" if is_good else "bad", f"n{number % 7}"]))
        focus.learn(place, high if is_good else low)
    focus.encode()  # learns from all
    return focus


def of_words(focus: Focus, *words: str) -> float:
    return float(focus.expected(np.array([focus.keep(codes_of([*words]))]))[0])


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 10), (0.2, 0.3), (0, 2.0**24), (7, 7.5)])
def test_scores_of_any_scale_teach_the_same(low: float, high: float) -> None:
    focus, usual = taught(low, high), taught(0, 1)
    assert of_words(focus, "good") > 0.7 > 0.2 > of_words(focus, "bad")
    assert np.allclose(focus.weights, usual.weights, atol=1e-4)
    assert focus.good == 199  # all but the first, before which there was nothing


@pytest.mark.parametrize(("low", "high"), [(3, 3), (0.3, 0.1 + 0.2)])
def test_equal_scores_teach_nothing(low: float, high: float) -> None:
    focus = taught(low, high)
    assert not focus.has_learned
    assert not focus.weights.any()
    for _ in range(10):  # pages are learned together
        focus.learn(focus.keep(codes_of(["other"])), 2)
    assert focus.has_learned


@given(st.lists(any_score, max_size=40))
def test_whatever_the_scores_a_model_stays_sound(found: list[float]) -> None:
    focus = Focus()
    for number, score in enumerate(found):
        focus.learn(focus.keep(codes_of([f"w{number % 5}"])), score)
    assert np.isfinite(focus.weights).all()
    assert 0 <= focus.good <= focus.scored == len(found)
    assert 0 <= focus.good_lately <= 1
    again = Focus.decode(focus.encode())
    assert again.encode() == focus.encode()
    assert 0 < of_words(again, "w1") < 1


@pytest.mark.parametrize("cut", [0, 1, 7, 1000])
def test_a_damaged_model_is_refused(cut: int) -> None:
    stored = taught(0, 1).encode()
    with pytest.raises(UnreadableRow, match="a model of"):
        Focus.decode(stored[:cut])
    wild = stored[:-4] + np.float32(np.nan).tobytes()
    with pytest.raises(UnreadableRow):
        Focus.decode(wild)


def test_places_are_taken_again() -> None:
    focus = Focus()
    first = focus.keep(codes_of(["a"]))
    focus.release(first)
    assert focus.keep(codes_of(["b"])) == first
    many = [focus.keep(codes_of([f"w{number}"])) for number in range(10_000)]
    assert len({*many, first}) == 10_001
    assert np.frombuffer(focus.codes(many[-1]), np.uint16)[1] == code_of("w9999")


# -- the frontier ------------------------------------------------------------------------------------------


def link(name: str, anchor: str = "") -> Link:
    return Link(name.encode().rjust(40, b"."), f"{SITE}/{name}", "a.example", anchor=anchor)


def rank(frontier: Frontier) -> None:
    with closing(frontier.rank_now()) as run:
        for _ in frontier.rank_steps(run, run.compute(bool, time.perf_counter), lambda: NOW, 50):
            pass


def fetch(frontier: Frontier, links: tuple[Link, ...] = (), score: float | None = None) -> str:
    lease = frontier.lease(NOW)
    assert isinstance(lease, Lease)
    frontier.discover(links, NOW, lease)
    outcome = Outcome(Event.FETCHED, 200, has_links=True, content_score=score)
    frontier.release(lease, outcome, NOW)
    return lease.page.url.removeprefix(f"{SITE}/")


NAMES = [f"{kind}-{number}" for number in range(40) for kind in ("dull", "fine", "poor")]


def crawl(
    frontier: Frontier, limit: int, high: float = 1.0, low: float = 0.0, has_anchors: bool = False
) -> list[str]:
    """Read *limit* pages of a site whose front page links all; those called fine, by their URLs or only by
    the texts of the links, are good."""
    links = tuple(map(link, NAMES))
    if has_anchors:
        links = tuple(link(str(number), name) for number, name in enumerate(NAMES))
        frontier.begin_focus()
    if not frontier.find(b"top".rjust(40, b".")):
        frontier.discover((link("top"),), NOW)
        fetch(frontier, links, low)
    order = []
    while len(order) < limit:
        lease = frontier.lease(NOW)
        assert lease is not None
        number = lease.page_id - 1
        is_fine = NAMES[number].startswith("fine")
        score = high if is_fine else low
        frontier.release(lease, Outcome(Event.FETCHED, 200, has_links=True, content_score=score), NOW)
        order.append(NAMES[number])
        if frontier._scores.is_due():
            rank(frontier)
    return order


def fine(order: list[str]) -> int:
    return sum(name.startswith("fine") for name in order)


@pytest.mark.parametrize(
    ("high", "low", "has_anchors"), [(1, 0, False), (1, 0, True), (10, 1, False), (1, 0.5, True)]
)
def test_pages_like_the_good_ones_come_first(
    tmp_path: Path, high: float, low: float, has_anchors: bool
) -> None:
    frontier = start(tmp_path, scorer="mixed")
    order = crawl(frontier, 70, high, low, has_anchors)
    assert fine(order) >= 38  # of 40; 23 by chance
    frontier.commit()
    assert not list(Check(opened[-1], None, NOW).run())


@pytest.mark.parametrize("score", [None, 0.0, 1.0, 5.0])
def test_without_different_scores_no_row_differs(tmp_path: Path, score: float | None) -> None:
    """Where no page is better than others the order is that of a crawl without scores, and so are its rows
    but for those that say so."""
    rows = []
    for name, told in (("with", score), ("without", None)):
        (tmp_path / name).mkdir()
        frontier = start(tmp_path / name, scorer="mixed")
        frontier.discover((link("top"),), NOW)
        order = [fetch(frontier, tuple(map(link, NAMES)), told)]
        for _ in range(50):
            order.append(fetch(frontier, (), told))
        frontier.commit()
        store = opened[-1]
        prefixes = (keys.QUEUE, keys.PAGE, keys.INDEX, keys.HOST)
        rows.append((order, [[key for key, _ in store.scan(prefix)] for prefix in prefixes]))
        if told is None:
            assert not [value for _, value in store.scan(keys.QUEUE) if value]
            assert store.get(keys.FOCUS) is None
    assert rows[0] == rows[1] or score not in (None, 1.0)


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_was_learned_survives(tmp_path: Path, is_clean: bool) -> None:
    frontier = start(tmp_path, scorer="mixed")
    crawl(frontier, 40)
    rank(frontier)
    assert frontier.focus is not None
    model, queued = frontier.focus.encode(), dict(opened[-1].scan(keys.QUEUE))
    assert all(len(value) == 2 * WORDS for value in queued.values())
    if is_clean:
        frontier.close()
    opened.pop().close()
    again = start(tmp_path, scorer="mixed")
    assert again.focus is not None
    assert again.focus.encode() == model
    pages = [keys.key_id(key[:1] + key[-keys.ID_BYTES :]) for key in queued]
    scorer = again._scores.scorer
    assert scorer is not None
    assert {scorer.codes(page) for page in pages} == set(queued.values())
    assert not len(scorer.without_codes(np.array(pages)))


def test_a_page_that_is_retried_while_its_words_come_back_stands_in_no_queue(tmp_path: Path) -> None:
    crawl(start(tmp_path, scorer="mixed"), 40)
    opened.pop().close()
    again = start(tmp_path, loaded=False, scorer="mixed")
    again.load(NOW, 1)
    lease = again.lease(NOW)
    scorer = again._scores.scorer
    assert lease is not None
    assert scorer is not None
    while not scorer.codes(lease.page_id):
        again.load(NOW, 1)
    again.release(lease, Outcome(Event.RETRIED, delay=60.0), NOW)
    while not again.load(NOW, 1):
        pass
    again.commit()
    assert not list(Check(opened[-1], None, NOW).run())


def test_pages_found_before_the_first_score_are_read_up(tmp_path: Path) -> None:
    """Their words are read from their rows beside a ranking, and the next one counts them."""
    frontier = start(tmp_path, scorer="mixed")
    frontier.discover((link("top"),), NOW)
    fetch(frontier, tuple(map(link, NAMES)))
    assert not any(value for _, value in opened[-1].scan(keys.QUEUE))
    order = crawl(frontier, 70)
    assert fine(order) >= 36


def test_what_is_expected_is_told_by_its_words(tmp_path: Path) -> None:
    frontier = start(tmp_path, scorer="mixed")
    crawl(frontier, 30)
    rank(frontier)
    store = opened[-1]
    found = {}
    for place in queue_keys.queued_places(store, "a.example"):
        page = frontier.page(queue_keys.sort_key_id(place.sort_key))
        assert page is not None
        found[page.url.rpartition("/")[2].partition("-")[0]] = expectation(store, page, place)
    assert "for it 'fine' +" in found["fine"]
    assert "against it 'dull' -" in found["dull"]
    values = scores(store, "focus", time.perf_counter).values
    best = [leader.page.url for leader in islice(leaders(store, values), 5)]
    assert all("fine" in url for url in best)


def test_a_page_that_is_gone_counts_as_the_worst(tmp_path: Path) -> None:
    frontier = start(tmp_path, scorer="mixed")
    frontier.discover((link("top"),), NOW)
    fetch(frontier, (link("gone-1"),), 2.0)
    lease = frontier.lease(NOW)
    assert lease is not None
    frontier.release(lease, Outcome(Event.GONE, 404, has_links=True), NOW)
    focus = frontier.focus
    assert focus is not None
    assert (focus.scored, focus.lowest_scored) == (2, 2)  # as bad as the worst so far


@pytest.mark.parametrize("scorer", ["pagerank", "cash", "hits"])
def test_other_scorers_do_not_learn(tmp_path: Path, scorer: str) -> None:
    frontier = start(tmp_path, scorer=scorer)
    frontier.discover((link("top"),), NOW)
    fetch(frontier, tuple(map(link, NAMES)), 1.0)
    fetch(frontier, (), 0.0)
    assert frontier.focus is None
    assert not any(value for _, value in opened[-1].scan(keys.QUEUE))
