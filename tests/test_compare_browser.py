"""A comparison in a real browser: drawn, quiet, accessible, as narrow as a phone, of any size."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from recoverybench.compare.build import compare
from recoverybench.compare.model import Comparison
from recoverybench.compare.page import CHANGES, LINES, OPEN, to_html
from recoverybench.compare.sides import Side
from recoverybench.records import TrialRecord
from recoverybench.results.store import load
from tests.browser import (
    DESK,
    PHONE,
    Opened,
    assert_accessible,
    assert_quiet,
    keep_screenshot,
    needs_chromium,
    opened,
)

pytestmark = needs_chromium

RUN = Path(__file__).parents[1] / "results" / "releases-0.1.0"
EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


def changed(trial: TrialRecord, factor: float) -> TrialRecord:
    return dataclasses.replace(
        trial,
        recovery_s=None if trial.recovery_s is None else factor * trial.recovery_s,
        phases={name: factor * value for name, value in trial.phases.items()},
    )


def late(trial: TrialRecord) -> TrialRecord:
    return dataclasses.replace(
        trial, outcome="timeout", recovery_s=None, time_to_progress_s=None, phases={}
    )


def of_real_trials(copies: int = 1) -> Comparison:
    """Two environments of a real run, with changes that are known: a strategy is slower by far,
    another does not always come back; under so many names, hostile ones among them.
    """
    run = load(RUN)

    def made(environment: str, new: bool) -> Side:
        found: list[TrialRecord] = []
        for number in range(copies):
            for trial in run.trials:
                if trial.cell.environment != environment:
                    continue
                cell = dataclasses.replace(
                    trial.cell,
                    environment=None,
                    interval=number + 1,
                    strategy=trial.cell.strategy + (EVIL if number % 2 else ""),
                )
                one = dataclasses.replace(trial, cell=cell, trial=f"{len(found):05d}")
                if new and number % 3 == 0 and cell.strategy.startswith("restart"):
                    one = changed(one, 40.0)
                if new and cell.strategy.startswith("elastic") and one.rep < 5:
                    one = late(one)
                found.append(one)
        name = f"new {EVIL}" if new else "base"
        return Side(name, (dataclasses.replace(run, trials=tuple(found)),), None, True)

    return compare(made("jax==0.10.1", False), made("jax==0.10.2", True))


def page(folder: Path, found: Comparison) -> Path:
    file = folder / "compare.html"
    file.write_text(to_html(found), encoding="utf-8")
    return file


def assert_inert(found: Opened) -> None:
    assert found.page.locator("img, script").count() == 0


LOOKS: Sequence[tuple[tuple[int, int], Literal["light", "dark"]]] = (
    (DESK, "light"),
    (PHONE, "dark"),
    (DESK, "dark"),
    (PHONE, "light"),
)


def test_both_distributions_are_drawn_and_nothing_fails(tmp_path: Path) -> None:
    """Light on a desk and dark on a phone by axe; the other two only by their width."""
    comparison = of_real_trials(2)
    with opened(page(tmp_path, comparison).as_uri(), ready="") as found:
        for number, (size, scheme) in enumerate(LOOKS):
            found.page.set_viewport_size({"width": size[0], "height": size[1]})
            found.page.emulate_media(color_scheme=scheme)
            assert found.wide() <= 0
            if number < 2:
                assert_accessible(found)
            keep_screenshot(found, f"compare-{size[0]}-{scheme}")
        strips = found.page.locator("svg.strip")
        assert strips.count() == len(comparison.cells) == 6
        for strip in strips.all():
            assert strip.locator(".dots").count() >= 1
            assert strip.locator("circle").count() >= 8
            assert strip.locator(".median line").count() >= 2
            box = strip.bounding_box()
            assert box is not None
            assert box["width"] > 300
        assert found.page.locator(".triangles path").count() == 10
        assert found.page.get_by_text("5 not back within").count() >= 2
        assert_inert(found)
        assert_quiet(found)


def test_no_mark_leaves_its_drawing(tmp_path: Path) -> None:
    """Neither on a desk nor on a phone, where the same drawing is a third as wide."""
    with opened(page(tmp_path, of_real_trials()).as_uri(), ready="") as found:
        for width, height in (DESK, PHONE):
            found.page.set_viewport_size({"width": width, "height": height})
            outside = found.page.evaluate(
                """() => [...document.querySelectorAll("svg.strip")].flatMap((strip) => {
                  const frame = strip.getBoundingClientRect();
                  return [...strip.querySelectorAll("circle, line, text, path")]
                    .map((one) => [one, one.getBoundingClientRect()])
                    .filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
                      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
                    .map(([one]) => one.outerHTML.slice(0, 120));
                })"""
            )
            assert outside == []
            gaps = found.page.evaluate(
                """() => [...document.querySelectorAll("svg.strip .late")].map((late) => {
                  const name = late.parentElement.querySelectorAll(".who")[1];
                  const [a, b] = [name, late].map((one) => one.getBoundingClientRect());
                  return b.left - a.right;
                })"""
            )
            assert len(gaps) == 1
            assert min(gaps) > 2


def test_hundreds_of_cells_stay_usable(tmp_path: Path) -> None:
    comparison = of_real_trials(34)
    cells = len(comparison.cells)
    assert cells == 102
    file = page(tmp_path, comparison)
    with opened(file.as_uri(), ready="") as found:
        pages = found.page
        assert pages.locator("details.cell").count() == cells
        assert pages.locator("details.cell[open]").count() == OPEN
        assert pages.locator("svg.strip").count() == cells
        assert pages.locator(".forest > .line:visible").count() == LINES
        assert len(comparison.changes) == 34
        assert pages.locator(".changes > li").count() == 34
        assert pages.locator(".changes > li:visible").count() == CHANGES
        assert found.wide() <= 0
        # A name of the first drawing opens the cell that it leads to.
        last = pages.locator(f'.forest a[href="#cell-{LINES}"]')
        last.focus()
        pages.keyboard.press("Enter")
        found.until(f"document.querySelector('#cell-{LINES}').parentElement.open")
        assert pages.locator(f"#cell-{LINES} svg.strip").is_visible()
        heads = pages.locator("details.cell > summary h3").all_inner_texts()
        assert len(set(heads)) == cells
        assert heads[0].startswith("elastic")  # most of its trials are not back any more
        assert_inert(found)
        assert_quiet(found)


def test_it_prints_dark_on_light(tmp_path: Path) -> None:
    with opened(page(tmp_path, of_real_trials()).as_uri(), scheme="dark", ready="") as found:
        found.page.emulate_media(media="print", color_scheme="dark")
        colour = "getComputedStyle(document.body).color"
        assert found.page.evaluate(colour) == "rgb(28, 33, 38)"
        assert found.page.locator("svg.strip:visible").count() == 3
        assert found.page.locator("svg.strip text:visible").count() > 0


@pytest.mark.parametrize("name", ["home", None])
def test_a_page_of_a_site_leads_home(tmp_path: Path, name: str | None) -> None:
    text = to_html(of_real_trials(), home=f"../{name}.html" if name else None)
    assert ('<a href="../home.html">' in text) == bool(name)
    assert "default-src &#39;none&#39;" in text
    assert "script-src" not in text
