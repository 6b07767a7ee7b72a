"""The strategy `pathways`: its argument, its cells, and the supervisor's side of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recoverybench.errors import UsageError
from recoverybench.faults.kill import Kill
from recoverybench.faults.kill_coordinator import KillCoordinator
from recoverybench.job.job import Job
from recoverybench.protocol import JobSpec
from recoverybench.strategies import pathways
from recoverybench.strategies.base import CannotRecover
from recoverybench.strategies.pathways import Settings
from tests import controller_spec
from tests.sample_run import make_cell

CELL = make_cell(
    workload="mlp:tiny",
    strategy="pathways",
    trigger="step:13",
    interval=5,
    watchdog_s=5.0,
    coordinator="worker0",
)


# The argument


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        (None, Settings()),
        ("shrink", Settings(shrink=True, back_s=None)),
        ("poll=10s", Settings(poll_s=10.0)),
        ("shrink,poll=250ms", Settings(shrink=True, poll_s=0.25, back_s=None)),
        ("shrink,back=2s", Settings(shrink=True, back_s=2.0)),
        ("poll=10s, back=2m", Settings(poll_s=10.0, back_s=120.0)),
        ("back=3", Settings(back_s=3.0)),
    ],
)
def test_the_argument_says_how_the_manager_is_set(argument: str | None, settings: Settings) -> None:
    assert Settings.of(argument) == settings
    assert pathways.create(argument).shrinks == settings.shrink


@pytest.mark.parametrize(
    "argument",
    [
        "grow",
        "shrink=yes",
        "poll",
        "poll=",
        "poll=0s",
        "poll=often",
        "poll=1s,poll=2s",
        "shrink,shrink",
        "poll=1s,",
        ",",
        "=1s",
        "shrink,back",
    ],
)
def test_any_other_argument_is_refused_in_one_line(argument: str) -> None:
    with pytest.raises(UsageError) as refused:
        pathways.create(argument)
    assert argument in str(refused.value)
    assert "expected" in str(refused.value)
    assert "\n" not in str(refused.value)


# Cells


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state_source": "snapshot"},
        {"fault": "kill-coordinator"},
        {"trigger": "time:2s"},
        {"trigger": "random"},
        {"topology": "2x3"},
    ],
)
def test_cells_that_a_controller_can_do(changes: dict[str, Any]) -> None:
    assert pathways.create(None).unsupported(dataclasses.replace(CELL, **changes)) is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"fault": "hang"}, "hang"),
        ({"fault": "preempt:2s"}, "preempt:2s"),
        ({"fault": "partition"}, "partition"),
        ({"trigger": "save"}, "save"),
        ({"trigger": "save:3:torn"}, "save:3:torn"),
        ({"trigger": "compile"}, "compile"),
        ({"state_source": "peer"}, "peer"),
        ({"state_source": "local"}, "local"),
        ({"coordinator": "external"}, "coordination service"),
        ({"replica_check": "save"}, "compare"),
    ],
)
def test_the_other_cells_are_refused_with_a_reason(changes: dict[str, Any], named: str) -> None:
    reason = pathways.create(None).unsupported(dataclasses.replace(CELL, **changes))
    assert reason is not None and named in reason
    assert "\n" not in reason


def test_a_smaller_mesh_must_divide_the_batch() -> None:
    cell = dataclasses.replace(CELL, topology="6x1")  # 12 rows, and 5 devices left
    assert pathways.create(None).unsupported(cell) is None
    reason = pathways.create("shrink").unsupported(cell)
    assert reason is not None and "12 rows" in reason and "5 devices" in reason
    assert pathways.create("shrink").unsupported(CELL) is None


# The supervisor's side


def _spec(**changes: Any) -> JobSpec:
    places = dict.fromkeys(("executables", "jax_cache", "checkpoints", "local", "journals"), "")
    return JobSpec(**(controller_spec.SPEC | places | {"board": "", "controller": None} | changes))


def test_the_controller_is_one_process_for_all_slices() -> None:
    plain = _spec()
    assert plain.processes == 3
    spec = pathways.create("poll=2s").spec(plain)
    assert (spec.processes, spec.workers) == (1, 3)
    assert spec.controller == {
        "minimum_slice_count": None,
        "poll_s": 2.0,
        "timeout_s": pathways.TIMEOUT_S,
        "attempts": pathways.ATTEMPTS,
    }
    assert JobSpec.of(json.loads(json.dumps(spec.as_message()))) == spec


def test_shrinking_asks_for_one_slice_less() -> None:
    spec = pathways.create("shrink").spec(_spec(workers=4))
    assert spec.controller is not None
    assert spec.controller["minimum_slice_count"] == 3


@dataclass
class Lines:
    """A journal that remembers."""

    lines: list[dict[str, Any]]

    def log(self, event: str, t: int | None = None, **fields: Any) -> int:
        self.lines.append({"event": event, "t": t, **fields})
        return t or 1


class StandIn:
    """What the strategy uses of a job: one controller, evidence and a journal."""

    def __init__(self, mechanism: str = "slice_lost", *, alive: bool = True) -> None:
        self.told: list[Mapping[str, Any]] = []
        self.placed: list[tuple[int, str]] = []
        self.controller = SimpleNamespace(
            rank=0, index=0, alive=alive, why=None, tell=self.told.append
        )
        self.evidence = [SimpleNamespace(mechanism=mechanism, detail="what was seen")]
        self.journal = Lines([])
        self.generation = 0
        self.injected: int | None = None
        self.signals: list[int] = []
        self.has_left = False

    def left(self) -> bool:
        return self.has_left

    def noticed(self) -> bool:
        return not self.has_left

    def finished(self) -> bool:
        return False

    def running(self) -> bool:
        return True

    def pump(self, until: Callable[[], bool]) -> bool:
        assert until(), "nothing more will happen to a stand-in"
        return True

    def span(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def ranks(self) -> list[Any]:
        return [self.controller]

    def service(self) -> Any:
        return self.controller

    def signal(self, member: Any, number: int) -> None:
        self.signals.append(number)

    def begin_generation(self, world: int | None = None, topology: str | None = None) -> str:
        assert world is None and topology is None
        self.generation += 1
        return "address"

    def place(self, member: Any, rank: int, address: str, kind: str) -> None:
        self.placed.append((rank, kind))


def test_kill_is_the_loss_of_the_victims_slice() -> None:
    job = StandIn()
    pathways.create(None).strike(cast(Job, job), Kill(), 2)
    (order,) = job.told
    assert (order["kind"], order["what"]) == ("break", "lose-slice")
    assert json.loads(order["argument"]) == {"slice": 2, "back_s": pathways.BACK_S}
    (inject,) = job.journal.lines
    assert inject["event"] == "inject"
    assert (inject["fault"], inject["worker"], inject["simulated"]) == ("kill", 2, True)
    assert job.injected == inject["t"]


@pytest.mark.parametrize(("argument", "back_s"), [("shrink", None), ("shrink,back=3s", 3.0)])
def test_a_shrunk_job_gets_a_slice_back_only_if_it_is_asked_for(
    argument: str, back_s: float | None
) -> None:
    job = StandIn()
    pathways.create(argument).strike(cast(Job, job), Kill(), 1)
    assert json.loads(job.told[0]["argument"]) == {"slice": 1, "back_s": back_s}


@pytest.mark.parametrize(
    ("argument", "has_left", "written"),
    [
        ("back=3s", True, []),
        ("shrink", True, []),
        ("shrink,back=3s", False, []),
        ("shrink,back=3s", True, [("transition", "grow", 1)]),
    ],
)
def test_growing_back_is_a_transition(
    argument: str, has_left: bool, written: list[tuple[str, str, int]]
) -> None:
    job = StandIn()
    job.has_left = has_left
    pathways.create(argument).settle(cast(Job, job))
    lines = [(e["event"], e["kind"], e["generation"]) for e in job.journal.lines]
    assert lines == written
    assert job.placed == [(0, "rejoin")] * len(written)


def test_the_loss_of_the_controller_is_real() -> None:
    job = StandIn()
    pathways.create(None).strike(cast(Job, job), KillCoordinator(), 2)
    assert not job.told and len(job.signals) == 1
    assert "simulated" not in job.journal.lines[0]


def test_it_notes_what_the_manager_does() -> None:
    job = StandIn()
    pathways.create(None).recover(cast(Job, job))
    assert [line["event"] for line in job.journal.lines] == ["act"]
    assert job.generation == 1
    assert job.placed == [(0, "rejoin")]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (StandIn("process_exit", alive=False), "controller is lost"),
        (StandIn("exception"), "gives up"),
    ],
)
def test_there_is_no_way_back_without_the_manager(job: StandIn, said: str) -> None:
    with pytest.raises(CannotRecover, match=said):
        pathways.create(None).recover(cast(Job, job))
    assert not job.journal.lines
