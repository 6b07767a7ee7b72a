"""What a large report costs: `python benchmarks/report.py RUN [TRIALS [CELLS]]`.

Makes a run of TRIALS trials (10,000 by default) in CELLS cells (100) from the records of a real
one, with every time changed a little so that nothing compresses better than it would, writes its
report, and opens that in Chromium: seconds and CPU to write, bytes, first paint and the moment at
which everything is drawn that the first window shows.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recoverybench.results import store

WRITE = """
import sys, time
from pathlib import Path
from recoverybench.report import write_report
from recoverybench.results import store
a = time.perf_counter(), time.process_time()
run = store.load(sys.argv[1])
b = time.perf_counter(), time.process_time()
write_report([run], sys.argv[2])
c = time.perf_counter(), time.process_time()
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(b[0] - a[0], c[0] - b[0], c[1] - a[1], int(status["VmHWM"].split()[0]) / 1024)
"""


def changed(value: Any, rng: random.Random) -> Any:
    """Data of a record with every number that is a time multiplied by up to 10 % more or less."""
    if isinstance(value, float):
        return value * rng.uniform(0.9, 1.1)
    if isinstance(value, list):
        return [changed(one, rng) for one in value]
    if isinstance(value, dict):
        return {key: changed(one, rng) for key, one in value.items()}
    return value


def grown(source: Path, target: Path, trials: int, cells: int) -> None:
    """Writes the run."""
    shutil.copy(source / "run.json", target / "run.json")
    # Records are of the present version, whatever the source's is: an older one is read slower.
    with (target / "trials.jsonl").open("w") as file:
        for line in lines(source, trials, cells):
            file.write(json.dumps(line) + "\n")


def lines(source: Path, trials: int, cells: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(0)
    records = [json.loads(store.record_line(trial)) for trial in store.load(source).trials]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        kinds.setdefault(json.dumps(record["cell"]), []).append(record)
    cells_there = list(kinds.values())
    for number in range(trials):
        place = number % cells
        real = rng.choice(cells_there[place % len(cells_there)])
        record = changed(real, rng)
        # What the cell is stays as it was: a time among its factors would make each trial a cell.
        cell = real["cell"] | {"interval": 10 + place // len(cells_there)}
        start = record["t_inject"] + rng.randrange(10**12)
        marks = {
            name: start + round((t - record["t_inject"]) * rng.uniform(0.9, 1.1))
            for name, t in record["milestones"].items()
        }
        yield record | {
            "trial": f"{number:05d}",
            "rep": number // cells,
            "seed": rng.randrange(2**31),
            "cell": cell,
            "t_inject": start,
            "milestones": marks,
        }


def painted(file: Path) -> tuple[float, float]:
    """First paint, and everything drawn, milliseconds after the page was asked for."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(file.as_uri(), wait_until="commit")
        page.locator("#recovery .point").first.wait_for()
        page.wait_for_selector("html[data-ready]", state="attached")
        ready = page.evaluate("performance.now()")
        paint = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
        browser.close()
    return float(paint), float(ready)


def main() -> None:
    source, trials = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    cells = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    with tempfile.TemporaryDirectory() as folder:
        run, report = Path(folder) / "run", Path(folder) / "report.html"
        run.mkdir()
        grown(source, run, trials, cells)
        times = []
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", WRITE, str(run), str(report)],
                capture_output=True,
                text=True,
                check=True,
            )
            load_s, write_s, cpu_s, peak = map(float, done.stdout.split())
            times.append(load_s + write_s)
            print(
                f"load {load_s:.2f} s, write {write_s:.2f} s, {cpu_s:.2f} s of CPU, {peak:.0f} MiB"
            )
        print(f"{trials} trials: {statistics.median(times):.2f} s, {report.stat().st_size:,} bytes")
        for _ in range(3):
            paint, ready = painted(report)
            print(f"first paint {paint:.0f} ms, all there {ready:.0f} ms")
        if len(sys.argv) > 4:
            shutil.copy(report, sys.argv[4])


if __name__ == "__main__":
    main()
