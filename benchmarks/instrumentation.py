"""What measuring costs a step: the journal's line, the board's cells, the look for a hold."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from recoverybench.journal_writer import Journal
from recoverybench.protocol import Board

ROUNDS, LINES = 200, 100


def cost_of_a_step_s() -> float:
    """Median over rounds of the mean cost, in seconds, of what a worker does to log one step."""
    with tempfile.TemporaryDirectory(prefix="recoverybench-bench-") as name:
        journal = Journal(Path(name) / "0.0.jsonl", 0, 0)
        board = Board(Path(name) / "board", 3, create=True)
        samples = [17_001, 3_002, 9_003, 12_004]
        rounds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for step in range(LINES):
                hold = None
                if hold == f"step:{step}":  # where the loop looks whether it is to stop
                    raise AssertionError
                t0 = time.monotonic_ns()
                board.begin(0, step)
                t = time.monotonic_ns()
                journal.log(
                    "step", t, step=step, loss=3.25, loss_bits="40500000", samples=samples, t0=t0
                )
                board.complete(0, step)
            rounds.append((time.perf_counter() - start) / LINES)
        journal.close()
        return statistics.median(rounds)
