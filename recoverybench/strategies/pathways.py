"""One controller over slices, under pathwaysutils' elasticity manager (`Manager.elastic_retry`).

``pathways`` waits until every slice is there again, ``pathways:shrink`` goes on with one slice
less (`minimum_slice_count`). A topology ``WxD`` means W slices of D devices here. The manager
looks for slices, pauses, and looks again; how long it pauses decides how long most recoveries
take, so it can be set: ``pathways:poll=10s`` (what Pathways does if nothing is said; here it is
1s), ``pathways:shrink,poll=10s``. ``back=2s`` sets when a lost slice is there again: 500ms if
nothing is said, and never with ``shrink``. A shrunk job that is given its slice back takes it
at the next checkpoint. The loss of a slice is simulated, see docs/pathways.md.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from typing import ClassVar, Self

from recoverybench.cells import Cell
from recoverybench.errors import UsageError, bad_value
from recoverybench.faults.base import Fault
from recoverybench.job.job import Job
from recoverybench.plan.units import parse_duration
from recoverybench.plan.workloads import batch_size
from recoverybench.protocol import Controller, JobSpec
from recoverybench.strategies.base import CannotRecover, Strategy, act

POLL_S = 1.0
"""Pause of the manager between two looks for slices; its own default is 10 s, a number for
slices that take minutes to come back."""

BACK_S = 0.5
"""After what time a lost slice is there again, within the first pause."""

TIMEOUT_S = 300.0
"""How long the manager waits for slices before each attempt (MaxText's setting)."""

ATTEMPTS = 10
"""How often the manager tries (MaxText's setting)."""

FAULTS = ("kill", "kill-coordinator")

TRIGGERS = ("step", "time", "random")
"""Kinds of triggers that reach a controller: each ends between two steps."""

ALLOWED = '"pathways", or after a colon "shrink", "poll=DURATION" and "back=DURATION", by commas'


@dataclass(frozen=True, slots=True)
class Settings:
    """What follows the colon.

    Attributes:
        shrink: go on with a slice less. poll_s: of the manager.
        back_s: seconds until a lost slice is there again; None: never.
    """

    shrink: bool = False
    poll_s: float = POLL_S
    back_s: float | None = BACK_S

    @classmethod
    def of(cls, argument: str | None) -> Self:
        """Read them.

        Raises:
            UsageError: an unknown part, one that is there twice, or no duration.
        """
        found: dict[str, str] = {}
        for part in argument.split(",") if argument else []:
            key, equals, value = part.strip().partition("=")
            takes_value = key in ("poll", "back")
            if key in found or not (takes_value or key == "shrink") or bool(equals) != takes_value:
                raise bad_value("strategy", f"pathways:{argument}", ALLOWED)
            found[key] = value
        shrink = "shrink" in found
        try:
            poll_s = parse_duration(found.get("poll", POLL_S), "")
            back_s = None if shrink else BACK_S
            if "back" in found:
                back_s = parse_duration(found["back"], "")
        except UsageError:
            raise bad_value("strategy", f"pathways:{argument}", ALLOWED) from None
        return cls(shrink, poll_s, back_s)


class Pathways(Strategy):
    """See `strategies.base.Strategy`."""

    name: ClassVar[str] = "pathways"
    processes: ClassVar[int | None] = 1

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def unsupported(self, cell: Cell) -> str | None:
        """What cannot happen to a single controller, or not be simulated."""
        kind = cell.trigger.partition(":")[0]
        if cell.fault not in FAULTS:
            return (
                f"pathways: {cell.fault} has no counterpart here, only kill (a slice is lost) "
                "and kill-coordinator (the controller is)"
            )
        if kind not in TRIGGERS:
            return f"pathways: a slice is lost between two steps, and not at {cell.trigger}"
        if cell.state_source not in ("storage", "snapshot"):
            return f"pathways: one controller has no {cell.state_source}, only storage or snapshot"
        if cell.coordinator != "worker0":
            return "pathways: one controller has no coordination service"
        if cell.replica_check != "off":
            return "pathways: one controller has nobody to compare its state with"
        if cell.mesh.axes:
            return "pathways: the slices are data-parallel here, and no axis can be asked for"
        if self.shrinks:
            topology, batch = cell.mesh, batch_size(cell.workload)
            left = (topology.workers - 1) * topology.devices
            if batch is not None and batch % left:
                return f"pathways: a batch of {batch} rows cannot be shared by {left} devices"
        return None

    def spec(self, spec: JobSpec) -> JobSpec:
        """The job of one controller."""
        controller = Controller(
            minimum_slice_count=spec.workers - 1 if self.shrinks else None,
            poll_s=self._settings.poll_s,
            timeout_s=TIMEOUT_S,
            attempts=ATTEMPTS,
        )
        return dataclasses.replace(spec, controller=dataclasses.asdict(controller))

    def strike(self, job: Job, fault: Fault, victim: int) -> None:
        """The controller loses the slice of that number, or is lost itself."""
        controller = job.ranks()[0]
        if fault.name != "kill":
            fault.inject(job, controller)
            return
        argument = json.dumps({"slice": victim, "back_s": self._settings.back_s})
        t = time.monotonic_ns()
        controller.tell({"kind": "break", "what": "lose-slice", "argument": argument})
        job.injected = job.journal.log(
            "inject", t, fault=fault.name, worker=victim, generation=job.generation, simulated=True
        )

    def recover(self, job: Job) -> None:
        """Note that the manager recovers, by itself."""
        controller = job.ranks()[0]
        seen = job.evidence[-1]
        if not controller.alive:
            raise CannotRecover(f"the one controller is lost, and the job with it: {seen.detail}")
        if seen.mechanism != "slice_lost":
            raise CannotRecover(f"the elasticity manager gives up: {seen.detail}")
        assert controller.rank is not None
        address = act(job, self.name)
        job.place(controller, controller.rank, address, kind="rejoin")

    def settle(self, job: Job) -> None:
        """Where a shrunk job is given its slice back: let it take it, at the next checkpoint."""
        if not self.shrinks or self._settings.back_s is None:
            return
        with job.span("wait for the slice"):
            job.pump(lambda: job.left() or job.noticed() or job.finished())
        if not job.left():
            return
        controller = job.ranks()[0]
        assert controller.rank is not None
        job.journal.log("transition", kind="grow", generation=job.generation + 1)
        with job.span("grow back"):
            job.place(controller, controller.rank, job.begin_generation(), kind="rejoin")
        job.pump(lambda: job.noticed() or job.running())


class ShrinkingPathways(Pathways):
    """With `minimum_slice_count`: the job goes on with one slice less."""

    shrinks: ClassVar[bool] = True


def create(argument: str | None) -> Pathways:
    """``pathways`` or ``pathways:ARGUMENT``, see the module's text."""
    settings = Settings.of(argument)
    return (ShrinkingPathways if settings.shrink else Pathways)(settings)
