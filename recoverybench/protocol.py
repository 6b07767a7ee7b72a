"""What supervisor and workers say to each other: the narrow door.

Messages are JSON objects, one a line, over a Unix socket, or over TCP where workers may be on
other machines (see `wire`). The worker connects and says ``hello``; the supervisor answers with
``spec``; everything else follows from that. `FROM_WORKER` and `TO_WORKER` are this table for
programs, and whoever says anything else is cut off.

=========  =====================================  ==========================================
direction  kind and fields                        meaning
=========  =====================================  ==========================================
worker →   ``hello`` slot, attempt, pid,          who is calling, and over TCP in which
           session, received                      conversation, and how much of it has come
worker →   ``ready``                              a standby has its imports done
worker →   ``hold`` at, step                      waits there (see `Place.hold`) for ``release``
worker →   ``suspended`` step, stopped_ns         after a notice: the state after that step is
                                                  durable, and training has ended
worker →   ``arrived`` generation                 about to join it, and waits for ``go``
worker →   ``agreed`` generation, detail          the live workers agree that somebody is gone
worker →   ``failed`` generation, mechanism,      an exception ended that generation
           detail
worker →   ``running`` generation                 the first step of it is completed
worker →   ``done`` step                          the last step is completed and saved
worker →   ``left`` generation                    everybody has left it at the end of a step
worker →   ``serving`` address                    the coordination service listens
worker →   ``pong`` id                            answer to a probe
worker →   ``progress`` rank, begun, completed    over TCP: its last steps; null: it has none
worker →   ``clock`` id, t                        what its CLOCK_MONOTONIC shows, ns
→ worker   ``welcome`` received                   over TCP: the answer to ``hello``
→ worker   ``refused`` reason                     over TCP: there is no place for that worker
→ worker   ``spec`` + fields of `JobSpec`         what the job is
→ worker   ``start`` + fields of `Place`          take this place (also: a standby's assignment)
→ worker   ``rejoin`` + fields of `Place`         take it in a new generation
→ worker   ``go``                                 everybody has arrived: join
→ worker   ``release``                            go on after ``hold``
→ worker   ``break`` what, argument               do that to yourself, at the hold or the next step
→ worker   ``leave``                              worker 0: lead everybody out at a step's end
→ worker   ``serve`` address, world               (to a standby) be a coordination service
→ worker   ``ping`` id                            answer from the channel's own thread
→ worker   ``clock`` id                           say what your clock shows, from the same thread
→ worker   ``exit``                               end now, with code 0
=========  =====================================  ==========================================
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final, Protocol, Self

from recoverybench.topology import Topology

Message = dict[str, Any]

SPAWN_NS = "RECOVERYBENCH_SPAWN_NS"
"""Environment variable: when the launcher started this process, ns by the supervisor's clock."""

GATE = "g"
"""Name of the storage gate's socket, beside the step board. There a worker whose
job has a gate gets the program of a filter, installs it, and hands its descriptor over.
"""

OWNER_VARIABLE = "RECOVERYBENCH_OWNER"
"""Environment variable of everything that a supervisor starts: its ``pid-starttime``."""


PROFILE_PREFIX = "recoverybench: "
"""What our own names in a profiler's trace begin with."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything about a job that no recovery changes.

    Attributes:
        workload: ``family:preset``. data: file with the input text, None: the one that ships.
        seed: of the parameters and of the order of the samples.
        steps: length of the job. interval: steps between checkpoints.
        topology: as a cell spells it; workers, devices: of it. restore_topology: the one that a
            recovery brings the job back on; None: the same. platform: JAX platform name.
        state_source: where the state comes back from.
        persist_every: with a node-local tier, persistent storage takes every m-th save.
        rejoin: survivors close the runtime and wait for a new place; else they end.
        suspend: a preemption notice makes every worker save at one step and stop.
        donate: a step may overwrite the state that it was given.
        preemption_service: JAX's; off, SIGTERM ends a worker at once.
        agreement: the workers keep agreeing on who is left.
        replica_check: at each save the workers compare their copies of the state.
        gate: file operations of the workers pass the supervisor.
        coordinator: ``worker0`` | ``external``: who runs the coordination service.
        heartbeat_s: of the coordination service. init_timeout_s: of a rendezvous.
        compile_cache: ``executable`` | ``persistent`` | ``off``.
        executables: directory of the executable store. jax_cache: JAX's own cache.
        checkpoints: directory of the checkpoints. local: under it lies a directory
            ``worker-RANK`` for each worker, which is lost with its node.
        journals: directory of the journals. board: file of the step board.
        checkpoint: the fields of `CheckpointOptions`; None: as Orbax does it by itself.
        controller: the fields of a `Controller`, where one process drives all devices and the
            workers are slices; None: each worker is a process.
        profile: directory for a profiler's traces of each restore and first step; None: none is
            made.
    """

    workload: str
    data: str | None
    seed: int
    steps: int
    interval: int
    topology: str
    workers: int
    devices: int
    restore_topology: str | None
    platform: str
    state_source: str
    persist_every: int
    rejoin: bool
    suspend: bool
    donate: bool
    preemption_service: bool
    agreement: bool
    replica_check: bool
    gate: bool
    coordinator: str
    heartbeat_s: float
    init_timeout_s: float
    compile_cache: str
    executables: str
    jax_cache: str
    checkpoints: str
    local: str
    journals: str
    board: str
    checkpoint: dict[str, Any] | None = None
    controller: dict[str, Any] | None = None
    profile: str | None = None

    @property
    def processes(self) -> int:
        """How many the job has."""
        return self.workers if self.controller is None else 1

    @property
    def most_workers(self) -> int:
        """The most workers that any of its generations has."""
        if self.restore_topology is None:
            return self.processes
        return max(self.processes, Topology.of(self.restore_topology).workers)

    def as_message(self) -> Message:
        """The ``spec`` message."""
        return {"kind": "spec", **dataclasses.asdict(self)}

    @classmethod
    def of(cls, message: Message) -> Self:
        """The inverse of `as_message`."""
        return cls(**{k: v for k, v in message.items() if k != "kind"})


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """How checkpoints are written and read, where it is not as Orbax does it by itself.

    Attributes:
        ocdbt: all arrays in one database of TensorStore's; else a directory for each.
        compression: zstd. zarr: version of the format of an array, 2 or 3.
        chunk: most bytes of a chunk of an array; None: as much as a device holds of it.
        concurrent: most bytes that are written or read at once; None: Orbax's 96 GB.
        replica_parallel: replicas write a part of an array each; else one of them all of it.
        io: how TensorStore reads files (its ``file_io_mode``): ``buffered`` | ``memmap`` |
            ``direct``. It writes as it always does.
        straight: arrays are read to where the CPU backend can use them without another copy,
            and where a file holds their bytes as they are, without one on the way.
    """

    ocdbt: bool = True
    compression: bool = True
    zarr: int = 2
    chunk: int | None = None
    concurrent: int | None = None
    replica_parallel: bool = True
    io: str = "buffered"
    straight: bool = False


@dataclass(frozen=True, slots=True)
class Controller:
    """How the elasticity manager of a single controller is set.

    Attributes:
        minimum_slice_count: slices that an attempt needs; None: all.
        poll_s: pause between two looks for slices. timeout_s: how long it looks.
        attempts: how often it tries.
    """

    minimum_slice_count: int | None
    poll_s: float
    timeout_s: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's place in one generation of the job.

    Attributes:
        generation: 0 for the healthy job, one more for each time that it is set up anew.
        rank: which worker it is; a replacement has the rank of the one it replaces.
        attempt: incarnation of that rank.
        coordinator: ``host:port`` of the coordination service.
        world: processes of this generation. index: process index among them; it is the rank
            unless the generation is smaller than the job.
        topology: of this generation, as a cell spells it.
        hold: where it stops, tells the supervisor and waits for ``release``: ``step:N`` (before
            dispatching that step), ``save`` (a save from that generation's second on has been
            handed over and is not durable yet), ``rendezvous``, ``restore``, ``compile``,
            ``first_step`` (before each of them); None: nowhere.
    """

    generation: int
    rank: int
    attempt: int
    coordinator: str
    world: int
    index: int
    topology: str
    hold: str | None = None

    def as_message(self, kind: str) -> Message:
        """The ``start`` or ``rejoin`` message."""
        return {"kind": kind, **dataclasses.asdict(self)}

    @classmethod
    def of(cls, message: Message) -> Self:
        """The inverse of `as_message`."""
        return cls(**{k: v for k, v in message.items() if k != "kind"})


class StepsTold(Protocol):
    """Where a worker says how far it is."""

    def begin(self, rank: int, step: int) -> None:
        """Rank `rank` begins `step`."""

    def complete(self, rank: int, step: int) -> None:
        """Rank `rank` has completed `step`."""


class StepsSeen(Protocol):
    """Where the supervisor sees how far all workers are."""

    def steps(self) -> tuple[int, ...]:
        """The last completed step of every rank."""

    def begun(self) -> tuple[int, ...]:
        """The last step that every rank has begun."""


class Board:
    """The last step that every rank has begun and completed, in memory that both sides map.

    A worker's progress costs it two stores; a message a step would wake the supervisor on
    one of the cores that are being measured. Who has begun a step and who has not tells a
    worker that is stuck from those that wait for it.
    """

    _CELL = struct.Struct("<q")
    _ROW = 2 * _CELL.size

    def __init__(self, path: Path, ranks: int, *, create: bool = False) -> None:
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        fd = os.open(path, flags, 0o600)
        try:
            if create:
                os.ftruncate(fd, self._ROW * ranks)
            self._memory = mmap.mmap(fd, self._ROW * ranks)
        finally:
            os.close(fd)
        self._ranks = ranks

    def begin(self, rank: int, step: int) -> None:
        """Rank `rank` begins `step`."""
        self._CELL.pack_into(self._memory, rank * self._ROW + self._CELL.size, step)

    def complete(self, rank: int, step: int) -> None:
        """Rank `rank` has completed `step`."""
        self._CELL.pack_into(self._memory, rank * self._ROW, step)

    def steps(self) -> tuple[int, ...]:
        """The last completed step of every rank."""
        return self._column(0)

    def begun(self) -> tuple[int, ...]:
        """The last step that every rank has begun."""
        return self._column(self._CELL.size)

    def _column(self, offset: int) -> tuple[int, ...]:
        return tuple(
            self._CELL.unpack_from(self._memory, rank * self._ROW + offset)[0]
            for rank in range(self._ranks)
        )


class BadMessage(Exception):
    """What the other side said is not in the protocol; the message says what is wrong with it."""


Fields = Mapping[str, tuple[type, ...]]
"""The fields of a kind of message, and the types of JSON values that each may have."""

_TEXT, _WHOLE, _FLAG = (str,), (int,), (bool,)
_ANNOTATED: Final[dict[str, tuple[type, ...]]] = {
    "str": _TEXT,
    "str | None": (str, NoneType),
    "int": _WHOLE,
    "float": (float, int),
    "bool": _FLAG,
    "dict[str, Any] | None": (dict, NoneType),
}


def _fields(kind: type[JobSpec] | type[Place]) -> Fields:
    return {field.name: _ANNOTATED[str(field.type)] for field in dataclasses.fields(kind)}


FROM_WORKER: Final[Mapping[str, Fields]] = {
    "hello": {
        "slot": _WHOLE,
        "attempt": _WHOLE,
        "pid": _WHOLE,
        "session": _TEXT,
        "received": _WHOLE,
    },
    "ready": {},
    "hold": {"at": _TEXT, "step": _WHOLE},
    "suspended": {"step": _WHOLE, "stopped_ns": _WHOLE},
    "arrived": {"generation": _WHOLE},
    "agreed": {"generation": _WHOLE, "detail": _TEXT},
    "failed": {"generation": _WHOLE, "mechanism": _TEXT, "detail": _TEXT},
    "running": {"generation": _WHOLE},
    "done": {"step": _WHOLE},
    "left": {"generation": _WHOLE},
    "serving": {"address": _TEXT},
    "pong": {"id": _WHOLE},
    "clock": {"id": _WHOLE, "t": _WHOLE},
    "progress": {"rank": _WHOLE, "begun": (int, NoneType), "completed": (int, NoneType)},
}
"""Everything that a worker may say."""

TO_WORKER: Final[Mapping[str, Fields]] = {
    "welcome": {"received": _WHOLE},
    "refused": {"reason": _TEXT},
    "spec": _fields(JobSpec),
    "start": _fields(Place),
    "rejoin": _fields(Place),
    "go": {},
    "release": {},
    "break": {"what": _TEXT, "argument": (str, NoneType)},
    "leave": {},
    "serve": {"address": _TEXT, "world": _WHOLE},
    "ping": {"id": _WHOLE},
    "clock": {"id": _WHOLE},
    "exit": {},
}
"""Everything that a worker may be told."""

_MOST: Final = 1 << 63


def check(found: object, kinds: Mapping[str, Fields]) -> Message:
    """A decoded line, which is a message of one of these kinds with exactly its fields.

    Raises:
        BadMessage: it is not.
    """
    if type(found) is not dict:
        raise BadMessage(f"a {type(found).__name__} where a message was due")
    kind = found.get("kind")
    fields = kinds.get(kind) if type(kind) is str else None
    if fields is None:
        raise BadMessage(f"a message of unknown kind {kind!r:.40}")
    for name, types in fields.items():
        value = found.get(name, ...)
        if type(value) not in types:
            what = "is missing" if value is ... else f"is a {type(value).__name__}"
            raise BadMessage(f"{kind}: {name} {what}")
        if type(value) is int and not -_MOST <= value < _MOST:
            raise BadMessage(f"{kind}: {name} is out of range")
    if len(found) != len(fields) + 1:
        odd = next(name for name in found if name != "kind" and name not in fields)
        raise BadMessage(f"{kind}: unknown field {odd!r:.40}")
    return found
