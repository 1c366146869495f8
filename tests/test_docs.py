"""The documentation holds together, and its tables say what the code does.

Every link leads somewhere, every page is led to; settings, meta keys, stats, signals, add-on, close
reasons, rooms.
"""

from __future__ import annotations

import ast
import importlib
import re
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any

import pytest
import scrapy
from scrapy.settings import Settings

from scrapy_frontier import Scorer, addon, signals
from scrapy_frontier.commands import COMMANDS, COMMON
from scrapy_frontier.core.pages.traps import TRAPS
from scrapy_frontier.core.reasons import OTHER, REASONS
from scrapy_frontier.core.revisits.policy import Result
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import Layout, Row
from scrapy_frontier.crawl import meta_keys, revisits
from scrapy_frontier.crawl.log import refusal_stat
from scrapy_frontier.settings import SCORERS, FrontierSettings

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCE = {path: path.read_text(encoding="utf-8") for path in (ROOT / "scrapy_frontier").rglob("*.py")}
CODE = "\n".join(SOURCE.values())
NAMED = [
    path
    for folder in ("scrapy_frontier", "tests", "benchmarks", "demo_project")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != Path(__file__).resolve()
]

# What the pages name and is neither ours nor Scrapy's.
FOREIGN = {
    "parse_old": "an example",
    "parse_new": "an example",
    "add_seeds": "Frontera",
    "page_db_links": "Aduana",
    "page_db_dump": "Aduana",
    "deltafetch_key": "scrapy-deltafetch",
    "ZYTE_API_PRESERVE_DELAY": "scrapy-zyte-api",
    "fetchTime": "Nutch",
    "fetchInterval": "Nutch",
    "min_interval": "Nutch",
    "max_interval": "Nutch",
    "GLIBC_TUNABLES": "a variable of the C library",
    "isPermaLink": "an attribute of RSS",
    "PageMethod": "scrapy-playwright",
    "waits_for": "an example",
    "SeleniumRequest": "scrapy-selenium",
}


def without_code(text: str) -> str:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^ {4}.*$|`[^`\n]*`", "", text, flags=re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names under which the headings of *page* are linked, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


def links(page: Path) -> list[str]:
    """Where the links of *page* lead within the project."""
    targets = re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8")))
    return [target for target in targets if not re.match(r"https?:", target)]


def led_to(page: Path, target: str) -> Path:
    return (page.parent / target.partition("#")[0]).resolve() if target[0] != "#" else page


def spelled_out(name: str) -> list[str]:
    """The names that a shell makes of *name*, which may have one pair of braces."""
    begin, _, rest = name.partition("{")
    inner, _, end = rest.partition("}")
    return [f"{begin}{each}{end}" for each in inner.split(",")] if rest else [name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_to_a_heading_of_it(page: Path) -> None:
    for target in links(page):
        found, heading = led_to(page, target), target.partition("#")[2]
        assert found.exists(), target
        assert not heading or heading in anchors(found), target


def test_every_page_is_linked_from_another() -> None:
    reached = {led_to(page, target) for page in PAGES for target in links(page)}
    assert [page for page in PAGES[2:] if page not in reached] == []


def test_every_page_is_in_the_site() -> None:
    listed = re.findall(r"- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES[2:])


def test_pages_and_files_are_named_by_their_links_or_by_a_path_that_exists() -> None:
    name_of_a_file = r"(?:docs|tests|benchmarks|scrapy_frontier)/[\w/{,}-]+\.(?:md|py)\b"
    for path in [*PAGES, *NAMED]:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(name_of_a_file if path.suffix == ".md" else f"`({name_of_a_file})`", text):
            for each in spelled_out(name):
                assert (ROOT / each).exists(), (path, name)
        if path.suffix == ".md" and path != ROOT / "CHANGELOG.md":
            assert re.findall(r"`[\w/]*\w+\.md`", text) == [], path


def test_every_name_of_code_that_a_page_gives_is_one() -> None:
    """Functions, classes, settings, keys: what has an underscore or a capital inside, between backquotes."""
    files = [*NAMED, *Path(scrapy.__file__).parent.rglob("*.py")]
    known = {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    known |= {path.stem for path in files}
    told = {
        (name, path.relative_to(ROOT).as_posix())
        for path in PAGES
        for code in re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))
        for name in re.findall(r"\w*(?:[A-Za-z]_[A-Za-z]|[a-z][A-Z])\w*", code)
    }
    unknown = sorted((name, where) for name, where in told if name not in known and name not in FOREIGN)
    assert not unknown, unknown
    assert len(told) > 400


def test_every_command_that_a_page_writes_takes_what_is_written() -> None:
    """Options that Scrapy's commands take, as ``-s``, are not looked at."""
    told = [
        (path, name, re.findall(r" --([a-z-]+)", rest))
        for path in PAGES
        for name, rest in re.findall(
            r"scrapy frontier ([a-z]+)\b([^`\n|]*)", path.read_text(encoding="utf-8")
        )
    ]
    for path, name, options in told:
        assert name in COMMANDS, (path, name)
        assert set(options) <= {*COMMANDS[name].options, *COMMON, "help"}, (path, name, options)
    assert len(told) > 60


# -- tables --------------------------------------------------------------------------------------------------


def page(name: str) -> str:
    return (ROOT / f"docs/reference/{name}.md").read_text(encoding="utf-8")


def first_cells(text: str) -> set[str]:
    """What stands between backquotes in the first cells of a table."""
    return {
        name
        for cell in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
        for name in re.findall("`([^`]+)`", cell)
    }


def test_every_setting_is_in_the_table() -> None:
    files = [ROOT / "scrapy_frontier" / name for name in ("settings.py", "settings.py")]
    settings = "".join(file.read_text(encoding="utf-8") for file in files)
    assert first_cells(page("settings")) == set(re.findall(r'"(FRONTIER_\w+)"', settings))


DEFAULTS = re.findall(r"^\| `(FRONTIER_\w+)` \| ([^|]*?) \|", page("settings"), re.MULTILINE)


@pytest.mark.parametrize(("name", "cell"), DEFAULTS, ids=dict(DEFAULTS))
def test_to_set_a_default_changes_nothing(name: str, cell: str) -> None:
    """So every default in the table is that of the code; what the add-on sets is told beside it."""
    if name == "FRONTIER_DIR":
        assert cell == "`<JOBDIR>/frontier/NAME`"
        return
    if name in addon.SETTINGS:
        assert f"`{addon.SETTINGS[name]}`" in cell
        cell = cell.replace(f"`{addon.SETTINGS[name]}`", "")
    [told, *_] = re.findall(r"`[^`]+`|True|False|none|[\d.][\d., ]*", cell)
    value = told.strip("`, ")
    with suppress(ValueError, SyntaxError):
        value = None if value == "none" else ast.literal_eval(value)
    others = {} if name == "FRONTIER_REVISIT" else {"FRONTIER_REVISIT": "adaptive"}
    default, same = (vars(FrontierSettings(Settings(each))) for each in (others, {**others, name: value}))
    assert repr(same) == repr(default)


def test_every_stat_is_in_the_table() -> None:
    found = {
        name for name in re.findall(r'"(frontier/[\w/]*\w)"', CODE) if not name.startswith("frontier/pages")
    }
    found |= {refusal_stat(kind) for kind in (*TRAPS, "deferred", "over_budget", "foreign")}
    stats = first_cells(page("stats"))
    assert stats == found | {"frontier/pages/<state>", "frontier/reasons/<code>"}
    assert all(re.fullmatch(r"frontier(/[a-z_]+|/<[a-z]+>)+", name) for name in stats)
    states = re.search(r"`frontier/pages/<state>` \| ([^|]*)", page("stats"))
    assert states is not None
    named = set(re.findall(r"`(\w+)`", states[1]))
    assert named == {state.name.lower() for state in State if state is not State.LEASED}


def test_the_codes_of_reasons_are_listed() -> None:
    (row,) = re.findall(r"^\| `frontier/reasons/<code>` \| ([^|]*) \|", page("stats"), re.MULTILINE)
    assert re.findall(r"`([a-z_]+)`", row.partition("codes:")[2]) == [reason.code for reason in REASONS]
    assert f"`{OTHER}`" in row


def test_every_meta_key_is_in_the_table() -> None:
    code = SOURCE[ROOT / "scrapy_frontier/crawl/meta_keys.py"]
    ours = set(re.findall(r'^[A-Z_]+ = "(frontier_\w+)"', code, re.MULTILINE))
    assert meta_keys.LAST_VISIT in ours
    assert first_cells(page("meta-keys")) == ours | {"download_slot"}


def test_every_reason_to_close_and_every_error_of_a_command_is_named() -> None:
    closing = first_cells(page("close-reasons"))
    errors = {name for name in first_cells(page("commands")) if name.startswith("frontier_")}
    assert closing | errors == set(re.findall(r'^    reason = "(\w+)"', CODE, re.MULTILINE))
    rooms = {"commands", "admin", "live"}
    beside = [code for path, code in SOURCE.items() if rooms & set(path.relative_to(ROOT).parts)]
    assert errors - closing == set(re.findall(r'^    reason = "(\w+)"', "".join(beside), re.MULTILINE))


def sent_signals() -> dict[str, set[str]]:
    """Each of our signals that the code sends, and with which arguments."""
    found: dict[str, set[str]] = {}
    for text in SOURCE.values():
        nodes = list(ast.walk(ast.parse(text)))
        spread = {
            ast.unparse(node.targets[0]): {
                key.value for key in node.value.keys if isinstance(key, ast.Constant)
            }
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        }
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        passed_on = [call for call in calls if ast.unparse(call).startswith("crawler.signals.send_")]
        for call in calls:
            for name in re.findall(r"\bsignals\.(page_\w+)", " ".join(map(ast.unparse, call.args))):
                adds = passed_on if ast.unparse(call.func) == "self._send" else []
                for keyword in (each for one in (call, *adds) for each in one.keywords):
                    more = {keyword.arg} if keyword.arg else spread.get(ast.unparse(keyword.value), set())
                    found.setdefault(name, set()).update(more)
    return found


def test_every_signal_is_told_with_its_arguments() -> None:
    told = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## )", page("signals"), re.MULTILINE | re.DOTALL))
    ours = {name for name, value in vars(signals).items() if type(value) is object}
    assert {name: first_cells(text) - {"argument"} for name, text in told.items()} == sent_signals()
    assert set(told) == ours
    (row,) = re.findall(r"^\| `reason` \| `str` \| (.*) \|$", told["page_gone"], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == set(revisits._HOW_GONE.values())


def test_what_the_addon_changes_is_listed() -> None:
    text = page("addon")
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", text, re.MULTILINE))
    assert rows == {
        "SCHEDULER": addon.SCHEDULER,
        **{name: str(value) for name, value in addon.SETTINGS.items()},
    }
    components = {path: order for given in addon.COMPONENTS.values() for path, order in given.items()}
    orders = re.findall(r"^\| `(\w+)` \| [a-z ]+ \| (\d+) \|", text, re.MULTILINE)
    assert dict(orders) == {path.rpartition(".")[2]: str(order) for path, order in components.items()}
    replaced = re.findall(r"^\| `(\w+)` \| (?:in the place of|a subclass)", text, re.MULTILINE)
    assert set(replaced) == {path.rpartition(".")[2] for path in addon.REPLACED}


def test_the_scorer_of_the_guide_is_one() -> None:
    text = (ROOT / "docs/order.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    scorer = names["SeedsFirst"]()
    assert isinstance(scorer, Scorer)
    assert [scorer.discovered(0), scorer.discovered(1, parent=0)] == [2.0, 1.0]
    assert first_cells(text) == set(SCORERS)


def test_every_room_is_in_the_architecture() -> None:
    text = (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8")
    doors = {path.parent.relative_to(ROOT).as_posix() + "/" for path in SOURCE if path.name == "__init__.py"}
    rooms = {cell for cell in first_cells(text) if "/" in cell}
    assert rooms == doors
    assert first_cells(text) - rooms == {state.name.lower() for state in State}


def told_format() -> str:
    return (ROOT / "docs/internals/format.md").read_text(encoding="utf-8")


def test_the_format_names_all_layouts_that_rows_have() -> None:
    rooms = [path.stem for path in (ROOT / "scrapy_frontier/core/store").glob("*.py")]
    modules = [importlib.import_module(f"scrapy_frontier.core.store.{room}") for room in rooms]
    kept = [each for module in modules for each in vars(module).values()]
    several = [each for group in kept if isinstance(group, tuple) for each in group]
    layouts = {each.format for each in kept + several if isinstance(each, Struct)}
    layouts |= {">" + each.fields for each in kept if isinstance(each, Layout)}
    layouts |= {">" + each.layout.fields for each in kept if type(each) is Row}
    ours = {layout for layout in layouts if layout[0] == ">"}  # LevelDB's own begin with the lowest byte
    assert set(re.findall(r"`(>[\w?]+)`", told_format())) == ours
    assert len(ours) > 15


def test_the_format_names_what_the_numbers_in_visits_mean() -> None:
    (met,) = re.findall(r"^- What bad visits met: (.*?)\.$", told_format(), re.MULTILINE | re.DOTALL)
    assert [int(each.split()[0]) for each in re.split(r",\s", met)] == list(map(int, Result))
