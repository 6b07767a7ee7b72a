"""Meshes with axes, within a worker and across workers, kept or changed by the recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from recoverybench.analysis.journal import read_trial
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from recoverybench.topology import Topology
from tests.real_support import STEPS, Command, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

INSIDE, ACROSS, TENSOR = "2x2:data=2,fsdp=2", "4x1:fsdp=4", "4x1:data=2,tensor=2"
RESTORED = ((ACROSS, INSIDE), (INSIDE, TENSOR))
KEPT = (
    (INSIDE, "warm-restart", "storage"),
    (INSIDE, "hot-spare", "peer"),
    (INSIDE, "hot-spare", "snapshot"),
    (ACROSS, "hot-spare", "storage"),
    (TENSOR, "warm-restart", "storage"),
)


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One trial of each cell; the command's exit code says that every one recovered."""
    cells: list[dict[str, object]] = [
        {"topology": topology, "strategy": strategy, "state_source": source}
        for topology, strategy, source in KEPT[1:]
    ]
    cells += [
        {"topology": topology, "restore_topology": other, "strategy": "warm-restart"}
        for topology, other in RESTORED
    ]
    # What no worker has whole cannot be given away; a refused cell is no failure.
    cells.append({"topology": ACROSS, "strategy": "hot-spare", "state_source": "peer"})
    first = {"topology": [KEPT[0][0]], "strategy": [KEPT[0][1]]}
    directory = tmp_path_factory.mktemp("topologies")
    return command.measure(directory, suite_text(first, include=cells), "--strict", patience_s=300)


@pytest.mark.parametrize(("topology", "strategy", "source"), KEPT)
def test_on_the_same_mesh_every_bit_is_equal(
    run: Run, topology: str, strategy: str, source: str
) -> None:
    record = only(
        run, topology=topology, strategy=strategy, state_source=source, restore_topology=None
    )
    assert (record.outcome, record.error) == ("recovered", None)
    assert_compared(record, Topology.of(topology).workers)
    assert record.verify is not None and record.verify.tolerance is None


@pytest.mark.parametrize(("topology", "other"), RESTORED)
def test_on_another_one_the_state_is_and_the_training_is_within_a_tolerance(
    run: Run, topology: str, other: str
) -> None:
    record = only(run, topology=topology, restore_topology=other)
    assert (record.outcome, record.error) == ("recovered", None)
    assert_compared(record, Topology.of(other).workers)
    assert record.verify is not None and record.verify.tolerance is not None
    assert record.verify.losses_within == STEPS - (record.restored_step or 0)
    assert record.phases["restore"] > 0 and record.restored_step in (8, 16)


def assert_compared(record: TrialRecord, workers: int) -> None:
    """What came back and the last state, on each worker of the mesh that it ended on."""
    verify = record.verify
    assert verify is not None and verify.samples_ok
    assert verify.losses_compared == STEPS and verify.digests_compared == 2 * workers


def test_what_a_worker_has_only_a_part_of_is_refused_for_its_memory(run: Run) -> None:
    ((cell, reason),) = run.info.suite.unsupported
    assert cell.topology == ACROSS and "none has it whole" in reason


def test_each_worker_says_which_parts_it_has(run: Run) -> None:
    record = only(run, topology=ACROSS, restore_topology=None)
    lines = read_trial(run.path / "journal" / record.trial).lines
    saved = [x for x in lines if x["event"] == "digest" and x["what"] == "saved"]
    assert {x["of"] for x in saved} == {4}
    assert len({x["holds"] for x in saved}) == 4
    whole = only(run, topology=INSIDE, strategy="warm-restart", restore_topology=None)
    lines = read_trial(run.path / "journal" / whole.trial).lines
    assert not [x for x in lines if x["event"] == "digest" and "holds" in x]


def test_bad_meshes_are_one_line(command: Command, tmp_path: Path) -> None:
    for number, (topology, said) in enumerate(
        (
            ("2x2:data=2,fsdp=4", "whose product is 4"),
            ("2x2:data=2,expert=2", "expert is none of them"),
            ("2x4:data=4,expert=1,tensor=2", "expert is none of them"),
            ("8x1", "batch of 12"),
            ("5x1", "batch of 12"),
        )
    ):
        output = tmp_path / f"said-{number}"
        text = suite_text({"topology": [topology]})
        process = command.start(*command.arguments(tmp_path, text, f"r{number}"), output=output)
        assert process.wait(60) == 2
        lines = output.read_text().splitlines()
        assert len(lines) == 1 and said in lines[0] and topology in lines[0]
