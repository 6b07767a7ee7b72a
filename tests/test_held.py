"""What a worker holds of a state, on meshes of several devices of one process."""

from __future__ import annotations

import json
import subprocess
import sys

_SCRIPT = """
import json, sys
import jax
jax.config.update("jax_num_cpu_devices", 4)
import numpy as np
from recoverybench.topology import Topology
from recoverybench.worker.digest import digest
from recoverybench.worker.held import Held
from recoverybench.worker.program import Leaf, Shardings
from recoverybench.worker.runtime import mesh_of

leaves = [
    Leaf("params.w", (4, 6), "float32", ("fsdp", "tensor")),
    Leaf("params.b", (6,), "float32", ("tensor",)),
    Leaf("step", (), "int32"),
]
values = {
    "params.w": np.arange(24, dtype=np.float32).reshape(4, 6),
    "params.b": np.arange(6, dtype=np.float32),
    "step": np.int32(7) * np.ones((), np.int32),
}
found = []
for text in sys.argv[1:]:
    places = Shardings.of(mesh_of(Topology.of(text), jax.devices()))
    arrays = [jax.device_put(values[leaf.name], places.of_leaf(leaf)) for leaf in leaves]
    held = Held.of([leaf.name for leaf in leaves], arrays, copy=True)
    found.append({
        "whole": held.whole,
        "pieces": len(held.pieces),
        "owned": sum(held.owned),
        "described": held.described(),
        "squares": held.squares(),
    })
print(json.dumps({"digest": digest(values), "found": found}))
"""

MESHES = {
    "1x4": 3,
    "1x4:data=2,fsdp=2": 4,
    "1x4:fsdp=4": 6,
    "1x4:data=2,tensor=2": 5,
    "1x4:fsdp=2,tensor=2": 7,
}
"""Topology -> parts of the three leaves that one process has, each once."""


def test_one_process_has_everything_on_any_mesh_and_each_part_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *MESHES], capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    for pieces, found in zip(MESHES.values(), said["found"], strict=True):
        assert found["whole"] and found["pieces"] == found["owned"] == pieces
        assert found["described"] == {"digest": said["digest"], "leaves": 3}
        assert found["squares"] == [55.0, sum(i * i for i in range(24)), 49.0]
