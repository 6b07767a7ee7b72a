"""More journals that nobody ran: fewer workers, growing back, a resumed job, a soak.

As in `tests.histories` every instant is chosen. A job is a list of generations, each trained
by its members; what the supervisor writes is put beside them by the functions below.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from recoverybench.analysis.reference import Reference, reference_of
from tests.histories import STEPS, WORKERS, Files, at, faultless, journals

NORMS = (1.0, 2.0, 4.0)


def bits_of(step: int, units: int = 0) -> str:
    """The loss of a step, off by some units in the last place."""
    return f"{0x40000000 + step + units:08x}"


def loss_of(bits: str) -> float:
    return float(struct.unpack(">f", bytes.fromhex(bits))[0])


def reference_to(steps: int = STEPS) -> Reference:
    """A reference with norms."""
    files = faultless(steps=steps)
    for lines in files.values():
        for line in lines:
            if line.get("what") == "final":
                line["norms"] = list(NORMS)
    return reference_of(journals(files), "tiny-3x1-0")


class Job:
    """Journals of a job, generation by generation."""

    def __init__(self) -> None:
        self.files: Files = {(None, 0): []}
        self.supervisor(-9_000, "journal", schema=1, boot_id="b", pid=99)
        self.attempts: dict[int, int] = {}
        for w in range(WORKERS):
            self.spawn(-8_000, w)

    def supervisor(self, ms: float, event: str, worker: int | None = None, **kw: Any) -> None:
        """A line of the supervisor."""
        line = {"t": at(ms), "event": event, "worker": worker, "attempt": kw.pop("attempt", 0)}
        self.files[None, 0].append(line | kw)

    def log(self, ms: float, event: str, worker: int, generation: int, **kw: Any) -> None:
        """A line of a worker's present attempt."""
        attempt = self.attempts[worker]
        line = {"t": at(ms), "event": event, "worker": worker, "attempt": attempt}
        self.files[worker, attempt].append(line | {"generation": generation} | kw)

    def spawn(self, ms: float, worker: int) -> None:
        """A new attempt of a worker."""
        attempt = self.attempts[worker] = self.attempts.get(worker, -1) + 1
        self.files[worker, attempt] = []
        pid = 100 + worker + 100 * attempt
        self.supervisor(ms, "spawn", worker, attempt=attempt, pid=pid, how="cold")
        self.log(ms, "journal", worker, 0, schema=1, boot_id="b", pid=pid)

    def ended(self, ms: float, worker: int, reason: str) -> None:
        """Its process is gone, by our doing."""
        attempt = self.attempts[worker]
        body: dict[str, Any] = {
            "pid": 100 + worker + 100 * attempt,
            "code": None,
            "signal": "SIGKILL",
        }
        self.supervisor(ms, "exit", worker, attempt=attempt, **body, ours=True, reason=reason)

    def kill(self, ms: float, worker: int, generation: int, **kw: Any) -> None:
        """The injection, and that the launcher sees it 10 ms later."""
        self.supervisor(ms, "inject", worker, fault="kill", generation=generation, **kw)
        self.seen(ms, worker, "inject")

    def seen(self, ms: float, worker: int, reason: str) -> None:
        """A worker's end as the launcher sees it, 10 ms later."""
        self.ended(ms + 10, worker, reason)
        detail = f"worker {worker}: SIGKILL"
        self.supervisor(ms + 10, "evidence", mechanism="process_exit", detail=detail)

    def set_up(
        self,
        ms: float,
        generation: int,
        members: Sequence[int],
        *,
        restored: int | None,
        survivors: Iterable[int] = (),
        upto: str = "first_step",
    ) -> None:
        """Every member passes the milestones from `ms` on, 10 ms each."""
        names = ["up", "rendezvous", "restored", "compiled"]
        for w in members:
            if w in survivors:
                self.log(ms, "closed", w, generation)
            for i, name in enumerate(names, start=1):
                self.log(ms + 10 * i, name, w, generation)
                if name == "restored" and restored is not None:
                    body: dict[str, Any] = {
                        "step": restored or None,
                        "bytes": 64,
                        "tried": [],
                        "received": 8,
                    }
                    tier = "peer" if w not in survivors else "memory"
                    self.log(ms + 10 * i, "restore", w, generation, **body, tier=tier)
                if name == upto:
                    break

    def train(
        self,
        ms: float,
        generation: int,
        members: Sequence[int],
        steps: Iterable[int],
        *,
        units: int = 0,
        save: Sequence[int] = (),
    ) -> float:
        """Steps of 10 ms each; returns when the last one is completed."""
        share = 6 // len(members)
        for i, step in enumerate(steps):
            for index, w in enumerate(members):
                end = ms + 10 * (i + 1)
                if i == 0:
                    self.log(end, "first_step", w, generation)
                ids = [1000 * step + n for n in range(index * share, (index + 1) * share)]
                bits = bits_of(step, units)
                body = {"step": step, "loss_bits": bits, "samples": ids, "t0": at(end - 10)}
                self.log(end, "step", w, generation, **body)
                if step in save:
                    state: dict[str, Any] = {
                        "what": "saved",
                        "step": step,
                        "digest": f"state{step}",
                    }
                    self.log(end, "digest", w, generation, **state)
                    if index == 0:
                        self.log(end + 3, "committed", w, generation, step=step)
        return ms + 10 * len(list(steps))

    def done(
        self,
        ms: float,
        generation: int,
        members: Sequence[int],
        *,
        restored: int | None = None,
        last: int = STEPS,
        norms: Sequence[float] = NORMS,
    ) -> None:
        """The job's end: digests, `done`, exits."""
        for w in members:
            if restored:
                body = {"what": "restored", "step": restored, "digest": f"state{restored}"}
                self.log(ms, "digest", w, generation, **body)
            body = {"what": "final", "step": last, "digest": f"state{last}"}
            self.log(ms, "digest", w, generation, **body, norms=list(norms))
            self.log(ms + 1, "done", w, generation, step=last)
            self.ended(ms + 5, w, "end")
        self.supervisor(ms + 9, "end")


ALL = (0, 1, 2)


def healthy(steps: int = 25, save: Sequence[int] = (10, 20)) -> Job:
    """A job that has trained in generation 0, its last step completed 100 ms before 0."""
    job = Job()
    job.set_up(-200 - 10 * steps, 0, ALL, restored=None)
    job.train(-100 - 10 * steps, 0, ALL, range(1, steps + 1), save=save)
    return job


def shrunken(*, units: int = 1, norms: Sequence[float] = NORMS) -> Job:
    """Worker 1 is killed after step 25; 0 and 2 go on from 20, and it is back after step 23.

    In ms: act 20, closed 30, …, first step 80 (step 21), step 23 at 100; growing back begins at
    130, first step with all of them (24) at 200; the end at 270.
    """
    job = healthy()
    job.kill(0, 1, 0)
    job.supervisor(20, "act", strategy="shrink", generation=1, ranks=[0, 2])
    job.set_up(30, 1, (0, 2), restored=20, survivors=(0, 2))
    job.train(70, 1, (0, 2), range(21, 24), units=units, save=(23,))
    job.supervisor(130, "transition", kind="grow", generation=2)
    job.spawn(60, 1)
    job.set_up(150, 2, ALL, restored=23, survivors=(0, 2))
    job.train(190, 2, ALL, range(24, STEPS + 1), units=units)
    for w in (0, 2):
        state = {"what": "restored", "step": 20, "digest": "state20"}
        job.log(140, "digest", w, 1, **state)
    job.done(270, 2, ALL, restored=23, norms=norms)
    return job


def resumed() -> Job:
    """Ended after step 25 and resumed from 20; worker 1 dies as it is about to restore."""
    job = healthy()
    job.supervisor(-90, "transition", kind="resume", generation=1)
    # The end of one reaches another before its own: no evidence of anything.
    error = {"mechanism": "collective_error", "type": "ValueError", "message": "Gloo: no"}
    job.log(-89, "error", 2, 0, **error)
    for w in ALL:
        job.ended(-85, w, "resume")
        job.spawn(-80, w)
    job.set_up(-70, 1, ALL, restored=None, upto="rendezvous")
    job.kill(0, 1, 1)
    job.supervisor(20, "act", strategy="restart", generation=2)
    for w in (0, 2):
        job.ended(30, w, "teardown")
    for w in ALL:
        job.spawn(35, w)
    job.set_up(40, 2, ALL, restored=20)
    job.train(80, 2, ALL, range(21, STEPS + 1))
    job.done(200, 2, ALL, restored=20)
    return job


def cascade() -> Job:
    """Worker 1 is killed after step 25, and its replacement at the rendezvous of generation 1."""
    job = healthy()
    job.kill(0, 1, 0)
    job.supervisor(20, "act", strategy="elastic", generation=1)
    job.spawn(25, 1)
    job.set_up(30, 1, ALL, restored=None, survivors=(0, 2), upto="up")
    job.supervisor(60, "again", 1, fault="cascade")
    job.seen(60, 1, "inject")
    job.supervisor(80, "act", strategy="elastic", generation=2)
    job.spawn(85, 1)
    job.set_up(90, 2, ALL, restored=20, survivors=(0, 2))
    job.train(130, 2, ALL, range(21, STEPS + 1))
    job.done(250, 2, ALL, restored=20)
    return job


SOAK_STEPS = 45


def soak() -> Job:
    """Struck at 0, 1000 and 2000 ms; before the third recovery's first step once more.

    Generation 1 goes on from 20 to 33, generation 2 from 30 to 40; generation 3 is struck at
    its rendezvous, generation 4 goes on from 40 to the end at 45.
    """
    job = healthy()
    spans = [(0, 0, 20, range(21, 34)), (1000, 1, 30, range(31, 41))]
    for number, (ms, broken, restored, steps) in enumerate(spans):
        job.kill(ms, 1, broken, number=number)
        job.supervisor(ms + 20, "act", strategy="elastic", generation=broken + 1)
        job.spawn(ms + 25, 1)
        job.set_up(ms + 30, broken + 1, ALL, restored=restored, survivors=(0, 2))
        job.train(ms + 70, broken + 1, ALL, steps, save=(30, 40))
    job.kill(2000, 2, 2, number=2)
    job.supervisor(2020, "act", strategy="elastic", generation=3)
    job.spawn(2025, 2)
    job.set_up(2030, 3, ALL, restored=None, survivors=(0, 1), upto="up")
    job.kill(2050, 1, 3, number=3)
    job.supervisor(2070, "act", strategy="elastic", generation=4)
    job.spawn(2075, 1)
    job.set_up(2080, 4, ALL, restored=40, survivors=(0, 2))
    job.train(2120, 4, ALL, range(41, SOAK_STEPS + 1))
    job.done(2200, 4, ALL, restored=40, last=SOAK_STEPS)
    return job
