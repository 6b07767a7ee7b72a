"""A soak with real workers: three kills in one job, each with a record of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from recoverybench.analysis.journal import read_trial
from recoverybench.results.store import Run, whole_trials
from tests.real_support import Command, story, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

TRACE = "time_s,node\n0.5,1\n3,2\n5.5,1\n"
STEPS, WORKERS = 400, ("0", "1", "2")


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    directory = tmp_path_factory.mktemp("soak")
    trace = directory / "trace.csv"
    trace.write_text(TRACE)
    matrix: dict[str, Sequence[object]] = {
        "fault": [f"replay:{trace}"],
        "interval": [20],
        "trigger": ["step:45"],  # so that there is a checkpoint
    }
    return command.measure(directory, suite_text(matrix, steps=STEPS), "--strict")


def struck(run: Run, event: str) -> list[dict[str, object]]:
    lines = read_trial(run.path / "journal" / "0000").lines
    return [line for line in lines if line["event"] == event]


def test_each_kill_that_met_a_running_job_has_a_record(run: Run) -> None:
    injected, again = struck(run, "inject"), struck(run, "again")
    # On a machine that is slow enough, a kill meets the recovery from the one before.
    assert len(injected) + len(again) == 3 and len(injected) >= 2
    assert [line["number"] for line in injected] == list(range(len(injected)))
    assert [record.trial for record in run.trials] == [
        f"0000.{n:03d}" for n in range(len(injected))
    ]
    assert [record.t_inject for record in run.trials] == [line["t"] for line in injected]
    assert [record.victim for record in run.trials] == [line["worker"] for line in injected]
    assert whole_trials(run.trials) == {"0000"} and run.info.status == "complete"


def test_every_kill_comes_when_and_where_the_trace_says(run: Run) -> None:
    kills = sorted((*struck(run, "inject"), *struck(run, "again")), key=lambda line: str(line["t"]))
    assert [line["worker"] for line in kills] == [1, 2, 1]
    times = [int(str(line["t"])) for line in kills]
    gaps_s = [(t - times[0]) / 1e9 for t in times]
    # The clock runs on through recoveries; the loop that strikes may be busy for a moment.
    assert gaps_s == pytest.approx([0, 2.5, 5], abs=0.7)


def test_every_record_recovered_and_was_compared(run: Run) -> None:
    for record in run.trials:
        print(story(run, record) if record.outcome != "recovered" else "")
        assert (record.outcome, record.error) == ("recovered", None)
        assert record.recovery_s is not None and record.lost_steps is not None
        assert record.verify is not None and record.verify.passed
        assert record.verify.losses_compared > 0 and record.verify.samples_ok


def test_the_soak_as_a_whole(run: Run) -> None:
    for index, record in enumerate(run.trials):
        assert record.soak is not None
        assert (record.soak["index"], record.soak["injections"]) == (index, len(run.trials))
        assert record.soak["steps"] == STEPS
        assert 0 < record.soak["goodput"] < 1


def test_a_standby_is_there_for_every_kill_and_survivors_keep_their_process(run: Run) -> None:
    spawns = struck(run, "spawn")
    recoveries = len(struck(run, "act"))
    standbys = [line for line in spawns if int(str(line["worker"])) >= len(WORKERS)]
    assert len(standbys) >= len(run.trials)
    assert sum(line["worker"] == 0 for line in spawns) == 1, "worker 0 is never broken"
    assert len(spawns) <= len(WORKERS) + recoveries + 1


def test_no_process_of_the_soak_is_left(run: Run, command: Command) -> None:
    assert not command.processes()
