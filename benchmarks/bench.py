"""Measures the numbers of the README and prints them as a Markdown table.

Run it through `make bench`. It takes about ten minutes on two cores, wants a quiet machine,
and needs nothing but the project; torchrun's row is measured where PEER_PYTHON names the
Python of an environment with torch (CPU), and is left out otherwise.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from instrumentation import cost_of_a_step_s
from peers import torchrun_recovery_s

import recoverybench as rb
from recoverybench.plan.suite import Overrides
from recoverybench.records import TrialRecord

TRIALS = 10
PEER_TRIALS = 5


def main() -> None:
    """Measure everything and print the table."""
    print("| what | to reach | measured |\n|---|---|---|")
    for row in rows():
        print("| " + " | ".join(row) + " |", flush=True)


def rows() -> Iterator[tuple[str, str, str]]:
    """(what, to reach, measured) of each number."""
    with tempfile.TemporaryDirectory(prefix="recoverybench-bench-") as name:
        peers: list[float] = []
        rb.run("quick", out=Path(name) / "warm-up", overrides=Overrides(trials=1))
        yield _default_suite(Path(name))
        overrides = Overrides(strategy=tuple(_TARGETS), trials=TRIALS)
        run = rb.run("quick", out=Path(name) / "quick", overrides=overrides)
        by = {s: [r for r in run.trials if r.cell.strategy == s] for s in _TARGETS}
        for strategy, target in _TARGETS.items():
            yield f"`{strategy}` recovery", target, _spread(_recoveries(by[strategy]))
        if peer := os.environ.get("PEER_PYTHON"):
            mine = []
            for index in range(PEER_TRIALS):  # turn and turn about, on the same machine
                peers.append(torchrun_recovery_s(Path(peer)))
                out = Path(name) / f"peer-{index}"
                one = rb.run("quick", out=out, overrides=Overrides(strategy=("restart",), trials=1))
                mine += _recoveries(one.trials)
            ratio = statistics.median(mine) / statistics.median(peers)
            yield "torchrun recovery (the peer)", "–", _spread(peers)
            yield "`restart` / torchrun, medians", "≤ 0.8", f"{ratio:.2f}"
        for strategy, records in by.items():
            shares = [r.unattributed_s / r.recovery_s for r in records if r.recovery_s]
            yield (
                f"unattributed time, `{strategy}`",
                "≤ 2 %",
                f"{100 * statistics.median(shares):.1f} % (max {100 * max(shares):.1f} %)",
            )
        yield from _instrumentation(Path(name))
        yield "`recoverybench --help`", "≤ 0.15 s", f"{_help_s():.2f} s"


_TARGETS = {
    "hot-spare": "≤ 0.6 s",
    "warm-restart": "≤ 1.0 s",
    "elastic": "≤ 1.6 s",
    "restart": "–",
}


def _default_suite(directory: Path) -> tuple[str, str, str]:
    """The default suite as `make demo` runs it, report included, caches warm."""
    start = time.monotonic()
    command = [sys.executable, "-m", "recoverybench", "run", "--out", str(directory / "demo")]
    subprocess.run([*command, "--report", str(directory / "demo.html")], check=True)
    wall_s = time.monotonic() - start
    run = rb.load(directory / "demo")
    window_s = sum(r.window_s or 0.0 for r in run.trials)
    return (
        "default suite (9 trials), report included; share inside injection to verified",
        "≤ 180 s; ≥ 50 %",
        f"{wall_s:.0f} s; {100 * window_s / run.info.wall_s:.0f} %",
    )


def _instrumentation(directory: Path) -> Iterator[tuple[str, str, str]]:
    cost_s = cost_of_a_step_s()
    yield "instrumentation of a step", "≤ 20 µs", f"{cost_s * 1e6:.1f} µs"
    small = rb.run(
        "quick",
        out=directory / "small",
        overrides=Overrides(
            workload=("transformer:small",),
            topology=("2x1",),
            strategy=("hot-spare",),
            trigger=("step:8",),
            interval=("5",),
            steps=12,
            trials=1,
        ),
    )
    step_s = next(r.steady_step_s for r in small.trials if r.steady_step_s)
    share = 100 * cost_s / step_s
    yield (
        "of a step of `transformer:small`, 2 workers",
        "≤ 0.5 %",
        f"{share:.4f} % of {step_s:.2f} s",
    )


def _help_s() -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "recoverybench", "--help"], check=True, capture_output=True
        )
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _recoveries(records: list[TrialRecord] | tuple[TrialRecord, ...]) -> list[float]:
    return [r.recovery_s for r in records if r.recovery_s is not None]


def _spread(values: list[float]) -> str:
    """Median, range and number; honest where there is nothing."""
    if not values:
        return "none recovered"
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.2f} s (n = {len(values)}, {low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
