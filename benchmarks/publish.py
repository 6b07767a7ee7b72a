"""How long a site of many runs takes: from nothing, after one more run, and with nothing new.

Run as `python benchmarks/publish.py [RUNS]`; by default 200 runs of 48 trials in 6 cells, of 200
releases, one in ten on another machine.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from recoverybench.site import publish
from tests.sample_run import make_cell
from tests.site_runs import put, release

CELLS = [
    make_cell(workload=workload, strategy=strategy)
    for workload in ("transformer:tiny", "mlp:tiny")
    for strategy in ("restart", "elastic", "hot-spare")
]


def run(results: Path, number: int) -> None:
    slow = 1.5 if number % 50 >= 25 else 1.0
    machine = {"cpu": "test CPU", "cores_usable": 8 if number % 10 == 7 else 2}
    times = (4.9, 1.4 * slow, 0.6, 4.8, 1.4 * slow, 0.6)
    put(results, release(number, f"0.{number}", *times, cells=CELLS, machine=machine))


def measure(what: str, results: Path, site: Path) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    done = publish(results, site)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{what}: {wall:.1f} s ({cpu:.1f} s of a core), {done.runs} runs, "
        f"{done.comparisons} comparisons, {len(done.files.written)} files written, "
        f"peak {peak:.0f} MiB"
    )


def main(count: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="recoverybench-site-"))
    try:
        for number in range(count):
            run(folder / "results", number)
        measure("from nothing", folder / "results", folder / "site")
        measure("nothing new", folder / "results", folder / "site")
        run(folder / "results", count)
        measure("one more run", folder / "results", folder / "site")
        size = sum(path.stat().st_size for path in (folder / "site").rglob("*") if path.is_file())
        print(f"the site has {size / 1e6:.0f} MB")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
