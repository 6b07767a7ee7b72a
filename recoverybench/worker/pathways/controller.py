"""The life of the one controller: training inside `Manager.elastic_retry`.

The manager is what recovers, the controller only says when: its callbacks are where the
milestones of an attempt are written. The attempt that ends with a lost slice raises into the
manager, which calls `on_elastic_event_callback`, waits until it has the slices it wants
(a health check on each, then a pause of the poll interval, and again), calls `pre_callback`
and runs the next attempt.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import time
import weakref
from collections.abc import Collection
from pathlib import Path

import jax
import pathwaysutils
from pathwaysutils.elastic import elastic
from pathwaysutils.elastic.manager import ElasticRetryLimit, Manager, ScaleUpSignalError

from recoverybench.journal_writer import Journal
from recoverybench.protocol import Controller, JobSpec, Place
from recoverybench.topology import Topology
from recoverybench.worker import runtime, workload
from recoverybench.worker.channel import Channel
from recoverybench.worker.life import first_line
from recoverybench.worker.pathways.attempt import SliceEquipment, SliceGeneration, mesh_of
from recoverybench.worker.pathways.slices import Loss, manager_of, slices_of
from recoverybench.worker.profiling import Profiler
from recoverybench.worker.program import Shardings


def live(channel: Channel, journal: Journal, spec: JobSpec) -> None:
    """Live to the end of the job. Returns when there is nothing more to do.

    Args:
        channel: to the supervisor. journal: this process's.
        spec: the job; its workers are the slices here.
    """
    assert spec.controller is not None
    alone = Topology(1, spec.workers * spec.devices)
    _log_the_manager()
    with journal.span("configure JAX"):
        _configure(spec)
    profiler = Profiler(None if spec.profile is None else Path(spec.profile), journal)
    with journal.span("load the workload"):
        equipment = SliceEquipment(
            dataclasses.replace(spec, topology=str(alone), workers=1, devices=alone.devices),
            channel,
            journal,
            channel.board(spec),
            workload.load(spec.workload, spec.data),
            profiler,
        )
    with journal.span("open the backend"):
        slices = slices_of(jax.devices(), spec.workers)
    with journal.span("make the elasticity manager"):
        manager = manager_of(slices)
    with journal.span("wait for a place"):
        place = dataclasses.replace(Place.of(channel.order()), topology=str(alone))
    run = Run(equipment, place, Controller(**spec.controller), manager, Loss(slices, _say))
    if run.to_the_end():
        journal.log("done", step=spec.steps)
        equipment.watch.look("after")
        channel.send("done", step=spec.steps)


def _configure(spec: JobSpec) -> None:
    cache = spec.jax_cache if spec.compile_cache == "persistent" else None
    devices = spec.workers * spec.devices
    runtime.configure(devices, spec.platform, cache, rejoin=False, preemption=False)
    # One process has nobody to speak to, and Gloo would ask for a coordination service.
    jax.config.update("jax_cpu_collectives_implementation", None)
    pathwaysutils.initialize()


def _log_the_manager() -> None:
    """What the manager says of itself, into this process's log."""
    logger = logging.getLogger("pathwaysutils")
    logger.addHandler(logging.StreamHandler())
    logger.propagate = False
    logger.setLevel(logging.INFO)


class Run:
    """The attempts of one job, under the manager.

    Args:
        equipment: outlives the attempts. place: of the first one.
        settings: of the manager. manager: of pathwaysutils. loss: loses slices.
    """

    def __init__(
        self,
        equipment: SliceEquipment,
        place: Place,
        settings: Controller,
        manager: Manager,
        loss: Loss,
    ) -> None:
        self._equipment = equipment
        self._journal = equipment.journal
        self._place = place
        self._settings = settings
        self._manager = manager
        self._loss = loss
        self._attempt: SliceGeneration | None = None
        self._old: list[weakref.ref[jax.Array]] = []
        self._since = 0

    def to_the_end(self) -> bool:
        """Train until the last step is done, or the manager gives up; returns whether it is."""
        settings = self._settings
        retry = self._manager.elastic_retry(
            minimum_slice_count=settings.minimum_slice_count,
            poll_interval=settings.poll_s,
            timeout=settings.timeout_s,
            pre_callback=self._slices_found,
            on_elastic_event_callback=self._attempt_over,
            retry_policy=ElasticRetryLimit(settings.attempts),
        )
        self._journal.become(self._place.rank, self._place.attempt, self._place.generation)
        self._since = time.monotonic_ns()
        try:
            retry(self._train)()
        except Exception as error:  # the manager gives up, and so does the job
            self._report("exception", error)
            return False
        if self._place.generation == 0:
            self._prepare()
        return True

    def _prepare(self) -> None:
        """After a run without a fault: store what smaller meshes run, as for the whole one."""
        slices, least = self._manager.all_slice_indices, self._settings.minimum_slice_count
        if least is None or self._equipment.spec.compile_cache != "executable":
            return
        function = "step" if self._equipment.spec.donate else "step-kept"
        for left in itertools.combinations(sorted(slices), least):
            places = Shardings.of(mesh_of(self._take(left)))
            topology = Topology.of(self._place.topology)
            self._equipment.executables_of(0, topology).get(function, places)

    # What the manager calls

    def _slices_found(self) -> None:
        """`pre_callback`: enough slices are there for an attempt."""
        self._journal.log("span", name="wait for slices", t0=self._since)
        self._journal.log(
            "up",
            slices=sorted(self._manager.active_slice_indices),
            bytes_kept=sum(array.nbytes for ref in self._old if (array := ref()) is not None),
            **dataclasses.asdict(self._settings),
        )
        self._old = []

    def _train(self) -> None:
        """One attempt."""
        devices = self._take(self._manager.active_slice_indices)
        self._attempt = SliceGeneration(
            self._equipment, self._place, devices, self._loss, self._slice_available
        )
        try:
            self._attempt.run()
        except ScaleUpSignalError:
            self._since = time.monotonic_ns()
            self._equipment.channel.send("left", generation=self._place.generation)
            self._grow()
            raise
        except jax.errors.JaxRuntimeError as error:
            if elastic.is_error_due_to_slice_down(error, log_traceback=False):
                self._report("slice_lost", error)
            raise

    def _grow(self) -> None:
        """Return once the supervisor has written down that the job is set up anew."""
        following = self._place.generation + 1
        while self._equipment.channel.order().get("generation") != following:
            pass

    def _take(self, slices: Collection[int]) -> list[jax.Device]:
        """From here on the functions are those for these slices; returns their devices."""
        whole = len(slices) == self._manager.total_slice_count
        self._equipment.slices = () if whole else tuple(sorted(slices))
        return [d for index in sorted(slices) for d in self._manager.slice_to_devices[index]]

    def _slice_available(self) -> bool:
        """A slice that this attempt does without has been found by the manager's monitor."""
        return bool(self._manager.available_inactive_slices)

    def _attempt_over(self) -> None:
        """`on_elastic_event_callback`: let go of what the attempt still holds."""
        journal, attempt = self._journal, self._attempt
        assert attempt is not None
        self._equipment.profiler.end()
        if attempt.source is not None:
            for problem in attempt.source.abandon():
                _say(f"while draining the checkpoint manager: {problem}")
        self._old = [weakref.ref(array) for array in jax.live_arrays()]
        self._attempt = None
        self._place = dataclasses.replace(
            self._place, generation=self._place.generation + 1, hold=None
        )
        journal.log("span", name="clean up after the attempt", t0=self._since)
        journal.become(self._place.rank, self._place.attempt, self._place.generation)
        self._since = journal.log("closed")

    def _report(self, mechanism: str, error: Exception) -> None:
        detail = first_line(error)
        self._since = self._journal.log(
            "error", mechanism=mechanism, type=type(error).__name__, message=detail
        )
        self._equipment.channel.send(
            "failed", generation=self._place.generation, mechanism=mechanism, detail=detail
        )


def _say(text: str) -> None:
    """Into this process's log."""
    print(f"recoverybench: {text}", flush=True)
