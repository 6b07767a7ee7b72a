"""What supervisor and workers say to each other: the narrow door.

Messages are JSON objects, one a line, over a Unix socket. The worker connects and says
``hello``; the supervisor answers with ``spec``; everything else follows from that.

=========  =====================================  ==========================================
direction  kind and fields                        meaning
=========  =====================================  ==========================================
worker →   ``hello`` slot, attempt, pid           who is calling
worker →   ``ready``                              a standby has its imports done
worker →   ``hold`` step                          waits before dispatching that step
worker →   ``failed`` generation, mechanism,      an exception ended that generation
           detail
worker →   ``running`` generation                 the first step of it is completed
worker →   ``done`` step                          the last step is completed and saved
worker →   ``pong`` id                            answer to a probe
→ worker   ``spec`` + fields of `JobSpec`         what the job is
→ worker   ``start`` + fields of `Place`          take this place (also: a standby's assignment)
→ worker   ``rejoin`` + fields of `Place`         take it in a new generation
→ worker   ``release``                            go on after ``hold``
→ worker   ``ping`` id                            answer from the channel's own thread
→ worker   ``exit``                               end now, with code 0
=========  =====================================  ==========================================
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

Message = dict[str, Any]

SPAWN_NS = "RECOVERYBENCH_SPAWN_NS"
"""Environment variable: when the launcher started this process (CLOCK_MONOTONIC, ns)."""

OWNER_VARIABLE = "RECOVERYBENCH_OWNER"
"""Environment variable of everything that a supervisor starts: its ``pid-starttime``."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything about a job that no recovery changes.

    Attributes:
        workload: ``family:preset``. data: file with the input text, None: the one that ships.
        seed: of the parameters and of the order of the samples.
        steps: length of the job. interval: steps between checkpoints.
        workers, devices: the topology. platform: JAX platform name.
        state_source: where the state comes back from.
        hold_worker, hold_step: in generation 0 that worker stops before dispatching that
            step, tells the supervisor and waits; None: nobody does.
        rejoin: survivors close the runtime and wait for a new place; else they end.
        heartbeat_s: of the coordination service. init_timeout_s: of a rendezvous.
        compile_cache: ``executable`` | ``persistent`` | ``off``.
        executables: directory of the executable store. jax_cache: JAX's own cache.
        checkpoints: directory of the checkpoints. journals: directory of the journals.
        board: file of the step board.
    """

    workload: str
    data: str | None
    seed: int
    steps: int
    interval: int
    workers: int
    devices: int
    platform: str
    state_source: str
    hold_worker: int | None
    hold_step: int | None
    rejoin: bool
    heartbeat_s: float
    init_timeout_s: float
    compile_cache: str
    executables: str
    jax_cache: str
    checkpoints: str
    journals: str
    board: str

    def as_message(self) -> Message:
        """The ``spec`` message."""
        return {"kind": "spec", **dataclasses.asdict(self)}

    @classmethod
    def of(cls, message: Message) -> Self:
        """The inverse of `as_message`."""
        return cls(**{k: v for k, v in message.items() if k != "kind"})


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's place in one generation of the job.

    Attributes:
        generation: 0 for the healthy job, one more for each recovery.
        rank: process index. attempt: incarnation of that rank.
        coordinator: ``host:port`` of the coordination service.
    """

    generation: int
    rank: int
    attempt: int
    coordinator: str

    def as_message(self, kind: str) -> Message:
        """The ``start`` or ``rejoin`` message."""
        return {"kind": kind, **dataclasses.asdict(self)}

    @classmethod
    def of(cls, message: Message) -> Self:
        """The inverse of `as_message`."""
        return cls(**{k: v for k, v in message.items() if k != "kind"})


class Board:
    """The last completed step of every rank, in memory that both sides map.

    A worker's progress costs it one store; a message a step would wake the supervisor on
    one of the cores that are being measured.
    """

    _CELL = struct.Struct("<q")

    def __init__(self, path: Path, ranks: int, *, create: bool = False) -> None:
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        fd = os.open(path, flags, 0o600)
        try:
            if create:
                os.ftruncate(fd, self._CELL.size * ranks)
            self._memory = mmap.mmap(fd, self._CELL.size * ranks)
        finally:
            os.close(fd)
        self._ranks = ranks

    def set(self, rank: int, step: int) -> None:
        """Rank `rank` has completed `step`."""
        self._CELL.pack_into(self._memory, rank * self._CELL.size, step)

    def steps(self) -> tuple[int, ...]:
        """The last completed step of every rank."""
        return tuple(
            self._CELL.unpack_from(self._memory, rank * self._CELL.size)[0]
            for rank in range(self._ranks)
        )
