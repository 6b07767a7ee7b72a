"""What may become of a file operation, and who decides it: pure, without a kernel.

The storage gate (`gate`) turns system calls into operations, asks its policies in turn,
and does what the first one says that does not say `Continue`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Protocol

Kind = Literal[
    "create",  # a file that is not there is opened to be made
    "open",  # a file that is there is opened to be written
    "write",
    "sync",
    "truncate",
    "rename",
    "mkdir",
    "unlink",
    "rmdir",
    "link",
    "look",  # a file is opened to be read, or a directory to be read or synced
    "read",
]

READS: Final = frozenset({"look", "read"})
"""Kinds that change nothing; the others are counted."""

Moment = Literal["before", "torn", "after"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One file operation below the watched directories.

    Attributes:
        worker: rank of the worker; None: a standby without one.
        kind: see `Kind`. path: absolute; of a rename the new name.
        bytes: to be written or read; 0 for other kinds.
        number: how many operations of this worker that change files there have been since
            counting began, this one included; for reads, how many there were before it.
        time_s: CLOCK_MONOTONIC, seconds.
        save: the step whose checkpoint the path belongs to; None: no checkpoint's.
    """

    worker: int | None
    kind: Kind
    path: str
    bytes: int
    number: int
    time_s: float
    save: int | None


@dataclass(frozen=True, slots=True)
class Continue:
    """The kernel executes it."""


@dataclass(frozen=True, slots=True)
class Fail:
    """It fails with this error number, and changes nothing."""

    errno: int


@dataclass(frozen=True, slots=True)
class Delay:
    """The kernel executes it after this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """It waits for `job.gate.Arm.release`, or ends with its process."""


@dataclass(frozen=True, slots=True)
class Tear:
    """The first half of its bytes is written, and it waits like `Hold`.

    An operation that writes no bytes is held untouched.
    """


@dataclass(frozen=True, slots=True)
class HoldAfter:
    """It is executed, and then waits like `Hold` with its result."""


Decision = Continue | Fail | Delay | Hold | Tear | HoldAfter

CONTINUE: Final = Continue()


class Policy(Protocol):
    """Decides about operations; asked from the gate's own thread."""

    def decide(self, operation: Operation) -> Decision:
        """What becomes of it. Must be quick: the worker waits."""


class Broken:
    """Operations of some kinds fail.

    Args:
        errno: what they fail with. kinds: which ones.
        until_s: CLOCK_MONOTONIC seconds from which on nothing fails; None: for good.

    Attributes:
        hits: how many operations have failed.
    """

    def __init__(self, errno: int, kinds: frozenset[Kind], until_s: float | None = None) -> None:
        self._errno = errno
        self._kinds = kinds
        self._until_s = until_s
        self.hits = 0

    def decide(self, operation: Operation) -> Decision:
        """See `Policy`."""
        if operation.kind not in self._kinds:
            return CONTINUE
        if self._until_s is not None and operation.time_s >= self._until_s:
            return CONTINUE
        self.hits += 1
        return Fail(self._errno)


class Bandwidth:
    """One disk that all workers share and that moves so many bytes a second.

    Operations stand in line in the order of their arrival; only those that move bytes take
    time.

    Args:
        bytes_per_s: reads and writes together.

    Attributes:
        hits: how many operations were delayed.
    """

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0
        self.hits = 0

    def decide(self, operation: Operation) -> Decision:
        """See `Policy`."""
        if operation.bytes == 0:
            return CONTINUE
        begins = max(operation.time_s, self._free_s)
        self._free_s = begins + operation.bytes / self._bytes_per_s
        self.hits += 1
        return Delay(self._free_s - operation.time_s)


class Nth:
    """Stops the K-th operation of a save, as one worker counts them.

    Counted are operations of that worker that change files, from the first one on whose
    path belongs to the checkpoint of the chosen step. Where no step is chosen, the first
    such operation chooses it.

    Args:
        worker: rank. k: from 1.
        moment: ``before``: it is held; ``torn``: half of it is written (where it writes no
            bytes: it is held, and `torn` stays False); ``after``: it is executed and held.
        step: the save; None: the first that begins.

    Attributes:
        seen: operations of that save so far, K of them at most. step: the save, once known.
        torn: bytes were torn.
    """

    def __init__(self, worker: int, k: int, moment: Moment, step: int | None = None) -> None:
        self._worker = worker
        self._k = k
        self._moment = moment
        self.step = step
        self.seen = 0
        self.torn = False

    def decide(self, operation: Operation) -> Decision:
        """See `Policy`."""
        if operation.worker != self._worker or operation.kind in READS or operation.save is None:
            return CONTINUE
        if self.step is None:
            self.step = operation.save
        if operation.save != self.step or self.seen == self._k:
            return CONTINUE
        self.seen += 1
        if self.seen != self._k:
            return CONTINUE
        self.torn = self._moment == "torn" and operation.kind == "write" and operation.bytes > 1
        if self._moment == "after":
            return HoldAfter()
        return Tear() if self.torn else Hold()


_STEP = re.compile(r"(\d+)(?:\.|$)")


def save_of(path: str, roots: tuple[str, ...]) -> int | None:
    """The step whose checkpoint a path belongs to.

    It is the first name below a root that is a number, or begins with one and a dot
    (``20.orbax-checkpoint-tmp``).

    Args:
        path: absolute. roots: watched directories, without a slash at the end.
    """
    for root in roots:
        if path.startswith(root + "/"):
            for name in path[len(root) + 1 :].split("/"):
                if found := _STEP.match(name):
                    return int(found[1])
    return None
