"""One controller over slices, driven by the command: pathwaysutils' manager brings it back."""

from __future__ import annotations

import pytest

from recoverybench.results.store import Run
from tests.real_support import STEPS, Command, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    suite = suite_text(
        {"strategy": ["pathways:poll=250ms,back=200ms"], "interval": [5]},
        include=[
            {"strategy": "pathways:shrink", "state_source": "snapshot"},
            {"fault": "kill-coordinator"},
            {"fault": "hang"},
        ],
    )
    return command.measure(tmp_path_factory.mktemp("pathways"), suite)


def test_it_waits_for_the_slice_and_equals_the_reference(run: Run) -> None:
    trial = only(run, fault="kill", state_source="storage")
    assert (trial.outcome, trial.error, trial.simulated) == ("recovered", None, True)
    assert trial.detected_by == "slice_lost"
    assert trial.restored_step == 15 and trial.compile_cache == {"0": "executable"}
    assert trial.verify is not None and trial.verify.losses_compared == STEPS
    assert trial.verify.digests_compared == 2 and trial.verify.losses_within == 0
    away_s = (trial.milestones["up"] - trial.milestones["inject"]) / 1e9
    assert away_s >= 0.2, "the slice is away for that long"
    assert len(trial.pids["0"]) == 1, "the controller keeps its process"


def test_it_goes_on_with_a_slice_less_within_the_tolerance(run: Run) -> None:
    trial = only(run, strategy="pathways:shrink")
    assert (trial.outcome, trial.error) == ("recovered", None)
    assert trial.verify is not None and trial.verify.losses_within > 0
    assert trial.verify.samples_ok
    assert trial.compile_cache == {"0": "executable"}


def test_the_loss_of_the_controller_ends_the_job(run: Run) -> None:
    trial = only(run, fault="kill-coordinator")
    assert (trial.outcome, trial.simulated) == ("not_recovered", False)
    assert trial.error is not None and "controller is lost" in trial.error


def test_what_cannot_happen_to_a_controller_is_said_beforehand(run: Run) -> None:
    assert not [t for t in run.trials if t.cell.fault == "hang"]
    ((cell, reason),) = run.info.suite.unsupported
    assert cell.fault == "hang" and "hang has no counterpart" in reason
