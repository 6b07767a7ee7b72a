"""What faults of the storage share: they go through the gate, and leave the workers running."""

from __future__ import annotations

import re
import signal
import time

from recoverybench.errors import bad_value
from recoverybench.faults.base import Fault, log_injection, strike, with_changes
from recoverybench.gate.gate import Gate
from recoverybench.gate.policies import Bandwidth, Broken
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.protocol import JobSpec

_BANDWIDTH = re.compile(r"([0-9]+(?:\.[0-9]+)?)(k|M|G)?B/s")
_SCALES = {None: 1.0, "k": 1e3, "M": 1e6, "G": 1e9}

SIDES = ("save", "restore")


class StorageFault(Fault):
    """Imposes a policy on the file operations of every worker.

    Attributes:
        reads: reads are affected.
        kills: what is broken stops nothing that runs, so the victim is killed right after.
    """

    reads: bool = False
    kills: bool = False

    def __init__(self, duration_s: float | None = None) -> None:
        """Args: duration_s: for how long the storage is broken; None: for good."""
        self._duration_s = duration_s
        self._until_s: float | None = None
        self._policy: Broken | Bandwidth | None = None

    def policy(self, until_s: float | None) -> Broken | Bandwidth:
        """What becomes of file operations from now on, up to `until_s` (CLOCK_MONOTONIC)."""
        raise NotImplementedError

    def spec(self, spec: JobSpec) -> JobSpec:
        """With the gate."""
        return with_changes(spec, gate=True)

    def prepare(self, job: Job) -> None:
        """Have reads watched where they are affected."""
        if self.reads:
            gate_of(job).watch_reads()

    def inject(self, job: Job, victim: Member) -> None:
        """Impose it, and let the victim go on or kill it."""
        self.undo(job)  # in a soak it strikes again
        if self._duration_s is not None:
            self._until_s = time.monotonic() + self._duration_s
        self._policy = self.policy(self._until_s)
        gate_of(job).impose(self._policy)
        if self.kills:
            strike(job, victim, self.name, signal.SIGKILL)
        else:
            log_injection(job, self.name, victim)
            victim.tell({"kind": "release"})

    def undo(self, job: Job) -> None:
        """The storage works again; how many operations it hit goes into the journal."""
        if self._policy is None:
            return
        gate_of(job).lift(self._policy)
        now_s = time.monotonic()
        ended_s = now_s if self._until_s is None else min(now_s, self._until_s)
        job.journal.log(
            "undone",
            round(ended_s * 1e9),
            fault=self.name,
            worker=None,
            operations=self._policy.hits,
        )
        self._policy = None


def gate_of(job: Job) -> Gate:
    """The gate of a job that was prepared with one."""
    assert job.gate is not None, "the job was prepared without a storage gate"
    return job.gate


def parse_bandwidth(text: str, fault: str) -> float:
    """Bytes a second of ``500kB/s``, ``1MB/s`` or ``1.5GB/s`` (powers of 1000).

    Args:
        text: to be read. fault: the fault as it was spelled, for the message.

    Raises:
        UsageError: it is nothing of the kind, or not positive.
    """
    found = _BANDWIDTH.fullmatch(text)
    value = float(found[1]) * _SCALES[found[2]] if found else 0.0
    if value <= 0:
        allowed = 'a bandwidth such as "500kB/s", "1MB/s" or "1.5GB/s" after the first colon'
        raise bad_value("fault", fault, allowed)
    return value
