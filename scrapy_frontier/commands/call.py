"""Runs one command with its arguments; an error prints one line, not a traceback."""

from __future__ import annotations

import contextlib
import keyword
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import UsageError

from ..core.admin import facts
from ..core.errors import FrontierError, UnreadableRow
from ..core.parse.urls import clean_host
from .output import Output
from .project import Project, host_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from scrapy.settings import Settings

    from ..core.store.leveldb import Store
    from . import Spec

EXIT_FAILED = 1
INTERRUPTED = 130  # as shells have it


class Call(NamedTuple):
    """What a command works with.

    A command returns its exit code, or None for 0; it raises `FrontierError`, `UnreadableRow`, `OSError` or
    `UsageError`, which `run` prints.
    """

    project: Project
    output: Output
    arguments: list[str]
    options: argparse.Namespace

    def host(self, store: Store) -> str | None:
        """Returns the host that ``--host`` names, or None. Raises `UsageError`."""
        return None if self.options.host is None else host_argument(store, self.options.host)


def run(spec: Spec, name: str, options: argparse.Namespace, settings: Settings) -> int:
    """Runs a command and returns its exit code: its own, 1 after an error, 130 after Ctrl-C. Raises
    `UsageError` alone."""
    module = import_module(f".{spec.module}", __package__)
    command: Callable[[Call], int | None] = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
    output = Output(sys.stdout, as_json=options.json)
    jobdir = getattr(options, "jobdir", None)
    if jobdir is not None and not settings["JOBDIR"]:
        settings.set("JOBDIR", jobdir, "cmdline")
    arguments = []
    for word in spec.arguments.split():
        given = getattr(options, word)
        arguments += given if isinstance(given, list) else [] if given is None else [given]
    try:
        project = Project(settings, options.dir, options.spider, f"scrapy frontier {name}")
        code = command(Call(project, output, arguments, options))
        output.file.flush()
        return code or 0
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough
        _close_stdout()
        return 0
    except (FrontierError, UnreadableRow, OSError) as error:
        return _fail(output, error)


def _fail(output: Output, error: Exception) -> int:
    message = str(error)
    if isinstance(error, UnreadableRow):
        message += ": run `scrapy frontier check`"
    elif isinstance(error, OSError) and error.filename is not None:
        message = f"{error.filename}: {error.strerror}"
    reason = getattr(error, "reason", "frontier_error")
    try:
        output.failure(reason, message)
    except OSError:  # the pipe is closed, or its disk is full
        _close_stdout()
    return EXIT_FAILED


def _close_stdout() -> None:
    """Keeps the interpreter from writing into the closed pipe again when it flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # not a real file: in a test
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def host_argument(store: Store, text: str) -> str:
    """Returns the name of the queue that a user means by *text*: the name of a queue as it is written, else
    the host of a URL or a host name. Raises `UsageError` if there is none in it."""
    written = clean_host(text)
    if written and facts.has_queue(store, written):
        return written
    name = host_in(text)
    if not name:
        raise UsageError(f"{text!r} names no host: write the name of a host, as www.example.com")
    return name
