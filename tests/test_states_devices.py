"""States on devices and on a node, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITH_JAX = """
import json, sys
from pathlib import Path
import jax
import numpy as np
from jax.sharding import Mesh
from recoverybench.journal_writer import Journal
from recoverybench.protocol import Place
from recoverybench.worker.node_checkpoint import NodeCheckpoints
from recoverybench.worker.program import Leaf, Shardings, Signature
from recoverybench.worker.sharing.host import to_devices, to_host
from recoverybench.worker.states.base import Part
from recoverybench.worker.states.peer import Peer

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 3)
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: compiled.append(event) if "compile" in event else None
)
places = Shardings.of(Mesh(np.array(jax.devices()), ("data",)))
arrays = {
    "w": np.arange(100_000, dtype=np.float32),
    "b": np.ones((3, 5), jax.numpy.bfloat16),
    "n": np.array(7, np.int32),
}
signature = Signature(tuple(Leaf(n, a.shape, str(a.dtype)) for n, a in arrays.items()), ())
before = {name: array.tobytes() for name, array in arrays.items()}


def same(found):
    assert list(found) == list(arrays)
    for name, array in found.items():
        assert isinstance(array, np.ndarray) and array.dtype == arrays[name].dtype
        assert array.shape == arrays[name].shape and array.tobytes() == before[name], name
"""


def with_jax(code: str, directory: Path) -> None:
    """Run code behind `WITH_JAX` in a process of its own, in which JAX has three devices."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_JAX + code, str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_to_the_devices_and_back_nothing_is_compiled_and_no_step_overwrites_it(
    tmp_path: Path,
) -> None:
    with_jax(
        """
placed = to_devices(arrays, signature, places)
assert all(a.sharding == places.replicated and len(a.devices()) == 3 for a in placed.values())
same(to_host(placed))
assert not compiled, compiled
step = jax.jit(lambda state: {n: a + 1 for n, a in state.items()}, donate_argnums=0)
kept = to_host(placed)
after = jax.block_until_ready(step(placed))
assert all(a.is_deleted() for a in placed.values())
same(arrays)  # what was put there may be the very memory that the step was given
same(kept)
assert float(after["n"]) == 8
""",
        tmp_path,
    )


def test_a_process_alone_saves_and_reads_its_own_copy(tmp_path: Path) -> None:
    with_jax(
        """
directory = Path(sys.argv[1])
done = []
node = NodeCheckpoints(directory, 0, 20.0, done.append, 2)
state = to_devices(arrays, signature, places)
for step in (5, 10, 15):
    node.save(step, state, {"step": step})
node.finish()
assert done == [5, 10, 15], done
assert node.steps() == [15, 10], node.steps()
found, data = node.read(10, signature)
assert data == {"step": 10}
same({name: found[name] for name in arrays})
assert not compiled, compiled
for leaf in (Leaf("n", (), "int64"), Leaf("w", (10,), "float32"), Leaf("x", (), "int32")):
    others = [one for one in signature.leaves if one.name != leaf.name]
    try:
        node.read(10, Signature((*others, leaf), ()))
    except (ValueError, KeyError):
        continue
    raise AssertionError(f"read as {leaf}")
assert node.abandon(3.0) == []
""",
        tmp_path,
    )


def test_peer_keeps_the_last_completed_step_until_the_next_generation_has_one(
    tmp_path: Path,
) -> None:
    with_jax(
        """
journal = Journal(Path(sys.argv[1]) / "j", 1, 0)
keep = {}
place = Place(0, 1, 0, "127.0.0.1:1", 3, 1, "3x1")
part = Part(None, place, journal, keep, lambda what, mine: mine)
state = to_devices(arrays, signature, places)
names, leaves = list(state), list(state.values())
source = Peer(part)
assert source.abandon() == [] and keep == {}  # no step was completed
source.completed(26, names, leaves, {"step": 26})
source.completed(27, names, leaves, {"step": 27})
assert keep == {}  # nothing is copied while the job is healthy
assert source.abandon() == []
(kept,) = keep.values()
assert (kept.step, kept.data) == (27, {"step": 27})
same(kept.arrays)
following = Peer(part)
assert following.abandon() == [] and list(keep.values()) == [kept]  # it failed at once
following = Peer(part)
following.completed(28, names, leaves, {"step": 28})
assert keep == {}
leaves[0].delete()  # as if a step had been given it
(problem,) = following.abandon()
assert problem.startswith("the state after step 28 is lost: RuntimeError"), problem
assert keep == {}
lines = [json.loads(line) for line in (Path(sys.argv[1]) / "j").read_text().splitlines()]
(taken,) = [line for line in lines if line["event"] == "digest"]
assert (taken["what"], taken["step"], taken["leaves"]) == ("saved", 27, 3)
""",
        tmp_path,
    )
