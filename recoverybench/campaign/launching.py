"""The launcher of a run: found by its name, and asked whether it can do what the run wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from recoverybench import machine
from recoverybench.campaign import cache
from recoverybench.campaign.bench import worker_environment
from recoverybench.campaign.trial import parts
from recoverybench.cells import Cell
from recoverybench.errors import UsageError
from recoverybench.launchers.base import Wanted
from recoverybench.plan import launchers, support
from recoverybench.plan.own_files import own_sources
from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord
from recoverybench.topology import Topology
from recoverybench.workload_name import WorkloadName, is_command, own_file


def check_launcher(launcher: str, suite: Suite, out: Path) -> Wanted | None:
    """Ask the launcher, before anything is written; returns what it was asked, None: nothing.

    Args:
        out: the run's directory, which need not exist yet.

    Raises:
        UsageError: it cannot do what the run wants.
    """
    module, argument = launchers.load(launcher)
    launchers.read_isolation(suite.isolation, f"suite {suite.name}: isolation", launcher)
    if not hasattr(module, "check"):
        return None
    asked = _wanted(suite, out)
    module.check(argument, asked)
    return asked


def _wanted(suite: Suite, out: Path) -> Wanted:
    place = out.absolute()
    there = next(p for p in (place, *place.parents) if p.is_dir())
    cache.root().mkdir(parents=True, exist_ok=True)
    cells = [cell for cell in suite.cells if not is_command(cell.workload)]
    own = {cell.workload for cell in cells if own_file(cell.workload)}
    files = {path for name in own for path in own_sources(Path(WorkloadName.of(name).family))}
    if suite.data is not None:
        files.add(Path(suite.data))
    return Wanted(
        workers=max((n for cell in cells for n in _processes(cell)), default=1),
        platform=machine.platform_name(),
        nodes_lost=any("nodes" in support.needs("faults", _fault(cell)) for cell in cells),
        directories=(there, cache.root()),
        files=tuple(sorted(files)),
        faults=frozenset(cell.fault for cell in cells),
        shared=suite.isolation == launchers.SHARED,
        survivors=any(parts(cell)[1].rejoin for cell in cells),
        devices=frozenset(cell.mesh.devices for cell in cells),
    )


def nodes_note(launcher: str, suite: Suite, finished: Sequence[TrialRecord]) -> str | None:
    """What the trials that are left take from the cluster for good, and what it can spare; None:
    nothing, or there is no such cluster. It is asked after the launcher was checked.

    No reason to refuse the run: nodes may come back while it goes on, as KubeRay's do.

    Args:
        finished: trials of the run that have been measured.
    """
    module, _ = launchers.load(launcher)
    cells = [cell for cell in suite.cells if "nodes" in support.needs("faults", _fault(cell))]
    if not cells or not hasattr(module, "spare"):
        return None
    done = Counter((record.cell, record.profiled) for record in finished)
    takes = sum(max(0, suite.trials - done[cell, False]) for cell in cells)
    if suite.profile:
        takes += sum(not done[cell, True] for cell in cells)
    nodes, spare = module.spare()
    most = "" if suite.precision is None and suite.budget_s is None else "at most "
    faults = ", ".join(sorted({_fault(cell) for cell in cells}))
    said = (
        f"{faults} takes {most}{takes} nodes, one a trial; the cluster has {nodes}, and can spare "
        f"{spare}"
    )
    if takes <= spare:
        return said
    return f"{said}: where too few are left the run ends with code 3, and --resume goes on later"


def manifests(launcher: str, suite: Suite) -> str:
    """What the launcher would send to its cluster for these cells; nothing is started or asked.

    Raises:
        UsageError: it sends nothing, or what it is told cannot be used.
    """
    module, argument = launchers.load(launcher)
    if not hasattr(module, "manifests"):
        raise UsageError(
            f"--dry-run: launcher {launchers.name_of(launcher)} sends no manifests: expected "
            "--launcher kubernetes"
        )
    workers = {parts(cell)[1].processes or cell.mesh.workers for cell in suite.cells}
    devices = {cell.mesh.devices for cell in suite.cells}
    variables = worker_environment(machine.platform_name())
    faults = {cell.fault for cell in suite.cells}
    survivors = any(parts(cell)[1].rejoin for cell in suite.cells)
    asked = {"faults": faults, "survivors": survivors}
    return str(module.manifests(argument, workers, devices, variables, **asked))


def _fault(cell: Cell) -> str:
    return cell.fault.partition(":")[0]


def _processes(cell: Cell) -> Iterator[int]:
    """How many processes each generation of a cell's job has at most."""
    _, strategy = parts(cell)
    yield strategy.processes or cell.mesh.workers
    if cell.restore_topology is not None:
        yield Topology.of(cell.restore_topology).workers
