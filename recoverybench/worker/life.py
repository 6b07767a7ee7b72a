"""A worker's life: get a place, train, and when a generation fails, leave it and rejoin."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import NoReturn

from recoverybench.journal_writer import Journal
from recoverybench.protocol import JobSpec, Message, Place
from recoverybench.worker import runtime, workload
from recoverybench.worker.channel import Channel
from recoverybench.worker.profiling import Profiler
from recoverybench.worker.states.base import load_source
from recoverybench.worker.steps import End, NonFinite, ReplicasDiffer
from recoverybench.worker.training import Equipment, Generation

_COLLECTIVE = re.compile(
    r"gloo|nccl|collective|all-?reduce|connection (closed|reset)|peer|coordination|heartbeat"
    r"|distributed system|barrier|unavailable|deadline_exceeded",
    re.IGNORECASE,
)


def mechanism_of(error: BaseException) -> str:
    """`collective_error` for what the death of another worker raises, else `exception`.

    Never guessed from the type alone: an out-of-memory error is a `JaxRuntimeError` as well.
    """
    if isinstance(error, NonFinite):
        return "non_finite"
    if isinstance(error, ReplicasDiffer):
        return "digest_mismatch"
    if isinstance(error, RuntimeError | ValueError | TimeoutError):  # JAX's is a RuntimeError
        text = str(error)
        if _COLLECTIVE.search(text) and "RESOURCE_EXHAUSTED" not in text:
            return "collective_error"
    return "exception"


def first_line(error: BaseException, limit: int = 300) -> str:
    """Type and first line of an error."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:limit]}"


def live(channel: Channel, journal: Journal, spec: JobSpec, slot: int) -> None:
    """Live to the end of the job. Returns when there is nothing more to do.

    Args:
        channel: to the supervisor. journal: this attempt's.
        spec: the job. slot: below `spec.most_workers` a rank, else a standby.
    """
    with journal.span("configure JAX"):
        cache = spec.jax_cache if spec.compile_cache == "persistent" else None
        runtime.configure(
            spec.devices,
            spec.platform,
            cache,
            rejoin=spec.rejoin,
            preemption=spec.preemption_service,
        )
    profiler = Profiler(None if spec.profile is None else Path(spec.profile), journal)
    with journal.span("load the workload"):
        equipment = Equipment(
            spec,
            channel,
            journal,
            channel.board(spec),
            workload.load(spec.workload, spec.data),
            profiler,
        )
        load_source(spec.state_source)
    channel.on_rejoin = runtime.let_go
    channel.healthy = runtime.healthy
    order = _first_order(channel, journal, slot >= spec.most_workers)
    if order["kind"] == "serve":
        _serve(channel, spec, order)
    place = Place.of(order)
    while True:
        journal.become(place.rank, place.attempt, place.generation)
        if slot >= spec.most_workers:
            journal.log("assigned", slot=slot, rank=place.rank)
        journal.log("up")
        generation = Generation(equipment, place)
        ended = _run(generation, journal)
        if ended == "done":
            journal.log("done", step=spec.steps)
            equipment.watch.look("after")  # nothing is timed any more
            channel.send("done", step=spec.steps)
            return
        if ended == "suspended":
            return
        if ended == "left":
            channel.send("left", generation=place.generation)
            since = time.monotonic_ns()
        else:
            mechanism, detail, since = ended
            profiler.end()
            channel.send("failed", generation=place.generation, mechanism=mechanism, detail=detail)
            if not spec.rejoin:
                return
        # Outside the except block: its traceback would keep the old backend alive. Letting
        # go of it is work, too: what it held is destroyed there.
        journal.log("span", name="let go of the old state", t0=since)
        place = _leave(equipment, generation, place)


def _first_order(channel: Channel, journal: Journal, standby: bool) -> Message:
    if standby:
        journal.log("up")
        channel.send("ready")
    with journal.span("wait for a place"):
        return channel.order()


def _serve(channel: Channel, spec: JobSpec, order: Message) -> NoReturn:
    """Be the coordination service of a generation until the supervisor ends this process."""
    service = runtime.serve(
        order["address"], order["world"], spec.heartbeat_s, recoverable=spec.rejoin
    )
    channel.send("serving", address=order["address"])
    while service is not None:
        channel.order()
    raise AssertionError("a service is never None")


def _run(generation: Generation, journal: Journal) -> End | tuple[str, str, int]:
    """How the generation ended, or what ended it: (mechanism, detail, when)."""
    try:
        return generation.run()
    except Exception as error:  # every kind of failure becomes an outcome
        mechanism, detail = mechanism_of(error), first_line(error)
        t = journal.log("error", mechanism=mechanism, type=type(error).__name__, message=detail)
        return mechanism, detail, t


def _leave(equipment: Equipment, generation: Generation, place: Place) -> Place:
    """Close everything of the failed generation; returns the place in the next one."""
    journal = equipment.journal
    if generation.agreement is not None:
        generation.agreement.end()
    service = runtime.leave(journal)
    if service is not None:
        equipment.retired.append(service)
    if generation.source is not None:
        for problem in generation.source.abandon():
            _say(f"while draining the checkpoint manager: {problem}")
    generation.source = None
    if not runtime.forget(journal):
        _say("something still refers to the old backend, which keeps its sockets open")
    journal.become(place.rank, place.attempt, place.generation + 1)
    journal.log("closed")
    with journal.span("wait for a place"):
        order = equipment.channel.order()
    return Place.of(order)


def _say(text: str) -> None:
    """Into this attempt's log."""
    print(f"recoverybench: {text}", flush=True)
