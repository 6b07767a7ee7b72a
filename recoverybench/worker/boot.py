"""From a bare interpreter, or a fork of a warm one, to a worker that lives.

Garbage collection is off while modules load (it costs a tenth of the import), and what
they leave is frozen afterwards, so that the collection a recovery needs does not walk it.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

from recoverybench.journal_writer import Journal
from recoverybench.protocol import GATE, SPAWN_NS, JobSpec
from recoverybench.worker import gate
from recoverybench.worker.channel import Channel


def imports(journal: Journal | None) -> None:
    """Import what every worker needs, each package as a span of its own."""
    gc.disable()
    for package in ("numpy", "jax", "orbax.checkpoint", "grain", "recoverybench.worker.life"):
        t0 = time.monotonic_ns()
        __import__(package)
        if journal is not None:
            journal.log("span", name=f"import {package}", t0=t0)
    gc.enable()
    gc.freeze()


def main(arguments: list[str], started_ns: int) -> None:
    """Run the worker that the arguments name; ends the process.

    Args:
        arguments: address of the control channel, slot, attempt.
        started_ns: when this process began to run Python, ns.
    """
    # A supervisor that a script started in the background ignores SIGINT, and so would we.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    slot = int(arguments[1])
    channel = Channel(arguments[0], slot, int(arguments[2]))
    spec = JobSpec.of(channel.order())
    journal = Journal(Path(spec.journals) / f"{slot}.{arguments[2]}.jsonl", slot, int(arguments[2]))
    spawned_ns = os.environ.get(SPAWN_NS)
    if spawned_ns is not None:
        fields = {"name": "start the interpreter", "t0": int(spawned_ns), "t0_of": "supervisor"}
        journal.log("span", started_ns, **fields)
    journal.log("span", name="connect to the supervisor", t0=started_ns)
    imports(journal)
    if spec.gate:
        with journal.span("install the storage gate"):
            gate.install(str(Path(spec.board).with_name(GATE)))
    if spec.controller is not None:
        from recoverybench.worker.pathways import controller

        controller.live(channel, journal, spec)
    else:
        from recoverybench.worker import life

        life.live(channel, journal, spec, slot)
    # The last order is to end: leaving by ourselves would look like a failure to the others.
    while True:
        channel.order()
