"""How large workloads are, found out without making any of their arrays.

A process of its own for whoever plans: the supervisor imports no jax. It answers JSON lines on
stdin with JSON lines on stdout:

``{"workload": W, "data": PATH or null, "try": bool}``

With ``{"problem": text}`` where the workload cannot be made, else with

- ``parameters``: elements of the leaves below ``params`` of the state, null where it has no such
  entry, and ``parameter_bytes``, likewise;
- ``state_bytes``: of the whole state, each leaf counted once;
- ``checkpoint_bytes``: what a checkpoint has to hold: the leaves as they are, without
  compression, and the JSON text that says where the data stands (`steps.Loop` saves both);
- ``batch_size`` and ``batch_bytes``: rows and bytes of the global batch;
- ``axes``: of a mesh, those that its layout names, and ``data``;
- ``leaves``: ``[name, shape, bytes of an element, mesh axis or null for each dimension]``.

Shapes come from `jax.eval_shape`, so a model of 70 billion parameters takes a fraction of a
second and no memory. Only as many records of the data are read as it takes to see their shapes.
With ``try``, `own.check` looks for what a job would stumble over.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from recoverybench.errors import RecoverybenchError, bad_value
from recoverybench.topology import AXES
from recoverybench.worker.data import Pipeline
from recoverybench.worker.layout import Layout
from recoverybench.worker.own import check, raised_at, short_error
from recoverybench.worker.program import Leaf, Program
from recoverybench.worker.workload import Workload, load
from recoverybench.workload_name import WorkloadName, short_name

_PARAMETERS: Final = "params"
"""Entry of a state that holds the parameters: its name in Flax and Optax, and in ours."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What `main` says to one request."""
    name = str(request["workload"])
    try:
        workload = load(name, request.get("data"))
        if request.get("try"):
            check(workload, name)
        return sizes(workload)
    except RecoverybenchError as error:
        return {"problem": str(error)}
    except (Exception, SystemExit) as error:  # whatever the model's own code raises
        parts = WorkloadName.of(name)
        place = raised_at(error, Path(parts.family)) if parts.own else ""
        allowed = f"one that can be made ({short_error(error)}{place})"
        return {"problem": str(bad_value("workload", short_name(name), allowed))}


def sizes(workload: Workload) -> dict[str, Any]:
    """The answer for a workload that can be made; raises whatever its code raises."""
    source = workload.source()
    record = {name: np.asarray(value)[None] for name, value in source[0].items()}
    program = Program(workload, record)
    leaves = program.signature.leaves
    parameters = [leaf for leaf in leaves if leaf.name.partition(".")[0] == _PARAMETERS]
    pipeline = Pipeline(source, batch_size=workload.batch_size, seed=0)
    position = json.dumps({"step": 0, "pipeline": pipeline.state()})
    total = sum(_nbytes(leaf) for leaf in leaves)
    return {
        "parameters": sum(map(_elements, parameters)) if parameters else None,
        "parameter_bytes": sum(map(_nbytes, parameters)) if parameters else None,
        "state_bytes": total,
        "checkpoint_bytes": total + len(position),
        "batch_size": workload.batch_size,
        "batch_bytes": sum(
            math.prod(shape) * jnp.dtype(dtype).itemsize
            for _, shape, dtype in program.signature.batch
        ),
        "axes": axes_of(getattr(workload, "layout", Layout())),
        "leaves": [
            [leaf.name, list(leaf.shape), jnp.dtype(leaf.dtype).itemsize, list(leaf.split)]
            for leaf in leaves
        ],
    }


def axes_of(layout: Layout) -> list[str]:
    """The axes of a mesh that a layout can use, and ``data``, which every workload can."""
    return [axis for axis in AXES if axis == "data" or axis in layout.rules.values()]


def _elements(leaf: Leaf) -> int:
    return math.prod(leaf.shape)


def _nbytes(leaf: Leaf) -> int:
    return math.prod(leaf.shape) * jnp.dtype(leaf.dtype).itemsize


def main() -> None:
    """Serve until stdin closes."""
    # A workload's own code may print; the answers keep stdout for themselves.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jax.config.update("jax_platforms", "cpu")
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
