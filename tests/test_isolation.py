"""`isolation`: what may be asked for, where a reader meets it, and the process of one trial."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recoverybench import parenthood
from recoverybench.blocks import design_lines
from recoverybench.campaign import lane, measuring
from recoverybench.campaign.bench import Bench
from recoverybench.campaign.launching import check_launcher
from recoverybench.campaign.plans import plan_of
from recoverybench.compare.key import differences, key_of
from recoverybench.environments.environment import own
from recoverybench.errors import HarnessError
from recoverybench.launchers.base import Share
from recoverybench.plan import launchers
from recoverybench.plan.suite import Overrides, load_suite
from recoverybench.report.prose import method
from recoverybench.report.rows import rows_of
from recoverybench.results.store import RunDir, load
from tests.kept_runs import two_trials, usage_error
from tests.ray_fake import wanted
from tests.sample_run import default_trials, make_run

# What may be asked for


@pytest.mark.parametrize("launcher", ["local", "kubernetes", "kubernetes:mine.toml"])
def test_a_launcher_that_runs_one_trial_at_a_time_says_so(launcher: str) -> None:
    asked = Overrides(isolation="shared")
    message = usage_error(lambda: load_suite("quick", asked, launcher=launcher))
    allowed = f"expected 'exclusive' with launcher {launcher}, which runs one trial at a time"
    assert message == f"--isolation = 'shared': {allowed} ('shared' needs launcher ray)"
    suite = dataclasses.replace(load_suite("quick"), isolation="shared")
    resumed = usage_error(lambda: check_launcher(launcher, suite, Path("never")))
    assert resumed.startswith("suite quick: isolation = 'shared': expected 'exclusive'")


@pytest.mark.parametrize("value", ["both", "", True, ["shared"], 1])
def test_another_value_is_refused_with_its_place(value: object, tmp_path: Path) -> None:
    said = usage_error(lambda: launchers.read_isolation(value, "s.toml: suite.isolation", "ray"))
    assert said == f"s.toml: suite.isolation = {value!r}: expected 'exclusive' or 'shared'"


def test_a_suite_says_it_and_an_option_says_more(tmp_path: Path) -> None:
    text = (Path("workloads/suites") / "quick.toml").read_text()
    path = tmp_path / "s.toml"
    path.write_text(text.replace("[suite]\n", '[suite]\nisolation = "shared"\n'))
    assert load_suite("quick").isolation == "exclusive"
    suite = load_suite(str(path), launcher="ray")
    assert suite.isolation == "shared"
    assert type(suite).from_dict(suite.as_dict()) == suite
    alone = load_suite(str(path), Overrides(isolation="exclusive"))
    assert alone.isolation == "exclusive"
    assert alone.fingerprint != suite.fingerprint
    assert "suite.isolation = 'shared': " in usage_error(lambda: load_suite(str(path)))


@pytest.mark.parametrize(
    ("launcher", "isolation", "refused"),
    [
        ("ray", "exclusive", False),
        ("ray", "shared", False),
        ("ray:pack", "exclusive", False),
        ("ray:pack", "shared", True),
    ],
)
def test_no_fault_takes_a_node_that_neighbours_are_on(
    launcher: str, isolation: str, refused: bool
) -> None:
    asked = Overrides(isolation=isolation, fault=("kill", "kill-node"))
    suite = load_suite("quick", asked, launcher=launcher)
    why = {(cell.fault, reason) for cell, reason in suite.unsupported}
    said = "with ray:pack and isolation = shared a node is other trials', too"
    assert why == ({("kill-node", f"fault kill-node needs nodes: {said}")} if refused else set())
    assert {cell.fault for cell in suite.cells} == {"kill"} | ({"kill-node"} - {f for f, _ in why})


def test_a_run_goes_on_with_the_launcher_that_it_was_begun_with(tmp_path: Path) -> None:
    run = two_trials(tmp_path / "mine-1")
    suite = load(run).info.suite
    message = usage_error(lambda: RunDir.resume(run, suite, "ray"))
    assert message == f"--launcher = 'ray': expected 'local', with which {run} was begun"
    RunDir.resume(run, suite, "local")[0].close()
    RunDir.resume(run, suite)[0].close()


# Where a reader meets it


def run_with(isolation: str, neighbours: int) -> Any:
    trials = [dataclasses.replace(t, neighbours=neighbours) for t in default_trials()]
    run = make_run(trials, launcher="ray")
    suite = dataclasses.replace(run.info.suite, isolation=isolation)
    return dataclasses.replace(run, info=dataclasses.replace(run.info, suite=suite))


def test_what_ran_beside_others_is_said(tmp_path: Path) -> None:
    alone, beside = run_with("exclusive", 0), run_with("shared", 2)
    lines = design_lines(beside.info, beside.trials)
    assert "trials ran side by side, up to 3 at a time, and may have disturbed one another" in lines
    assert not any("side" in line for line in design_lines(alone.info, alone.trials))
    [line] = [x for x in design_lines(*_parts(run_with("shared", 0))) if "side" in x]
    assert "no trial had a neighbour" in line
    assert any("with up to 2 beside one at a time" in text for text in method(rows_of([beside])))
    assert not any("side by side" in text for text in method(rows_of([alone])))
    assert list(beside.frame()["neighbours"]) == [2] * len(beside.trials)


def _parts(run: Any) -> Any:
    return run.info, run.trials


def test_runs_that_differ_in_it_are_not_compared() -> None:
    alone, beside = run_with("exclusive", 0), run_with("shared", 2)
    cell = alone.trials[0].cell
    found = differences(key_of(alone.info, cell), key_of(beside.info, cell))
    assert found == ["isolation exclusive and shared"]


# The process of one trial


class Module:
    """A launcher's module that has nothing to launch."""

    def __init__(self) -> None:
        self.entered: list[tuple[Any, ...]] = []
        self.left = 0
        self.create = lambda environment, log, *more, **named: SimpleNamespace(close=lambda: None)

    def enter(self, *arguments: Any) -> None:
        self.entered.append(arguments)

    def lost(self) -> frozenset[str]:
        return frozenset({"n1"})

    def leave(self) -> None:
        self.left += 1


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    found = Module()
    monkeypatch.setattr(launchers, "load", lambda name: (found, "pack"))
    yield found
    gc.enable()


def setup_in(tmp_path: Path) -> lane.Setup:
    """What a lane is told, with a bench as `Bench.apart` has it."""
    parent: Any = SimpleNamespace()
    (tmp_path / "d").mkdir()
    bench = Bench(
        parent, tmp_path / "forks.log", "cpu", {}, tmp_path / "d", {None: own()}, 1, "pack", "ab"
    )
    asked = wanted(2, at=tmp_path, shared=True)
    return lane.Setup("ray:pack", asked, Share(("n0",)), tmp_path, bench.apart(3))


def test_a_lane_opens_runs_what_it_is_told_and_leaves(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = default_trials(1)

    def records(self: measuring.Measuring, plan: Any) -> Any:
        assert self.bench.directory.is_dir() and not gc.isenabled()
        assert [*self.references] == [("r", "storage")]
        self.told("train")
        self.made(("q", "storage"), made)
        return trials

    made = HarnessError("of a release on which nothing runs")
    monkeypatch.setattr(measuring.Measuring, "records", records)
    ours, theirs = Pipe()
    setup = setup_in(tmp_path)
    assert "ab" not in repr(setup), "the secret is in no log"
    suite = load_suite("quick")
    place = SimpleNamespace(cell=suite.cells[0], rep=0, block=0, position=0, profiled=False)
    task = lane.Task(
        plan_of(suite, place, "0000"),  # type: ignore[arg-type]
        {("r", "storage"): made},
        frozenset({None}),
    )
    ours.send(task)
    heard: list[Any] = []
    with pytest.raises(EOFError):
        _serve_one(theirs, setup, ours, heard)
    kinds = [type(answer) for answer in heard]
    assert kinds == [lane.Opened, lane.Told, lane.HasMade, lane.Done]
    assert heard[1].text == "train"
    assert str(heard[2].made) == str(made)
    assert (heard[3].records, heard[3].lost) == (trials, {"n1"})
    assert module.entered == [("pack", setup.wanted, Share(("n0",)))]
    assert module.left == 1
    assert not (tmp_path / "d" / "lane-3").exists()


def _serve_one(line: Any, setup: lane.Setup, ours: Connection, heard: list[Any]) -> None:
    """Serve until the first trial is done; then there is nothing more to come."""

    class Last:
        """The line, which the other side closes once it has heard of a trial's end."""

        def send(self, answer: Any) -> None:
            line.send(answer)
            heard.append(ours.recv())
            if isinstance(answer, lane.Done):
                ours.close()

        def recv(self) -> Any:
            return line.recv()

    lane._serve(Last(), setup)  # type: ignore[arg-type]


def test_what_keeps_a_lane_from_opening_is_said_in_a_word(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(*_: Any) -> None:
        raise HarnessError("other work has it")

    monkeypatch.setattr(module, "enter", enter)
    monkeypatch.setattr(parenthood, "die_with", lambda parent: None)
    ours, theirs = Pipe()
    ours.send(setup_in(tmp_path))
    descriptor = theirs.fileno()
    theirs._handle = None  # type: ignore[attr-defined]  # it is the lane's to close
    assert lane.main(descriptor, 1) == 3
    assert ours.recv() == lane.Failed("other work has it")
