"""Exchanges with workers that have another clock than the supervisor.

They are made while nothing is measured: when the job is at its trigger, and when it is over. Where
all processes share one clock, which their journals say, there is nothing to do.
"""

from __future__ import annotations

import functools
import itertools
import json
import time
from pathlib import Path
from typing import Final

from recoverybench.clocks import Clock, Exchange, Offset, offset_of
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.job.probes import PROBE_S
from recoverybench.journal_writer import boot_id, time_namespace

EXCHANGES: Final = 16
"""In a series. The shortest round trip counts, and most are not delayed: half as many would do on
a quiet network."""

MOST_SILENT: Final = 8
"""Workers that are waited for in vain: of a job that hangs as a whole none will answer."""

_HEAD_BYTES: Final = 4096
"""Of a journal's first line; it has a tenth of that."""

_ids = itertools.count(1)


def measure_clocks(job: Job) -> None:
    """Write down, as `clock` lines, what the clocks of living workers show that are not ours.

    One worker of each clock answers for all; one that does not answer in time leaves it to the
    next. Machines that were resumed from one snapshot say the same of clocks that are several: so
    where workers may be elsewhere, each of the others is asked once whether that can be. The
    deadline of the trial does not count.
    """
    own = Clock(boot_id(), time_namespace())
    known: dict[Clock, Offset] = {own: Offset(0, 0, 0)}
    elsewhere = job.launcher.reach == "network"
    silent = 0
    for member in job.members:
        if not member.alive or member.connection is None:
            continue
        clock = _clock_of(job, member)
        if clock is None:
            continue
        if clock.same(own):
            clock = own
        if clock in known and not elsewhere:
            found = known[clock]
        else:
            exchanges = _ask(job, member, 1 if clock in known else EXCHANGES)
            if not exchanges:
                silent += 1
                if silent == MOST_SILENT:
                    return
                continue
            found = _settle(job, member, clock, known, exchanges)
        if found is not known[own]:
            member.offset = found.offset, found.bound


def _clock_of(job: Job, member: Member) -> Clock | None:
    """What the first line of its journal says; None: there is none yet."""
    # A journal is called as the log is: for the slot and the attempt that it was started as.
    path = Path(job.spec.journals) / f"{member.process.log.stem}.jsonl"
    try:
        with path.open("rb") as journal:
            head = journal.readline(_HEAD_BYTES)
    except FileNotFoundError:
        return None
    return Clock.of(json.loads(head)) if head.endswith(b"\n") else None


def _ask(job: Job, member: Member, most: int) -> list[Exchange]:
    """As many exchanges, or those before the first question that was not answered."""
    exchanges: list[Exchange] = []
    for number in itertools.islice(_ids, most):
        sent = time.monotonic_ns()
        member.tell({"kind": "clock", "id": number})
        job.turn_while(functools.partial(_waits, member, number), PROBE_S)
        if member.clock is None or member.clock[0] != number:
            break
        exchanges.append(Exchange(sent, *member.clock[1:]))
    return exchanges


def _settle(
    job: Job,
    member: Member,
    clock: Clock,
    known: dict[Clock, Offset],
    exchanges: list[Exchange],
) -> Offset:
    """What is to be taken for the worker's offset; written down where it says something new."""
    found, expected = offset_of(exchanges), known.get(clock)
    if expected is None:
        known[clock] = found
    elif abs(found.offset - expected.offset) <= found.bound + expected.bound:
        return expected
    job.journal.log(
        "clock",
        worker=member.slot if member.rank is None else member.rank,
        attempt=member.attempt,
        boot_id=clock.boot_id,
        time_namespace=clock.time_namespace,
        at=found.at,
        offset_ns=found.offset,
        bound_ns=found.bound,
        round_trips_ns=[exchange.round_trip for exchange in exchanges],
        differs=expected is not None,
    )
    return found


def _waits(member: Member, number: int) -> bool:
    """Whether that exchange may still be answered."""
    return member.alive and (member.clock is None or member.clock[0] != number)
