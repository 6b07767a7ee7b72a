"""Workers over the nodes of a real Ray cluster: several raylets of this machine, over TCP."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from recoverybench.results.store import Run, load
from tests.real_support import (
    Command,
    await_line,
    finish,
    lines_of,
    only,
    started_by,
    story,
    suite_text,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]

CELLS = {"node": {"strategy": "elastic", "fault": "kill-node"}, "worker": {"strategy": "hot-spare"}}
"""The loss of a node, and of a worker: both in one run, in any order."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that was ended by Ctrl-C.

    Attributes:
        code: of the command. said: what it printed. ours: processes that it had on this machine.
        left: processes of recoverybench that outlived it, on any node. run: as it is then.
    """

    code: int
    said: str
    ours: dict[int, str]
    left: list[str]
    run: Run


@pytest.fixture(scope="module")
def address(command: Command) -> Iterator[str]:
    """Of a cluster with two nodes beside the supervisor's; in the end nothing of it is left,
    which the fixture `command` sees to.
    """
    cluster = subprocess.Popen(
        [sys.executable, "-m", "tests.ray_cluster", "2"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**command.environment, "RAY_TMPDIR": str(command.temporary / "r")},
        text=True,
    )
    assert cluster.stdin is not None and cluster.stdout is not None
    try:
        # Ray prints lines of its own before.
        said = iter(cluster.stdout.readline, "")
        yield next(line.strip() for line in said if line.strip().rpartition(":")[2].isdecimal())
    finally:
        cluster.stdin.close()
        finish(cluster)  # type: ignore[arg-type]
        cluster.stdout.close()


@pytest.fixture(scope="module")
def run(command: Command, address: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One trial of each cell."""
    suite = suite_text({"topology": ["2x1"], "fault": ["kill"]}, include=[CELLS["node"]])
    options = ["--launcher", "ray", "--ray-address", address]
    return command.measure(tmp_path_factory.mktemp("ray"), suite, *options, patience_s=200)


def raylets(command: Command) -> int:
    return sum("/raylet/raylet" in words for words in command.processes().values())


@pytest.mark.parametrize("name", sorted(CELLS))
def test_the_job_comes_back_and_its_record_is_whole(run: Run, name: str) -> None:
    record = only(run, **CELLS[name])
    assert (record.outcome, record.error, record.victim) == ("recovered", None, 1)
    assert record.verify is not None and record.verify.passed
    assert min(record.phases.values()) >= 0
    assert record.recovery_s == pytest.approx(
        sum(v for k, v in record.phases.items() if k != "catch_up")
    )
    ended = [(e.code, e.signal, e.reason) for e in record.exits if (e.worker, e.attempt) == (1, 0)]
    assert ended == [(None, "SIGKILL", "inject")]
    assert all(e.code == 0 and e.reason == "end" for e in record.exits if e.reason != "inject")
    assert len(set(record.pids["1"])) == 2
    assert 0 not in record.pids["0"] + record.pids["1"], "every pid is known in the end"


def test_the_loss_of_a_node_is_one_and_is_written_down(
    run: Run, command: Command, address: str
) -> None:
    record = only(run, **CELLS["node"])
    lines = lines_of(run.path / "journal" / record.trial / "supervisor.0.jsonl")
    [injected] = [line for line in lines if line["event"] == "inject"]
    assert injected["slots"] == [1]
    assert len(injected["node"]) == 56, "Ray's name of it"
    assert raylets(command) == 2, "the supervisor's and another one are left"


def test_a_run_leaves_nothing_but_its_results(run: Run) -> None:
    kinds = {"run.json", "trials.jsonl", "journal", "logs", "reference"}
    assert {path.name for path in run.path.iterdir()} == kinds
    ours = [p for p in run.path.parent.iterdir() if p.name.startswith(".recoverybench")]
    assert not ours, "tokens are removed"


def test_a_cluster_that_is_too_small_is_refused_before_anything_is_written(
    command: Command, address: str, tmp_path: Path
) -> None:
    arguments = command.arguments(tmp_path, suite_text({"topology": ["6x1"], "fault": ["kill"]}))
    process = command.start(
        *arguments, "--launcher", "ray", "--ray-address", address, output=tmp_path / "said"
    )
    assert finish(process) == 2
    said = (tmp_path / "said").read_text()
    assert "expected 6 nodes for 6 workers, and the cluster has " in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def beside(
    run: Run, command: Command, address: str, tmp_path_factory: pytest.TempPathFactory
) -> Ended:
    """Two trials side by side to their end, and two more that are cut off by Ctrl-C: on what is
    left of the cluster once `run` has taken a node from it, which are cores for two jobs.
    """
    assert raylets(command) == 2
    directory = tmp_path_factory.mktemp("beside")
    suite = suite_text(
        {"topology": ["2x1"], "fault": ["kill", "hang"]},
        isolation="shared",
        trials=2,
    )
    process = command.start(
        *command.arguments(directory, suite),
        *("--launcher", "ray:pack", "--ray-address", address),
        output=directory / "said",
    )
    journals = directory / "run" / "journal"
    for trial in ("0002", "0003"):
        await_line(process, journals / trial / "supervisor.0.jsonl", "inject")
    ours = started_by(process.pid)
    process.send_signal(signal.SIGINT)
    code = finish(process)
    left = [words for words in command.processes().values() if "recoverybench" in words]
    return Ended(code, (directory / "said").read_text(), ours, left, load(directory / "run"))


def test_two_trials_go_on_side_by_side_and_their_records_are_whole(beside: Ended) -> None:
    """Each finds its own journals, its own coordination service and the state that is right."""
    assert len(beside.run.trials) in (2, 3), "one may have ended just before the other was broken"
    for record in beside.run.trials:
        print(story(beside.run, record))
        assert (record.outcome, record.neighbours) == ("recovered", 1)
        assert record.verify is not None and record.verify.passed
    assert {(t.cell.fault, t.rep) for t in beside.run.trials} >= {("kill", 0), ("hang", 0)}
    names = {path.name for path in (beside.run.path / "journal").iterdir()}
    assert names >= {"0000", "0001", "0002", "0003"}
    assert len([name for name in names if name.startswith("reference")]) <= 1, "made once"


def test_ctrl_c_ends_whatever_runs_side_by_side(beside: Ended) -> None:
    assert beside.code == 130
    assert beside.run.info.status == "interrupted"
    assert sum("campaign.lane" in words for words in beside.ours.values()) == 2
    assert not beside.left
    assert "Interrupted. To go on: recoverybench run --out " in beside.said
    assert not [p for p in beside.run.path.iterdir() if p.name.startswith("recoverybench-")]
