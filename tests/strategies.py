"""Hypothesis strategies for the project's plain data: cells, trial records, suites."""

from __future__ import annotations

import itertools
import string
from functools import cache
from typing import Any

from hypothesis import strategies as st

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
from recoverybench.vocabulary import (
    CACHE_STATES,
    EVIDENCE,
    MILESTONES,
    OUTCOMES,
    PHASES,
    RECOVERY_PHASES,
    RESTORE_TIERS,
)

RECOVERED = ("recovered", "diverged", "silent_corruption", "restarted_from_scratch")
"""Outcomes of trials in which the job came back: every milestone was reached."""

# A fixed alphabet: building one from Unicode categories takes a second at the first draw.
_LINE = st.text(string.ascii_letters + "0123456789 <>&/\\'\".:=[]{},é—…語🙂\u2028", max_size=20)
_SECONDS = st.floats(0, 1e4, allow_nan=False, width=32)
_WHOLE = st.integers(-(2**63), 2**63 - 1)
_NS = 10**9

# What an example is drawn from is made once: to make it anew costs more than to draw from it.
_MAYBE_LINE = st.none() | _LINE
_MAYBE_SECONDS = st.none() | _SECONDS
_MAYBE_SMALL = st.none() | st.floats(0, 1e-3)
_MAYBE_WORKER = st.none() | st.integers(0, 3)
_OUTCOMES = st.sampled_from(OUTCOMES)
_CACHE_STATES = st.sampled_from(CACHE_STATES)
_SIGNALS = st.none() | st.sampled_from(["SIGKILL", "SIGABRT", "SIGTERM"])
_REASONS = st.sampled_from(["inject", "teardown", "end", "own"])
_WORKERS = st.none() | st.integers(1, 8)
_TIERS = st.none() | st.sampled_from(RESTORE_TIERS)
_RECEIVED = st.none() | st.integers(0, 2**40)
_SAVED = st.none() | st.booleans()
_PIDS = st.lists(st.integers(2, 2**22), max_size=2)
_TRIED = st.lists(_LINE, max_size=2)
_HARNESS = st.dictionaries(st.text(string.ascii_lowercase, min_size=1), _WHOLE)
_SAMPLES = {passed: st.none() | st.just(passed) for passed in (True, False)}


@cache
def cells(**fixed: Any) -> st.SearchStrategy[Cell]:
    """Cells whose factors may be anything a `Cell` can hold; `fixed` factors are given values."""
    factors: dict[str, st.SearchStrategy[Any]] = {
        "workload": st.sampled_from(["transformer:tiny", "transformer:small", "mlp:tiny"]),
        "topology": st.builds("{}x{}".format, st.integers(2, 8), st.integers(1, 4)),
        "strategy": st.sampled_from(["restart", "elastic", "hot-spare"]),
        "state_source": st.just("storage"),
        "fault": st.sampled_from(["kill", "hang", "preempt", "preempt:2s"]),
        "trigger": st.builds("step:{}".format, st.integers(1, 40)),
        "interval": st.integers(1, 100),
        "victim": st.none() | st.integers(0, 1),
        "heartbeat_s": st.integers(1, 100).map(float),
        "watchdog_s": st.none() | st.floats(0.125, 60, width=16),
        "coordinator": st.just("worker0"),
        "compile_cache": st.sampled_from(["executable", "persistent", "off"]),
    }
    given_values = {name: st.just(value) for name, value in fixed.items()}
    return st.builds(Cell, **{**factors, **given_values})


@st.composite
def records(draw: st.DrawFn, trial: str | None = None, outcome: str | None = None) -> TrialRecord:
    """Records that agree with themselves.

    Where the job came back, every milestone is there, phases are the times between them and
    their sum is the recovery time (no verification on the critical path); elsewhere milestones
    stop somewhere, and what was not reached is None.
    """
    outcome = outcome or draw(_OUTCOMES)
    back = outcome in RECOVERED
    reached = len(MILESTONES) if back else draw(st.integers(0, len(MILESTONES) - 1))
    milestones = _milestones(draw, reached)
    phases = _phases(milestones)
    recovery = sum(phases[name] for name in RECOVERY_PHASES) if back else None
    victim = draw(st.integers(0, 2)) if reached else None
    step_before = draw(st.integers(1, 40)) if reached else None
    restored = draw(st.integers(0, step_before)) if back and step_before is not None else None
    evidence = draw(_lists_of_evidence()) if reached > 1 else []
    evidence.sort(key=lambda one: one.after_s)
    return TrialRecord(
        trial=trial or f"{draw(st.integers(0, 9999)):04d}",
        cell=draw(cells()),
        rep=draw(st.integers(0, 99)),
        seed=draw(st.integers(0, 2**31 - 1)),
        outcome=outcome,
        error=None if back else draw(_MAYBE_LINE),
        victim=victim,
        t_inject=milestones.get("inject"),
        milestones=milestones,
        phases=phases,
        recovery_s=recovery,
        time_to_progress_s=recovery + phases["catch_up"] if recovery is not None else None,
        unattributed_s=draw(st.floats(0, 1)) * recovery if recovery is not None else None,
        verify_s=0.0 if back else None,
        step_before=step_before,
        restored_step=restored,
        lost_steps=step_before - restored if step_before and restored is not None else None,
        detected_by=evidence[0].mechanism if evidence else None,
        detection_evidence=tuple(evidence),
        compile_cache={str(w): draw(_CACHE_STATES) for w in range(3) if back},
        restore_bytes=draw(st.integers(0, 2**40)) if back else None,
        restore_tried=tuple(draw(_TRIED)),
        verify=draw(_verifications(outcome)) if back else None,
        exits=tuple(draw(_lists_of_exits())),
        spans=tuple(draw(_lists_of_spans())),
        pids={str(w): draw(_PIDS) for w in range(3)},
        load=(draw(_SECONDS), draw(_SECONDS)),
        memory_available_bytes=(draw(st.integers(0, 2**45)), draw(st.integers(0, 2**45))),
        wall_s=draw(_SECONDS),
        window_s=draw(_MAYBE_SECONDS),
        steady_step_s=draw(_MAYBE_SECONDS),
        simulated=draw(st.booleans()),
        workers=draw(_WORKERS),
        recoveries=draw(st.integers(0, 4)),
        transitions=tuple(draw(_lists_of_transitions())),
        restore_tier=draw(_TIERS),
        restore_received_bytes=draw(_RECEIVED),
        harmless=draw(st.booleans()),
        false_alarms=draw(st.integers(0, 3)),
        preemption_save=draw(_SAVED),
        stopped=draw(_maybe_stops()),
        soak=draw(_maybe_soaks()),
        harness=draw(_HARNESS),
    )


def suites() -> st.SearchStrategy[Suite]:
    """Suites as resolved, with cells that are all different."""
    return st.builds(
        Suite,
        name=st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=12).map(
            "s{}".format
        ),
        description=_LINE,
        trials=st.integers(1, 50),
        seed=st.integers(0, 2**31 - 1),
        deadline_s=st.floats(0.5, 3600),
        steps=st.integers(41, 1000),
        cells=st.lists(cells(), min_size=1, max_size=4, unique_by=lambda c: c.key).map(tuple),
        source=st.none() | _LINE,
        data=st.none() | _LINE,
        unsupported=st.lists(st.tuples(cells(), _LINE), max_size=2).map(tuple),
    )


def _milestones(draw: st.DrawFn, reached: int) -> dict[str, int]:
    instant = draw(st.integers(_NS, 10**6 * _NS))
    found = {}
    for name in MILESTONES[:reached]:
        found[name] = instant
        instant += draw(st.integers(0, 10 * _NS))
    return found


def _phases(milestones: dict[str, int]) -> dict[str, float]:
    instants = list(milestones.values())
    ends = itertools.pairwise(instants)
    return {name: (b - a) / _NS for name, (a, b) in zip(PHASES, ends, strict=False)}


@cache
def _lists_of_evidence() -> st.SearchStrategy[list[Evidence]]:
    observer = st.none() | st.integers(0, 2)
    one = st.builds(Evidence, st.sampled_from(EVIDENCE), _SECONDS, observer, _LINE)
    return st.lists(one, max_size=3)


@st.composite
def _exits(draw: st.DrawFn) -> Exit:
    signal = draw(_SIGNALS)
    return Exit(
        worker=draw(st.integers(0, 3)),
        attempt=draw(st.integers(0, 3)),
        pid=draw(st.integers(2, 2**22)),
        code=None if signal else draw(st.integers(0, 255)),
        signal=signal,
        ours=draw(st.booleans()),
        reason=draw(_REASONS),
    )


@cache
def _lists_of_exits() -> st.SearchStrategy[list[Exit]]:
    return st.lists(_exits(), max_size=4)


@st.composite
def _spans(draw: st.DrawFn) -> Span:
    start = draw(st.floats(-100, 1e4))
    worker = draw(_MAYBE_WORKER)
    end = start + draw(st.floats(0, 100))
    return Span(worker, draw(st.integers(0, 3)), draw(_LINE), start, end)


@cache
def _lists_of_spans() -> st.SearchStrategy[list[Span]]:
    return st.lists(_spans(), max_size=6)


@cache
def _lists_of_transitions() -> st.SearchStrategy[list[Transition]]:
    one = st.builds(
        Transition,
        kind=st.sampled_from(["resume", "grow"]),
        generation=st.integers(1, 9),
        step=st.none() | st.integers(0, 99),
        paused_s=st.none() | _SECONDS,
        phases=st.dictionaries(st.sampled_from(RECOVERY_PHASES), _SECONDS, max_size=2),
    )
    return st.lists(one, max_size=2)


@cache
def _maybe_stops() -> st.SearchStrategy[Stop | None]:
    return st.none() | st.builds(
        Stop,
        operation=st.integers(1, 99),
        kind=st.none() | st.sampled_from(["write", "rename"]),
        path=st.none() | _LINE,
        torn=st.none() | st.booleans(),
    )


@cache
def _maybe_soaks() -> st.SearchStrategy[dict[str, Any] | None]:
    return st.none() | st.fixed_dictionaries(
        {
            "index": st.integers(0, 9),
            "injections": st.integers(1, 10),
            "goodput": st.none() | st.floats(0, 1),
            "wall_s": st.none() | _SECONDS,
            "steps": st.integers(0, 999),
        }
    )


@cache
def _verifications(outcome: str) -> st.SearchStrategy[Verification]:
    return _verification(outcome)


@st.composite
def _verification(draw: st.DrawFn, outcome: str) -> Verification:
    passed = outcome == "recovered"
    return Verification(
        passed=passed,
        reference=draw(_MAYBE_LINE),
        losses_compared=draw(st.integers(0, 45)),
        digests_compared=draw(st.integers(0, 5)),
        samples_checked=draw(st.integers(0, 10**6)),
        samples_ok=draw(_SAMPLES[passed]),
        first_difference=None if passed else draw(_LINE),
        losses_within=draw(st.integers(0, 45)),
        tolerance=draw(_MAYBE_SMALL),
        largest_difference=draw(_MAYBE_SMALL),
        losses_beyond=draw(st.integers(0, 45)),
    )
