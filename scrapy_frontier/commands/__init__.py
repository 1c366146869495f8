"""``scrapy frontier``: look inside a crawl, stopped or running, and steer it.

Every ``scrapy`` command imports this module, so it imports nothing but Scrapy's own base class: what a
command does is imported when it runs. `COMMANDS` is the one list of them.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from typing import TypedDict

if TYPE_CHECKING:

    class Option(TypedDict, total=False):
        action: str
        default: None
        type: Callable[[str], object]
        metavar: str
        choices: list[str]
        help: str


class Spec(NamedTuple):
    """A command: what follows its name, how many arguments that is, its options, and what it does.

    The function of the same name in *module* does it (``import_`` for ``import``). With ``--json`` one that
    tells lines gives JSON Lines, all else one document.
    """

    module: str
    does: str
    arguments: str = ""
    least: int = 0
    most: int | None = 0
    options: tuple[str, ...] = ()


COMMANDS: dict[str, Spec] = {
    "stats": Spec("look", "pages by state, hosts, attempts, size on disk"),
    "hosts": Spec("look", "hosts, most queued pages first", options=("limit",)),
    "queue": Spec("look", "what comes next, in order", options=("limit", "host", "due")),
    "find": Spec("look", "pages whose URL matches", "[REGEXP]", 0, 1, ("limit", "changed-since")),
    "why": Spec("look", "why a page is in its state, in a sentence", "URL", 1, 1, ("record",)),
    "links": Spec(
        "graph", "links of a page, or all in a file", "[URL]", 0, 1, ("in", "out", "limit", "graph")
    ),
    "top": Spec("graph", "pages with the best scores", options=("by", "host", "limit")),
    "report": Spec("report", "the whole crawl as charts on one page of HTML", "FILE", 1, 1),
    "add": Spec("steer", "queue pages", "URL...", 0, None, ("priority", "file", "pattern", "force")),
    "requeue": Spec("steer", "queue finished pages again", options=("state", "host", "match", "force")),
    "forget": Spec("steer", "remove all that is known of a page", "[URL]", 0, 1, ("host",)),
    "delay": Spec("steer", "leave SECONDS between visits (or: default)", "HOST SECONDS", 2, 2, ("yes",)),
    "block": Spec("steer", "visit a host no more; its pages stay queued", "HOST", 1, 1, ("yes",)),
    "unblock": Spec("steer", "visit a blocked host again", "HOST", 1, 1, ("yes",)),
    "pause": Spec("steer", "have a running crawl hand out nothing more; it stays open"),
    "resume": Spec("steer", "have a paused crawl go on"),
    "stop": Spec("steer", "have a running crawl end, as by Ctrl-C"),
    "reset": Spec("steer", "remove the whole frontier; asks first", options=("yes",)),
    "check": Spec("maintain", "is everything as it must be?", options=("repair",)),
    "export": Spec("maintain", "the frontier, or one host, into a file", "FILE", 1, 1, ("host",)),
    "import": Spec(
        "maintain",
        "fill an empty directory from such a file; or take an old queue along",
        "[FILE]",
        0,
        1,
        ("jobdir", "redis"),
    ),
}

# Options of some commands, as argparse takes them. No help has a colon: if one ends a
# line, Scrapy makes that line a heading.
_SWITCH: Option = {"action": "store_true", "default": None}
OPTIONS: dict[str, Option] = {
    "limit": {
        "type": int,
        "metavar": "N",
        "help": "at most N lines, or all with 0; else 20 (find, links all)",
    },
    "host": {"metavar": "HOST", "help": "only pages of this host"},
    "state": {"metavar": "STATE[,STATE]", "help": "only pages in these states; else failed"},
    "match": {"metavar": "REGEXP", "help": "only pages whose URL matches"},
    "priority": {"type": int, "metavar": "N", "help": "priority of the pages; else 0"},
    "file": {"metavar": "FILE", "help": "read URLs from FILE, one a line; - is standard input"},
    "pattern": {"metavar": "REGEXP", "help": "from there, follow only links whose URL matches"},
    "force": {**_SWITCH, "help": "fetch it though it is known and has not changed, and call the callback"},
    "due": {**_SWITCH, "help": "when finished pages come back, soonest first"},
    "changed-since": {"metavar": "SPAN", "help": "only pages new or changed since, as 24h or 7d"},
    "by": {
        "choices": ["pagerank", "authority", "hub", "cash", "score"],
        "help": "by which score; else score, the crawl's own",
    },
    "record": {**_SWITCH, "help": "print all that is known of the page, too"},
    "in": {**_SWITCH, "help": "only the links to it"},
    "out": {**_SWITCH, "help": "only the links on it; no pass over the graph"},
    "graph": {"metavar": "FILE", "help": "write all links to FILE (.graphml .csv)"},
    "jobdir": {"metavar": "DIR", "help": "what Scrapy's own scheduler left queued in the JOBDIR DIR"},
    "redis": {"metavar": "URL KEY", "help": "what scrapy-redis keeps under KEY, as NAME:requests"},
    "repair": {**_SWITCH, "help": "mend what is wrong"},
    "yes": {**_SWITCH, "help": "do not ask; order it of an unknown host, too"},
}
# Options that every command takes.
COMMON: dict[str, Option] = {
    "spider": {"metavar": "NAME", "help": "use the settings of this spider"},
    "dir": {"metavar": "DIR", "help": "the frontier's directory, or a JOBDIR"},
    "json": {"action": "store_true", "help": "JSON instead of text; JSON Lines for lists"},
}


_HELP_AT = 26  # column of an option's explanation


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
        group = parser.add_argument_group(title="Frontier Options")
        for name, how in COMMON.items():
            group.add_argument(f"--{name}", **how)
        for name, how in OPTIONS.items():
            takers = ", ".join(command for command, spec in COMMANDS.items() if name in spec.options)
            option: Option = {**how, "help": f"{how['help']} ({takers})"}
            group.add_argument(f"--{name}", **option)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Reads the options as Scrapy does; `UsageError` names a setting that should be a dict."""
        assert self.settings is not None
        name = value = ""
        try:
            for name, is_set, value in (given.partition("=") for given in opts.set):
                if is_set:
                    self.settings.set(name, value, "cmdline")
        except (AttributeError, TypeError, ValueError) as error:
            words = f"{name} = {value!r}: set a dict in JSON, with names in double quotes"
            raise UsageError(words, print_help=False) from error
        super().process_options(args, opts)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Runs the command that *args* begin with, and keeps its exit code as ``exitcode``; without a command
        prints a list of them. Raises `UsageError`."""
        if args[:1] == ["help"]:
            opts.help, args = len(args) > 1, args[1:]
        if not args:
            self._parser.print_help() if opts.help else print(overview())
            return
        name, arguments = args[0], args[1:]
        if opts.help and name in COMMANDS:
            print(description(name))
            return
        refuse_nonsense(name, arguments, opts)
        from .call import run

        assert self.settings is not None
        self.exitcode = run(COMMANDS[name], name, arguments, opts, self.settings)


def refuse_nonsense(name: str, arguments: list[str], opts: argparse.Namespace) -> None:
    """Raises `UsageError` for what argparse lets through: unknown commands and options, options that the
    command *name* does not take, too few or too many arguments."""
    spec = COMMANDS.get(name)
    unknown = [argument for argument in arguments if argument.startswith("--")]
    if name.startswith("-") or unknown:
        option = unknown[0] if unknown else name
        likely = _likely(option, (*COMMON, *OPTIONS), "--") or "; see `scrapy frontier --help`"
        raise UsageError(f"there is no option {option}{likely}")
    if spec is None:
        raise UsageError(
            f"there is no command {name!r}{_likely(name, COMMANDS)}; there are: {', '.join(COMMANDS)}"
        )
    for option in OPTIONS:
        if getattr(opts, option.replace("-", "_")) is not None and option not in spec.options:
            raise UsageError(f"{name} takes no --{option}; write: scrapy frontier {usage(name)}")
    if len(arguments) < spec.least or (spec.most is not None and len(arguments) > spec.most):
        raise UsageError(f"write: scrapy frontier {usage(name)}")


def _likely(written: str, known: Iterable[str], before: str = "") -> str:
    """Returns the end of a sentence that suggests names of *known*, with *before* in front; or nothing."""
    from difflib import get_close_matches

    name = written.removeprefix(before).partition("=")[0].lower()
    found = [before + each for each in get_close_matches(name, list(known), 2)]
    return f": did you mean {' or '.join(found)}?" if found else ""


def usage(name: str) -> str:
    """Returns a command of `COMMANDS` with its arguments and options, as it is written."""
    spec = COMMANDS[name]
    options = [f"[--{option}]" for option in spec.options]
    return " ".join([name, *filter(None, [spec.arguments]), *options])


def description(name: str) -> str:
    """Returns the help of a command of `COMMANDS`, within 80 columns."""
    spec = COMMANDS[name]
    lines = [f"Usage: scrapy frontier {usage(name)}", "", f"  {spec.does}", "", "Options"]
    for option, how in {**{each: OPTIONS[each] for each in spec.options}, **COMMON}.items():
        taken = how.get("metavar", "|".join(how.get("choices", [])))
        head = f"  --{option} {taken}".rstrip()
        help_lines = textwrap.wrap(how["help"], 80 - _HELP_AT)
        if len(head) < _HELP_AT:
            head = f"{head:{_HELP_AT}}{help_lines.pop(0)}"
        lines += [head, *(f"{'':{_HELP_AT}}{line}" for line in help_lines)]
    return "\n".join(lines)


def overview() -> str:
    """Returns a list of all commands, a line or two each, within 80 columns."""
    lines = ["Usage: scrapy frontier COMMAND [arguments] [options]", ""]
    for name, spec in COMMANDS.items():
        how = usage(name)
        if len(how) > 29:
            lines += [f"  {how}", f"  {'':29} {spec.does}"]
        else:
            lines.append(f"  {how:29} {spec.does}")
    lines += [
        "",
        "Each takes --spider NAME (the settings of a spider), --dir DIR (the frontier's",
        "directory, or a JOBDIR) and --json.",
    ]
    return "\n".join(lines)
