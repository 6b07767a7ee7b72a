"""A controller over slices, in a process of its own: what it loses, and how it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import controller_spec


@dataclass(frozen=True, slots=True)
class Told:
    """What a controller left: the messages it sent, and its journal."""

    messages: list[dict[str, Any]]
    lines: list[dict[str, Any]]

    def named(self, event: str, generation: int | None = None) -> list[dict[str, Any]]:
        return [
            line
            for line in self.lines
            if line["event"] == event and generation in (None, line["generation"])
        ]


def run(directory: Path, **changes: Any) -> Told:
    directory.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.controller_run", str(directory), json.dumps(changes)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    journal = (directory / "0.0.jsonl").read_text().splitlines()
    return Told(said, [json.loads(line) for line in journal])


MILESTONES = ["closed", "up", "rendezvous", "restored", "compiled", "first_step"]


def losses(told: Told) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for line in told.named("step"):
        found.setdefault(line["step"], set()).add(line["loss_bits"])
    return found


@pytest.mark.real
def test_all_slices_are_waited_for_and_the_training_is_the_same(tmp_path: Path) -> None:
    told = run(tmp_path / "broken")
    assert [m["kind"] for m in told.messages] == ["running", "hold", "failed", "running", "done"]
    assert told.messages[2]["mechanism"] == "slice_lost"
    assert "DATA_LOSS" in told.messages[2]["detail"]
    second = [e["event"] for e in told.lines if e.get("generation") == 1]
    assert [event for event in second if event in MILESTONES] == MILESTONES
    assert [line["slices"] for line in told.named("up")] == [[0, 1, 2], [0, 1, 2]]
    assert told.named("up")[1]["bytes_kept"] < 1000, "the arrays of before are gone"
    assert told.named("restore")[0]["step"] == 10
    (restored,) = (d for d in told.named("digest") if d["what"] == "restored")
    (saved,) = (d for d in told.named("digest", 0) if d["what"] == "saved" and d["step"] == 10)
    assert restored["digest"] == saved["digest"]
    assert sorted(losses(told)) == list(range(1, 21))
    assert all(len(bits) == 1 for bits in losses(told).values())


@pytest.mark.real
def test_it_goes_on_with_a_slice_less_from_the_snapshot(tmp_path: Path) -> None:
    settings = {**controller_spec.SPEC["controller"], "minimum_slice_count": 2}
    told = run(
        tmp_path / "shrunk", state_source="snapshot", controller=settings, slice=0, back_s=None
    )
    assert [m["kind"] for m in told.messages] == ["running", "hold", "failed", "running", "done"]
    assert [line["slices"] for line in told.named("up")] == [[0, 1, 2], [1, 2]]
    (restore,) = told.named("restore")
    assert (restore["step"], restore["tier"], restore["tried"]) == (10, "memory", [])
    digests = {
        d["digest"] for d in told.named("digest") if d["step"] == 10 and d["what"] != "final"
    }
    assert len(digests) == 1, "saved before, restored after"
    assert not list((tmp_path / "shrunk/checkpoints").iterdir())


@pytest.mark.real
def test_it_grows_back_at_a_checkpoint_and_loses_no_step(tmp_path: Path) -> None:
    settings = {**controller_spec.SPEC["controller"], "minimum_slice_count": 2, "poll_s": 0.05}
    told = run(tmp_path / "grown", controller=settings, steps=150, back_s=None, back=True)
    kinds = [m["kind"] for m in told.messages]
    assert kinds == ["running", "hold", "failed", "running", "left", "running", "done"]
    assert [line["slices"] for line in told.named("up")] == [[0, 1, 2], [0, 2], [0, 1, 2]]
    last = told.named("step", 1)[-1]["step"]
    assert last % 5 == 0 and last < 150
    assert told.named("restore", 2)[0]["step"] == last
    assert told.named("step", 2)[0]["step"] == last + 1
    third = [e["event"] for e in told.lines if e.get("generation") == 2]
    assert [event for event in third if event in MILESTONES] == MILESTONES


LOSS = """
import json, jax, numpy as np
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 3)
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from orbax.checkpoint.experimental.v1._src.training.pathways.snapshotter import Snapshotter
from pathwaysutils.elastic import elastic
from recoverybench.worker.pathways.slices import Loss, manager_of, slices_of

class Elsewhere:
    def __init__(self, slice_index):
        self.slice_index = slice_index

def shares(devices, count):
    try:
        return [len(devices) for devices in slices_of(devices, count).values()]
    except ValueError as error:
        return str(error)

shared = [
    shares(jax.devices(), 3),
    shares(jax.devices(), 2),
    shares([Elsewhere(0)] * 4, 2),
    shares([Elsewhere(i // 2) for i in range(6)], 3),
    shares([Elsewhere(i // 2) for i in range(6)], 2),
]
slices = slices_of(jax.devices(), 3)
manager = manager_of(slices)
loss = Loss(slices, lambda text: None)

def fresh(indices=(0, 1, 2)):
    devices = [slices[i][0] for i in indices]
    where = NamedSharding(Mesh(np.array(devices), ("data",)), PartitionSpec())
    return jax.device_put(np.ones(1000, np.float32), where)

def readable(array):
    try:
        np.asarray(array)
    except jax.errors.JaxRuntimeError as error:
        assert "DATA_LOSS" in str(error)
        return False
    return True

double = jax.jit(lambda x: x * 2)
compiled = double.lower(fresh()).compile()
old, elsewhere = fresh(), fresh((0, 2))
snapshotter = Snapshotter()
snapshotter.save(7, {"x": old})
snapshotter.join()
loss.lose(1, None)
found = {"old": readable(old), "elsewhere": readable(elsewhere)}
found["new there"] = readable(fresh())
found["new elsewhere"] = readable(fresh((0, 2)))
found["computed"] = readable(loss.computes(compiled, old))
found["lower"] = hasattr(jax.jit(lambda x: x), "lower")
found["active"] = sorted(elastic.get_active_slice_indices(slices))
loss.over()
found["still simulated"] = not readable(old)
loss._give_back(1)
found["active again"] = sorted(elastic.get_active_slice_indices(slices))
found["old, slice back"] = readable(old)
found["computed, slice back"] = readable(loss.computes(compiled, old))
found["new, slice back"] = readable(loss.computes(compiled, fresh()))
copies = snapshotter._latest_snapshot[0]
found["copies"] = [
    not loss._simulator.is_array_corrupted(copy["x"]) for copy in copies
]
del old
# Python gives the ids of arrays that are gone to new ones.
found["all new"] = all(readable(fresh()) for _ in range(500))
found["manager"] = [manager.total_slice_count, sorted(manager.active_slice_indices)]
try:
    loss.lose(3, None)
except ValueError as error:
    found["no such slice"] = str(error)
loss.over()
found["shared"] = shared
print(json.dumps(found))
"""


@pytest.mark.real
def test_a_lost_slice_takes_its_arrays_and_no_others() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOSS],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "old": False,
        "elsewhere": True,
        "new there": False,
        "new elsewhere": True,
        "computed": False,
        "lower": True,
        "active": [0, 2],
        "still simulated": True,
        "active again": [0, 1, 2],
        "old, slice back": False,
        "computed, slice back": False,
        "new, slice back": True,
        "copies": [True, False, True],
        "all new": True,
        "manager": [3, [0, 1, 2]],
        "no such slice": "there is no slice 3, only [0, 1, 2]",
        "shared": [
            [1, 1, 1],
            "3 devices cannot be shared by 2 slices",
            [2, 2],
            [2, 2, 2],
            "the devices form 3 slices, and the job has 2",
        ],
    }
