"""Several environments on one bench, and one on which nothing runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from recoverybench.campaign.bench import Bench
from recoverybench.campaign.design import Place
from recoverybench.campaign.measuring import Measuring
from recoverybench.campaign.plans import plan_of
from recoverybench.campaign.trial import Plan
from recoverybench.environments.environment import own
from recoverybench.errors import HarnessError
from tests.environment_samples import OLD, cell, environment, suite

# On a bench


class Launcher:
    """Counts what is open."""

    open: ClassVar[list[str | None]] = []

    def __init__(self, variables: dict[str, str], log: Path, python: str | None = None) -> None:
        self.environment, self.log, self.python = variables, log, python
        self.open.append(python)

    def close(self) -> None:
        self.open.remove(self.python)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(Launcher, "open", [])
    module: Any = type("module", (), {"create": Launcher})
    known = {
        None: own(),
        "a": environment("a", python="/a", variables={"PYTHONPATH": "/code"}),
        "b": environment("b", python="/b", stable=False),
    }
    return Bench(module, tmp_path / "fork.log", "cpu", {"X": "1"}, tmp_path / "d", known, 2)


def test_fork_servers_end_when_there_are_too_many(bench: Bench) -> None:
    own_one = bench.launcher_of(None)
    assert bench.launcher_of(None) is own_one
    one: Any = bench.launcher_of("a")
    assert one.environment == {"X": "1", "PYTHONPATH": "/code"} and one.log.name == "fork-1.log"
    bench.launcher_of(None)
    bench.launcher_of("b")
    assert Launcher.open == [None, "/b"], "the one that was used last stays"
    bench.keep({"b"})
    assert Launcher.open == ["/b"]
    bench.close()
    assert Launcher.open == []


def test_keys_follow_the_environment(bench: Bench) -> None:
    assert bench.software_of("a") == {"versions": {"jax": "0.10.1"}, "python": "3.11.7 (main)"}
    assert bench.software_of(None) == own().software()
    # Of code that may be edited nothing is kept for another run.
    assert bench.software_of("b")["bench"] == bench.opened_ns


# A release on which nothing runs


def test_a_release_on_which_no_job_runs_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        tries.append(1)
        raise HarnessError("no fault, and yet: the healthy job failed")

    tries: list[int] = []
    monkeypatch.setattr(Measuring, "_reference", fail)
    nobody: Any = SimpleNamespace(
        environment={}, software_of=lambda environment: {"versions": {}, "python": environment}
    )
    measuring = Measuring(tmp_path, nobody, lambda text: None)

    def plan(where: Place, trial: str) -> Plan:
        return plan_of(suite(where.cell), where, trial)

    kept = [
        record
        for rep in (0, 1)
        for record in measuring.records(plan(Place(cell("restart"), rep, 0, rep), f"000{rep}"))
    ]
    assert [record.outcome for record in kept] == ["invalid", "invalid"]
    assert kept[0].error == "no fault, and yet: the healthy job failed"
    assert kept[0].recovery_s is None and kept[0].cell.environment == OLD
    assert len(tries) == 1, "it is not tried for each trial"
    with pytest.raises(HarnessError, match="the healthy job failed"):
        measuring.records(plan(Place(cell("restart", None), 0, 0, 0), "0002"))
