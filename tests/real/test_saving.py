"""Kills while a save is in flight: what comes back was saved whole, and later saves land."""

from __future__ import annotations

import pytest

from recoverybench.analysis.journal import read_trial
from recoverybench.results.store import Run
from tests.real_support import STEPS, Command, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

STRATEGIES = ("restart", "elastic", "hot-spare")


@pytest.fixture(scope="module")
def saving(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Kills one step after an asynchronous save was begun."""
    triggers = [f"step:{step}" for step in (9, 17)]
    matrix = {"strategy": STRATEGIES, "trigger": triggers, "interval": [2]}
    return command.measure(tmp_path_factory.mktemp("saving"), suite_text(matrix), "--strict")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("step", [9, 17])
def test_a_kill_while_a_save_is_in_flight(saving: Run, strategy: str, step: int) -> None:
    record = only(saving, strategy=strategy, trigger=f"step:{step}")
    assert record.outcome == "recovered" and not record.restore_tried
    lines = read_trial(saving.path / "journal" / record.trial).lines
    begun = {x["step"] for x in lines if x["event"] == "save" and x["generation"] == 0}
    assert step - 1 in begun, "no save was begun just before the kill"
    committed = {x["step"] for x in lines if x["event"] == "committed" and x["generation"] == 0}
    assert record.restored_step in begun
    assert not committed or record.restored_step is not None
    assert (record.restored_step or 0) >= max(committed, default=0)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("step", [9, 17])
def test_later_saves_do_land(saving: Run, strategy: str, step: int) -> None:
    record = only(saving, strategy=strategy, trigger=f"step:{step}")
    lines = read_trial(saving.path / "journal" / record.trial).lines
    after = [x["step"] for x in lines if x["event"] == "committed" and x["generation"] == 1]
    assert STEPS - 2 in after and sorted(after) == after
    assert set(after) <= set(range((record.restored_step or 0) + 2, STEPS, 2))
