"""The sentences of the report that are not numbers: what was run, how, and what it does not say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from recoverybench.busy import busy_words
from recoverybench.cells import Cell
from recoverybench.devices import method_words
from recoverybench.labels import NONE, one_controller, shape_words, struck_words
from recoverybench.report.rows import Row, mark_of
from recoverybench.report.settings import machine_words
from recoverybench.results.store import Run
from recoverybench.workload_name import short_name

_PROCESSES = (
    "Workers are separate processes of one multi-controller JAX job, with real collectives, real "
    "checkpoints and real data. The fault is really done to them, or to the network or the storage "
    "that they use: “kill” ends a worker at once (SIGKILL), “hang” freezes it (SIGSTOP), “preempt” "
    "announces the end, grants a grace period and then ends it."
)
_SLICES = (
    "Under “pathways” one process, the controller, holds the devices of all slices. The loss of a "
    "slice is simulated there: every access to an array that had a part on it raises an error, as "
    "it does where a slice is really lost. State, data and recovery are real."
)
_COMMANDS = (
    "Commands (strategy “own”) are run as their users run them, and bring themselves back. Nobody "
    "holds them: the fault strikes as soon as the step before its trigger's is seen. A step counts "
    "as completed after the fault only if it was begun after it. Phases have a name where a line "
    "or a mark names both their ends, and all other time is “unnamed”. What is compared with a run "
    "without a fault is the losses that they print, as printed or within the tolerance that their "
    "file states, and no state or sample. Settings and versions of each are under Settings."
)
_MOMENTS = {
    "step": "“step:25” holds the victim exactly before step 25, so that every trial breaks the "
    "same moment",
    "time": "“time:2s” breaks it that long after every worker has completed its first step",
    "random": "“random” breaks it at an instant that the trial's seed chooses",
    "save": "“save” breaks it in a save, “save:3:torn” in the middle of its third file operation",
    "rendezvous": "“rendezvous” breaks it while a job that is resumed meets",
    "restore": "“restore” breaks it while a job that is resumed reads its state",
    "compile": "“compile” breaks it while a job that is resumed compiles its step",
}
_BESIDE = (
    "Trials ran side by side, each on nodes or cores of its own, with up to {most} beside one at a "
    "time. What nodes share (network, file system, control plane) they shared, so that one may "
    "have slowed another down; every trial's record says how many neighbours it had."
)
_REST = (
    "Recovery time runs from the moment the fault takes effect to the first training step that is "
    "completed after it; time to progress runs on to the first step that had not been completed "
    "before.",
    "Every process writes down what it does, when it does it; phases are computed from that "
    "afterwards. Nothing is rounded away: a missing or negative duration makes a trial invalid.",
    "Verification compares the recovered training with the same job without a fault: every loss "
    "bit for bit at the same step, digests of the parameters and the optimizer when the state is "
    "saved, restored and at the end, and that every sample since the restored step was seen "
    "exactly once. After a change of topology, losses and the final state are "
    "compared within a stated tolerance. The time that this takes is in no phase.",
    "A recovery that fails on its way lies in the teardown of the next one; the last one counts.",
    "A trial that does not come back before the deadline stays in the success rate; it has no "
    "recovery time, and no median pretends otherwise.",
)


def method(rows: Sequence[Row]) -> list[str]:
    """How it was measured, a paragraph a point, of what these rows have in them."""
    slices = [one_controller(row.cell) for row in rows]
    used = dict.fromkeys(row.cell.trigger.partition(":")[0] for row in rows)
    most = max((trial.neighbours for row in rows for trial in row.trials), default=0)
    health = method_words(trial for row in rows for trial in row.trials)
    moments = [_MOMENTS[kind] for kind in used if kind in _MOMENTS] or [_MOMENTS["step"]]
    return [
        *([] if slices and all(slices) else [_PROCESSES]),
        *([_SLICES] if any(slices) else []),
        *([_COMMANDS] if any(row.cell.strategy == "own" for row in rows) else []),
        f"A trigger says when: {'; '.join(moments)}.",
        *([_BESIDE.format(most=most)] if most else []),
        *([health] if health else []),
        *_REST,
    ]


def method_head(rows: Sequence[Row]) -> str:
    """What a trial is, in one sentence; a soak is another thing than a single fault."""
    soaks = [any(t.soak is not None for t in row.trials) for row in rows]
    often = "again and again at moments that were fixed before,"
    once = "once on purpose at the moment that its trigger names"
    how = once if not any(soaks) else often if all(soaks) else f"{once}, in a soak {often}"
    job = "distributed training job"
    if rows and all(one_controller(row.cell) for row in rows):
        job = "training job of one controller over several slices"
    return (
        f"A real {job} is started, broken {how} and watched until it trains again and is proven "
        "right, or until a deadline passes."
    )


_OF_CPUS = (
    "Numbers from CPU workers on one machine say how the strategies compare and where their time "
    "goes. They carry no claim about TPU or GPU clusters, where imports, compilation, networks "
    "and state are of other sizes."
)
_OF_KINDS = (
    "Numbers from one kind and number of devices carry no claim about others, where compilation, "
    "networks and state are of other sizes."
)
_LIMITS = (
    "A handful of trials shows the typical case. It says little about rare failures: the interval "
    "beside each success rate tells how little.",
    "Faults were done at chosen moments. Others, or several at once, can cost more.",
    "Cells compare only within one machine and one set of versions; the settings above name both.",
)


def limit(runs: Sequence[Run]) -> str:
    """The one limit that nobody may miss, for the first screen; empty where there is none."""
    on_cpus = [_of_cpus(run) for run in runs]
    if not any(on_cpus):
        return ""
    which = "These are" if all(on_cpus) else "In part these are"
    return f"{which} CPU workers: no claim about TPUs or GPUs."


def _of_cpus(run: Run) -> bool:
    """Whether its workers were on CPUs, as those of all runs before platforms were kept."""
    return (run.info.machine.get("platform") or "cpu") == "cpu"


def limits(runs: Sequence[Run]) -> list[str]:
    """What the numbers do not say."""
    on = dict.fromkeys(_of_cpus(run) for run in runs)
    return [*(_OF_CPUS if cpu else _OF_KINDS for cpu in on), *_LIMITS]


def basis(runs: Sequence[Run]) -> str:
    """What the answer rests on, in one sentence: job, machine and day."""
    cells = [t.cell for run in runs for t in run.trials]
    machines = list(dict.fromkeys(filter(None, map(machine_words, runs))))
    parts = [_job(cells)] if cells else []
    if machines:
        parts.append("on " + " and ".join(machines))
    days = list(dict.fromkeys(day(run.info.created) for run in runs))
    parts.append(" and ".join(days))
    names = " and ".join(dict.fromkeys(f"“{run.info.suite.name}”" for run in runs))
    return f"Suite {names}: {', '.join(parts)}."


def notices(runs: Sequence[Run]) -> list[str]:
    """What a reader must know before the numbers: runs cut off, busy machines, simulated faults."""
    lines = []
    for run in runs:
        info, name = run.info, run.info.run_id
        planned = info.suite.trials * len(info.suite.cells)
        if info.status != "complete":
            lines.append(
                f"The run {name} is {info.status}: {run.jobs} of {planned} trials are here."
            )
        if busy := busy_words(run):
            lines.append(f"{name}: {busy}" if len(runs) > 1 else busy)
        if run.dropped:
            lines.append(f"In the run {name}, {run.dropped} half-written line(s) were dropped.")
        if simulated := sum(t.simulated for t in run.trials):
            said = dict.fromkeys(struck_words(t.cell) for t in run.trials if t.simulated)
            lines.append(
                f"In the run {name}, the fault was simulated in {simulated} trial(s): "
                f"{', '.join(said)}."
            )
    return lines


def marks_in_words(rows: Sequence[Row]) -> str:
    """What the marks of the first chart mean, but for the plain dot; those that occur."""
    kinds = {mark_of(trial) for row in rows for trial in row.trials}
    meanings = {
        "cross": "A cross is a trial that never trained again.",
        "wrong": "An orange dot is one that trained, but was not the same training, or is not to "
        "be trusted.",
        "nothing": "An open circle is one in which nothing had to recover.",
    }
    return " ".join(text for kind, text in meanings.items() if kind in kinds)


def chart_in_words(rows: Sequence[Row]) -> str:
    """The first chart for people who do not see it."""
    if not rows:
        return "Recovery time per cell: no trial yet."
    each = (f"{r.label}: {r.median_text}, {r.rate}" for r in rows)
    return "Median recovery time per cell. " + "; ".join(each)


def day(created: str) -> str:
    """An ISO time as a day in words (``1 March 2026``), or as it is where it is none."""
    try:
        moment = datetime.fromisoformat(created).astimezone(UTC)
    except (ValueError, OverflowError):
        return created or NONE
    return f"{moment.day} {moment:%B %Y}"


def _job(cells: Sequence[Cell]) -> str:
    """Workload and topology, where there is one of each."""
    workload = _one([short_name(c.workload) for c in cells], "workloads")
    return f"{workload}, {_one([shape_words(c) for c in cells], 'shapes of the job')}"


def _one(values: Sequence[str], plural: str) -> str:
    known = list(dict.fromkeys(values))
    return known[0] if len(known) == 1 else f"{len(known)} {plural}"
