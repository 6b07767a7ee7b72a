"""A site in a real browser: nothing fetched from outside, search by keyboard, accessible, no wider
than a phone.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from recoverybench.site import publish
from tests.browser import (
    DESK,
    PHONE,
    Opened,
    assert_accessible,
    keep_screenshot,
    needs_chromium,
    opened,
)
from tests.sample_run import make_cell
from tests.site_runs import put, release

pytestmark = needs_chromium

WORSE = "compare/0.9..0.10.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten releases on two machines; one cell gets slower in the third and faster in the eighth."""
    results = tmp_path_factory.mktemp("results")
    one = {"cpu": "test CPU", "system": "Linux", "cores_usable": 2}
    for day in range(10):
        slow = 1.5 if 2 <= day < 8 else 1.0
        other = {**one, "cores_usable": 64} if day == 5 else one
        put(results, release(day, f"0.{day + 8}", 1.4 * slow, 4.9, 0.6, machine=other))
    hostile = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
    cell = make_cell(workload=f"{hostile}:tiny", strategy=hostile)
    put(results, release(11, hostile, 1.0, cells=[cell]))
    (results / "notes").mkdir()
    out = tmp_path_factory.mktemp("site")
    return publish(results, out).index.parent


def at(site: Path, page: str) -> str:
    path, _, anchor = page.partition("#")
    return (site / path).as_uri() + (f"#{anchor}" if anchor else "")


def foreign(found: Opened, site: Path) -> list[str]:
    """What the browser said, but for requests of the site's own files."""
    ours = f"asked for {site.as_uri()}/"
    return [line for line in found.said if not line.startswith(ours)]


PAGES = ("index.html", "workloads/transformer__tiny.html", WORSE, "404.html")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_quiet_accessible_and_narrow(site: Path, page: str) -> None:
    """Light on a desk and dark on a phone by axe; the other two only by their width."""
    name = f"site-{page.rpartition('/')[2].removesuffix('.html')}"
    with opened(at(site, page), ready="") as found:
        looks: list[tuple[tuple[int, int], Literal["light", "dark"]]] = [
            (DESK, "light"),
            (PHONE, "dark"),
            (DESK, "dark"),
            (PHONE, "light"),
        ]
        for number, (size, scheme) in enumerate(looks):
            found.page.set_viewport_size({"width": size[0], "height": size[1]})
            found.page.emulate_media(color_scheme=scheme)
            keep_screenshot(found, f"{name}-{size[0]}-{scheme}")
            assert found.wide() <= 0
            if number < 2:
                assert_accessible(found)
        assert foreign(found, site) == []


def test_a_report_of_the_site_draws_with_the_shared_script(site: Path) -> None:
    with opened(at(site, "runs/quick-002.html")) as found:
        assert foreign(found, site) == []
        assert found.marks("recovery") > 0
        found.page.get_by_role("link", name="All workloads and releases").click()
        assert found.page.url.endswith("/index.html")


def test_search_by_keyboard(site: Path) -> None:
    with opened(at(site, "index.html"), ready="#search:not([hidden])") as found:
        page = found.page
        page.keyboard.press("/")
        page.keyboard.type("0.10 against")
        links = page.locator("#found a")
        assert links.count() == 2
        assert page.locator("#said").inner_text() == "2 found"
        assert_accessible(found)
        keep_screenshot(found, "site-search", full=False)
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.querySelector('.title').textContent") == (
            "0.10 against 0.9"
        )
        page.keyboard.press("Enter")
        page.wait_for_url("**/compare/0.9..0.10.html")
        page.go_back()
        page.keyboard.press("/")
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.type("restart")
        assert links.count() > 0
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        page.keyboard.type("xyz")
        assert page.locator("#said").inner_text() == "nothing found"
        page.keyboard.press("Escape")
        assert page.locator("#sought").input_value() == ""
        assert page.locator("#said").inner_text() == ""
        assert foreign(found, site) == []


def test_names_are_text_where_they_are_found(site: Path) -> None:
    with opened(at(site, "index.html"), ready="#search:not([hidden])") as found:
        found.page.locator("#sought").fill("onerror")
        assert found.page.locator("#found a").count() > 0
        assert found.page.locator("img").count() == 0
        found.page.keyboard.press("Enter")
        found.page.wait_for_url("**/workloads/*.html**")
        assert found.page.locator("img").count() == 0
        assert foreign(found, site) == []


def test_a_mark_leads_to_its_comparison(site: Path) -> None:
    with opened(at(site, "index.html"), ready="") as found:
        marks = found.page.locator("a.mark")
        assert marks.count() == 2
        assert "worse from 0.9 to 0.10" in str(marks.first.get_attribute("aria-label"))
        marks.first.focus()
        found.page.keyboard.press("Enter")
        found.page.wait_for_url(f"**/{WORSE}")
        assert "worse" in found.page.locator("main").inner_text()
        found.page.get_by_role("link", name="All workloads and releases").click()
        assert found.page.url.endswith("/index.html")


def test_the_address_of_a_cell_leads_to_it(site: Path) -> None:
    with opened(at(site, "index.html"), ready="") as found:
        found.page.locator(".card h3 a", has_text="restart").first.click()
        found.page.wait_for_url("**/workloads/transformer__tiny.html#cell-*")
        section = found.page.locator("section:target")
        assert section.locator("h2").inner_text() == "restart"
        assert section.locator("svg:visible .interval").count() == 10


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass

    def send_error(self, code: int, *args: Any, **kwargs: Any) -> None:
        """As GitHub Pages does: 404.html at whatever address was asked for."""
        if code != 404:
            return super().send_error(code, *args, **kwargs)
        content = (Path(self.directory) / "404.html").read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def server(site: Path) -> Iterator[str]:
    handler = partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}/"
        finally:
            served.shutdown()
            thread.join()


def test_on_a_web_server(server: str) -> None:
    with opened(f"{server}index.html", ready="") as found:
        found.page.goto(f"{server}runs/quick-002.html")
        found.page.wait_for_selector("html[data-ready]", state="attached")
        assert found.marks("recovery") > 0
        assert [line for line in found.said if not line.startswith(f"asked for {server}")] == []
        found.page.goto(f"{server}runs/nothing.html")
        found.page.locator("#home").click()
        found.page.wait_for_url(server)
        assert found.page.locator("#trends svg").count() > 0
