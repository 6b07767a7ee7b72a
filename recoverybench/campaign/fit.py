"""Whether a suite's workloads can be trained here: a user's own is tried, and memory is counted.

Before anything is started or written, and without making an array: see `plan.sizes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from recoverybench import machine
from recoverybench.campaign.sizes import is_foreign, sizes_of
from recoverybench.campaign.trial import parts
from recoverybench.cells import Cell
from recoverybench.environments.environment import Environment
from recoverybench.errors import RecoverybenchError, bad_value
from recoverybench.plan import catalogue
from recoverybench.plan.sizes import Sizes, bytes_words
from recoverybench.plan.suite import Suite
from recoverybench.plan.workloads import preset_of
from recoverybench.topology import Topology
from recoverybench.workload_name import WorkloadName, is_command, short_name

_SMALL: Final = 0.5
"""A workload is not asked for its size if a bound of it is below this share of the memory."""

_BYTES_PER_PARAMETER: Final = 16
"""Of the bound: parameter, two moments and gradient, four bytes each."""


def check_fit(
    suite: Suite,
    launcher: str,
    environments: Mapping[str | None, Environment] | None = None,
    *,
    force: bool,
    told: Callable[[str], object] = lambda text: None,
) -> None:
    """Refuse what no job could be made of.

    Args:
        suite: as resolved. launcher: how workers are started.
        environments: in which a user's own workloads are tried, by the name that a `Cell` holds.
        force: do not count memory.
        told: hears what takes a moment.

    Raises:
        UsageError: a workload of the user's own has a fault or cannot be had on a topology, or
            a workload needs more memory than there is.
        HarnessError: the sizes of a workload are not known.
    """
    cells = [cell for cell in suite.cells if not is_command(cell.workload)]
    foreign = {cell.workload for cell in cells if is_foreign(cell.workload)}
    # What the entries of a preset have to do with one another only its family knows.
    changed = {cell.workload for cell in cells if WorkloadName.of(cell.workload).changes}
    asked = foreign | changed
    counted = launcher == "local" and machine.platform_name() == "cpu" and not force
    available = machine.memory_for_work_bytes() if counted else None
    if available is not None:
        asked |= {c.workload for c in cells if not _obviously_small(c, available)}
    known: dict[str, Sizes] = {}
    for environment in dict.fromkeys([None, *(cell.environment for cell in cells)]):
        if environment is None:
            # Shapes of what ships are the same in every release.
            wanted = asked - foreign | {c.workload for c in cells if c.environment is None} & asked
        else:
            wanted = {c.workload for c in cells if c.environment == environment} & foreign
        found = sizes_of(
            sorted(wanted),
            suite.data,
            told=lambda w: told(f"sizes of {short_name(w)}"),
            environment=(environments or {}).get(environment),
        )
        for workload, sizes in found.items():
            if isinstance(sizes, RecoverybenchError):
                raise type(sizes)(f"{environment}: {sizes}") if environment else sizes
            known[workload] = sizes
    for cell in cells:
        if cell.workload in foreign:
            _check_topologies(cell, known[cell.workload])
        if cell.workload in known and available is not None:
            _check_memory(cell, known[cell.workload], available)


def needed_bytes(sizes: Sizes, topology: Topology, *, keeps_old_state: bool = False) -> int:
    """Memory without which a job on CPU devices of one machine cannot be: a lower bound.

    Every device holds its part of the state, and of the gradients during a step; a save copies
    each array once, on whichever workers write it. A state source that keeps the old state until
    the step is done has it twice on every device. Left out, because a model may do with little
    of it: activations, buffers of collectives, the libraries' own memory.

    Args:
        sizes: of the workload. topology: of the job.
        keeps_old_state: what the state source asks of the step (``KEEPS_OLD_STATE``).
    """
    states = 2 if keeps_old_state else 1
    on_device = states * sizes.device_bytes(topology) + sizes.gradient_bytes(topology)
    return topology.total * on_device + sizes.state_bytes


def _topologies(cell: Cell) -> Iterator[tuple[str, Topology]]:
    """Every topology that a cell's job may have, with the factor that it comes from."""
    yield "topology", cell.mesh
    if cell.restore_topology is not None:
        yield "restore_topology", Topology.of(cell.restore_topology)
    elif parts(cell)[1].shrinks:
        smaller = cell.mesh.resized(cell.mesh.workers - 1)
        if smaller is not None:
            yield "strategy", smaller


def _check_topologies(cell: Cell, sizes: Sizes) -> None:
    for factor, topology in _topologies(cell):
        why = sizes.why_not_on(topology)
        if why is not None and factor == "strategy":
            left = f"one that can go on as {topology}: {why}"
            raise bad_value("workload", short_name(cell.workload), left)
        if why is not None:
            raise bad_value(factor, str(topology), why)


def _check_memory(cell: Cell, sizes: Sizes, available: int) -> None:
    keeps = bool(catalogue.literal("state-sources", cell.state_source, "KEEPS_OLD_STATE"))
    for _, topology in _topologies(cell):
        needed = needed_bytes(sizes, topology, keeps_old_state=keeps)
        if needed > available:
            state = "two states" if keeps else "the state"
            raise bad_value(
                "workload",
                short_name(cell.workload),
                f"one that fits into memory: on {topology} it needs about {bytes_words(needed)} "
                f"for {topology.workers} workers ({state} and the gradients on each of "
                f"{topology.total} devices, and the copy that a save takes), this machine has "
                f"{bytes_words(available)} available (--force begins all the same)",
            )


def _obviously_small(cell: Cell, available: int) -> bool:
    """Whether asking for the size would be a waste of seconds.

    The largest matrix of a model and the number of them are made of three entries of its
    preset; a model whose size stands in none of its entries is not seen here, and not refused.
    """
    preset: Mapping[str, object] | None = preset_of(cell.workload)
    if preset is None:
        return False
    numbers = (v for v in preset.values() if isinstance(v, int) and not isinstance(v, bool))
    parameters = math.prod(sorted(numbers)[-3:])
    devices = max(topology.total for _, topology in _topologies(cell))
    return parameters * _BYTES_PER_PARAMETER * (devices + 1) < _SMALL * available
