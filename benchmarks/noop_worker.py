"""A worker that speaks to the supervisor as every worker does, and whose steps do nothing.

It imports no JAX, so that many of them fit on one machine: what is left of a job is what the
supervisor has to do for it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from recoverybench import parenthood
from recoverybench.journal_writer import Journal
from recoverybench.protocol import JobSpec, Place, StepsTold
from recoverybench.worker.channel import Channel

STEP_S = 0.02
ONE_MACHINE = 64
"""Workers of whom a small machine can wake each so often; of more, each has longer steps."""


def main() -> None:
    """Live to the end of the job; arguments as those of ``recoverybench.worker``."""
    parenthood.die_with(parenthood.supervisor())
    slot, attempt = int(sys.argv[2]), int(sys.argv[3])
    channel = Channel(sys.argv[1], slot, attempt)
    spec = JobSpec.of(channel.order())
    journal = Journal(Path(spec.journals) / f"{slot}.{attempt}.jsonl", slot, attempt)
    board = channel.board(spec)
    called: list[bool] = []
    channel.on_rejoin = lambda: called.append(True)
    while True:
        place = Place.of(channel.order())
        journal.become(place.rank, place.attempt, place.generation)
        journal.log("up")
        channel.send("arrived", generation=place.generation)
        if not channel.everybody_is_there():
            continue
        called.clear()
        if train(channel, journal, board, spec, place, called):
            channel.send("done", step=spec.steps)
            break
    while True:
        channel.order()


def train(
    channel: Channel,
    journal: Journal,
    board: StepsTold,
    spec: JobSpec,
    place: Place,
    called: list[bool],
) -> bool:
    """Whether it came to the last step; False: it was called back."""
    step_s = STEP_S * max(1.0, spec.workers / ONE_MACHINE)
    for step in range(1, spec.steps + 1):
        t0 = time.monotonic_ns()
        board.begin(place.rank, step)
        time.sleep(step_s)  # stands for the device
        board.complete(place.rank, step)
        journal.log("step", t0=t0, step=step)
        if step == 1:
            channel.send("running", generation=place.generation)
        if called:
            return False
    return True


if __name__ == "__main__":
    main()
