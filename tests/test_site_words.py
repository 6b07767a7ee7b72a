"""What a site says and draws of few trials, of many releases, and of intervals without an end."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from recoverybench.cells import Cell
from recoverybench.results.store import Run
from recoverybench.site import publish, sources
from recoverybench.site.wording import interval_text, point_text
from recoverybench.stats import survival
from tests.sample_run import make_cell, timed_out_trial
from tests.site_runs import put, release, timed

SVG = re.compile(r"<svg class=\"trend\".*?</svg>", re.DOTALL)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports that take no time."""
    monkeypatch.setattr(sources, "report_of", lambda run: run.info.run_id.encode())


def few(day: int, label: str | None, *medians_s: float, count: int = 3) -> Run:
    """A release with so many trials of each cell."""
    run = release(day, label, *medians_s)
    cells: dict[Cell, None] = dict.fromkeys(t.cell for t in run.trials)
    trials = [
        t for cell, s in zip(cells, medians_s, strict=True) for t in timed(cell, s, count, seed=day)
    ]
    trials = [dataclasses.replace(t, trial=f"{at:04d}") for at, t in enumerate(trials)]
    return dataclasses.replace(run, trials=tuple(trials))


def front(tmp_path: Path, *runs: Run) -> str:
    for run in runs:
        put(tmp_path / "r", run)
    return publish(tmp_path / "r", tmp_path / "s").index.read_text()


def test_few_trials_are_no_all_clear(tmp_path: Path) -> None:
    text = front(tmp_path, few(0, "0.1", 1.0, 1.0), few(1, "0.2", 4.0, 1.0))
    assert (
        "No cell is known to have become better or worse in 0.2. 2 of 2 cells are inconclusive: "
        "too few trials to show a change."
    ) in text
    assert "as far as" not in text


def test_the_same_is_said_where_it_is_known(tmp_path: Path) -> None:
    runs = [few(day, f"0.{day}", 1.0, 2.0, count=40) for day in range(2)]
    assert "In 0.1, the recovery time of each of 2 cells that was compared is the same" in front(
        tmp_path, *runs
    )


def test_what_is_worse_comes_with_what_is_not_known(tmp_path: Path) -> None:
    runs = [few(0, "0.1", 1.0, count=12), few(1, "0.2", 2.0, count=12)]
    extra = make_cell(strategy="hot-spare")
    for at, run in enumerate(runs):
        more = [dataclasses.replace(t, trial=f"9{i}") for i, t in enumerate(timed(extra, 1.0, 2))]
        runs[at] = dataclasses.replace(run, trials=(*run.trials, *more))
    text = front(tmp_path, *runs)
    assert "In 0.2, recovery got worse" in text
    assert "1 of 2 cells is inconclusive: too few trials to show a change." in text


def test_no_interval_of_less_than_95_per_cent_is_shown(tmp_path: Path) -> None:
    for count, shown in ((2, False), (5, False), (6, True)):
        recovery = survival([1.0 + 0.1 * i for i in range(count)])
        assert (interval_text(recovery) != "–") == shown
    text = front(tmp_path, few(0, "0.1", 1.0, count=4), few(1, "0.2", 1.0, count=8))
    [drawing] = SVG.findall(text)
    assert drawing.count('class="interval"') == 1
    index = json.loads((tmp_path / "s/index.json").read_text())
    points = index["cells"][0]["lines"][0]["points"]
    assert [p["confidence"] >= 0.95 for p in points] == [False, True]


def test_an_interval_without_an_end_is_drawn_as_open(tmp_path: Path) -> None:
    run = few(0, "0.1", 1.0, count=6)
    late = [timed_out_trial(50 + i, cell=run.trials[0].cell) for i in range(3)]
    [drawing] = SVG.findall(front(tmp_path, dataclasses.replace(run, trials=(*run.trials, *late))))
    assert re.search(r'd="M[\d. ]+V[\d.]+m-4 5l4 -5l4 5"[^>]* class="interval"', drawing)


def test_releases_are_counted_in_one_way(tmp_path: Path) -> None:
    other = make_cell(workload="mlp:tiny")
    runs = [few(0, "0.1", 1.0), few(1, None, 1.0), few(2, None, 1.0), few(3, "0.2", 1.0)]
    text = front(tmp_path, *runs, release(4, "0.3", 1.0, cells=[other]))
    done = publish(tmp_path / "r", tmp_path / "s")
    assert (done.runs, done.releases, done.comparisons) == (5, 5, 3)
    assert "5 runs, " in text and ", 5 releases, " in text
    assert "; 3 comparisons of neighbours" in text
    page = (tmp_path / "s/workloads/transformer__tiny.html").read_text()
    assert "1 cell over 4 of 5 releases" in page


def test_what_was_measured_last_comes_first(tmp_path: Path) -> None:
    old, new, often = (make_cell(strategy=s) for s in ("elastic", "restart", "hot-spare"))
    late = make_cell(workload="mlp:tiny")
    text = front(
        tmp_path,
        release(0, "0.1", 1.0, 1.0, cells=[old, often]),
        release(1, "0.2", 1.0, 1.0, cells=[new, often]),
        release(2, "0.3", 1.0, cells=[late]),
    )
    cards = re.findall(r'<h3><a href="workloads/([^"#]*)#[^"]*">([^<]*)</a>', text)
    assert [label for page, label in cards if "transformer" in page] == [
        "hot-spare",
        "restart",
        "elastic",
    ]
    assert "mlp" in cards[0][0]


def test_the_newest_point_always_has_its_number_and_its_name(tmp_path: Path) -> None:
    machines = [{"cpu": "one", "cores_usable": n} for n in (2, 4)]
    runs = [
        release(day, f"a-rather-long-label-{day}", 1.0, run_id=f"r{day}-{n}", machine=machine)
        for day in range(9)
        for n, machine in enumerate(machines)
    ]
    [drawing] = SVG.findall(front(tmp_path, *runs))
    picture = ET.fromstring(drawing)
    texts = [(el.get("class"), el.text, float(el.get("x", 0))) for el in picture.iter("text")]
    # Both lines end at the same height: one number, that of the newest line.
    assert [kind for kind, _, _ in texts].count("latest") == 1
    ticks = sorted((x, text) for kind, text, x in texts if kind == "tick" and "rather" in str(text))
    assert len(ticks) < 9
    assert any(text == "a-rather-long-l…" for _, text in ticks)
    assert max(x for x, _ in ticks) > 250


def test_a_chart_of_one_point_is_low(tmp_path: Path) -> None:
    [one] = SVG.findall(front(tmp_path, few(0, "0.1", 1.0)))
    put(tmp_path / "r", few(1, "0.2", 1.0))
    [two] = SVG.findall(publish(tmp_path / "r", tmp_path / "s").index.read_text())
    heights = [float(re.findall(r'height="(\d+)"', text)[0]) for text in (one, two)]
    assert heights[0] < heights[1]
    for text in (one, two):
        ticks = re.findall(r'y="([\d.]+)" text-anchor="end" class="tick"', text)
        places = sorted(map(float, ticks))
        assert len(places) >= 1
        assert all(b - a >= 12 for a, b in itertools.pairwise(places))


def test_a_point_says_no_interval_that_it_has_not() -> None:
    from recoverybench.site.summary import summarise
    from recoverybench.site.trends import releases_of, trends_of

    for count, shown in ((3, False), (9, True)):
        [trend] = trends_of(releases_of([summarise(few(0, "0.1", 1.0, count=count))]))
        assert (" to " in point_text(trend.points[0])) == shown
