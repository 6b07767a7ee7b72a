"""The trial record: what one injection in one cell came to. Plain, frozen data.

A record is one line of `trials.jsonl`. Times are CLOCK_MONOTONIC nanoseconds where the
name says `ns` or the field is an instant, and seconds as floats where it ends in `_s`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from recoverybench.cells import Cell


@dataclass(frozen=True, slots=True)
class Evidence:
    """One mechanism that noticed the failure.

    Attributes:
        mechanism: a name from `vocabulary.EVIDENCE`.
        after_s: seconds from the injection.
        observer: the worker that noticed, or None for the supervisor.
        detail: one line: the error's first line, the exit code.
        bound_s: clocks of several hosts may make `after_s` wrong by so much; 0: one clock.
    """

    mechanism: str
    after_s: float
    observer: int | None
    detail: str
    bound_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Exit:
    """How one attempt's process ended.

    Attributes:
        worker: process index. attempt: incarnation. pid: process id.
        code: exit code, None if a signal ended it or it did not end.
        signal: name of the signal that ended it (``SIGKILL``), or None.
        ours: whether the harness ended it (injection or teardown).
        reason: ``inject`` | ``teardown`` | ``end`` | ``own``.
    """

    worker: int
    attempt: int
    pid: int
    code: int | None
    signal: str | None
    ours: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was compared with the fault-free reference, and what came of it.

    Attributes:
        passed: everything that was compared was equal. None: nothing could be compared.
        reference: id of the reference run's record.
        losses_compared: steps whose loss was compared, joined on the step; bit for bit, but
            for `losses_within` of them.
        digests_compared: state digests compared (restored with saved, final with reference;
            with a tolerance, the final state by the norms of its leaves).
        samples_checked: samples in the account since the restored step.
        samples_ok: each of them was seen exactly once, and was the one the reference saw.
        first_difference: one line, None where `passed`.
        losses_within: steps computed on another topology, or that came after such steps:
            their losses were compared within a tolerance.
        tolerance: the largest relative difference that was allowed; None: no bit may differ
            anywhere.
        largest_difference: the largest relative difference that was found within a
            tolerance; None where there is none.
        losses_beyond: steps so long after the first ones on another topology that rounding may
            have grown to anything: their losses were only compared among the workers. They
            are not in `losses_compared`.
    """

    passed: bool | None
    reference: str | None
    losses_compared: int
    digests_compared: int
    samples_checked: int
    samples_ok: bool | None
    first_difference: str | None
    losses_within: int = 0
    tolerance: float | None = None
    largest_difference: float | None = None
    losses_beyond: int = 0


@dataclass(frozen=True, slots=True)
class Transition:
    """The job was set up anew with nothing broken.

    Attributes:
        kind: ``resume`` (ended and started again, before the injection) | ``grow`` (back to
            all workers, after it).
        generation: the one that it began.
        step: last step completed before it.
        paused_s: last step completed before it -> first step completed after it; None: there
            is none.
        phases: from the moment it was begun: ``teardown`` … ``first_step``, seconds; those
            that were reached.
    """

    kind: str
    generation: int
    step: int | None
    paused_s: float | None
    phases: dict[str, float]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where in a save the fault struck, for triggers that count file operations.

    Attributes:
        operation: how many operations the victim's save had come to, this one included.
        kind: what it was (``write``, ``rename`` …). path: its file, below the checkpoints.
            Both None: the save had fewer, and the moment is right after it was durable.
        torn: it was cut in the middle; None: that is not known.
    """

    operation: int
    kind: str | None
    path: str | None
    torn: bool | None


@dataclass(frozen=True, slots=True)
class Span:
    """Something one worker was doing, for the waterfall.

    Attributes:
        worker: process index, None for the supervisor.
        attempt: incarnation. name: what it was doing.
        start_s, end_s: seconds from the injection (negative: before it).
    """

    worker: int | None
    attempt: int
    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial. See the module's docstring for units.

    Attributes:
        trial: id, unique in its run and usable as a file name (``0007``).
        cell: the combination of factors. rep: repetition in that cell, from 0.
        seed: seed of this trial (victim, data order).
        outcome: from `vocabulary.OUTCOMES`. error: one line for people, or None.
        victim: the worker that was broken.
        t_inject: instant of the injection, ns; None if it never came to it.
        milestones: name -> instant in ns, those that were reached.
        phases: name -> seconds; complete only when the trial recovered.
        recovery_s, time_to_progress_s: None when not reached.
        unattributed_s: time on the critical path that no span covers.
        verify_s: time on the critical path that our own verification took; it is in no phase.
        step_before: last step completed before the injection, in the generation it broke.
        restored_step: step the state came back from, in the last recovery.
        lost_steps: steps whose work was lost, of all `recoveries` together; of one it is
            step_before - restored_step. Before format 6 it was of one of them.
        detected_by: first mechanism; detection_evidence: each mechanism with its time.
        compile_cache: worker (as text) -> state of the step function's cache.
        restore_bytes: bytes of state that the first worker restored.
        restore_tried: steps that were tried in vain, and why each failed.
        verify: see `Verification`. exits: one per attempt. spans: lanes for the waterfall; of a
            record that was read they are parsed when they are looked at.
        pids: worker (as text) -> pids of its attempts in order; survivors keep theirs.
        load: 1-minute load average at the start and the end. memory_available_bytes: likewise.
        wall_s: the whole trial, start of the job to its end. window_s: injection to verified.
        steady_step_s: median step before the injection, seconds.
        simulated: True where the fault was simulated.
        harness: sizes and costs of the harness itself.
        workers: processes of the job; None (old records): as the topology says.
        recoveries: how many were begun; the last one is the one that is timed.
        transitions: see `Transition`.
        restore_tier: where the state came from: ``storage`` | ``local`` | ``memory`` |
            ``peer``; several workers' tiers are joined by ``+``.
        restore_received_bytes: bytes that workers got from one another, all together.
        harmless: nothing is lost by the fault, so whatever alarmed was wrong.
        false_alarms: mechanisms and observers that alarmed at a harmless fault, before the
            strategy acted: what comes later is that recovery's own doing.
        preemption_save: whether every worker saved and stopped after a preemption notice;
            None: there was no notice.
        stopped: see `Stop`; None: the trigger counts no file operations.
        soak: of a job with many injections, one record each, called ``0007.000``, ``0007.001`` …:
            ``index`` of this one, ``injections`` in all, ``goodput`` (0 to 1), ``wall_s`` and
            ``steps`` of the job.
        checkpoint_bytes: of the files of the step that came back. raw_read_cold_s,
            raw_read_warm_s: what reading them took, as fast as files can be read, right after
            the job: from the disk, and from the page cache. None: the state came from
            elsewhere, or (cold) files cannot be dropped there.
        restore_read_s: the longest that a worker of the recovery took to read that step.
        save_stall_s: median time for which a save held the training up, over all saves and
            workers. save_s: median time from where a save was begun to where it was durable.
        block, position: which block of trials it belonged to, and its place there, both from 0:
            the first trial of a block is the one at position 0. None (old records): not known.
        profiled: the recovery ran under a profiler, which takes time: it is in no statistic.
        clock_bound_s: name of a duration (a phase, ``recovery_s``, ``time_to_progress_s``) -> how
            far clocks of several hosts may make it wrong, seconds; empty: all is on one clock.
        neighbours: the most trials and fault-free jobs of the same run that went on beside it at
            any one time between its start and its end; 0: it ran alone.
        devices: what the job's devices were: ``platform``, ``kind``, ``local`` (of a worker) and
            ``total``, and as far as there is such a thing ``slices``, ``topology`` of a slice,
            ``cores`` of a chip, ``runtime`` (the backend's version), ``libtpu``, ``plugins``,
            ``driver``; a list where workers differ; empty: no worker said.
        health: what the runtime said of them, ``before`` the injection and ``after`` the recovery:
            ``workers`` that said something, ``metrics`` (name -> ``least``, ``most``, ``where`` the
            most was, ``values``) and ``unavailable`` (worker -> why). What was not read is missing.
    """

    trial: str
    cell: Cell
    rep: int
    seed: int
    outcome: str
    error: str | None
    victim: int | None
    t_inject: int | None
    milestones: dict[str, int]
    phases: dict[str, float]
    recovery_s: float | None
    time_to_progress_s: float | None
    unattributed_s: float | None
    verify_s: float | None
    step_before: int | None
    restored_step: int | None
    lost_steps: int | None
    detected_by: str | None
    detection_evidence: tuple[Evidence, ...]
    compile_cache: dict[str, str]
    restore_bytes: int | None
    restore_tried: tuple[str, ...]
    verify: Verification | None
    exits: tuple[Exit, ...]
    spans: Sequence[Span]
    pids: dict[str, list[int]]
    load: tuple[float, float]
    memory_available_bytes: tuple[int, int]
    wall_s: float
    window_s: float | None
    steady_step_s: float | None
    simulated: bool = False
    harness: dict[str, Any] = field(default_factory=dict)
    workers: int | None = None
    recoveries: int = 0
    transitions: tuple[Transition, ...] = ()
    restore_tier: str | None = None
    restore_received_bytes: int | None = None
    harmless: bool = False
    false_alarms: int = 0
    preemption_save: bool | None = None
    stopped: Stop | None = None
    soak: dict[str, Any] | None = None
    checkpoint_bytes: int | None = None
    raw_read_cold_s: float | None = None
    raw_read_warm_s: float | None = None
    restore_read_s: float | None = None
    save_stall_s: float | None = None
    save_s: float | None = None
    block: int | None = None
    position: int | None = None
    profiled: bool = False
    clock_bound_s: dict[str, float] = field(default_factory=dict)
    neighbours: int = 0
    devices: dict[str, Any] = field(default_factory=dict)
    health: dict[str, Any] = field(default_factory=dict)

    @property
    def restore_fraction(self) -> float | None:
        """How fast the state was read, as a part of what its storage gives with the same state
        of the page cache; None: one of the two was not measured.
        """
        raw_s = self.raw_read_cold_s if self.cell.page_cache == "cold" else self.raw_read_warm_s
        if raw_s is None or not self.restore_read_s:
            return None
        return raw_s / self.restore_read_s

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data, in the order of the fields."""
        plain = dataclasses.asdict(dataclasses.replace(self, spans=()))
        return {**plain, "spans": tuple(dataclasses.asdict(span) for span in self.spans)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TrialRecord:
        """The inverse of `as_dict`. Raises KeyError, TypeError or ValueError on foreign data."""
        d = dict(data)
        d["cell"] = Cell.from_dict(d["cell"])
        d["detection_evidence"] = tuple(Evidence(**e) for e in d["detection_evidence"])
        d["exits"] = tuple(Exit(**e) for e in d["exits"])
        d["spans"] = tuple(Span(**s) for s in d["spans"])
        d["restore_tried"] = tuple(d["restore_tried"])
        d["load"] = tuple(d["load"])
        d["memory_available_bytes"] = tuple(d["memory_available_bytes"])
        d["transitions"] = tuple(Transition(**t) for t in d.get("transitions", ()))
        if d.get("stopped") is not None:
            d["stopped"] = Stop(**d["stopped"])
        d["verify"] = Verification(**d["verify"]) if d["verify"] is not None else None
        return cls(**d)
