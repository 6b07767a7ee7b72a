"""Other work on the machine: said where it is to be seen, and never of a job's own workers."""

from __future__ import annotations

import dataclasses

import pytest

from recoverybench.busy import busy_words
from recoverybench.report import render
from recoverybench.results.store import Run, load
from tests.sample_run import make_run


def loaded(at_start: float, begun: float | None, cores: object = 2) -> Run:
    run = make_run()
    machine = {**run.info.machine, "cores_usable": cores, "load": begun}
    trials = tuple(dataclasses.replace(t, load=(at_start, 9.0)) for t in run.trials)
    return dataclasses.replace(
        run, trials=trials, info=dataclasses.replace(run.info, machine=machine)
    )


@pytest.mark.parametrize(
    ("at_start", "begun", "busy"),
    [
        (10.6, 0.5, True),  # more than three workers keep two cores busy with
        (6.0, 6.0, True),  # and as much before anything of ours ran
        (3.7, 0.5, False),  # the most that was seen of workers alone
        (6.0, 0.5, False),  # the workers of a larger model
        (4.1, 4.1, False),
        (10.6, None, True),
    ],
)
def test_load_that_is_not_the_jobs_own(at_start: float, begun: float | None, busy: bool) -> None:
    said = busy_words(loaded(at_start, begun))
    assert (said is not None) == busy
    assert said is None or f"{at_start:.1f} on 2 cores" in said


@pytest.mark.parametrize("cores", [None, "2", True, 0, {}])
def test_a_machine_that_is_not_known_is_not_called_busy(cores: object) -> None:
    assert busy_words(loaded(50.0, 50.0, cores)) is None
    assert busy_words(make_run([])) is None


def test_the_report_says_it_before_the_numbers() -> None:
    page = render([loaded(10.6, 0.5)])
    assert page.index("The machine had other work") < page.index('id="recovery"')


def test_the_runs_that_are_shown_were_made_on_a_quiet_machine() -> None:
    for name in ("quick-0.1.0", "releases-0.1.0"):
        assert busy_words(load(f"results/{name}")) is None
