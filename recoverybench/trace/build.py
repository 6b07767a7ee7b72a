"""A trial's record and journals as a trace, with the arrows from cause to effect. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from recoverybench.labels import mechanism_name, one_controller, phase_name, victim_words
from recoverybench.records import Evidence, TrialRecord
from recoverybench.trace.job import PHASES, facts_of, job_of
from recoverybench.trace.journals import Journals
from recoverybench.trace.model import Flow, Owner, Process, Slice, Trace
from recoverybench.trace.processes import processes_of, worker_name

FAULT, NOTICED, STRATEGY = "fault", "noticed", "strategy"
"""Names of tracks: how long it was broken; who noticed it; what the strategy did."""


def build(record: TrialRecord, journals: Journals, about: Mapping[str, Any]) -> Trace:
    """The trace of a trial.

    Args:
        record: the trial. journals: of its job, as far as they are there.
        about: facts on where it is from, which are kept with the trace.
    """
    processes = processes_of(record, journals)
    job = job_of(record, journals, processes.values())
    flows = tuple(_flows(record, journals, job, processes))
    workers = sorted(processes.items(), key=lambda item: _place(item[0]))
    facts = {**about, "trial": record.trial, **facts_of(record), "journals": journals.said}
    return Trace((job, *(process for _, process in workers)), flows, record.t_inject, facts)


def _place(owner: Owner) -> tuple[int, int]:
    return (-1 if owner[0] is None else owner[0], owner[1])


def _flows(
    record: TrialRecord, journals: Journals, job: Process, processes: dict[Owner, Process]
) -> Iterator[Flow]:
    """Puts the fault, what noticed it and the strategy in their processes, and joins them."""
    t = record.t_inject
    if t is None:
        return
    fault = _fault(record, journals, t)
    victim = _victim(record, t, processes)
    (job if victim is None else processes[victim]).track(FAULT, 0).slices.append(fault)
    noticed = []
    for evidence in sorted(record.detection_evidence, key=lambda e: e.after_s):
        if math.isfinite(evidence.after_s):
            seen = _noticed(record, evidence, t)
            _observer(record, evidence, seen, processes).track(NOTICED, 1).slices.append(seen)
            if seen.start >= fault.start:
                noticed.append(seen)
                yield Flow("injection to detection", (fault, seen))
    acted = [_acted(record)] if "act" in record.milestones else []
    for act in acted:
        _process((None, 0), record, processes).track(STRATEGY, 2).slices.append(act)
    restore = [one for one in job.tracks[PHASES].slices if one.name == phase_name("restore")][:1]
    steps = sorted([*noticed[:1], *acted, *restore], key=lambda one: one.start)
    if len(steps) > 1:
        yield Flow("detection to action to restore", tuple(steps))


def _fault(record: TrialRecord, journals: Journals, t: int) -> Slice:
    """From the injection to where what it broke is gone, mended or out of the way."""
    ends = {name: record.milestones[name] for name in ("closed",) if name in record.milestones}
    for line in journals.supervisor:
        if line["event"] == "undone":
            ends.setdefault("undone", line["t"])
        if line["event"] == "exit" and line["worker"] == record.victim and line["t"] >= t:
            ends.setdefault("exit", line["t"])
    later = {name: end for name, end in ends.items() if end >= t}
    until = min(later, key=later.__getitem__, default="not known")
    said = {
        "fault": record.cell.fault,
        "trigger": record.cell.trigger,
        "victim": victim_words(record),
        "simulated": record.simulated,
        "until": until,
    }
    return Slice(f"injection: {record.cell.fault}", t, later.get(until, t), "fault", said)


def _victim(record: TrialRecord, t: int, processes: Mapping[Owner, Process]) -> Owner | None:
    """The process that was broken; None: it is none of those, as a slice is."""
    if record.victim is None or one_controller(record.cell):
        return None
    return _alive(record.victim, t, processes)


def _alive(worker: int, t: int, processes: Mapping[Owner, Process]) -> Owner | None:
    """The attempt of a worker that was there at `t`: the last one that had begun by then."""
    found: Owner | None = None
    for owner in sorted((o for o in processes if o[0] == worker), key=_place):
        tracks = processes[owner].tracks.values()
        begun = min((one.start for track in tracks for one in track.slices), default=None)
        if found is None or (begun is not None and begun <= t):
            found = owner
    return found


def _noticed(record: TrialRecord, evidence: Evidence, t: int) -> Slice:
    """From where something noticed to where the strategy acted on it."""
    at = t + round(evidence.after_s * 1e9)
    acted = record.milestones.get("act")
    said = {
        "after_s": evidence.after_s,
        "detail": evidence.detail,
        "first": evidence.mechanism == record.detected_by
        and evidence.after_s == min(e.after_s for e in record.detection_evidence),
    }
    name = f"noticed: {mechanism_name(evidence.mechanism)}"
    return Slice(name, at, max(at, acted or at), "evidence", said)


def _observer(
    record: TrialRecord, evidence: Evidence, seen: Slice, processes: dict[Owner, Process]
) -> Process:
    if evidence.observer is None:
        return _process((None, 0), record, processes)
    owner = _alive(evidence.observer, seen.start, processes) or (evidence.observer, 0)
    return _process(owner, record, processes)


def _process(owner: Owner, record: TrialRecord, processes: dict[Owner, Process]) -> Process:
    """A process, also where nothing else is known of it."""
    return processes.setdefault(owner, Process(worker_name(owner, record)))


def _acted(record: TrialRecord) -> Slice:
    """From where the strategy began to change something to where the old attempt was gone."""
    at = record.milestones
    begun = at["act"]
    name = f"{record.cell.strategy} acts"
    return Slice(name, begun, max(begun, at.get("closed", begun)), "strategy")
