"""The dashboard in a real browser, on a real crawl: how it looks, what its controls do, and whom it shows
nothing; the metrics; the page of a report.

Pictures are left in the directory of each test: ``pytest --basetemp=DIR``.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from conftest import environment, wait_until
from nursery import nursery
from server import PATIENCE, links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Crawl
    from server import Web

sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright
axe = pytest.importorskip("axe_core_python.sync_playwright").Axe
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no Chromium", allow_module_level=True)

PAGES = 300  # of each host: more than any test has time for
HUB, RESTING, QUIET = range(3)
EVIL = "/x%22%3E?%3Cimg%20src=x%20onerror=alert(1)%3E<img/src=x>"
SETTINGS = {
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "DOWNLOAD_DELAY": 0.2,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "FRONTIER_END_WAIT": 3600,
}


class Live(scrapy.Spider):
    name = "live"
    hub = ""

    async def start(self):
        yield scrapy.Request(self.hub)

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Site:
    """The address of the dashboard of a crawl in *directory*, with its token."""

    def __init__(self, directory: Path) -> None:
        told = json.loads((directory / "frontier" / "frontier.live").read_text())
        self.address = f"http://127.0.0.1:{told['port']}"
        self.page = f"{self.address}/#token={told['token']}"
        self._headers = {"Authorization": f"Bearer {told['token']}"}

    def state(self) -> Any:
        asked = urllib.request.Request(f"{self.address}/api/state", headers=self._headers)
        with urllib.request.urlopen(asked) as response:
            return json.load(response)

    def host(self, name: str) -> Any:
        return next((host for host in self.state()["hosts"] if host["host"] == name), None)


@pytest.fixture
def crawl(web: Web, start: Callable[..., Crawl]) -> Crawl:
    """A crawl of three hosts, one of which asks to be left alone."""
    pages = [web.url(f"/{host}/{number}", host) for number in range(PAGES) for host in (HUB, QUIET)]
    web.link("/", web.on("/busy", status=503, headers={"Retry-After": "600"}, host=RESTING), *pages)
    web.on("/0/0", body=links(*pages[:20], web.url(EVIL), web.url("/missing")))
    web.on("/missing", status=404)
    return start(Live, SETTINGS, hub=web.url("/")).wait_for("Dashboard: http://127.0.0.1:")


@pytest.fixture
def site(crawl: Crawl, tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def look(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page; at the end nothing may have gone wrong in it."""
    contexts, wrong = [], []

    def look(url: str, width: int = 1280, height: int = 900, scheme: str = "light") -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("console", lambda line: wrong.append(line.text) if "Refused" in line.text else None)
        page.goto(url)
        return page

    yield look
    for context in contexts:
        context.close()
    assert wrong == []


def assert_accessible(page: Any) -> None:
    found = axe().run(page)["violations"]
    bad = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in bad] == []


def assert_fits(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def tile(page: Any, name: str) -> str:
    text: str = page.locator("#tiles > div", has_text=name).locator(".value").inner_text()
    return text


# -- how it looks --------------------------------------------------------------------------------------------


def test_it_shows_the_crawl_in_light_and_dark_and_on_a_phone(
    web: Web, site: Site, look: Callable[..., Any], tmp_path: Path
) -> None:
    page = look(site.page)
    page.screenshot(path=tmp_path / "start.png")
    page.wait_for_selector("#hosts tbody button")
    web.wait(30)
    resting = page.locator("#hosts tr", has=page.get_by_text(web.name(RESTING), exact=True))
    resting.get_by_text("resting").wait_for()
    assert "503" in resting.inner_text()
    page.wait_for_selector(
        "#growth path[stroke-dasharray]", state="attached"
    )  # it tells where the crawl is heading
    page.screenshot(path=tmp_path / "resting.png", full_page=True)
    assert int(tile(page, "Fetched")) >= 20
    assert tile(page, "Known") == str(2 * PAGES + 4)
    assert "#token" not in page.url
    for name, width, scheme in (("light", 1280, "light"), ("dark", 1280, "dark"), ("phone", 360, "dark")):
        page = look(site.page, width, 800, scheme)
        page.wait_for_selector("#growth svg")
        page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
        assert_fits(page)
        assert page.locator("#hosts").evaluate("(table) => table.scrollWidth - table.clientWidth") <= 0
        assert_accessible(page)


def test_charts_are_read_by_keyboard(web: Web, site: Site, look: Callable[..., Any]) -> None:
    page = look(site.page)
    web.wait(12)
    chart = page.locator("#growth svg[role=img]")
    chart.focus()
    page.keyboard.press("End")
    assert "known" in page.locator("#growth .tip").inner_text()
    page.wait_for_function("document.getElementById('said').textContent.includes('known')")
    web.wait(20)
    assert page.evaluate("document.activeElement.closest('#growth') !== null")  # it was drawn again


def test_what_comes_from_the_web_is_text(web: Web, site: Site, look: Callable[..., Any]) -> None:
    page = look(site.page)
    page.fill("#url", web.url(EVIL))
    wait_until(lambda: web.url("/0/0") in [web.url(path) for path in web.paths(HUB)])
    page.get_by_role("button", name="Look up").click()
    page.wait_for_selector("#found .verdict")
    assert page.locator("img").count() == 0


def test_the_last_picture_stays_when_the_crawl_ends(
    crawl: Crawl, site: Site, look: Callable[..., Any], tmp_path: Path
) -> None:
    page = look(site.page)
    page.wait_for_selector("#growth svg")
    wait_until(lambda: int(tile(page, "Known")) > PAGES)
    crawl.kill()
    page.get_by_text("This is its last picture").wait_for()
    page.screenshot(path=tmp_path / "ended.png")
    assert int(tile(page, "Known")) > PAGES
    assert page.get_by_role("button", name="Pause").is_disabled()
    assert_accessible(page)


def test_without_the_token_it_shows_nothing(site: Site, look: Callable[..., Any]) -> None:
    page = look(site.address)
    page.get_by_text("does not have the key").wait_for()
    assert page.locator("#tiles").inner_text() == ""


def test_the_page_of_another_site_can_neither_read_nor_order_nor_frame_it(
    web: Web, site: Site, look: Callable[..., Any]
) -> None:
    script = """async ([address, token]) => {
        const told = [];
        for (const [path, how] of [
            ["/api/state", {}], ["/api/page?url=x", {}], ["/metrics", {}],
            ["/api/stop", {method: "POST"}], ["/api/pause", {method: "POST", mode: "no-cors"}],
            ["/api/stop", {method: "POST", headers: {Authorization: `Bearer ${token}`}}],
        ]) told.push(await fetch(address + path, how).then((answer) => answer.type, () => "refused"));
        const frame = document.createElement("iframe");
        frame.src = address;
        document.body.append(frame);
        await new Promise((done) => { frame.onload = done; });
        try { told.push(frame.contentDocument ? "read" : "shut"); } catch { told.push("shut"); }
        return told;
    }"""
    foreign = look(web.url("/0/1"))
    told = foreign.evaluate(script, [site.address, site.page.rpartition("=")[2]])
    assert told == ["refused"] * 4 + ["opaque", "refused", "shut"]
    assert foreign.frames[1].locator("#tiles").count() == 0
    assert site.state()["state"] == "running"


# -- what its controls do ------------------------------------------------------------------------------------


def test_pause_resume_and_stop(web: Web, crawl: Crawl, site: Site, look: Callable[..., Any]) -> None:
    page = look(site.page)
    web.wait(5)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").wait_for()
    wait_until(lambda: not site.state()["leased"])
    asked = len(web.visits)
    time.sleep(1)
    assert len(web.visits) == asked
    page.get_by_role("button", name="Resume").click()
    web.wait(asked + 3)
    page.get_by_role("button", name="Stop").click()
    assert_accessible(page)
    page.locator("#stopping").get_by_role("button", name="Stop").click()
    assert crawl.wait().reason not in ("finished", "None")


def test_block_and_unblock_and_delay_a_host(web: Web, site: Site, look: Callable[..., Any]) -> None:
    page, quiet = look(site.page), web.name(QUIET)
    web.wait(5, QUIET)
    page.locator("#hosts").get_by_role("button", name=quiet).click()
    dialog = page.get_by_role("dialog", name=quiet)
    dialog.get_by_role("button", name="Block", exact=True).click()
    dialog.get_by_role("button", name="Unblock").wait_for()
    assert_accessible(page)
    wait_until(lambda: not site.host(quiet)["under_way"])
    asked = len(web.paths(QUIET))
    web.wait(len(web.visits) + 4)
    assert len(web.paths(QUIET)) == asked
    dialog.get_by_role("button", name="Unblock").click()
    web.wait(asked + 2, QUIET)
    dialog.get_by_label("Seconds between two visits").fill("1.5")
    dialog.get_by_role("button", name="Set", exact=True).click()
    wait_until(lambda: site.host(quiet)["delay"] == 1.5)
    asked = len(web.paths(QUIET))
    web.wait(asked + 2, QUIET)
    assert min(web.gaps(QUIET)[-1:]) >= 1.45
    dialog.get_by_role("button", name="As the settings say").click()
    wait_until(lambda: site.host(quiet)["delay"] == 0.2)


def test_look_up_and_add_a_page(web: Web, site: Site, look: Callable[..., Any], tmp_path: Path) -> None:
    page = look(site.page)
    page.fill("#url", web.url("/"))

    def is_told_as_fetched() -> bool:
        page.keyboard.press("Enter")
        return bool(page.locator("#found").get_by_text("It was fetched on").count())

    wait_until(is_told_as_fetched)
    page.wait_for_selector("#found svg a")  # the links on it
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert_accessible(page)
    page.locator("#found svg a").first.click()  # goes on to that page
    page.wait_for_function(f"document.getElementById('url').value !== {json.dumps(web.url('/'))}")
    page.fill("#url", web.url("/added"))
    page.get_by_role("button", name="Look up").click()
    page.locator("#found").get_by_text("not known").first.wait_for()
    page.get_by_role("button", name="Add to the queue").click()
    page.locator("#found").get_by_text("waiting").or_(
        page.locator("#found").get_by_text("fetched")
    ).first.wait_for()
    wait_until(lambda: "/added" in web.paths(HUB))


# -- metrics -------------------------------------------------------------------------------------------------


def test_metrics_are_the_stats_of_the_crawl(web: Web, site: Site) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    web.wait(20)
    wait_until(
        lambda: "frontier/reasons/rests_after" in site.state()["stats"]
    )  # stats are brought up to date every few seconds
    with urllib.request.urlopen(f"{site.address}/metrics") as response:
        text = response.read().decode()
    found = {family.name: family for family in parser.text_string_to_metric_families(text)}
    states = {sample.labels["state"]: sample.value for sample in found["frontier_pages"].samples}
    assert sum(states.values()) == 2 * PAGES + 4
    assert found["frontier_pages"].type == "gauge"
    assert found["scrapy_responses"].type == "counter"
    assert {sample.labels["status"] for sample in found["scrapy_responses"].samples} >= {"200", "503"}
    panels = json.loads((Path(__file__).parents[2] / "docs/grafana.json").read_text())["panels"]
    asked = " ".join(target["expr"] for panel in panels for target in panel.get("targets", ()))
    names = set(re.findall(r"(?:frontier|scrapy)_\w+", asked))
    names -= {"scrapy_download_errors_total"}  # none so far
    samples = {sample.name for family in found.values() for sample in family.samples}
    assert names
    assert names <= samples


# -- the report ----------------------------------------------------------------------------------------------


def test_a_report_is_drawn(web: Web, crawl: Crawl, look: Callable[..., Any], tmp_path: Path) -> None:
    web.wait(30)
    crawl.kill()
    command = ["-m", "scrapy", "frontier", "report", "report.html", "--dir", "frontier"]
    assert nursery.run(command, environment(), tmp_path).returncode == 0
    for name, width, scheme in (("report", 1280, "light"), ("report-phone", 360, "dark")):
        page = look((tmp_path / "report.html").as_uri(), width, scheme=scheme)
        page.wait_for_selector("#growth svg")
        page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
        assert page.locator("#hosts tbody tr").count() == 3
        assert_fits(page)
        assert_accessible(page)
