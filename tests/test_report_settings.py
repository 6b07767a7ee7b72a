"""What the report says of settings: in what runs differ, before everything else."""

from __future__ import annotations

import dataclasses

from recoverybench.report import render
from recoverybench.report.settings import Difference, differences, settings_of
from recoverybench.results.store import Run
from tests.sample_run import default_trials, make_run


def on(run: Run, run_id: str, **machine: object) -> Run:
    info = dataclasses.replace(run.info, run_id=run_id, machine={**run.info.machine, **machine})
    return dataclasses.replace(run, info=info)


def found(*runs: Run) -> list[Difference]:
    return differences([settings_of(run) for run in runs])


def test_one_run_and_the_same_run_under_another_name_differ_in_nothing() -> None:
    run = make_run()
    assert found(run) == found(run, on(run, "another")) == []
    page = render([run, on(run, "another")])
    assert "In these runs they are." in page and "<mark>" not in page


def test_what_differs_is_said_once_and_marked() -> None:
    run = make_run()
    runs = [on(run, "a", cores_usable=31), on(run, "b", cores_usable=47), on(run, "c")]
    (one,) = [d for d in found(*runs) if d.name == "cores usable"]
    assert one.group == "Machine" and one.values[:2] == ("31", "47")
    page = render(runs)
    assert page.count("<mark>31</mark>") == page.count("<mark>47</mark>") == 1
    assert page.index('id="differences"') < page.index("<mark>")


def test_a_run_that_does_not_say_has_a_dash() -> None:
    run = make_run()
    (one,) = found(run, on(run, "b", accelerator="v5e"))
    assert one == Difference("Machine", "accelerator", ("–", "v5e"))


def test_a_name_with_several_values_keeps_all_of_them() -> None:
    groups = [{"name": "Suite", "rows": [("design", "x"), ("design", "y")]}]
    other = [{"name": "Suite", "rows": [("design", "x")]}]
    (one,) = differences([{"groups": groups}, {"groups": other}])
    assert one.values == ("x; y", "x")


def test_labels_and_the_answer_hold_no_character_that_acts() -> None:
    trials = default_trials(2)
    acting = [
        dataclasses.replace(t, cell=dataclasses.replace(t.cell, strategy="ela\u202estic\x1b[31m"))
        for t in trials
        if t.cell.strategy == "elastic"
    ]
    page = render([make_run([*acting, *(t for t in trials if t.cell.strategy != "elastic")])])
    assert "\u202e" not in page and "\x1b" not in page
    answer = page[page.index('class="answer"') : page.index('class="basis"')]
    assert "ela\\u202estic\\x1b[31m" in answer
