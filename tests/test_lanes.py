"""Trials side by side: which may begin, what each is told, and what is kept of it; no job runs."""

from __future__ import annotations

import dataclasses
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.analysis.verify import Reference
from recoverybench.campaign import lanes as lanes_module
from recoverybench.campaign.campaign import Campaign, Silent
from recoverybench.campaign.design import next_places, profile_places
from recoverybench.campaign.lane import Done, Failed, HasMade, Opened, Task, Told
from recoverybench.campaign.lanes import Lanes, _Lane
from recoverybench.campaign.plans import next_trial, plan_of
from recoverybench.campaign.turns import Turns
from recoverybench.errors import HarnessError
from recoverybench.launchers._ray_room import Packed, Room
from recoverybench.launchers.base import Share, Wanted
from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord
from tests.sample_run import make_cell, make_trial

# Turns


@given(
    wants=st.lists(st.frozensets(st.sampled_from("abc"), min_size=1), max_size=12),
    room=st.integers(1, 4),
    data=st.data(),
)
def test_trials_begin_in_order_as_many_as_fit_and_each_reference_is_made_once(
    wants: list[frozenset[str]], room: int, data: st.DataObject
) -> None:
    turns = Turns()
    running: dict[int, set[str]] = {}
    most: dict[int, int] = {}
    made: list[str] = []
    begun = 0
    while begun < len(wants) or running:
        if begun < len(wants) and len(running) < room and turns.may_begin(wants[begun]):
            turns.begin(begun, wants[begun])
            running[begun] = set(wants[begun]) - set(made)
            begun += 1
            assert len(turns) == len(running) <= room
            for each in running:
                most[each] = max(most.get(each, 0), len(running) - 1)
            continue
        assert running, "what waits is never stuck"
        one = data.draw(st.sampled_from(sorted(running)))
        if running[one]:
            reference = running[one].pop()
            assert reference not in made, "each is made once"
            made.append(reference)
            turns.has_made(one, reference)
        else:
            del running[one]
            assert turns.end(one) == most[one]
    assert sorted(most) == list(range(len(wants))), "each has run, and once"
    assert set(made) == set().union(*wants)


def test_nobody_begins_twice_or_out_of_turn() -> None:
    turns = Turns()
    turns.begin("x", ["a"])
    with pytest.raises(ValueError, match="may not begin"):
        turns.begin("x", [])
    with pytest.raises(ValueError, match="may not begin"):
        turns.begin("y", ["a", "b"])
    turns.begin("y", ["b"])
    assert turns.end("x") == 1


@given(st.sets(st.integers(0, 30)))
def test_a_trial_has_the_first_number_that_is_free(numbers: set[int]) -> None:
    found = int(next_trial(numbers))
    assert found not in numbers
    assert set(range(found)) <= numbers


# Lanes, whose processes are played


@dataclass
class Process:
    """In the place of a lane's process."""

    code: int = 0
    signals: list[int] = field(default_factory=list)

    def wait(self, timeout: float | None = None) -> int:
        return self.code

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


class Heard(Silent):
    """A listener that keeps what stays, and has something done when a trial goes on."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.then: Callable[[], None] = lambda: None

    def note(self, text: str) -> None:
        self.notes.append(text)

    def phase(self, name: str) -> None:
        self.then()


class Stage:
    """Where lanes are played: each by a thread that answers as its process would.

    Args:
        play: gets a task and where to answer; by default it makes what is lacking, and is done.
    """

    def __init__(self, path: Path, room: Room | Packed, play: Callable[..., Any] | None = None):
        self.running = 0
        self.most = 0
        self.started: list[Share] = []
        self.tasks: list[Task] = []
        self.made: list[Any] = []
        self.lock = threading.Lock()
        self.play = play or self.make
        self.processes: list[Process] = []
        self.room = room
        self.path = path
        (path / "logs").mkdir(exist_ok=True)
        self.heard = Heard()
        self.opening: Any = Opened()

    def start(self, lanes: Lanes, share: Share) -> _Lane:
        ours, theirs = Pipe()
        self.started.append(share)
        self.processes.append(Process())
        threading.Thread(target=self.serve, args=(theirs,), daemon=True).start()
        process: Any = self.processes[-1]
        return _Lane(len(self.started), share, process, ours, self.path / "log")

    def serve(self, line: Connection) -> None:
        with line:
            try:
                line.send(self.opening)
                while True:
                    task = line.recv()
                    with self.lock:
                        self.tasks.append(task)
                        self.running += 1
                        self.most = max(self.most, self.running)
                    line.send(Told("train"))
                    answer = self.play(task, line)
                    with self.lock:
                        self.running -= 1
                    if answer is not None:
                        line.send(answer)
                    if not isinstance(answer, Done):
                        return
            except (EOFError, OSError):
                return

    def make(self, task: Task, line: Connection) -> Any:
        which = task.plan.cell.workload, task.plan.cell.state_source
        if which not in task.references:
            with self.lock:
                self.made.append(which)
            line.send(HasMade(which, REFERENCE))
        return Done(
            [make_trial(int(task.plan.trial), cell=task.plan.cell, rep=task.plan.rep)], NONE
        )


NONE: frozenset[str] = frozenset()
REFERENCE = Reference("r", {}, {}, {}, "f", 30, None)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys without reading a file, and no process."""
    monkeypatch.setattr(
        lanes_module,
        "fault_free",
        lambda plan, bench: [(plan, SimpleNamespace(reference=plan.cell.workload))],
    )
    monkeypatch.setattr(Lanes, "_start", lambda self, share: self.bench.stage.start(self, share))


def suite_of(cells: int, trials: int = 2, **changes: Any) -> Suite:
    made = [
        make_cell(
            strategy=name, workload=f"mlp:{'small' if i % 3 == 2 else 'tiny'}", interval=5 + i
        )
        for i, name in zip(range(cells), ["elastic", "restart", "hot-spare"] * cells, strict=False)
    ]
    return Suite("s", "", trials, 0, 60.0, 30, tuple(made), isolation="shared", **changes)


def campaign_on(stage: Stage, suite: Suite, done: Sequence[TrialRecord] = ()) -> Campaign:
    """A campaign whose records are kept in memory."""
    bench: Any = SimpleNamespace(
        stage=stage, directory=stage.path, environment={}, software_of=lambda environment: {}
    )
    run: Any = SimpleNamespace(
        path=stage.path, append=lambda record: None, info=SimpleInfo({}, 0.0)
    )
    found = Campaign(suite, run, bench, stage.heard, list(done))
    found.beside = "ray", Wanted(2, "cpu", False, (), (), shared=True), stage.room
    return found


@dataclass(frozen=True)
class SimpleInfo:
    """The little of a run's information that a campaign writes."""

    ended: dict[str, str]
    wall_s: float


def single_file(suite: Suite) -> list[tuple[Any, ...]]:
    """What one trial after another comes to: cell, repetition, seed, victim, block and position."""
    records: list[TrialRecord] = []
    found = []
    while places := next_places(suite, records):
        for place in places:
            plan = plan_of(suite, place, f"{len(records):04d}")
            found.append(what(plan))
            record = make_trial(len(records), cell=place.cell, rep=place.rep)
            records.append(dataclasses.replace(record, block=place.block, position=place.position))
    return found


def what(one: Any) -> tuple[Any, ...]:
    return one.cell, one.rep, one.seed, one.victim, one.block, one.position


@pytest.mark.usefixtures("played")
@settings(max_examples=10)
@given(cells=st.integers(1, 5), trials=st.integers(1, 3), fits=st.integers(1, 4))
def test_the_same_trials_are_run_as_one_after_another(cells: int, trials: int, fits: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        suite = suite_of(cells, trials)
        stage = Stage(Path(directory), Room([[f"n{i}"] for i in range(fits)], 1))
        campaign = campaign_on(stage, suite)
        campaign.execute()
    plans = [task.plan for task in sorted(stage.tasks, key=lambda task: task.plan.trial)]
    assert [what(plan) for plan in plans] == single_file(suite), "in the same order, too"
    assert len({record.trial for record in campaign.records}) == cells * trials
    assert stage.most <= min(fits, cells), "never more than fit"
    assert len(stage.made) == len(set(stage.made)), "each reference once"
    assert all(record.neighbours < max(1, min(fits, cells)) for record in campaign.records)


@pytest.mark.usefixtures("played")
def test_a_run_that_was_cut_off_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    suite = suite_of(3)
    stage = Stage(tmp_path, Room([["n0"], ["n1"]], 1))
    first = campaign_on(stage, suite)
    first.execute()
    # Of the first block trial 1 was cut off, while 2 came to its end.
    done = [record for record in first.records if record.trial in ("0000", "0002")]
    assert len(done) == 2
    again = campaign_on(Stage(tmp_path, Room([["n0"], ["n1"]], 1)), suite, done)
    again.execute()
    assert sorted(r.trial for r in again.records) == [f"{i:04d}" for i in range(6)]
    assert {what(r)[:2] for r in again.records} == {what(r)[:2] for r in first.records}


@pytest.mark.usefixtures("played")
def test_two_that_run_at_the_same_time_are_neighbours(tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=30)

    def play(task: Task, line: Connection) -> Any:
        answer = stage.make(task, line)
        if task.plan.rep:  # the first block makes the references, one after another
            together.wait()
        return answer

    suite = suite_of(2)
    stage = Stage(tmp_path, Room([["n0"], ["n1"]], 1), play)
    campaign = campaign_on(stage, suite)
    campaign.execute()
    assert [r.neighbours for r in campaign.records if r.rep == 1] == [1, 1]


@pytest.mark.usefixtures("played")
def test_a_process_that_is_gone_takes_its_own_trial_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, str | None]] = []

    def records_of(plan: Any, journals: Path, made: Any, problem: str, **_: Any) -> Any:
        said.append((plan.trial, problem))
        return [dataclasses.replace(make_trial(int(plan.trial), cell=plan.cell), outcome="invalid")]

    monkeypatch.setattr(lanes_module, "records_of", records_of)

    def play(task: Task, line: Connection) -> Any:
        answer = stage.make(task, line)
        return None if task.plan.trial == "0001" else answer

    stage = Stage(tmp_path, Room([["n0"], ["n1"]], 1), play)
    campaign = campaign_on(stage, suite_of(3))
    campaign.execute()
    assert [trial for trial, _ in said] == ["0001"]
    assert "the process of lane " in str(said[0][1]) and "ended with code 0" in str(said[0][1])
    bad = {r.trial for r in campaign.records if r.outcome == "invalid"}
    assert bad == {"0001"} and len(campaign.records) == 6
    assert len(stage.started) == 3, "another one is in its place"


@pytest.mark.usefixtures("played")
def test_where_nodes_are_lost_fewer_run_and_nobody_gets_them(tmp_path: Path) -> None:
    def play(task: Task, line: Connection) -> Any:
        done = stage.make(task, line)
        return Done(done.records, frozenset({"n0"} if task.plan.trial == "0000" else ()))

    stage = Stage(tmp_path, Room([[f"n{i}"] for i in range(4)], 2), play)
    campaign = campaign_on(stage, suite_of(2, trials=4))
    campaign.execute()
    assert len(campaign.records) == 8
    later = [share for share in stage.started if share.lost]
    assert all("n0" not in share.nodes for share in later)
    assert stage.room.size == 1


@pytest.mark.usefixtures("played")
def test_a_lane_that_cannot_be_opened_leaves_fewer_and_none_is_the_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Room([["n0"], ["n1"]], 1))
    stage.opening = Failed("other work has it")
    with pytest.raises(HarnessError, match="other work has it"):
        campaign_on(stage, suite_of(2)).execute()
    assert len(stage.started) == 2, "each share is tried once"
    assert stage.heard.notes == ["one trial fewer side by side: other work has it"] * 2


@pytest.mark.usefixtures("played")
def test_a_reference_that_cannot_be_made_is_the_end(tmp_path: Path) -> None:
    def play(task: Task, line: Connection) -> Any:
        return Failed("no fault, and yet: it failed")

    stage = Stage(tmp_path, Room([["n0"], ["n1"]], 1), play)
    with pytest.raises(HarnessError, match="no fault, and yet"):
        campaign_on(stage, suite_of(2)).execute()


@pytest.mark.usefixtures("played")
def test_ctrl_c_asks_who_runs_to_end_and_keeps_what_was_measured(tmp_path: Path) -> None:
    """One trial comes to its end just before its process is asked to; the other one does not."""
    both = threading.Barrier(3, timeout=30)

    def play(task: Task, line: Connection) -> Any:
        answer = stage.make(task, line)
        if task.plan.rep == 0:
            return answer
        both.wait()
        return answer if task.plan.position == 0 else None

    stage = Stage(tmp_path, Room([["n0"], ["n1"]], 1), play)
    campaign = campaign_on(stage, suite_of(2))

    def interrupt() -> None:
        if stage.running == 2 and all(task.plan.rep == 1 for task in stage.tasks[-2:]):
            both.wait()
            raise KeyboardInterrupt

    stage.heard.then = interrupt
    with pytest.raises(KeyboardInterrupt):
        campaign.execute()
    assert [r.rep for r in campaign.records] == [0, 0, 1]
    assert campaign.records[-1].position == 0
    assert all(process.signals == [signal.SIGTERM] for process in stage.processes)


@pytest.mark.usefixtures("played")
def test_nothing_comes_after_a_soak_that_was_cut_off_while_it_was_written(tmp_path: Path) -> None:
    """A run that goes on takes a soak for cut off by its last line, and only by that."""
    stage = Stage(tmp_path, Room([["n0"], ["n1"]], 1))
    campaign = campaign_on(stage, suite_of(2, trials=1))
    tried: list[TrialRecord] = []

    def append(record: TrialRecord) -> None:
        tried.append(record)
        if len(tried) == 2:
            raise KeyboardInterrupt

    def soak(task: Task, line: Connection) -> Any:
        done = stage.make(task, line)
        return Done(done.records * 2, NONE)

    stage.play = soak
    campaign.run.append = append  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        campaign.execute()
    assert len(tried) == 2 and len(campaign.records) == 1


@pytest.mark.usefixtures("played")
def test_what_is_over_begins_nothing_more_and_profiles_come_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_of(2, trials=50, budget_s=1.0, precision=None, profile=True)
    stage = Stage(tmp_path, Room([["n0"], ["n1"]], 1))
    campaign = campaign_on(stage, suite)
    now = iter(range(1000))
    monkeypatch.setattr(
        "recoverybench.campaign.campaign.time", SimpleNamespace(monotonic=lambda: next(now) / 4)
    )
    campaign.began_s = 0.0
    campaign.execute()
    measured = [r for r in campaign.records if not r.profiled]
    assert 0 < len(measured) < 100
    profiled = [r for r in campaign.records if r.profiled]
    assert {r.cell for r in profiled} == set(suite.cells)
    assert not profile_places(suite, campaign.records, suite.cells)
