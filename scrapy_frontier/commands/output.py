"""Prints the answer of a command, as text within 80 columns or as JSON, and progress on standard error.

What comes from the web is printed with its control characters escaped: a URL must not steer a terminal.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import sys
import textwrap
import time
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeVar

from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

T = TypeVar("T")

WIDEST = 80
_LABEL = 14
_PROGRESS_AFTER = 2.0  # seconds, and between two reports


class Column(NamedTuple):
    """A column of a table: its *width* in characters; the last one takes what room is left, whatever its
    own."""

    title: str
    width: int
    is_number: bool = False


class Output:
    """Writes the answer of one command to *file*: text within 80 columns, or JSON.

    A command gives both; what is not wanted is not written.
    """

    def __init__(self, file: TextIO, as_json: bool = False) -> None:
        self.file = file
        self.as_json = as_json
        self._width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)

    def line(self, text: str = "") -> None:
        """Prints *text* as a line, not escaped and not wrapped; as JSON nothing."""
        if not self.as_json:
            self.file.write(text + "\n")

    def document(self, answer: dict[str, object]) -> None:
        """Prints the JSON document of a command, or one line of many; as text nothing."""
        if self.as_json:
            self.file.write(json.dumps(answer, allow_nan=False) + "\n")

    def answer(self, document: dict[str, object], text: str) -> None:
        """Prints *document* as a line of JSON if ``as_json``, else *text* as a paragraph."""
        self.document(document)
        self.text(text)

    def text(self, text: str) -> None:
        """Prints a paragraph, wrapped and escaped."""
        for line in wrap(text, self._width):
            self.line(line)

    def fields(self, named: Iterable[tuple[str, object]]) -> None:
        """Prints named values, one below the other, wrapped and escaped; None is left out."""
        for name, value in named:
            if value is None:
                continue
            lines = wrap(str(value), self._width - _LABEL) or [""]
            self.line(f"{name:<{_LABEL}}{lines[0]}".rstrip())
            for line in lines[1:]:
                self.line(" " * _LABEL + line)

    def listing(
        self,
        items: Iterable[T],
        document: Callable[[T], dict[str, object]],
        columns: list[Column],
        row: Callable[[T], tuple[object, ...]],
    ) -> int:
        """Prints *items* as they come, each a line of JSON, or a row of a table that is cut to 80 characters
        at most and escaped; returns their number."""
        self.line(self._row(columns, [column.title for column in columns]))
        count = 0
        for count, item in enumerate(items, 1):  # noqa: B007 - the last one is their number
            if self.as_json:
                self.document(document(item))
            else:
                self.line(self._row(columns, [printable(str(cell)) for cell in row(item)]))
        return count

    def _row(self, columns: list[Column], cells: list[str]) -> str:
        line = ""
        for column, cell in zip(columns[:-1], cells[:-1], strict=True):
            cut = shorten(cell, column.width)
            line += f"{cut:>{column.width}}  " if column.is_number else f"{cut:<{column.width}}  "
        return (line + shorten(cells[-1], self._width - len(line))).rstrip()

    def failure(self, reason: str, message: str) -> None:
        """Prints why the command failed: on standard error, and as JSON if wanted."""
        print(f"scrapy frontier: {printable(message)}", file=sys.stderr)
        self.document({"error": reason, "message": message})
        self.file.flush()


def printable(text: str) -> str:
    """Escapes everything in *text* that is no plain character, so that it steers no terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode()
        for char in text
    )


def shorten(text: str, width: int) -> str:
    """Cuts *text* in its middle to *width* characters: the end of a URL says more than the middle."""
    if len(text) <= width:
        return text
    if width < 8:
        return text[: max(width - 1, 0)] + "~"
    tail = (width - 2) // 2
    return f"{text[: width - 2 - tail]}..{text[len(text) - tail :]}"


def wrap(text: str, width: int) -> list[str]:
    """Wraps *text* in lines of *width*, escaped; a long URL is broken, and nothing is lost."""
    return textwrap.wrap(printable(text), max(width, 20), break_on_hyphens=False)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yields a new file beside *target* (or beside the file that a link leads to), which takes its place when
    the block ends well.

    Raises `OSError` about *target* at once if it cannot be written, and `UsageError` for what is no file.
    """
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is no file: write the path of one")
    target = target.resolve()
    # A name that no other file has, with what a file system allows for names.
    partial = target.with_name(f"{target.name[:50]}.{secrets.token_hex(8)}.part")
    try:
        partial.open("xb").close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def progress(items: Iterable[T], doing: str, total: int | None = None) -> Iterator[T]:
    """Passes *items* on, and prints on standard error every two seconds how many there were, of *total*.
    *doing* names what is counted."""
    begin = said = time.monotonic()
    is_terminal = sys.stderr.isatty()
    for count, item in enumerate(items, 1):
        yield item
        if (now := time.monotonic()) - said >= _PROGRESS_AFTER:
            said = now
            share = f" of {total:,} ({min(100 * count // total, 100)} %)" if total else ""
            text = f"{doing}: {count:,}{share}, {now - begin:.0f} s"
            print(f"\r{text:<79}" if is_terminal else text, end="" if is_terminal else "\n", file=sys.stderr)
            sys.stderr.flush()
    if is_terminal and said != begin:
        print(file=sys.stderr)
