"""Costs, topologies and losses in a real browser: drawn, chosen from, and quiet."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from recoverybench.report import render
from recoverybench.results.store import Run, load
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
from tests.test_report_losses import HOSTILE

pytestmark = needs_chromium

SAMPLE = Path(__file__).parent / "samples" / "v3"


def many() -> Run:
    """A real run whose trials stand for cells of several intervals and topologies."""
    run = load(SAMPLE)
    base = next(t for t in run.trials if (SAMPLE / "journal" / t.trial).is_dir())
    trials = []
    for i, strategy in enumerate(("elastic", "restart", HOSTILE)):
        for k, (topology, interval) in enumerate((("2x1", 10), ("3x1", 10), ("3x1", 20))):
            cell = dataclasses.replace(
                base.cell, strategy=strategy, topology=topology, interval=interval
            )
            trials.append(dataclasses.replace(base, cell=cell, recovery_s=1.0 + i + k))
    lost = dataclasses.replace(trials[-3], outcome="timeout", recovery_s=None)
    return dataclasses.replace(run, trials=(*trials[:-3], lost, *trials[-2:]))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the report of `many`."""
    file = tmp_path_factory.mktemp("figures") / "report.html"
    file.write_text(render([many()]), encoding="utf-8")
    return file.as_uri()


def draw(found: Opened) -> None:
    for chart in ("cost-curves", "loss-curve"):
        found.page.locator(f"#{chart}").scroll_into_view_if_needed()
        found.page.locator(f"#{chart} .main-svg").first.wait_for()


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light")])
def test_the_sections_are_drawn_and_nothing_fails(
    size: tuple[int, int], scheme: str, address: str
) -> None:
    with opened(address, size=size, scheme=scheme) as found:  # type: ignore[arg-type]
        draw(found)
        assert found.marks("cost-curves") > 10
        assert found.marks("loss-curve") > 40
        assert found.page.locator("#topologies td a").count() == 6
        assert found.wide() == 0
        assert found.page.locator("#costs img, #topologies img, #losses img").count() == 0
        assert_accessible(found)
        assert_quiet(found)
        for section in ("costs", "topologies", "losses"):
            found.page.locator(f"#{section}").scroll_into_view_if_needed()
            keep_screenshot(found, f"report-{section}-{size[0]}-{scheme}", full=False)


def test_a_list_chooses_what_a_chart_shows_and_a_field_of_the_map_leads_to_its_trials(
    address: str,
) -> None:
    with opened(address) as found:
        draw(found)
        range_of = "document.getElementById('cost-curves').layout.xaxis.range[1]"
        before = found.page.evaluate(range_of)
        found.page.select_option("#costs-between", label="1 day")
        found.until(f"{range_of} > {before}")
        title = "document.getElementById('loss-curve').dataset.figure"
        first = found.page.evaluate(title)
        found.page.select_option("#losses-of", index=2)
        assert found.page.evaluate(title) != first
        found.page.locator("#topologies td a").first.click()
        found.page.locator("#trials-cell").wait_for(state="visible")
        assert_quiet(found)


def test_curves_maps_and_losses_follow_the_filters(address: str) -> None:
    with opened(address) as found:
        draw(found)
        page = found.page
        legend = page.locator("#costs .legend li[data-rows]:visible")
        fields = page.locator("#topologies td[data-row]:visible")
        offered = page.locator("#losses-of option:not([hidden])")
        before = (legend.count(), fields.count(), offered.count())
        page.get_by_label("strategy").select_option(label="restart")
        count = "document.getElementById('cost-curves').data.length"
        found.until(f"{count} === 4")
        assert before == (3, 6, 9)
        assert (legend.count(), fields.count(), offered.count()) == (1, 2, 3)
        chosen = page.locator("#losses-of").evaluate("s => s.selectedOptions[0].textContent")
        assert "restart" in chosen
        page.get_by_role("button", name="show all").click()
        found.until(f"{count} === 12")
        assert (legend.count(), fields.count(), offered.count()) == before
        assert_quiet(found)
