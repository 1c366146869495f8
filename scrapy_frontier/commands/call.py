"""One call of a command: what it is given, and how it ends: never in a traceback for what users meet."""

from __future__ import annotations

import contextlib
import keyword
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import FrontierError, UnreadableRow
from .hosts_as_written import host_argument
from .output import Output
from .project import Project

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from scrapy.settings import Settings

    from ..core.store.leveldb import Store
    from . import Spec

EXIT_FAILED = 1
INTERRUPTED = 130  # as shells have it


_REMEDIES = {
    PermissionError: "; make it readable and writable for this user",
    FileNotFoundError: "; write another path, or make what is missing",
    IsADirectoryError: "; write the path of a file",
    FileExistsError: "; write another path, where a directory is or can be made",
    NotADirectoryError: "; write another path, where a directory is or can be made",
}


class Call(NamedTuple):
    """What a command works with. A command returns its exit code, or nothing where that is always 0; it
    raises `FrontierError`, `UnreadableRow`, `OSError` or `UsageError`, which `run` tells."""

    project: Project
    output: Output
    arguments: list[str]
    options: argparse.Namespace

    def host(self, store: Store) -> str | None:
        """The host that ``--host`` names, None without. Raises `UsageError` for a name that is none."""
        return None if self.options.host is None else host_argument(self.project, store, self.options.host)


def run(spec: Spec, name: str, arguments: list[str], options: argparse.Namespace, settings: Settings) -> int:
    """Run a command to its exit code: its own, 1 for what it could not do, which is told, 130 if it was
    interrupted. Raises only `UsageError`."""
    module = import_module(f".{spec.module}", __package__)
    command: Callable[[Call], int | None] = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
    _stand_in_for_closed()
    output = Output(sys.stdout, as_json=options.json)
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


def _stand_in_for_closed() -> None:
    """What is written to standard output or error goes nowhere where the shell has closed it (``>&-``): there
    Python has None, and a file of the frontier would get its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end


def _fail(output: Output, error: Exception) -> int:
    message = str(error)
    if isinstance(error, UnreadableRow):
        message += ": run `scrapy frontier check`"
    elif isinstance(error, OSError) and error.filename is not None:
        message = f"{error.filename}: {error.strerror}{_REMEDIES.get(type(error), '')}"
    reason = getattr(error, "reason", "frontier_error")
    try:
        output.failure(reason, message)
    except OSError:  # nobody reads it, or its disk is full
        _close_stdout()
    return EXIT_FAILED


def _close_stdout() -> None:
    """Keep the interpreter from meeting the closed pipe again when it flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # not a real file: in a test
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
