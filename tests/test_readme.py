"""The README's tables and commands are compared with the code."""

from __future__ import annotations

import re
from pathlib import Path

from scrapy_frontier import addon
from scrapy_frontier.core.parse.redirects import REFUSALS
from scrapy_frontier.core.store.states import State
from scrapy_frontier.crawl import meta_keys, outlinks

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SOURCE = {path: path.read_text(encoding="utf-8") for path in (ROOT / "scrapy_frontier").rglob("*.py")}
CODE = "\n".join(SOURCE.values())


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def first_cells(text: str) -> set[str]:
    """What stands between backquotes in the first cells of a table."""
    return {
        name
        for cell in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
        for name in re.findall("`([^`]+)`", cell)
    }


def test_it_is_short_and_narrow() -> None:
    lines = README.splitlines()
    assert len(lines) <= 250
    assert all(len(line) <= 120 for line in lines if not line.startswith("|"))


def test_every_setting_is_in_the_table() -> None:
    settings = (ROOT / "scrapy_frontier/settings.py").read_text(encoding="utf-8")
    assert first_cells(section("Settings")) == set(re.findall(r'"(FRONTIER_\w+)"', settings))


def test_the_defaults_are_those_of_the_code() -> None:
    from scrapy.settings import Settings

    from scrapy_frontier.settings import FrontierSettings

    defaults = FrontierSettings.from_settings(Settings())
    table = dict(re.findall(r"^\| `(FRONTIER_\w+)` \| (\d+)", section("Settings"), re.MULTILINE))
    assert table == {
        "FRONTIER_MAX_ATTEMPTS": f"{defaults.max_attempts}",
        "FRONTIER_RETRY_DELAY": f"{defaults.retry_delay:g}",
        "FRONTIER_RETRY_DELAY_MAX": f"{defaults.retry_delay_max:g}",
        "FRONTIER_LEASE_TIMEOUT": f"{defaults.lease_timeout:g}",
        "FRONTIER_SYNC_INTERVAL": f"{defaults.sync_interval:g}",
        "FRONTIER_HOST_PAGES": f"{defaults.limits.host_pages}",
        "FRONTIER_HOST_PENDING": f"{defaults.limits.host_pending}",
        "FRONTIER_DEPTH": f"{defaults.limits.depth}",
        "FRONTIER_PATH_DEPTH": f"{defaults.traps.depth}",
        "FRONTIER_REPEATED_SEGMENTS": f"{defaults.traps.repeats}",
        "FRONTIER_REDIRECT_MAX_HOSTS": f"{defaults.redirects.most_hosts}",
        "FRONTIER_ROBOTS_TIMEOUT": f"{defaults.robots_timeout:g}",
        "FRONTIER_END_WAIT": f"{defaults.end_wait:g}",
        "FRONTIER_CRAWL_DELAY_MAX": f"{defaults.crawl_delay_max:g}",
        "FRONTIER_COOLDOWN": f"{defaults.cooldown.first:g}",
        "FRONTIER_COOLDOWN_MAX": f"{defaults.cooldown.longest:g}",
        "FRONTIER_DELAY_FACTOR": f"{defaults.pace.factor:g}",
        "FRONTIER_DOMAIN_RATE": f"{defaults.domain_rate:g}",
        "FRONTIER_DOMAIN_RATE_MAX": f"{defaults.domain_rate_max:g}",
        "FRONTIER_DELAY_MAX": f"{defaults.pace.longest:g}",
        "FRONTIER_RANK_INTERVAL": f"{defaults.rank_interval:g}",
    }


def test_every_stat_is_in_the_table() -> None:
    found = {
        name for name in re.findall(r'"(frontier/[\w/]+)"', CODE) if not name.startswith("frontier/pages")
    }
    assert first_cells(section("Stats")) == found | {"frontier/pages/<state>"}
    states = re.search(r"`frontier/pages/<state>` \| (.*)", section("Stats"))
    assert states is not None
    named = set(re.findall(r"`(\w+)`", states[1]))
    assert named == {state.name.lower() for state in State if state is not State.LEASED}


def test_every_meta_key_is_in_the_table() -> None:
    code = SOURCE[ROOT / "scrapy_frontier/crawl/meta_keys.py"]
    ours = set(re.findall(r'^[A-Z_]+ = "(frontier_\w+)"', code, re.MULTILINE))
    assert meta_keys.AUTO_SLOT in ours
    ours |= {outlinks.LINK_SCORE, outlinks.CONTENT_SCORE, meta_keys.ERRAND}
    assert first_cells(section("Meta keys")) == ours | {"download_slot"}


def test_every_reason_to_close_is_named() -> None:
    sources = [ROOT / "scrapy_frontier" / name for name in ("core/errors.py", "settings.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    reasons = set(re.findall(r'^    reason = "(\w+)"', code, re.MULTILINE))
    assert reasons == set(re.findall(r"`(frontier_(?:locked|version|un\w+|setting|error))`", README))


def test_what_the_addon_changes_is_listed() -> None:
    text = section("Use it in your project")
    assert addon.SCHEDULER in text
    for name, value in addon.SETTINGS.items():
        assert f"| `{name}` | `{value}` |" in text
    for path, order in {**addon.SPIDER_MIDDLEWARES, **addon.EXTENSIONS}.items():
        assert path in text
        assert f"at {order}" in text
    for path, order in addon.DOWNLOADER_MIDDLEWARES.items():
        assert f"`{path.rpartition('.')[2]}` at {order}" in text
    for path in addon.REPLACED:
        assert f"`{path.rpartition('.')[2]}`" in text


def test_the_refusals_of_redirects_are_listed() -> None:
    (row,) = re.findall(r"^\| `frontier/redirects/refused` \| (.*) \|", section("Stats"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == {refusal.name for refusal in REFUSALS}


def test_ci_runs_the_tests_the_readme_names() -> None:
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "[dev]" in ci
    assert "[dev]" in README
    assert re.search(r"bin/pytest", README)
    assert re.search(r"bin/pytest", ci)
