"""What a worker must undo in Orbax before it can rejoin in the same process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np

CODE = """
import functools, sys
from orbax.checkpoint._src.futures.synchronization import OperationIdGenerator
from recoverybench.worker import checkpoint

first = OperationIdGenerator.get_current_operation_id()
for _ in range(3):
    OperationIdGenerator.next_operation_id()
assert OperationIdGenerator.get_current_operation_id() != first
checkpoint.reset_orbax()
assert OperationIdGenerator.get_current_operation_id() == first
OperationIdGenerator.next_operation_id()
print(first, OperationIdGenerator.get_current_operation_id())
full = [
    f"{name}.{key}"
    for name, module in list(sys.modules.items())
    if name.startswith("orbax.")
    for key, value in vars(module).items()
    if isinstance(value, functools._lru_cache_wrapper) and value.cache_info().currsize
]
assert not full, full
"""


def test_after_the_reset_orbax_counts_like_a_new_process() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fresh = subprocess.run(
        [
            sys.executable,
            "-c",
            "from orbax.checkpoint._src.futures.synchronization import OperationIdGenerator as G\n"
            "first = G.get_current_operation_id(); G.next_operation_id()\n"
            "print(first, G.get_current_operation_id())",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == fresh.stdout


def test_a_digest_sees_names_shapes_dtypes_and_bits() -> None:
    from recoverybench.worker.digest import digest

    a: dict[str, Any] = {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3),
        "y": np.zeros((), np.int32),
    }
    others: list[dict[str, Any]] = [
        {"z": a["x"], "y": a["y"]},
        {"x": a["x"].reshape(3, 2), "y": a["y"]},
        {"x": a["x"].view(np.int32), "y": a["y"]},
        {"x": a["x"] + np.float32(0), "y": a["y"] + np.int32(1)},
        {"x": -a["x"], "y": a["y"]},
    ]
    assert digest(dict(reversed(a.items()))) == digest(a)
    assert digest({"x": np.asfortranarray(a["x"]), "y": a["y"]}) == digest(a)
    assert len({digest(each) for each in (a, *others)}) == 1 + len(others)
