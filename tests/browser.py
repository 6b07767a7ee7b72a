"""Pages in a real browser: Debian's Chromium, driven by Playwright.

`opened` gives a page that was loaded from a file, with what the browser said meanwhile. What is
asked of every page is in `assert_quiet` and `assert_accessible`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

SCREENSHOTS = "RECOVERYBENCH_SCREENSHOTS"
"""Names the folder in which pictures of the pages are kept; without it there are none."""

PHONE = (390, 844)
DESK = (1280, 1000)


@dataclass
class Opened:
    """A page in the browser.

    Attributes:
        page: Playwright's. said: errors and warnings of its console, exceptions, and requests for
            anything but files of its own and data.
    """

    page: Any
    said: list[str] = field(default_factory=list)

    def marks(self, chart: str) -> int:
        """Points and bars that a chart has drawn."""
        return int(self.page.locator(f"#{chart} .point").count())

    def until(self, condition: str) -> None:
        """Waits until this expression holds in the page.

        Asked from outside: Playwright's own waiting evaluates text inside the page, which the
        policy of our pages forbids.
        """
        end = time.monotonic() + 30
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"never held: {condition}"
            self.page.wait_for_timeout(20)

    def wide(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(
            self.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )


@cache
def _browser() -> Any:
    """One browser for all tests of this process; it ends with the process."""
    import atexit

    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    atexit.register(playwright.stop)
    atexit.register(browser.close)
    return browser


@contextmanager
def opened(
    address: str,
    *,
    size: tuple[int, int] = DESK,
    scheme: Literal["light", "dark"] = "light",
    ready: str = "html[data-ready]",
) -> Iterator[Opened]:
    """A page of this address, once `ready` is there; its context is its own."""
    context = _browser().new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        accept_downloads=True,
        reduced_motion="reduce",
    )
    try:
        page = context.new_page()
        found = Opened(page)
        page.on(
            "console",
            lambda m: found.said.append(m.text) if m.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: found.said.append(str(error)))
        page.on("request", lambda request: _note_request(request.url, address, found))
        page.goto(address)
        if ready:
            page.wait_for_selector(ready, state="attached")
        yield found
    finally:
        context.close()


def _note_request(url: str, address: str, found: Opened) -> None:
    home = address.split("#")[0].rsplit("/", 1)[0]
    if not url.startswith((home, "data:", "blob:")):
        found.said.append(f"asked for {url}")


def assert_quiet(found: Opened) -> None:
    """Nothing failed, nothing was warned of, nothing was fetched."""
    assert found.said == []


def assert_accessible(found: Opened) -> None:
    """The rules of axe find nothing serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    response = Axe().run(found.page).response
    bad = [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert bad == []
    assert response["passes"]  # it ran, and looked at something


def keep_screenshot(found: Opened, name: str, *, full: bool = True) -> None:
    """Keeps a picture as an artefact, where a folder is named for them."""
    folder = os.environ.get(SCREENSHOTS)
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        found.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=full)
