"""torchrun's recovery on this machine: from SIGKILL of a worker to the first step after it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

WORKERS, STEPS, HOLD, INTERVAL = 3, 45, 25, 10
TIMEOUT_S = 60.0


def torchrun_recovery_s(python: Path) -> float:
    """One kill under torchrun, in seconds; the settings of its fastest reliable recovery.

    Args:
        python: of an environment that has torch (CPU).

    Raises:
        RuntimeError: it did not come back within a minute.
    """
    with tempfile.TemporaryDirectory(prefix="recoverybench-peer-") as name:
        directory = Path(name)
        process = subprocess.Popen(
            [
                *(str(python), "-m", "torch.distributed.run", "--nnodes", "1"),
                *("--nproc-per-node", str(WORKERS), "--max-restarts", "3"),
                *("--monitor-interval", "0.1", "--rdzv-backend", "c10d"),
                *("--rdzv-endpoint", f"127.0.0.1:{_free_port()}"),
                *(str(Path(__file__).with_name("torchrun_job.py")), name),
                *(str(STEPS), str(HOLD), str(INTERVAL)),
            ],
            # With the store shared across attempts, its default, new workers pick up the dead
            # attempt's addresses and most recoveries fail.
            env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            held = _await(directory / "1.0.jsonl", "hold", process)
            killed = time.monotonic_ns()
            os.kill(held["pid"], signal.SIGKILL)
            first = [_await(directory / f"{r}.1.jsonl", "step", process) for r in range(WORKERS)]
            return float(max(line["t"] for line in first) - killed) / 1e9
        finally:
            # Its workers have sessions of their own; asked to end, the agent ends them.
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _await(path: Path, key: str, process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The first line of a job's log that has this key."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        if path.exists():
            for line in path.read_text().splitlines():
                if line.endswith("}") and key in (found := json.loads(line)):
                    return dict(found)
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"torchrun: no {key!r} in {path.name} within {TIMEOUT_S:.0f} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
