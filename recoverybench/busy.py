"""Whether a machine had other work while a run was measured, which makes every time longer."""

from __future__ import annotations

import statistics

from recoverybench.results.store import Run


def busy_words(run: Run) -> str | None:
    """What a reader has to know of other work on the machine; None: there was none to be seen.

    The load average counts the trials' own workers too: one each for a minute after it has ended,
    and as many as there are cores when they compile. Other work is what is beyond that, at the
    beginning of the trials, or both there and when the run began. As `doctor` has it, half of the
    cores is much.
    """
    loads = [t.load[0] for t in run.trials if t.load]
    cores = run.info.machine.get("cores_usable")
    if not loads or not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        return None
    median = statistics.median(loads)
    try:
        workers = max(t.workers or t.cell.mesh.workers for t in run.trials)
    except ValueError:  # a topology that this release cannot read
        return None
    begun = run.info.machine.get("load")
    first = begun if isinstance(begun, float | int) and not isinstance(begun, bool) else 0.0
    others = max(median - workers * cores, min(median, first) - workers) - 1
    if others <= 0.5 * cores:
        return None
    return (
        f"The machine had other work (a load of {median:.1f} on {cores} cores at the start of its "
        "trials): times are longer than they would be on a quiet one."
    )
