"""The report: what it says, and its figures."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import pytest

from recoverybench.records import TrialRecord, Verification
from recoverybench.report import render
from recoverybench.report.answer import answer, verified
from recoverybench.report.detection import detection_figure, settings_tried
from recoverybench.report.figures import phases_figure, recovery_figure
from recoverybench.report.prose import marks_in_words
from recoverybench.report.rows import rows_of
from recoverybench.report.saves import sweeps
from recoverybench.results.store import Run
from tests.pages import hostile_run, words
from tests.sample_run import (
    default_trials,
    detection_trials,
    failed_trial,
    grown_trial,
    make_cell,
    make_run,
    make_trial,
    soak_trials,
    sweep_trials,
    timed_out_trial,
)


def sentence(*runs: Run) -> str:
    return words(str(answer(rows_of(runs))))


# ---- the answer ----------------------------------------------------------------------------


def test_answer_names_every_strategy_with_its_numbers() -> None:
    assert sentence(make_run()) == (
        "In 3 of 3 trials each, hot-spare was training again in a median of 0.59 s after a worker "
        "was killed; elastic took 1.4 s; restart 4.9 s. With the steps that were lost (5) done "
        "again it was 0.80 s, 1.6 s and 5.2 s, in this order."
    )


def test_answer_says_how_often_when_some_trials_failed() -> None:
    restart, elastic = make_cell(strategy="restart"), make_cell(strategy="elastic")
    trials = [make_trial(0, cell=restart), make_trial(1, cell=elastic)]
    trials += [make_trial(2, rep=1, cell=restart), timed_out_trial(3, rep=1, cell=elastic)]
    said = sentence(make_run(trials))
    # One of two was not back after 60 s: the median is more than (1.4 + 60) / 2.
    assert said == (
        "restart was training again in a median of 4.9 s after a worker was killed "
        "(2 of 2 trials); elastic took more than 31 s (1 of 2 trials). With the steps that were "
        "lost (5) done again it was 5.2 s and more than 31 s, in this order."
    )


def test_answer_names_a_cell_that_never_came_back() -> None:
    trials = [make_trial(0), failed_trial(1, cell=make_cell(strategy="restart"))]
    assert "restart did not come back (0 of 1 trial)" in sentence(make_run(trials))


def test_answer_when_nothing_recovered() -> None:
    said = sentence(make_run([timed_out_trial(0), failed_trial(1, rep=1)]))
    assert said == "None of 2 trials recovered after a worker was killed: 1 × timeout, " + (
        "1 × not recovered."
    )


def test_answer_of_a_single_trial_says_so() -> None:
    said = sentence(make_run([make_trial()]))
    assert said.startswith("In one trial, elastic was training again 1.4 s after a worker")
    assert said.endswith("One trial says nothing about the spread.")


def test_answer_without_any_trial() -> None:
    assert sentence(make_run([])) == "No trial has finished yet, so there is no answer."
    assert verified([]) == ""


def test_answer_when_no_trial_can_be_judged() -> None:
    said = sentence(make_run([failed_trial(0, outcome="invalid")]))
    assert said == "No trial could be judged, so there is no answer: 1 × invalid."


def test_answer_over_many_cells_names_the_extremes_and_the_failures() -> None:
    cells = [make_cell(strategy=s, interval=i) for s in ("restart", "elastic") for i in (5, 10, 20)]
    trials = [make_trial(i, cell=c) for i, c in enumerate(cells)]
    trials.append(failed_trial(9, rep=1, cell=cells[0]))
    said = sentence(make_run(trials))
    assert said.startswith("6 of 7 trials recovered after a worker was killed, over 6 cells.")
    assert re.search(r"Fastest was elastic · checkpoint every \d+ steps at 1\.\d s", said)
    assert said.endswith("The others: 1 × not recovered.")


def test_verified_says_what_was_compared_and_where_it_differed() -> None:
    assert verified(rows_of([make_run()])).endswith("everything was equal.")
    bad = dataclasses.replace(
        make_trial(1, rep=1), verify=Verification(False, "r", 3, 1, 64, True, "loss at step 21")
    )
    text = verified(rows_of([make_run([make_trial(), bad])]))
    assert "63 losses" in text
    assert text.endswith("equal in 1 of 2 trials.")


def test_verified_counts_apart_what_was_compared_within_a_tolerance() -> None:
    text = verified(rows_of([make_run([grown_trial(), make_trial(1, rep=1)])]))
    assert "100 losses bit for bit and 20 within a tolerance" in text
    assert text.endswith("everything agreed, in part within a tolerance.")


def test_cells_are_ranked_within_one_task() -> None:
    kills = [make_cell(strategy=s) for s in ("restart", "elastic", "hot-spare")]
    others = [make_cell(fault="hang"), make_cell(trigger="random")]
    trials = [make_trial(i, cell=c) for i, c in enumerate([*kills, *others])]
    quick = dataclasses.replace(trials[3], recovery_s=0.01)
    said = sentence(make_run([*trials[:3], quick, trials[4]]))
    assert "Of the 3 cells that recovered with kill, step:25, fastest was hot-spare" in said
    assert "slowest restart" in said
    alone = [make_cell(fault=f) for f in ("kill", "hang", "nan", "exit", "stuck")]
    said = sentence(make_run([make_trial(i, cell=c) for i, c in enumerate(alone)]))
    assert "No two of the cells that recovered have one workload, topology, fault and" in said
    assert "astest" not in said
    pairs = [(s, w) for s in ("restart", "elastic") for w in ("a:x", "b:x")]
    jobs = [make_cell(strategy=s, workload=w) for s, w in pairs]
    said = sentence(make_run([make_trial(i, cell=c) for i, c in enumerate([*jobs, kills[2]])]))
    fastest, slowest = said.split("fastest was ")[1].split("slowest ")
    assert ("restart" in fastest) != ("restart" in slowest)
    assert ("a:x" in fastest) == ("a:x" in slowest)  # of one workload


def test_no_lost_steps_are_no_sentence() -> None:
    cell = make_cell()
    trials = [dataclasses.replace(make_trial(cell=cell), lost_steps=0)]
    assert "done again" not in sentence(make_run(trials))


def test_a_bar_of_an_even_number_says_the_median_too() -> None:
    two = [dataclasses.replace(make_trial(i, rep=i), recovery_s=1.0 + i) for i in range(2)]
    assert "<b>1.0 s, median 1.5 s</b>" in beside(two)
    assert "median" not in beside(two[:1])


def beside(trials: Sequence[TrialRecord]) -> str:
    """What stands beside the bar of phases of one cell."""
    notes = phases_figure(rows_of([make_run(trials)]))["layout"]["annotations"]
    return str(notes[0]["text"])


def simulated_run(*more: TrialRecord) -> Run:
    cell = make_cell(strategy="pathways:shrink")
    return make_run([dataclasses.replace(make_trial(cell=cell), simulated=True), *more])


def test_a_simulated_loss_is_said_to_be_one() -> None:
    text = words(render([simulated_run()]))
    assert "A slice is lost during distributed JAX training" in text
    assert " s after a slice was lost (simulated)" in text
    assert "one controller over 3 slices with 1 device each" in text
    assert "Under “pathways” one process, the controller," in text
    for wrong in ("a worker was killed", "3 workers", "Workers are separate processes"):
        assert wrong not in text
    mixed = words(render([simulated_run(make_trial(1))]))
    assert "after a worker was killed, or a slice was lost (simulated)" in mixed
    assert "Workers are separate processes" in mixed


def test_the_method_speaks_of_what_was_run() -> None:
    once = words(render([make_run()]))
    assert "is started, broken once on purpose at the moment that its trigger names" in once
    assert "“random”" not in once
    assert "broken again and again at moments" in words(render([make_run(soak_trials())]))
    other = words(render([make_run([make_trial(cell=make_cell(trigger="random"))])]))
    assert "“random” breaks it" in other and "“step:25” holds" not in other


def test_a_suite_is_not_described_where_options_replaced_its_factors() -> None:
    described = "one worker dies; three strategies bring it back"
    for command in (["recoverybench", "run", "quick"], ["recoverybench", "run", "--trials", "1"]):
        page = render([make_run(command=command)])
        assert described in words(page.split("<details>")[0])
    command = ["recoverybench", "run", "--strategy=elastic", "--heartbeat", "5s"]
    text = words(render([make_run(command=command)]).split("<details>")[0])
    assert described not in text
    assert "replaced by options--strategy, --heartbeat" in text


# ---- figures -------------------------------------------------------------------------------


def coloured(value: Any, key: str = "") -> Any:
    """A figure with the page's colour variables put in place."""
    if isinstance(value, dict):
        return {k: coloured(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [coloured(v, key) for v in value]
    return "#123456" if key == "color" and str(value).startswith("--") else value


def mixed_run() -> Run:
    return make_run([*default_trials(), timed_out_trial(50, rep=3), failed_trial(51, rep=4)])


@pytest.mark.parametrize("run", [make_run(), make_run([]), mixed_run(), hostile_run()])
def test_plotly_accepts_the_figures(run: Run) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for figure in (recovery_figure(rows_of([run])), phases_figure(rows_of([run]))):
        graph_objects.Figure(coloured(figure))


def test_detection_latency_stands_against_false_alarms() -> None:
    settings = settings_tried([make_run(detection_trials())])
    assert [(s.label, s.share_text) for s in settings] == [
        ("watchdog 0.5 s", "1 of 2"),
        ("watchdog 5 s", "0 of 2"),
    ]
    [first], [second] = (s.latencies for s in settings)
    assert (first.fault, first.noticed, first.trials) == ("hang", 2, 2)
    assert first.median_s == pytest.approx(0.67)
    assert second.median_s == pytest.approx(5.15)
    figure = detection_figure(settings)
    assert figure is not None
    assert figure["data"][0]["y"] == [50.0, 0.0]
    assert figure["data"][0]["text"] == ["watchdog 0.5 s", "watchdog 5 s"]
    graph_objects = pytest.importorskip("plotly.graph_objects")
    graph_objects.Figure(coloured(figure))


def test_there_is_no_detection_figure_where_nothing_varies_or_nothing_is_harmless() -> None:
    assert settings_tried([make_run()]) == []
    real = [t for t in detection_trials() if not t.harmless]
    settings = settings_tried([make_run(real)])
    assert [s.share for s in settings] == [None, None]
    assert detection_figure(settings) is None
    assert "No setting has both" in render([make_run(real)])


def test_a_sweep_over_a_save_is_a_table_of_its_operations() -> None:
    [sweep] = sweeps([make_run([*sweep_trials(), make_trial(90)])])
    assert sweep.label == ""
    assert [(line.operation, line.what) for line in sweep.lines] == [
        (1, "mkdir 20.tmp"),
        (2, "write abc"),
        (3, "rename 20"),
    ]
    found = [[m.outcomes if m else None for m in line.moments] for line in sweep.lines]
    assert found == [["recovered"] * 3, ["recovered", "diverged", "recovered"], ["recovered"] * 3]
    before, torn, after = sweep.lines[2].moments
    assert before is not None and torn is not None and after is not None
    assert (before.restored, after.restored, after.good) == ("10", "20", True)
    assert sweep.lines[1].moments[1] is not None and not sweep.lines[1].moments[1].good


def test_sweeps_of_several_kinds_stand_apart_and_what_was_not_tried_is_left_open() -> None:
    some = [t for t in sweep_trials() if not t.cell.trigger.endswith("torn")]
    others = [
        dataclasses.replace(
            t, trial=f"x{t.trial}", cell=dataclasses.replace(t.cell, strategy="restart")
        )
        for t in some
    ]
    found = sweeps([make_run([*some, *others])])
    assert [sweep.label for sweep in found] == ["elastic", "restart"]
    assert found[0].lines[0].moments[1] is None
    assert sweeps([make_run()]) == []


def test_every_trial_has_its_mark() -> None:
    run = mixed_run()
    data = recovery_figure(rows_of([run]))["data"]
    marks = [key[-1] for trace in data for key in trace.get("customdata", [])]
    assert sorted(marks) == sorted(f"0/{t.trial}" for t in run.trials)


def test_only_what_never_trained_again_is_a_cross() -> None:
    outcomes = ("diverged", "silent_corruption", "no_effect", "invalid", "not_recovered")
    trials = [failed_trial(i, rep=i, outcome=o) for i, o in enumerate(outcomes)]
    rows = rows_of([make_run(trials)])
    lane = recovery_figure(rows)["data"][-1]
    symbols = dict(zip((d[1] for d in lane["customdata"]), lane["marker"]["symbol"], strict=True))
    assert symbols == {
        "diverged": "circle",
        "silent corruption": "circle",
        "no effect": "circle-open",
        "invalid": "circle",
        "not recovered": "x-thin",
    }
    said = marks_in_words(rows)
    assert "cross" in said and "orange dot" in said and "open circle" in said
    assert marks_in_words(rows_of([make_run()])) == ""
    assert "cross" not in marks_in_words(rows_of([make_run(trials[:3])]))


def test_success_rate_stands_beside_every_median() -> None:
    notes = [a["text"] for a in recovery_figure(rows_of([mixed_run()]))["layout"]["annotations"]]
    assert notes == [
        "<b>3/3 recovered</b><br>median 0.59 s",
        "<b>3/5 recovered</b><br>median 1.4 s",
        "<b>3/3 recovered</b><br>median 4.9 s",
    ]


def test_axis_is_logarithmic_only_when_times_differ_by_more_than_ten() -> None:
    def axis(*times: float) -> dict[str, Any]:
        trials = [
            dataclasses.replace(make_trial(i, rep=i), recovery_s=t) for i, t in enumerate(times)
        ]
        found: dict[str, Any] = recovery_figure(rows_of([make_run(trials)]))["layout"]["xaxis"]
        return found

    assert "type" not in axis(1.0, 9.9)
    wide = axis(0.3, 31.0)
    assert wide["type"] == "log"
    assert wide["ticktext"] == ["0.5", "1", "2", "5", "10", "20"]
    assert 10 ** wide["range"][0] < 0.3 < 31.0 < 10 ** wide["range"][1]


def test_labels_that_look_like_numbers_stay_labels_in_the_order_of_the_runs() -> None:
    names = ["0.9", "0.10", "1e10", "123456"]
    runs = [make_run([make_trial()], label=name) for name in names]
    layout = recovery_figure(rows_of(runs))["layout"]
    assert [text.split(" · ")[0] for text in layout["yaxis"]["ticktext"]] == names
    assert layout["yaxis"]["tickvals"] == [0, 1, 2, 3]


def test_runs_of_one_name_are_told_apart() -> None:
    labels = [row.label for row in rows_of([make_run([make_trial()]), make_run([make_trial()])])]
    assert labels == [
        "quick-20260301-120000 (1) · elastic",
        "quick-20260301-120000 (2) · elastic",
    ]


def test_a_cell_with_a_factor_of_none_keeps_its_row() -> None:
    cells = [make_cell(watchdog_s=None), make_cell(watchdog_s=5.0)]
    trials = [make_trial(i, cell=cell) for i, cell in enumerate(cells)]
    labels = [row.label for row in rows_of([make_run(trials)])]
    assert len(labels) == 2
    assert any("watchdog none" in label for label in labels)
