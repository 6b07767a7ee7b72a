"""The section on profiles: what it shows, whom it leaves out, and what stays inert in it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from recoverybench.profiles.model import KINDS
from recoverybench.report import render
from recoverybench.report.data import payload
from recoverybench.report.profiles import MOST, MOST_NAME, profiles_section, shown_profiles
from recoverybench.report.rows import rows_of
from recoverybench.report.section import Material
from recoverybench.results.store import Run, load
from tests.browser import PHONE, assert_accessible, assert_quiet, needs_chromium, opened
from tests.sample_run import make_cell, make_run, make_trial

SAMPLE = Path(__file__).parent / "samples" / "v4"
PROFILED = "0002"
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The run of the sample, to be changed."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "run"))


def material(*runs: Run) -> Material:
    return Material(runs, rows_of(runs))


def section_of(*runs: Run) -> Any:
    found = profiles_section(material(*runs))
    assert found is not None
    return found


def changed(kept: Path, **changes: Any) -> Run:
    """The run with other entries in the summary's first profile."""
    path = kept / "profile" / PROFILED / "summary.json"
    data = json.loads(path.read_text())
    data["profiles"][0] |= changes
    path.write_text(json.dumps(data))
    return load(kept)


def test_every_worker_has_a_bar_for_each_phase(kept: Path) -> None:
    section = section_of(load(kept))
    (shown,) = section.data["shown"]
    assert [(line.who, line.phase) for line in shown.lines] == [
        (who, phase)
        for who in ("worker 0", "worker 1, attempt 1", "worker 2")
        for phase in ("restore", "compile", "first step")
    ]
    (figure,) = section.figures.values()
    assert [trace["name"] for trace in figure["data"]] == [n for n, _, _ in section.data["kinds"]]
    assert len(figure["data"]) == len(KINDS)
    for place, line in enumerate(shown.lines):
        bar = sum(trace["x"][place] for trace in figure["data"])
        assert bar == pytest.approx(line.part.seconds, abs=1e-6)
    # A worker's bars stand together, apart from the next one's.
    places = figure["data"][0]["y"]
    assert [round(b - a, 2) for a, b in itertools.pairwise(places)] == [
        *(1, 1, 1.6),
        *(1, 1, 1.6),
        *(1, 1),
    ]


def test_of_each_phase_the_slowest_worker_says_what_it_did(kept: Path) -> None:
    (shown,) = shown_profiles(material(load(kept)))
    for line in shown.slowest:
        same = [other for other in shown.lines if other.part.name == line.part.name]
        assert line.part.seconds == max(other.part.seconds for other in same)
        assert line.operations
    assert shown.slowest[0].spans[0][0] == "read the checkpoint"


def test_what_profiling_cost_stands_beside_it(kept: Path) -> None:
    page = render([load(kept)])
    assert re.search(r"against the cell’s 2 trials without a profiler \(median\): restore ", page)
    assert f"tensorboard --logdir {kept / 'profile'}" in page
    assert "Read with xprof; of CPU, its tables hlo_stats, overview_page are empty." in page


def test_where_nothing_was_profiled_there_is_no_section() -> None:
    run = make_run()
    assert profiles_section(material(run)) is None
    assert 'id="profile"' not in render([run])


def test_why_there_is_no_profile_is_said(kept: Path) -> None:
    run = changed(kept, file=None, bytes=None, parts=[], problem="no profile: killed")
    (shown,) = shown_profiles(material(run))
    assert shown.problems == ["worker 0: no profile: killed"] and len(shown.lines) == 6
    assert "<li>worker 0: no profile: killed</li>" in render([run])
    (kept / "profile" / PROFILED / "summary.json").unlink()
    section = section_of(load(kept))
    assert section.data["shown"][0].problems == ["its profiles are not with the run"]
    assert not section.figures and not section.data["drawn"]
    assert "its profiles are not with the run" in render([load(kept)])


def test_the_generation_is_told_where_there_are_several(kept: Path) -> None:
    run = changed(kept, generation=2, warnings=["the workload starts a trace of its own"])
    (shown,) = shown_profiles(material(run))
    assert shown.lines[0].who == "worker 0, generation 2"
    assert "worker 0, generation 2: the workload starts a trace of its own" in shown.problems
    assert {line.who for line in shown.slowest} == {"worker 0, generation 2"}


def test_a_page_shows_some_and_counts_the_rest(kept: Path) -> None:
    run = load(kept)
    many = tuple(
        dataclasses.replace(run.profiled[0], trial=f"{i:04d}", cell=make_cell(interval=i + 1))
        for i in range(MOST + 3)
    )
    section = section_of(dataclasses.replace(run, profiled=many))
    assert len(section.data["shown"]) == MOST and section.data["left_out"] == 3


def test_a_profiled_cell_without_another_trial_is_shown(kept: Path) -> None:
    run = dataclasses.replace(load(kept), trials=())
    (shown,) = shown_profiles(material(run))
    assert shown.row is None and shown.key is None and shown.overhead == []
    assert f"{shown.label}: trial {PROFILED}" in render([run])


def test_the_view_of_one_trial_has_it_and_no_table_counts_it(kept: Path) -> None:
    run = load(kept)
    data = payload([run], rows_of([run]))
    assert (data["count"], data["all"]) == (2, 3)
    assert data["columns"]["trial"] == ["0000", "0001", PROFILED]
    assert data["columns"]["profiled"] == [False, False, True]
    assert data["row"] == [0, 0, 0]
    plain = make_run([make_trial(0)])
    assert payload([plain], rows_of([plain]))["all"] == 1


def hostile(kept: Path) -> Run:
    path = kept / "profile" / PROFILED / "summary.json"
    data = json.loads(path.read_text())
    for profile in data["profiles"]:
        profile |= {"problem": HOSTILE, "warnings": [HOSTILE], "device": HOSTILE}
        profile["tools"] = {HOSTILE: 0}
        for part in profile["parts"]:
            part["spans"] = {HOSTILE: 1.0}
            for operation in part["operations"]:
                operation["name"] = HOSTILE * 9
    path.write_text(json.dumps(data))
    return load(kept)


def test_names_of_somebody_else_stay_text(kept: Path) -> None:
    page = render([hostile(kept)])
    assert "<img src=x" not in page and "&lt;img src=x" in page and "\x1b" not in page
    (shown,) = shown_profiles(material(hostile(kept)))
    lengths = {len(name) for line in shown.lines for name, _, _ in line.operations}
    assert lengths == {MOST_NAME}


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_section_in_a_browser(kept: Path, tmp_path: Path, scheme: Any) -> None:
    page = tmp_path / "report.html"
    page.write_text(render([load(kept) if scheme == "light" else hostile(kept)]), encoding="utf-8")
    size = PHONE if scheme == "dark" else (1280, 1000)
    with opened(page.as_uri() + f"#trial=0/{PROFILED}", scheme=scheme, size=size) as found:
        chart = found.page.locator("#profile-bars")
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for()
        assert found.marks("profile-bars") == 9 * len(KINDS)
        found.page.locator("#facts table").first.wait_for()
        assert "· profiled" in found.page.locator("#trial option:checked").inner_text()
        assert found.page.locator("#trials tbody tr").count() == 2
        assert found.wide() == 0
        assert_quiet(found)
        assert_accessible(found)
