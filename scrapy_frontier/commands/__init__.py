"""``scrapy frontier``: look inside a crawl, stopped or running, and steer it.

Every ``scrapy`` command imports this module, so it imports nothing but Scrapy's own base class: what a
command does is imported when it runs. `COMMANDS` is the one list of them.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Spec(NamedTuple):
    """A command: what it does, the arguments that follow its name, and its options.

    The function of the same name in *module* does it (``import_`` for ``import``). With ``--json`` one that
    tells lines gives JSON Lines, all else one document.
    """

    module: str
    does: str
    arguments: str = ""
    options: tuple[str, ...] = ()


COMMANDS: dict[str, Spec] = {
    "stats": Spec("look", "pages by state, hosts, attempts, size on disk"),
    "hosts": Spec("look", "hosts, most queued pages first", options=("limit",)),
    "queue": Spec("look", "what comes next, in order", options=("limit", "host")),
    "find": Spec("look", "pages whose URL matches", "REGEXP", ("limit",)),
    "why": Spec("look", "why a page is in its state, in a sentence", "URL"),
    "links": Spec("graph", "links of a page, or all in a file", "[URL]", ("in", "out", "limit", "graph")),
    "top": Spec("graph", "pages with the best scores", options=("by", "host", "limit")),
    "report": Spec("report", "the whole crawl as charts on one page of HTML", "FILE"),
    "shards": Spec("look", "a crawl of several processes: which has what, and how far"),
    "add": Spec("steer", "queue pages", "URL...", ("priority", "file", "pattern", "force")),
    "requeue": Spec("steer", "queue finished pages again", options=("state", "host", "match", "force")),
    "forget": Spec("steer", "remove all that is known of a page", "[URL]", ("host",)),
    "delay": Spec("steer", "leave SECONDS between visits (or: default)", "HOST SECONDS"),
    "block": Spec("steer", "visit a host no more; its pages stay queued", "HOST"),
    "unblock": Spec("steer", "visit a blocked host again", "HOST"),
    "pause": Spec("steer", "have a running crawl hand out nothing more; it stays open"),
    "resume": Spec("steer", "have a paused crawl go on"),
    "stop": Spec("steer", "have a running crawl end, as by Ctrl-C"),
    "reset": Spec("steer", "remove the whole frontier; asks first", options=("yes",)),
    "check": Spec("maintain", "is everything as it must be?", options=("repair",)),
    "export": Spec("maintain", "the frontier, or one host, as gzipped JSON lines", "FILE", ("host",)),
    "import": Spec(
        "maintain", "fill a frontier from such a file, or from an old queue", "[FILE]", ("jobdir", "redis")
    ),
}

# Options of some commands, as argparse takes them. No help has a colon: if one ends a
# line, Scrapy makes that line a heading.
_SWITCH: dict[str, Any] = {"action": "store_true", "default": None}
OPTIONS: dict[str, dict[str, Any]] = {
    "limit": {
        "type": int,
        "metavar": "N",
        "help": "at most N lines, or all with 0; else 20 (find, links all)",
    },
    "host": {"metavar": "HOST", "help": "only pages of this host"},
    "state": {"metavar": "STATE[,STATE]", "help": "only pages in these states; else failed"},
    "match": {"metavar": "REGEXP", "help": "only pages whose URL matches"},
    "priority": {"type": int, "metavar": "N", "help": "priority of the pages; else 0"},
    "file": {"metavar": "FILE", "help": "read URLs from FILE, one a line"},
    "pattern": {"metavar": "REGEXP", "help": "from there, follow only links whose URL matches"},
    "force": {**_SWITCH, "help": "fetch it though it is known and has not changed, and call the callback"},
    "by": {
        "choices": ["pagerank", "authority", "hub", "cash", "score", "focus"],
        "help": "by which score; else score, the crawl's own",
    },
    "in": {**_SWITCH, "help": "only the links to it"},
    "out": {**_SWITCH, "help": "only the links on it; no pass over the graph"},
    "graph": {"metavar": "FILE", "help": "write all links to FILE, in GraphML"},
    "jobdir": {"metavar": "DIR", "help": "what Scrapy's own scheduler left queued in the JOBDIR DIR"},
    "redis": {"metavar": "URL KEY", "help": "what scrapy-redis keeps under KEY, as NAME:requests"},
    "repair": {**_SWITCH, "help": "mend what is wrong"},
    "yes": {**_SWITCH, "help": "do not ask"},
}
# Options that every command takes.
COMMON: dict[str, dict[str, Any]] = {
    "spider": {"metavar": "NAME", "help": "use the settings of this spider"},
    "dir": {"metavar": "DIR", "help": "the frontier's directory, or a JOBDIR"},
    "json": {"action": "store_true", "help": "JSON instead of text; JSON Lines for lists"},
}


class Command(ScrapyCommand):
    """``scrapy frontier``: one command of Scrapy's, which runs those of `COMMANDS`."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "COMMAND [arguments] [options]"

    def short_desc(self) -> str:
        return "Look inside a crawl's frontier, and steer it"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}, stopped or running. Commands: {', '.join(COMMANDS)}. "
            "`scrapy frontier` alone says what each does, and `scrapy frontier COMMAND --help` what it takes."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        self._parser = parser
        # argparse would print the help of all commands before it has read which is meant.
        parser.add_argument("-h", "--help", action="store_true", help="show this help message and exit")
        _add(parser.add_argument_group(title="Frontier Options"), COMMON)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Runs the command that *args* begin with, and keeps its exit code as ``exitcode``; without a command
        prints a list of them. Raises `UsageError`."""
        if args[:1] == ["help"]:
            opts.help, args = len(args) > 1, args[1:]
        if not args:
            self._parser.print_help() if opts.help else print(overview())
            return
        name = args[0]
        if name not in COMMANDS:
            raise UsageError(f"there is no command {name!r}; there are: {', '.join(COMMANDS)}")
        if opts.help:
            print(parser_of(name).format_help(), end="")
            return
        parser_of(name).parse_intermixed_args(args[1:], opts)
        from .call import run

        assert self.settings is not None
        self.exitcode = run(COMMANDS[name], name, opts, self.settings)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {' '.join(self.format_usage().split())}")


def parser_of(name: str) -> argparse.ArgumentParser:
    """Returns a parser of what follows the *name* of a command, which raises `UsageError`. An argument is
    named as in its `Spec`."""
    spec, about = COMMANDS[name], f"{COMMANDS[name].does[0].upper()}{COMMANDS[name].does[1:]}."
    parser = _Parser(f"scrapy frontier {name}", description=about, add_help=False, allow_abbrev=False)
    for word in spec.arguments.split():
        nargs = "*" if word.endswith("...") else "?" if word.startswith("[") else None
        parser.add_argument(word, nargs=nargs, metavar=word.strip("[]."))
    _add(parser, {option: OPTIONS[option] for option in spec.options})
    _add(parser, {option: {**how, "default": argparse.SUPPRESS} for option, how in COMMON.items()})
    return parser


def _add(parser: argparse._ActionsContainer, options: Mapping[str, dict[str, Any]]) -> None:
    for name, how in options.items():
        parser.add_argument(f"--{name}", **how)


def overview() -> str:
    """Returns a list of all commands, a line each, within 80 columns."""
    lines = ["Usage: scrapy frontier COMMAND [arguments] [options]", ""]
    lines += [f"  {f'{name} {spec.arguments}':19} {spec.does}" for name, spec in COMMANDS.items()]
    lines += [
        "",
        "Each takes --spider NAME (the settings of a spider), --dir DIR (the frontier's",
        "directory, or a JOBDIR) and --json; COMMAND --help lists its other options.",
    ]
    return "\n".join(lines)
