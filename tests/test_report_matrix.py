"""The table of faults and ways back: what every field says, and what could not be asked for."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

from recoverybench.records import Evidence, TrialRecord
from recoverybench.report.matrix import markdown
from recoverybench.results.store import Run, RunDir
from tests.sample_run import failed_trial, make_cell, make_run, make_trial, refusing


def faults_run() -> Run:
    """Two faults under two strategies; one combination never came back, one was not measured."""
    trials: list[TrialRecord] = []
    for strategy in ("restart", "elastic"):
        for rep in range(3):
            cell = make_cell(strategy=strategy)
            seen = (Evidence("non_finite", 0.04 * (rep + 1), 0, "the loss is nan"),)
            trials.append(
                dataclasses.replace(
                    make_trial(len(trials), rep=rep, cell=cell),
                    recovery_s=1.0 + rep,
                    lost_steps=3 + rep,
                    detection_evidence=seen,
                )
            )
    hang = make_cell(strategy="restart", fault="hang")
    trials.append(failed_trial(len(trials), cell=hang, outcome="undetected"))
    run = make_run(trials)
    refused = make_cell(strategy="elastic", fault="hang|x"), "needs\na | kernel"
    suite = dataclasses.replace(run.info.suite, unsupported=(refused,))
    return dataclasses.replace(run, info=dataclasses.replace(run.info, suite=suite))


def rows_of(page: str) -> dict[str, list[str]]:
    """First field -> the others, of every line of a table."""
    found = {}
    for line in page.splitlines():
        if line.startswith("| "):
            first, *rest = (part.strip() for part in line.strip("|").split(" |"))
            found[first] = rest
    return found


def test_every_field_says_what_became_of_its_trials() -> None:
    rows = rows_of(markdown([faults_run()]))
    assert rows["fault"] == ["`restart`", "`elastic`"]
    numbers = "3/3 recovered<br>**2.0 s**<br>loss is not a number 80 ms<br>lost 3 to 5"
    assert rows["`kill`"] == [numbers, numbers]
    assert rows["`hang`"] == ["undetected", "–"]


def test_what_was_not_measured_has_its_reason_below() -> None:
    page = markdown([faults_run()])
    assert rows_of(page)["`hang\\|x`"] == ["–", "unsupported[^1]"]
    assert "\n[^1]: needs a \\| kernel\n" in page


def test_a_field_may_be_measured_in_part() -> None:
    run = refusing(make_run([make_trial(), make_trial(1, cell=make_cell(fault="hang"))]), "why")
    cell = make_cell(trigger="save")
    suite = dataclasses.replace(run.info.suite, unsupported=((cell, "why"), (cell, "why")))
    run = dataclasses.replace(run, info=dataclasses.replace(run.info, suite=suite))
    assert rows_of(markdown([run]))["`kill`"][0].endswith("lost 5[^1]")


def test_one_fault_is_shown_by_where_the_state_comes_from() -> None:
    trials = [
        make_trial(i, cell=make_cell(strategy=strategy, state_source=source))
        for i, (strategy, source) in enumerate(
            [("elastic", "storage"), ("elastic", "peer"), ("restart", "storage")]
        )
    ]
    trials[1] = dataclasses.replace(trials[1], simulated=True)
    page = markdown([make_run(trials)])
    rows = rows_of(page)
    assert "## Strategy × state source" in page and "## Fault × strategy" not in page
    assert rows["strategy"] == ["`storage`", "`peer`"]
    assert rows["`elastic`"][1].endswith(", simulated")
    assert rows["`restart`"][1] == "–"


def test_the_page_names_run_machine_and_versions() -> None:
    page = markdown([faults_run()])
    said = rows_of(page)["`quick-20260301-120000`"]
    assert said[0] == "1 March 2026"
    assert "2 cores" in said[1] and "jax 0.10.2" in said[2] and "Python 3.11.11" in said[2]
    assert said[3:] == ["7", "0"]


def test_the_module_writes_the_page(tmp_path: Path) -> None:
    run = faults_run()
    with RunDir.create(tmp_path / "r", run.info) as made:
        for trial in run.trials:
            made.append(trial)
    done = subprocess.run(
        [sys.executable, "-m", "recoverybench.report.matrix", str(tmp_path / "r")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == markdown([run])
