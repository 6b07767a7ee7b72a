"""What a trial is to be, and the keys of its job and of the fault-free jobs that it wants."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection

from recoverybench.campaign.bench import Bench
from recoverybench.campaign.cache import Keys
from recoverybench.campaign.design import Place
from recoverybench.campaign.trial import Plan, parts
from recoverybench.cells import Cell
from recoverybench.plan.suite import Suite

ReferenceKey = tuple[str, str]
"""A fault-free job: its key in the cache, and what the state source asks of the step."""


def plan_of(suite: Suite, place: Place, trial: str) -> Plan:
    """What a trial is to be. Its seed and victim depend on the suite's seed, the cell and the
    repetition, and on nothing else.
    """
    cell = place.cell
    # The same in every environment: what is compared shall differ in nothing else.
    key = dataclasses.replace(cell, environment=None).key
    seed = random.Random(f"{suite.seed}/{key}/{place.rep}").getrandbits(32)
    return Plan(
        trial=trial,
        cell=cell,
        rep=place.rep,
        seed=seed,
        victim=cell.victim if cell.victim is not None else _victim(cell, seed),
        job_seed=suite.seed,
        steps=suite.steps,
        data=suite.data,
        deadline_s=suite.deadline_s,
        block=place.block,
        position=place.position,
        profiled=place.profiled,
    )


def _victim(cell: Cell, seed: int) -> int:
    """Any worker but 0, from the seed: worker 0 also holds the coordination service, which is
    another fault and is asked for with ``victim = 0``.
    """
    return random.Random(seed).randrange(1, cell.mesh.workers)


def next_trial(numbers: Collection[int]) -> str:
    """Id of a trial that begins: the first number that no other has. Of trials that were cut off
    in the middle of others the number is free again.
    """
    number = next(n for n in range(len(numbers) + 1) if n not in numbers)
    return f"{number:04d}"


def keys_of(plan: Plan, cell: Cell, bench: Bench) -> Keys:
    """The cache's keys of a plan's job, run in `cell`."""
    _, strategy = parts(cell)
    controller = None
    if strategy.processes is not None:
        # One process compiles for all devices, and where it shrinks for fewer as well.
        controller = f"{cell.topology}{' or less' if strategy.shrinks else ''}"
    return Keys.of(
        cell,
        plan.job_seed,
        plan.steps,
        plan.data,
        bench.environment,
        controller,
        bench.software_of(cell.environment),
    )


def fault_free(plan: Plan, bench: Bench) -> list[tuple[Plan, Keys]]:
    """The fault-free jobs that a trial wants, its own one last.

    What another mesh runs after the recovery is compiled by a fault-free job, too.
    """
    _, strategy = parts(plan.cell)
    other: object = plan.cell.restore_topology
    if strategy.shrinks and strategy.processes is None:
        other = plan.cell.mesh.resized(plan.cell.mesh.workers - 1)
    plans = [plan]
    if other is not None:
        cell = dataclasses.replace(plan.cell, topology=str(other), restore_topology=None)
        plans.insert(0, dataclasses.replace(plan, cell=cell))
    return [(each, keys_of(each, each.cell, bench)) for each in plans]


def reference_key(plan: Plan, keys: Keys) -> ReferenceKey:
    """What a fault-free job is known by."""
    return keys.reference, plan.cell.state_source
