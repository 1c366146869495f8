"""How good a page is expected to be, learned while crawling from the words of the links to pages.

A link is known by at most `WORDS` words: its host, the words of its path, file name and anchor, and whether
the page it stands on was good. Each is one of 2**14 codes (hashed: Weinberger et al. 2009). An online
logistic regression with a rate for each weight (AdaGrad: Duchi, Hazan, Singer 2011) learns from each page
that is read which words good pages have.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from math import isfinite
from struct import Struct
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from zlib import crc32

import numpy as np

from ..errors import UnreadableRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ids = NDArray[np.integer[Any]]
    Codes = NDArray[np.uint16]

WORDS = 18  # of a link, 36 bytes
SIZE = 1 << 14
ON_GOOD, ON_OTHER = 1, 2  # codes of the page a link stands on; 0 is no word
_SOURCES = {ON_GOOD: "a good page links it", ON_OTHER: "another page links it"}
_RESERVED = 3
_MARK = "@"  # a word of an anchor is another than the same word of a URL
_OF_NAME, _OF_ANCHOR = 5, 6  # words at most
_LONGEST = 1000  # characters of a URL
_RATE = 0.3
_MOST = 30.0  # a weight
_STEADY = 0.1  # what the squares of AdaGrad begin with
_ROOM = 1 << 12  # rows at first
_AT_A_TIME = 8192  # links scored in 1 ms
_TOGETHER = 128  # pages learned in 75 us
# Also the words of CamelCase; numbers are no words.
_words_in = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+").findall
_ROW = Struct(f"<{WORDS}H")
_NUMBERS = Struct("<QQQdd")


def words_of(url: str, anchor: str = "") -> list[str]:
    """Return the words of a link without that of the page it stands on, each once, those that tell most
    first. About 6 us."""
    address, _, query = url.partition("://")[2][:_LONGEST].partition("#")[0].partition("?")
    host, *folders = (unquote(address) if "%" in address else address).split("/")
    name = " ".join((*folders[-1:], query))
    path = " ".join(folders[-2::-1])
    found = {host: None}
    for mark, text, most in ("", name, _OF_NAME), (_MARK, anchor[:100], _OF_ANCHOR), ("", path, WORDS):
        for word in _words_in(text)[:most]:
            found[mark + word.lower()] = None
    return list(found)[: WORDS - 1]


def names_of(url: str, codes: bytes) -> Iterator[tuple[str, int]]:
    """Yield name and code of each word of a link to *url*, of its *codes*; without any of its URL."""
    known = {code_of(word): repr(word) for word in words_of(url)} | _SOURCES
    for code in np.frombuffer(codes, "<u2").tolist() or list(known.keys() - _SOURCES.keys()):
        if code:
            yield known.get(code, "the text of the link"), code


@lru_cache(1 << 12)  # links share most of their words
def code_of(word: str) -> int:
    """Return the code of a word, which others may have too."""
    return crc32(word.encode("utf-8", "surrogatepass")) % (SIZE - _RESERVED) + _RESERVED


def codes_of(words: list[str]) -> bytes:
    """Return the codes of *words*, two bytes each, behind room for that of the page the link stands on."""
    codes = set(map(code_of, words))
    return _ROW.pack(0, *codes, *[0] * (WORDS - 1 - len(codes)))


class Focus:
    """The model, and the codes of the links to queued pages: 36 bytes each, by a *place* from 1 on.

    The scale of scores does not matter: the lowest score so far counts as 0, and the mean of all higher ones
    as 1. Scores above that mean count as 1, too.
    """

    latest = 1000  # pages of which the share that was good is told

    def __init__(self) -> None:
        self.weights = np.zeros(SIZE, np.float32)
        self._squares = np.full(SIZE, _STEADY, np.float32)
        self.scored = self.lowest_scored = 0
        self.lowest, self.total = 0.0, 0.0
        self.good = 0  # of the pages scored
        self._lately = deque([False] * self.latest, self.latest)
        self._unlearned: list[tuple[int, float]] = []  # places and scores of pages
        self._rows: Codes = np.zeros((_ROOM, WORDS), np.uint16)
        self._free: list[int] = []
        self._used = 1

    # -- codes -----------------------------------------------------------------------------------------

    def keep(self, codes: bytes) -> int:
        """Keep the codes of a link; returns their place."""
        place = self._free.pop() if self._free else self._used
        if place == self._used:
            self._used += 1
            if place >= len(self._rows):
                self._rows = np.concatenate((self._rows, np.zeros((place // 8, WORDS), np.uint16)))
        self._rows[place] = np.frombuffer(codes, np.uint16)
        return place

    def codes(self, place: int) -> bytes:
        """Return the codes at *place*, as they are now."""
        return bytes(self._rows[place].tobytes())

    def release(self, place: int) -> None:
        """Forget the codes at *place*, which others may take."""
        self._free.append(place)

    def set_source(self, places: Ids, is_good: bool) -> None:
        """Note that the links at *places* stand on a page that was good, or was not."""
        self._rows[places, 0] = ON_GOOD if is_good else ON_OTHER

    # -- scores ----------------------------------------------------------------------------------------

    @property
    def has_learned(self) -> bool:
        """Whether two pages had different scores: until then there is nothing to learn."""
        return self.lowest_scored < self.scored

    @property
    def unknown(self) -> float:
        """What is expected of a page without words."""
        return (self.good + 0.5) / (self.scored + 1)

    def is_good(self, score: float) -> bool:
        """Return whether *score* is above the mean of all so far."""
        return score > self.total / self.scored

    def likely(self, weight: Any) -> Any:
        """Return how likely a page is good, the words of which have together this *weight*; also of many.

        Without words it is the share so far: words only have to learn what differs.
        """
        return 1 / (1 + np.exp(-weight) * (1 / self.unknown - 1))

    def expected(self, places: Ids) -> NDArray[np.float32]:
        """Return how likely the pages of the links at *places* are good; .1 us each."""
        found = np.empty(len(places), np.float32)
        for first in range(0, len(places), _AT_A_TIME):
            rows = self._rows.take(places[first : first + _AT_A_TIME], axis=0)
            found[first : first + _AT_A_TIME] = self.likely(self.weights.take(rows).sum(axis=1))
        return found

    def learn(self, place: int, score: float) -> None:
        """Learn from a page that was read what the words at *place* are worth (0: none), and `release` it.

        NumPy takes 22 us for one page and 75 for `_TOGETHER`, so pages are learned together: as many as are
        1 % of those scored so far.
        """
        self._unlearned.append((place, score))
        if len(self._unlearned) >= min(_TOGETHER, 1 + self.scored // 100):
            self._learn()

    def _learn(self) -> None:
        places = [place for place, _ in self._unlearned]
        scores = np.array([score for _, score in self._unlearned], np.float32)
        self._unlearned = []
        self._free += filter(None, places)
        self._count(scores.tolist())
        if not self.has_learned:
            return
        high = (self.total - self.lowest * self.lowest_scored) / (self.scored - self.lowest_scored)
        truth = np.minimum((scores - self.lowest) / (high - self.lowest), 1.0)
        codes = self._rows[places]
        slopes = self.likely(self.weights[codes].sum(axis=1)) - truth
        each, codes = np.repeat(slopes, WORDS), codes.ravel()
        np.add.at(self._squares, codes, each * each)
        np.subtract.at(self.weights, codes, _RATE * each / np.sqrt(self._squares[codes]))
        self.weights[0] = 0.0  # no word

    def _count(self, scores: list[float]) -> None:
        lowest = min(scores)
        if not self.scored or lowest < self.lowest:
            self.lowest, self.lowest_scored = lowest, 0
        self.lowest_scored += scores.count(self.lowest)
        self.scored += len(scores)
        self.total += sum(scores)
        are_good = list(map(self.is_good, scores))
        self._lately.extend(are_good)
        self.good += sum(are_good)

    # -- restarts --------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Return the model as bytes: 128 KB, nearly all zeros at first."""
        if self._unlearned:
            self._learn()
        numbers = self.scored, self.lowest_scored, self.good, self.lowest, self.total
        learned = np.concatenate((self.weights, self._squares)).astype("<f4").tobytes()
        return _NUMBERS.pack(*numbers) + np.packbits(np.array(self._lately)).tobytes() + learned

    @classmethod
    def decode(cls, stored: bytes) -> Focus:
        """Return the model that `encode` was called on. Raises `UnreadableRow`."""
        focus = cls()
        start = _NUMBERS.size + cls.latest // 8
        learned = np.frombuffer(stored[start:], "<f4") if len(stored) % 4 == start % 4 else focus.weights
        if len(learned) != 2 * SIZE or not abs(learned[:SIZE]).max() < _MOST or not learned[SIZE:].min() > 0:
            raise UnreadableRow(f"a model of {len(stored)} bytes")
        numbers = _NUMBERS.unpack_from(stored)
        focus.scored, focus.lowest_scored, focus.good, focus.lowest, focus.total = numbers
        if not 0 <= focus.lowest_scored <= focus.scored >= focus.good or not isfinite(sum(numbers)):
            raise UnreadableRow(f"a model of {focus.scored} pages")
        focus._lately.extend(np.unpackbits(np.frombuffer(stored[_NUMBERS.size : start], np.uint8)).tolist())
        focus.weights, focus._squares = learned[:SIZE].copy(), learned[SIZE:].copy()
        return focus

    @property
    def good_of_all(self) -> float:
        """The share of good pages among all that were scored."""
        return self.good / max(self.scored, 1)

    @property
    def good_lately(self) -> float:
        """The share of good pages among the ``latest``."""
        return sum(self._lately) / max(min(self.scored, self.latest), 1)
