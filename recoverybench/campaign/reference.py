"""The fault-free run that every trial is compared with: made once, kept in the cache."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from recoverybench import sealed
from recoverybench.analysis.journal import read_trial
from recoverybench.analysis.verify import Reference, reference_of
from recoverybench.campaign.bench import Bench
from recoverybench.campaign.cache import Keys
from recoverybench.campaign.trial import Directories, Plan, parts, run_job
from recoverybench.errors import HarnessError, UsageError
from recoverybench.plan import catalogue
from recoverybench.results.reading import read_object
from recoverybench.topology import Topology


def reference_for(
    plan: Plan,
    bench: Bench,
    keys: Keys,
    place: Callable[[], Directories],
    told: Callable[[str], None],
) -> Reference:
    """The reference for the plan's job: from the cache, or by running it now.

    Running it also fills the executable store, so it is run again when that is empty.

    Args:
        plan: of any trial of the job. bench, keys: where it runs, and its addresses.
        place: makes the directories for its journals and logs, if it is run.
        told: receives words for the progress display.

    Raises:
        HarnessError: the job does not run to its end even without a fault.
    """
    kept = _kept(keys.reference_file)
    if kept is not None and (plan.cell.compile_cache != "executable" or _stored(plan, keys)):
        return kept
    cell = dataclasses.replace(
        plan.cell, compile_cache="executable", watchdog_s=None, watchdog_factor=None
    )
    where = place()
    plain = dataclasses.replace(plan, trial="reference", cell=cell, victim=None)
    problem = run_job(plain, bench, keys, where, told)
    if problem is not None:
        raise HarnessError(f"no fault, and yet: {problem} (logs: {where.logs})")
    reference = reference_of(read_trial(where.journals).all, keys.reference)
    sealed.write(keys.reference_file, json.dumps(reference.as_dict()).encode())
    return reference


def load_reference(path: Path) -> Reference:
    """A reference as it is kept with a run (``reference/KEY.json``).

    Raises:
        HarnessError: it cannot be read.
    """
    try:
        return Reference.from_dict(read_object(path, "reference", within=path.parents[1]))
    except (OSError, UsageError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HarnessError(f"{path}: not a reference: {error}") from error


def _kept(path: Path) -> Reference | None:
    """The reference in the cache; one that is damaged is as good as none."""
    content = sealed.read(path)
    return None if content is None else Reference.from_dict(json.loads(content))


def _stored(plan: Plan, keys: Keys) -> bool:
    """Every function of every rank is in the executable store, and whole."""
    _, strategy = parts(plan.cell)
    topology = plan.cell.mesh
    if strategy.processes is not None:
        topology = Topology(strategy.processes, topology.total)
    kept = catalogue.literal("state-sources", plan.cell.state_source, "KEEPS_OLD_STATE")
    names = ("init", "step-kept" if kept else "step", "signature")
    return all(
        sealed.read(keys.executables / f"{name}.{rank}of{topology.slug}.bin") is not None
        for name in names
        for rank in range(topology.workers)
    )
