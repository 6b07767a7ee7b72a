"""From nothing to the moment of the trigger: the healthy job, and where it is met.

A worker that is to be met at a certain point holds there and says so. Triggers that strike
while a job sets itself up need one that does: the job is trained a while, ended and resumed,
and the victim of that resumption holds where the trigger says.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from recoverybench.job.clocks import measure_clocks
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.plan.triggers import SETTING_UP, Trigger

BOOT_S = 180.0
"""How long a healthy job may take to reach its trigger, compiling included."""

_LOOK_S = 0.002
"""How often the end of a save is looked for."""

EXPLANATION_S = 0.5
"""How long the end of a process is waited for that would explain what the others report."""


@dataclass(frozen=True, slots=True)
class Approach:
    """What is needed to get a job to its trigger.

    Attributes:
        job: not begun yet. victim: its rank; None: the job just runs to its end.
        trigger: when. interval: steps between checkpoints. seed: of the trial.
        standbys: processes that wait beside the job.
        told: receives words for the progress display.
        at_last: to be called once the fault has struck.
    """

    job: Job
    victim: int | None
    trigger: Trigger
    interval: int
    seed: int
    standbys: int
    told: Callable[[str], None]
    at_last: list[Callable[[], None]] = field(default_factory=list)

    def go(self) -> str | None:
        """Get there; returns what went wrong, in one line, or None."""
        job = self.job
        self.told("start")
        point, resumed = self._first_point(), self.trigger.kind in SETTING_UP
        self._start(None if self.victim is None else point, generation=0)
        spare = [job.spawn_standby("warm") for _ in range(self.standbys)]
        self.told("train")

        def there() -> bool:
            if job.lost() or any(not m.alive for m in spare):
                return True
            if self.victim is None:
                return job.finished()
            met = self._held(point) if point is not None else job.running()
            return met and all(m.ready for m in spare)

        problem = self._wait(there, spare)
        measure_clocks(job)
        if problem is None and resumed:
            problem = self._resume(spare)
            measure_clocks(job)
        if problem is None and self.victim is not None:
            problem = self._last_stretch()
        if problem is None and self.victim is not None and job.noticed():
            problem = f"noticed before the injection: {self._cause()}"
        return problem

    def _first_point(self) -> str | None:
        """Where the victim holds in generation 0; None: nowhere."""
        trigger, interval = self.trigger, self.interval
        if trigger.kind == "step":
            return f"step:{trigger.step}"
        if trigger.kind == "save":
            return "save" if trigger.operation is None else f"step:{self._saved_step}"
        if trigger.kind == "random":
            # In the third interval, so that there is a checkpoint whatever became of one save.
            return f"step:{2 * interval + 1 + int(self._uniform() * interval)}"
        if trigger.kind in SETTING_UP:
            return f"step:{2 * interval + max(1, interval // 2)}"
        return None

    @property
    def _saved_step(self) -> int:
        """The step whose save is met: the second, so that there is one to come back to."""
        return 2 * self.interval

    def _uniform(self) -> float:
        """The seed's number in [0, 1)."""
        return random.Random(f"{self.seed}/moment").random()

    def _start(self, point: str | None, generation: int) -> None:
        """Start every worker, the victim with a point to hold at."""
        job = self.job
        address = job.begin() if generation == 0 else job.begin_generation()
        for rank in range(job.world):
            member = job.spawn(rank, "warm", rank)
            job.place(member, rank, address, hold=point if rank == self.victim else None)

    def _resume(self, spare: list[Member]) -> str | None:
        """End the healthy job and set it up anew, up to where the victim holds."""
        job = self.job
        job.journal.log("transition", kind="resume", generation=job.generation + 1)
        job.await_ended(job.end(job.survivors(), "resume"))
        self._start(self.trigger.kind, generation=1)
        self.told("resume")
        return self._wait(lambda: job.lost() or self._held(self.trigger.kind), spare)

    def _last_stretch(self) -> str | None:
        """From the point where the victim held, or the running job, to the very moment."""
        job, trigger = self.job, self.trigger
        if trigger.kind == "time":
            assert trigger.time_s is not None
            job.pump(lambda: job.lost() or job.finished(), trigger.time_s)
            if job.finished():
                return f"the job was over before its trigger ({trigger}): more steps are needed"
        if trigger.operation is not None:
            self._stop_the_save()
        if trigger.kind == "random":
            victim = self._member()
            assert victim is not None and victim.running_at is not None and victim.held is not None
            pace_s = (time.monotonic() - victim.running_at) / max(1, victim.held[1] - 1)
            fraction = self._uniform() * self.interval % 1.0
            victim.tell({"kind": "release"})
            job.pump(job.lost, fraction * pace_s)
        return f"the healthy job failed: {self._cause()}" if job.lost() else None

    def _stop_the_save(self) -> None:
        """Have the K-th file operation of the victim's save stopped, and wait until it is.

        A save may have fewer operations: then the moment is right after it is durable.
        """
        job, trigger, victim = self.job, self.trigger, self._member()
        assert job.gate is not None and victim is not None and victim.rank is not None
        assert trigger.operation is not None and trigger.moment is not None
        reached: list[bool] = []
        arm = job.gate.arm(
            victim.rank,
            trigger.operation,
            trigger.moment,
            lambda: reached.append(True),
            step=self._saved_step,
        )
        self.at_last.append(arm.release)
        victim.tell({"kind": "release"})
        durable = Path(job.spec.checkpoints) / str(self._saved_step)
        # The end of a save makes no event on the loop, so it is looked for.
        while not (reached or job.lost() or job.finished() or job.overdue or durable.exists()):
            job.pump(lambda: bool(reached) or job.lost(), _LOOK_S)
        job.journal.log(
            "stopped",
            operation=arm.policy.seen,
            path=arm.operation.path if arm.operation is not None else None,
            kind=arm.operation.kind if arm.operation is not None else None,
            torn=arm.policy.torn,
        )

    def _wait(self, there: Callable[[], bool], spare: list[Member]) -> str | None:
        job = self.job
        if not job.pump(there):
            return f"the healthy job did not get to its trigger within {BOOT_S:.0f} s"
        if job.lost() or any(not m.alive for m in spare):
            # An error in the others may be here before the exit that explains it.
            job.pump(lambda: bool(job.dead()), EXPLANATION_S)
            return f"the healthy job failed: {self._cause()}"
        return None

    def _cause(self) -> str:
        """What explains the most: the end of a process, else the first that was noticed."""
        seen = self.job.evidence
        ends = [e.detail for e in seen if e.mechanism == "process_exit"]
        return (ends or [e.detail for e in seen] or ["a standby ended"])[0]

    def _held(self, point: str) -> bool:
        member = self._member()
        return member is not None and member.held is not None and member.held[0] == point

    def _member(self) -> Member | None:
        return next((m for m in self.job.ranks() if m.rank == self.victim), None)
