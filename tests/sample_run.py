"""Synthetic trial records, for tests of what is shown: no process, no clock, same every time."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recoverybench.cells import Cell
from recoverybench.plan.suite import Suite
from recoverybench.records import (
    Evidence,
    Exit,
    Span,
    Stop,
    Transition,
    TrialRecord,
    Verification,
)
from recoverybench.results.store import Run, RunInfo
from recoverybench.vocabulary import MILESTONES, PHASES, RECOVERY_PHASES, SCHEMA_VERSION

T_INJECT = 4_200_000_000_000

# Typical seconds of each phase, in the order of PHASES.
TYPICAL = {
    "restart": (0.04, 0.01, 0.31, 3.60, 0.12, 0.21, 0.42, 0.05, 0.22),
    "elastic": (0.04, 0.01, 0.12, 0.95, 0.06, 0.09, 0.14, 0.03, 0.20),
    "hot-spare": (0.04, 0.01, 0.13, 0.02, 0.06, 0.12, 0.15, 0.03, 0.21),
}


def make_cell(**changes: Any) -> Cell:
    """A cell of the default suite, with some factors changed."""
    factors: dict[str, Any] = {
        "workload": "transformer:tiny",
        "topology": "3x1",
        "strategy": "elastic",
        "state_source": "storage",
        "fault": "kill",
        "trigger": "step:25",
        "interval": 10,
        "victim": None,
        "heartbeat_s": 10.0,
        "watchdog_s": None,
        "coordinator": "supervisor",
        "compile_cache": "executable",
    }
    return Cell(**(factors | changes))


def make_trial(index: int = 0, *, rep: int = 0, cell: Cell | None = None) -> TrialRecord:
    """A recovered trial with three workers, worker 1 being the victim."""
    cell = cell or make_cell()
    # By the factors that were there when the numbers were chosen: a new one changes none.
    rng = random.Random(f"{'/'.join(cell.key.split('/')[:12])}/{rep}")
    typical = TYPICAL.get(cell.strategy, TYPICAL["elastic"])
    phases = {p: t * rng.uniform(0.9, 1.15) for p, t in zip(PHASES, typical, strict=True)}
    ends, now = {"inject": T_INJECT}, 0.0
    for name, milestone in zip(PHASES, MILESTONES[1:], strict=True):
        now += phases[name]
        ends[milestone] = T_INJECT + round(now * 1e9)
    recovery = sum(phases[p] for p in RECOVERY_PHASES)
    return TrialRecord(
        trial=f"{index:04d}",
        cell=cell,
        rep=rep,
        seed=1000 + index,
        outcome="recovered",
        error=None,
        victim=1,
        t_inject=T_INJECT,
        milestones=ends,
        phases=phases,
        recovery_s=recovery,
        time_to_progress_s=recovery + phases["catch_up"],
        unattributed_s=recovery * rng.uniform(0.004, 0.018),
        verify_s=0.021,
        step_before=25,
        restored_step=20,
        lost_steps=5,
        detected_by="process_exit",
        detection_evidence=(
            Evidence("process_exit", phases["detect"], None, "worker 1 ended by SIGKILL"),
            Evidence(
                "collective_error", phases["detect"] + 0.03, 0, "Gloo: Connection closed by peer"
            ),
            Evidence("connection_lost", phases["detect"] + 0.04, None, "control channel closed"),
        ),
        compile_cache={"0": "hit", "1": "executable", "2": "executable"},
        restore_bytes=412_672,
        restore_tried=(),
        verify=Verification(True, "tiny-3x1-0", 60, 3, 1280, True, None),
        exits=_exits(cell.strategy),
        spans=_spans(cell.strategy, phases),
        pids={w: [4100 + int(w)] + ([4200] if _is_new(cell.strategy, w) else []) for w in "012"},
        load=(0.8, 1.4),
        memory_available_bytes=(21_000_000_000, 20_500_000_000),
        wall_s=recovery + 6.1,
        window_s=recovery + 1.3,
        steady_step_s=0.031,
        harness={"journal_line_us": 6.5},
    )


def failed_trial(
    index: int, *, outcome: str = "not_recovered", rep: int = 0, cell: Cell | None = None
) -> TrialRecord:
    """A trial in which nothing that may be None holds a value."""
    trial = make_trial(index, rep=rep, cell=cell)
    return dataclasses.replace(
        trial,
        outcome=outcome,
        error="worker 0 died, and the coordination service with it",
        victim=None,
        t_inject=None,
        milestones={},
        phases={},
        recovery_s=None,
        time_to_progress_s=None,
        unattributed_s=None,
        verify_s=None,
        step_before=None,
        restored_step=None,
        lost_steps=None,
        detected_by=None,
        detection_evidence=(),
        compile_cache={},
        restore_bytes=None,
        restore_tried=("20: checksum differs",),
        verify=None,
        exits=(Exit(0, 0, 4100, None, None, False, "own"),),
        spans=(),
        pids={},
        window_s=None,
        steady_step_s=None,
    )


def timed_out_trial(index: int, *, rep: int = 0, cell: Cell | None = None) -> TrialRecord:
    """Noticed and torn down, then nothing more until the deadline."""
    trial = make_trial(index, rep=rep, cell=cell)
    reached = MILESTONES[:4]
    return dataclasses.replace(
        trial,
        outcome="timeout",
        error="no first step within 60 s of the injection",
        milestones={m: trial.milestones[m] for m in reached},
        phases={p: trial.phases[p] for p in PHASES[:3]},
        recovery_s=None,
        time_to_progress_s=None,
        unattributed_s=None,
        restored_step=None,
        lost_steps=None,
        verify=Verification(None, None, 0, 0, 0, None, None),
        spans=tuple(s for s in trial.spans if s.end_s < 0.5),
    )


def default_trials(reps: int = 3) -> list[TrialRecord]:
    """The default suite's trials: three strategies, `reps` of each, all recovered."""
    cells = [make_cell(strategy=s) for s in ("restart", "elastic", "hot-spare")]
    order = [(cell, rep) for rep in range(reps) for cell in cells]
    return [make_trial(i, rep=rep, cell=cell) for i, (cell, rep) in enumerate(order)]


def make_run(
    trials: Sequence[TrialRecord] | None = None, *, name: str = "quick", **changes: Any
) -> Run:
    """A run as `results.load` returns it, of these trials or of the default suite's.

    Args:
        trials: None takes `default_trials`.
        name: of the suite, and the beginning of the run's id.
        changes: fields of `RunInfo` to replace.
    """
    trials = default_trials() if trials is None else trials
    suite = Suite(
        name=name,
        description="one worker dies; three strategies bring it back",
        trials=3,
        seed=0,
        deadline_s=60.0,
        steps=45,
        cells=tuple(dict.fromkeys(t.cell for t in trials)),
        source="workloads/suites/quick.toml",
    )
    info = RunInfo(
        schema=SCHEMA_VERSION,
        run_id=f"{name}-20260301-120000",
        created="2026-03-01T12:00:00+00:00",
        status="complete",
        wall_s=131.2,
        suite=suite,
        environment={"python": "3.11.11", "jax": "0.10.2", "orbax-checkpoint": "0.12.8"},
        machine={
            "system": "Linux",
            "cpu": "test CPU",
            "cores_usable": 2,
            "memory_total_bytes": 25_000_000_000,
            "cgroup": {"cpu": None},
        },
        git={"commit": "4c463fd0", "dirty": False},
        seed=0,
        label=None,
        command=["recoverybench", "run", "quick"],
        launcher="local",
    )
    return Run(
        dataclasses.replace(info, **changes), tuple(trials), 0, Path("results") / info.run_id
    )


def _is_new(strategy: str, worker: str) -> bool:
    return worker == "1" or strategy == "restart"


def _exits(strategy: str) -> tuple[Exit, ...]:
    exits = [Exit(1, 0, 4101, None, "SIGKILL", True, "inject")]
    if strategy == "restart":
        exits += [Exit(w, 0, 4100 + w, None, "SIGKILL", True, "teardown") for w in (0, 2)]
    for w in range(3):
        new = _is_new(strategy, str(w))
        exits.append(Exit(w, int(new), 4200 if new else 4100 + w, 0, None, False, "end"))
    return tuple(exits)


def _spans(strategy: str, phases: dict[str, float]) -> tuple[Span, ...]:
    edge, now = {}, 0.0
    for name in PHASES:
        edge[name] = (now, now + phases[name])
        now += phases[name]
    acted = edge["teardown"][0]
    spans = [Span(None, 0, "react", *edge["react"])]
    for w in range(3):
        new = _is_new(strategy, str(w))
        attempt = int(new)
        lag = 0.004 * w
        seen = 0.0 if w == 1 else edge["detect"][1] + lag
        spans += [Span(w, 0, "step", t - 0.03, t - 0.001) for t in (-0.1, -0.07, -0.04)]
        spans.append(Span(w, 0, "step", -0.03, seen))
        if not new:
            spans.append(Span(w, 0, "jax.distributed.shutdown", acted, acted + 0.03))
            spans.append(Span(w, 0, "clear caches", acted + 0.03, edge["teardown"][1] - 0.01 + lag))
        else:
            start = acted + 0.02 if strategy != "hot-spare" else edge["replace"][0]
            spans.append(Span(w, attempt, "import", start, edge["replace"][1] - 0.008 + lag))
        names = {
            "rendezvous": "jax.distributed.initialize",
            "restore": "restore",
            "compile": "get the step function",
            "first_step": "step",
        }
        for phase, name in names.items():
            spans.append(Span(w, attempt, name, edge[phase][0], edge[phase][1] - 0.008 + lag))
        start, end = edge["restore"]
        spans.append(Span(w, attempt, "read the checkpoint", start + 0.01, end - 0.04))
        spans.append(Span(w, attempt, "verify", end - 0.035, end - 0.014))
    return tuple(spans)


def detection_trials() -> list[TrialRecord]:
    """Two settings of the watchdog: the shorter one notices sooner, and cries wolf."""
    trials: list[TrialRecord] = []
    for watchdog_s, latency, alarms in ((0.5, 0.62, 1), (5.0, 5.1, 0)):
        for rep in range(2):
            hang = make_cell(fault="hang", watchdog_s=watchdog_s)
            seen = (Evidence("watchdog", latency + rep / 10, None, "no step completed"),)
            trials.append(
                dataclasses.replace(
                    make_trial(len(trials), rep=rep, cell=hang),
                    detected_by="watchdog",
                    detection_evidence=seen,
                )
            )
            slow = make_cell(fault="slow:5:2s", watchdog_s=watchdog_s)
            trials.append(
                dataclasses.replace(
                    make_trial(len(trials), rep=rep, cell=slow),
                    outcome="recovered" if alarms * rep else "no_effect",
                    detection_evidence=seen if alarms * rep else (),
                    harmless=True,
                    false_alarms=alarms * rep,
                )
            )
    return trials


def sweep_trials() -> list[TrialRecord]:
    """A crash before, in and after the first three operations of a save; one differs."""
    kinds = [("mkdir", "20.tmp"), ("write", "20.tmp/d/abc"), ("rename", "20")]
    trials: list[TrialRecord] = []
    for number, (kind, path) in enumerate(kinds, start=1):
        for moment in ("before", "torn", "after"):
            cell = make_cell(trigger=f"save:{number}:{moment}")
            trials.append(
                dataclasses.replace(
                    make_trial(len(trials), cell=cell),
                    restored_step=20 if (number, moment) == (3, "after") else 10,
                    outcome="diverged" if (number, moment) == (2, "torn") else "recovered",
                    stopped=Stop(number, kind, path, moment == "torn"),
                )
            )
    return trials


def soak_trials(count: int = 3) -> list[TrialRecord]:
    """One job that was struck `count` times."""
    cell = make_cell(fault="poisson:20s")
    whole = {"injections": count, "goodput": 0.874, "wall_s": 61.0, "steps": 900}
    return [
        dataclasses.replace(
            make_trial(i, cell=cell), trial=f"0000.{i:03d}", soak={"index": i, **whole}
        )
        for i in range(count)
    ]


def grown_trial(index: int = 0) -> TrialRecord:
    """Went on with fewer workers, and grew back."""
    return dataclasses.replace(
        make_trial(index, cell=make_cell(strategy="shrink")),
        transitions=(Transition("grow", 2, 33, 1.24, {"rendezvous": 0.1}),),
        verify=Verification(True, "r", 60, 3, 1280, True, None, 20, 3.8e-5, 1.1e-6),
        recoveries=1,
        restore_tier="memory+peer",
    )


def refusing(run: Run, *reasons: str) -> Run:
    """The same run of a suite with more cells, one for each reason it was refused for."""
    refused = tuple((make_cell(fault=f"f{i}"), reason) for i, reason in enumerate(reasons))
    suite = dataclasses.replace(run.info.suite, unsupported=refused)
    return dataclasses.replace(run, info=dataclasses.replace(run.info, suite=suite))
