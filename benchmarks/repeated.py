"""Recovery, fifty times in one job: what it leaves behind in the processes that survive.

A made trace kills worker 2 at fixed gaps; workers 0 and 1 keep their processes. As each kill
comes, resident memory and open file descriptors of both are read from /proc.

    python benchmarks/repeated.py [--recoveries 50] [--gap 3] [--strategy elastic] [--out DIR]

Prints a table and exits with 1 where memory grew by 5 % or more from the 5th recovery to the
last, or a descriptor was left open.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from recoverybench.campaign.bench import Bench
from recoverybench.campaign.campaign import keys_of, plans
from recoverybench.campaign.trial import Directories, run_job
from recoverybench.plan.suite import Overrides, load_suite
from recoverybench.plan.traces import Preemption, text_of

SURVIVORS = (0, 1)
SETTLED = 5
"""The recovery from which on memory is compared: the first ones fill caches that stay."""

GROWTH = 0.05
STEPS = 1_000_000


class Enough(Exception):
    """As many recoveries as were asked for."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One process at one time: resident bytes, anonymous ones, threads, what is open."""

    resident: int
    anonymous: int
    threads: int
    open: Counter[str]


@dataclass(slots=True)
class Watch:
    """Hears how the job goes on and looks at the survivors whenever it trains.

    Attributes:
        journal: of the supervisor. recoveries: how many to wait for.
        samples: worker -> one as each kill comes; the first is of the healthy job, the one at
            index n of the job that came back n times. word: the last that was heard.
    """

    journal: Path
    recoveries: int
    samples: dict[int, list[Sample]] = field(default_factory=dict)
    word: str = ""

    def told(self, word: str) -> None:
        """`detect` follows `train` when the next kill has come: the job had trained till then."""
        before, self.word = self.word, word
        if (before, word) != ("train", "detect"):
            return
        for worker, pid in self._pids().items():
            self.samples.setdefault(worker, []).append(sample(pid))
        done = len(self.samples[SURVIVORS[0]]) - 1
        print(f"\r{done} of {self.recoveries}", end="", file=sys.stderr, flush=True)
        if done >= self.recoveries:
            raise Enough

    def _lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.journal.read_text().splitlines()]

    def _pids(self) -> dict[int, int]:
        spawns = [line for line in self._lines() if line["event"] == "spawn"]
        return {w: next(int(str(s["pid"])) for s in spawns if s["worker"] == w) for w in SURVIVORS}


def sample(pid: int) -> Sample:
    """A process as it is now."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    opened: Counter[str] = Counter()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:  # closed meanwhile
            continue
        opened[target.partition(":")[0] if ":[" in target else target] += 1
    return Sample(
        int(status["VmRSS"].split()[0]) * 1024,
        int(status["RssAnon"].split()[0]) * 1024,
        int(status["Threads"]),
        opened,
    )


def measure(
    recoveries: int, gap_s: float, strategy: str, out: Path | None = None
) -> dict[int, list[Sample]]:
    """Worker -> its samples, see `Watch`; journals and logs stay in `out`."""
    with tempfile.TemporaryDirectory(prefix="recoverybench-repeated-") as name:
        directory = Path(name) if out is None else out
        directory.mkdir(parents=True, exist_ok=out is None)
        trace = directory / "trace.csv"
        trace.write_text(text_of(Preemption(gap_s * n, "2") for n in range(1, 20 * recoveries)))
        suite = load_suite(
            "quick",
            Overrides(
                workload=("mlp:tiny",),
                strategy=(strategy,),
                fault=(f"replay:{trace}",),
                interval=("50",),
                steps=str(STEPS),
            ),
        )
        (plan,) = plans(replace(suite, trials=1))
        place = Directories(directory / "journal", directory / "logs")
        for path in (place.journals, place.logs):
            path.mkdir()
        watch = Watch(place.journals / "supervisor.0.jsonl", recoveries)
        with Bench.open("local", directory / "fork-server.log") as bench:
            keys = keys_of(plan, plan.cell, bench)
            keys.executables.mkdir(parents=True, exist_ok=True)
            try:
                problem = run_job(plan, bench, keys, place, watch.told)
            except Enough:
                return watch.samples
            raise SystemExit(f"the job ended before that: {problem}")


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recoveries", type=int, default=50)
    parser.add_argument("--gap", type=float, default=3.0, help="seconds between kills")
    parser.add_argument("--strategy", default="elastic")
    parser.add_argument("--out", type=Path, help="a new directory for journals and logs")
    given = parser.parse_args()
    samples = measure(given.recoveries, given.gap, given.strategy, given.out)
    print("\n| recovery | worker | resident MB | anonymous MB | threads | descriptors |")
    print("|---|---|---|---|---|---|")
    for worker, own in samples.items():
        for number, one in enumerate(own):
            if number in (0, 1, SETTLED, len(own) - 1) or number % 10 == 0:
                size, anonymous = one.resident / 1e6, one.anonymous / 1e6
                count = one.open.total()
                print(
                    f"| {number} | {worker} | {size:.1f} | {anonymous:.1f} | {one.threads} "
                    f"| {count} |"
                )
    bad = False
    for worker, own in samples.items():
        early = statistics.median(s.resident for s in own[SETTLED : SETTLED + 3])
        late = statistics.median(s.resident for s in own[-3:])
        growth = late / early - 1
        # What a save in flight has open comes and goes; what is there every time has stayed.
        left = own[-1].open & own[-2].open & own[-3].open
        left -= own[SETTLED].open | own[SETTLED + 1].open | own[SETTLED + 2].open
        bad = bad or growth >= GROWTH or left.total() > 0
        print(f"worker {worker}: memory {growth:+.1%}, descriptors left open: {dict(left)}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
