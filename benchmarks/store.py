"""What reading a large run costs: `python benchmarks/store.py RUN [TRIALS]`.

Makes a run of TRIALS trials (10,000 by default) from the records of a real one, and reads it and
makes its table in a process of its own, three times.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MEASURE = """
import sys, time
from pathlib import Path
import pandas, recoverybench
a = time.perf_counter(), time.process_time()
run = recoverybench.load(sys.argv[1])
b = time.perf_counter(), time.process_time()
table = run.frame()
c = time.perf_counter(), time.process_time()
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
peak = int(status["VmHWM"].split()[0]) / 1024
print(b[0] - a[0], c[0] - b[0], c[1] - a[1], peak, *table.shape)
"""


def grown(source: Path, target: Path, trials: int) -> float:
    """Writes the run; returns the mean number of spans of a record."""
    shutil.copy(source / "run.json", target / "run.json")
    records = [json.loads(line) for line in (source / "trials.jsonl").read_bytes().splitlines()]
    with (target / "trials.jsonl").open("w") as file:
        for number in range(trials):
            record = records[number % len(records)]
            file.write(json.dumps({**record, "trial": f"{number:05d}"}) + "\n")
    return sum(len(record["spans"]) for record in records) / len(records)


def main() -> None:
    source, trials = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        spans = grown(source, Path(folder), trials)
        size = (Path(folder) / "trials.jsonl").stat().st_size
        print(f"{trials} trials, {size / trials:.0f} bytes and {spans:.0f} spans each")
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", MEASURE, folder], capture_output=True, text=True, check=True
            )
            load_s, frame_s, cpu_s, peak, rows, columns = map(float, done.stdout.split())
            print(
                f"load {load_s:.2f} s, frame {frame_s:.2f} s: {load_s + frame_s:.2f} s "
                f"({cpu_s:.2f} s of CPU), {peak:.0f} MiB; {rows:.0f} x {columns:.0f}"
            )


if __name__ == "__main__":
    main()
