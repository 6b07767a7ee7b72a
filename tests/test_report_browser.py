"""The report in a real browser: every figure is drawn, nothing fails, nothing is fetched."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recoverybench.records import TrialRecord, Verification
from recoverybench.report import render
from recoverybench.report.data import MOST_LANES, payload
from recoverybench.report.rows import rows_of
from recoverybench.results.columns import table
from recoverybench.results.store import Run
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
from tests.pages import HOSTILE, hostile_run
from tests.sample_run import (
    default_trials,
    detection_trials,
    failed_trial,
    grown_trial,
    make_cell,
    make_run,
    make_trial,
    refusing,
    sweep_trials,
    timed_out_trial,
)

pytestmark = needs_chromium


@contextmanager
def report(
    runs: Sequence[Run] | Run, folder: Path, address: str = "", **options: Any
) -> Iterator[Opened]:
    """The report of these runs, open."""
    file = folder / "report.html"
    file.write_text(render([runs] if isinstance(runs, Run) else runs), encoding="utf-8")
    with opened(file.as_uri() + address, **options) as found:
        yield found


def draw_all(found: Opened) -> None:
    """Every chart comes near the window once."""
    for chart in found.page.locator(".chart[data-figure], #lanes").all():
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for()


def facts(found: Opened) -> str:
    found.page.locator("#facts table").first.wait_for()
    return str(found.page.locator("#facts").inner_text())


def many_cells(count: int, each: int = 1) -> Run:
    """A run with that many cells, which differ in workload and strategy."""
    cells = [
        make_cell(
            workload=f"mlp:small,hidden={64 + i // 2}", strategy=("elastic", "restart")[i % 2]
        )
        for i in range(count)
    ]
    return make_run(
        [
            make_trial(i * each + k, rep=k, cell=cell)
            for i, cell in enumerate(cells)
            for k in range(each)
        ]
    )


def test_every_figure_is_drawn_and_nothing_fails(tmp_path: Path) -> None:
    trials = [*default_trials(), timed_out_trial(20, rep=3), failed_trial(21, rep=4)]
    with report(make_run(trials), tmp_path) as found:
        draw_all(found)
        assert found.marks("recovery") == len(trials)
        assert found.marks("stack") == 3 * 9
        assert found.marks("lanes") > 20
        assert "kept their process" in facts(found)
        chart = found.page.locator("#recovery").inner_text()
        for text in ("3/5 recovered", "median 0.59 s", "hot-spare"):
            assert text in chart
        assert_quiet(found)


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_what_only_some_runs_have_is_drawn(tmp_path: Path, size: tuple[int, int]) -> None:
    trials = [*detection_trials(), *sweep_trials()]
    trials = [dataclasses.replace(t, trial=f"{i:04d}") for i, t in enumerate(trials)]
    run = refusing(make_run([*trials, grown_trial(80)]), "no nftables here")
    with report(run, tmp_path, "#trial=0/0080", size=size) as found:
        draw_all(found)
        assert found.marks("detection") == 2
        text = facts(found)
        assert "grown back after step 33, held up for 1.2 s" in text
        assert "memory and peer" in text
        assert found.wide() == 0
        assert_quiet(found)


@pytest.mark.parametrize(
    ("outcome", "there", "absent"),
    [("invalid", "nothing was injected", "kept their process"), ("diverged", "3d1dd433…", "None")],
)
def test_the_facts_say_only_what_was(tmp_path: Path, outcome: str, there: str, absent: str) -> None:
    whole = make_trial()
    said = f"final state is {'3d1dd433' * 4}"
    check = Verification(False, "r", 1, 1, 1, True, said)
    trial = (
        dataclasses.replace(failed_trial(0, outcome=outcome), pids=whole.pids, exits=whole.exits)
        if outcome == "invalid"
        else dataclasses.replace(whole, outcome=outcome, error=said, verify=check)
    )
    with report(make_run([trial]), tmp_path, "#trial=0/0000") as found:
        text = facts(found)
        assert there in text
        assert absent not in text
        assert text.count("3d1dd433") == (outcome == "diverged")
        assert_quiet(found)


def test_long_labels_leave_room_for_what_stands_beside_them(tmp_path: Path) -> None:
    cells = [make_cell(strategy="pathways:shrink,back=1s", fault=f) for f in ("kill", "hang")]
    cells += [make_cell(strategy=s, fault="kill") for s in ("suspend-resume", "elastic")]
    trials = [make_trial(i, cell=c) for i, c in enumerate(cells)]
    with report(make_run(trials), tmp_path, size=(500, 900)) as found:
        draw_all(found)
        chart = found.page.locator("#recovery").inner_text()
        assert found.marks("recovery") == len(cells)
        assert "pathways:shrink,back=1s" in chart and "1.4 s · 1/1" in chart
        assert_quiet(found)


def test_a_trial_can_be_opened_by_its_address_by_a_dot_and_by_keys(tmp_path: Path) -> None:
    trials = [*default_trials(1), failed_trial(3)]
    with report(make_run(trials), tmp_path, "#trial=0/0003") as found:
        assert "This trial reached no milestone" in found.page.locator("#lanes").inner_text()
        assert "worker 0 died, and the coordination service with it" in facts(found)
        found.page.locator("#recovery .point").first.click(force=True)
        found.until("document.querySelector('#trial').value !== '3'")
        clicked = found.page.evaluate("location.hash")
        assert clicked in [f"#trial=0%2F{t.trial}" for t in trials[:3]]
        found.page.locator("#cell").focus()
        found.page.keyboard.press("ArrowDown")
        found.until(f"location.hash !== '{clicked}'")
        assert_quiet(found)


def test_the_same_trial_can_be_opened_again(tmp_path: Path) -> None:
    with report(make_run(), tmp_path) as found:
        draw_all(found)
        for ask in (found.page.locator("#recovery .point"), found.page.locator("#trials-table a")):
            for _ in range(2):
                found.page.evaluate("scrollTo(0, 0)")
                ask.first.click(force=True)
                found.until(f"Math.abs({TOP}) < 40")
        assert_quiet(found)


TOP = "document.querySelector('#waterfall').getBoundingClientRect().top"


def test_a_double_click_goes_back_to_the_whole_of_the_chosen_trial(tmp_path: Path) -> None:
    with report(make_run(), tmp_path, "#trial=0/0000") as found:
        shown = "document.querySelector('#lanes')._fullLayout.xaxis.range"
        found.page.locator("#lanes .point").first.wait_for()
        first = found.page.evaluate(shown)
        found.page.locator("#cell").select_option(index=0)
        found.until(f"{shown}[1] !== {first[1]}")
        whole = found.page.evaluate(shown)
        found.page.evaluate("Plotly.relayout('lanes', {'xaxis.range': [0, 0.1]})")
        box = found.page.locator("#lanes .nsewdrag").first.bounding_box()
        assert box is not None
        found.page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        found.until(f"{shown}[1] > 0.2")
        assert found.page.evaluate(shown) == pytest.approx(whole)
        assert_quiet(found)


def test_strings_that_every_object_has_are_text(tmp_path: Path) -> None:
    trial = default_trials(1)[0]
    exits = tuple(dataclasses.replace(e, reason="__proto__") for e in trial.exits)
    odd = dataclasses.replace(trial, exits=exits, detected_by="constructor")
    with report(make_run([odd]), tmp_path, "#trial=0/0000") as found:
        found.until("document.querySelector('#facts').innerText.includes('pid')")
        assert "(__proto__)" in facts(found)
        page = found.page.locator("body").inner_text()
        assert "native code" not in page and "[object" not in page
        assert "constructor" in found.page.locator("#trials-table").inner_text()
        assert_quiet(found)


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_hostile_strings_do_nothing_in_a_browser(tmp_path: Path, size: tuple[int, int]) -> None:
    with report(hostile_run(), tmp_path, size=size) as found:
        draw_all(found)
        dialogs: list[str] = []
        found.page.on("dialog", lambda d: dialogs.append(d.message))
        assert found.page.locator("script").count() == 4
        assert found.page.locator("img").count() == 0
        assert HOSTILE in found.page.locator("#trials").inner_text()
        facts(found)
        found.page.locator("#trials-table").get_by_role("link", name=HOSTILE).click()
        found.until("document.querySelector('#facts').innerText.includes('alert(1)')")
        assert HOSTILE in facts(found)
        assert found.marks("lanes") > 20
        assert dialogs == []
        assert_quiet(found)


@pytest.mark.parametrize("trials", [[], [failed_trial(0)]], ids=["none", "failed"])
def test_a_run_without_any_recovery_opens(tmp_path: Path, trials: list[TrialRecord]) -> None:
    with report(make_run(trials), tmp_path) as found:
        found.page.locator("#recovery").scroll_into_view_if_needed()
        if trials:
            found.page.locator("#recovery .point").first.wait_for()
        else:
            found.page.get_by_text("No trial to show.").first.wait_for()
        assert found.marks("recovery") == len(trials)
        assert_quiet(found)


def test_filters_and_numbers_of_the_matrix_choose_what_is_shown(tmp_path: Path) -> None:
    trials = [*default_trials(), timed_out_trial(20, rep=3)]
    with report(make_run(trials), tmp_path) as found:
        page = found.page
        page.get_by_label("strategy").select_option(label="restart")
        found.until("document.querySelectorAll('#recovery .point').length === 3")
        assert page.locator("#filtered").inner_text().startswith("1 of 3 cells")
        assert page.locator("#cells tbody tr:visible").count() == 1
        assert page.locator("#trials-table tbody tr").count() == 3
        page.get_by_role("button", name="show all").click()
        found.until("document.querySelectorAll('#recovery .point').length === 10")
        assert page.locator("#cells tbody tr:visible").count() == 3
        page.get_by_role("link", name="1 timeout of elastic: show them").click()
        rows = page.locator("#trials-table tbody tr")
        found.until("document.querySelectorAll('#trials-table tbody tr').length === 1")
        assert "timeout" in rows.first.inner_text()
        rows.first.get_by_role("link").click()
        found.until("document.querySelector('#facts').innerText.includes('timeout')")
        page.get_by_role("button", name="all cells again").click()
        page.locator("#trials-outcome").select_option(label="all")
        assert rows.count() == len(trials)
        assert_quiet(found)


def test_many_cells_come_a_page_at_a_time(tmp_path: Path) -> None:
    with report(many_cells(30), tmp_path) as found:
        page = found.page
        page.locator("#recovery .point").first.wait_for()
        assert found.marks("recovery") == 24
        page.locator("#recovery + .pager").get_by_role("button", name="cells after").click()
        found.until("document.querySelectorAll('#recovery .point').length === 6")
        assert "25 to 30 of 30" in page.locator("#recovery + .pager").inner_text()
        page.get_by_label("strategy").select_option(label="elastic")
        found.until("document.querySelectorAll('#recovery .point').length === 15")
        assert_quiet(found)


def test_trials_without_lanes_say_so_and_have_phases(tmp_path: Path) -> None:
    run = many_cells(1, MOST_LANES + 20)
    with report(run, tmp_path) as found:
        shown = {True: 0, False: 0}
        there = payload([run], rows_of([run]))["lanes"]["of"]
        without = [i for i in range(len(run.trials)) if str(i) not in there]
        for i in (0, *without[:2]):
            found.page.evaluate(f"location.hash = '#trial=0/{i:04d}'")
            found.until(f"document.querySelector('#trial').value === '{i}'")
            found.page.locator("#lanes .point").first.wait_for()
            hidden = found.page.locator("#lanes-note").is_hidden()
            shown[hidden] += 1
            assert (found.marks("lanes") > 25) == hidden
        assert shown == {True: 1, False: 2}
        assert found.marks("recovery") == 120
        assert_quiet(found)


def test_the_data_can_be_saved_and_no_spreadsheet_runs_it(tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://example.org","x")'
    run = make_run([*default_trials(1), dataclasses.replace(failed_trial(3), error=formula)])
    files = {}
    with report(run, tmp_path) as found:
        for kind in ("json", "csv"):
            with found.page.expect_download() as waiting:
                found.page.locator(f"#{kind}").click()
            name = waiting.value.suggested_filename
            assert name.endswith(f".{kind}")
            files[kind] = Path(waiting.value.path()).read_text("utf-8")
        assert_quiet(found)
    records = json.loads(files["json"])["trials"]
    assert [r["trial"] for r in records] == [t.trial for t in run.trials]
    for got, wanted in zip(records, run.trials, strict=True):
        assert_same(got, wanted)
    rows = list(csv.DictReader(io.StringIO(files["csv"], newline="")))
    assert [r["outcome"] for r in rows] == ["recovered"] * 3 + ["not_recovered"]
    assert float(rows[0]["recovery_s"]) == pytest.approx(run.trials[0].recovery_s, abs=1e-6)
    assert float(rows[0]["phase_replace_s"]) == pytest.approx(
        run.trials[0].phases["replace"], abs=1e-6
    )
    names = files["csv"].splitlines()[0].split(",")
    assert len(names) == len(set(names))
    assert set(names) <= set(table([run]).columns)
    assert [r["broken"] for r in rows] == ["1", "1", "1", ""]
    assert rows[3]["recovery_s"] == ""
    assert rows[3]["error"] == "'" + formula
    assert records[3]["error"] == formula


def assert_same(got: dict[str, Any], wanted: TrialRecord) -> None:
    """A record as it was saved from the page is the record, to the microsecond."""
    plain = json.loads(json.dumps(wanted.as_dict()))
    assert got.keys() == plain.keys() | {"run"}
    back = TrialRecord.from_dict({name: got[name] for name in plain})
    for name in ("cell", "exits", "verify", "pids", "compile_cache", "outcome", "error", "seed"):
        assert getattr(back, name) == getattr(wanted, name)
    for name, ns in wanted.milestones.items():
        assert back.milestones[name] == pytest.approx(ns, abs=1000)
    key = lambda s: (-1 if s.worker is None else s.worker, s.attempt, s.start_s)  # noqa: E731
    assert [s.name for s in back.spans] == [s.name for s in sorted(wanted.spans, key=key)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_everybody_can_use_it(tmp_path: Path, scheme: Any, size: tuple[int, int]) -> None:
    trials = [*default_trials(), timed_out_trial(20, rep=3), failed_trial(21, rep=4)]
    with report(make_run(trials), tmp_path, scheme=scheme, size=size) as found:
        draw_all(found)
        assert found.wide() == 0
        assert_accessible(found)
        keep_screenshot(found, f"report-{scheme}-{size[0]}")
        assert_quiet(found)


def test_it_prints_with_every_chart(tmp_path: Path) -> None:
    with report(make_run(), tmp_path, scheme="dark") as found:
        found.page.emulate_media(media="print")
        found.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        found.page.locator("#lanes .point").first.wait_for()
        assert found.marks("stack") == 27
        assert len(found.page.pdf()) > 50_000
        assert_quiet(found)
