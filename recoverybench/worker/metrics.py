"""Health metrics of the TPU's runtime, read by a process of its own: ``python -m`` this.

They come from the monitoring part of libtpu's SDK, which is native code and keeps the interpreter's
lock while it asks: on a machine without TPUs a first reading held a whole process up for more than
four minutes (libtpu 0.0.52, which looks for a metadata server meanwhile). In a process of its own
it can be ended, and it never stops a worker's threads. That process opens no chip: the SDK asks
what runs on the host already, as Google's ``tpu-info`` does.

Source: ``libtpu.sdk.tpumonitoring`` (cloud.google.com/tpu/docs/tpu-monitoring-library), and what
its metrics say of themselves in ``description()``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final

READ_S: Final = 5.0
"""How long a reading may take; without the metadata server it takes a quarter of a second."""

NAMES: Final = (
    "tpu_throttle_score",  # a chip each, "ID-SCORE": 0 not throttled, 1 to 10: by 10 to 100 %
    "ici_link_health",  # a link each, "tray1.chip3.ici0.int: 0": 0 healthy … 10 not usable
    "hbm_capacity_total",  # bytes, a chip each
    "hbm_capacity_usage",  # likewise
    "hbm_util",  # % of the memory's bandwidth, a chip each
    "duty_cycle_pct",  # % of the time that a chip was at work
    "tensorcore_util",  # %, a core each
    "hlo_queue_size",  # programs that wait, "tensorcore_0: 2", a core each
)
"""What is read, of all that the SDK has: the state of chips and links, and whether they idle."""

MOST_VALUES: Final = 4096
_LONGEST: Final = 100

Found = dict[str, Any]
"""``metrics`` (name -> its values, texts as the runtime gives them) and ``unavailable`` (why there
are none, or None)."""


def read(limit_s: float = READ_S) -> Found:
    """The metrics of the runtime on this host, by a process that is ended after `limit_s`.

    Never raises: what cannot be read is a fact.
    """
    command = [sys.executable, "-P", "-m", __name__, str(os.getpid())]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return nothing(f"the runtime did not answer within {limit_s:g} s")
    except OSError as error:
        return nothing(f"no process to read them with: {error.strerror}")
    return said(done.stdout, done.returncode)


def said(output: bytes, code: int) -> Found:
    """What a reading process has written, which ended with that code."""
    lines = output.splitlines()
    try:
        found = json.loads(lines[-1])
        metrics, why = dict(found["metrics"]), found["unavailable"]
    except (IndexError, KeyError, TypeError, ValueError):
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return nothing(f"the process that reads them ended with {how}")
    return {"metrics": metrics, "unavailable": None if why is None else str(why)}


def nothing(why: str) -> Found:
    """No metrics, and why."""
    return {"metrics": {}, "unavailable": why}


def gather() -> Found:
    """The metrics, in this process: whatever the SDK raises becomes a reason."""
    try:
        from libtpu import sdk  # type: ignore[import-not-found, unused-ignore]

        # Its name in the first versions was `monitoring`.
        monitoring = getattr(sdk, "tpumonitoring", None) or sdk.monitoring
        known = set(monitoring.list_supported_metrics())
    except Exception as error:
        return nothing(f"libtpu's SDK: {_line(error)}")
    metrics, why = {}, []
    for name in NAMES:
        if name not in known:
            continue
        try:
            values = [str(value)[:_LONGEST] for value in monitoring.get_metric(name).data()]
        except Exception as error:
            why.append(f"{name}: {_line(error)}")
            continue
        if values:
            metrics[name] = values[:MOST_VALUES]
    if not metrics and not why:
        why = ["the runtime gives no values"]
    return {"metrics": metrics, "unavailable": "; ".join(why) or None}


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return text or type(error).__name__


if __name__ == "__main__":
    from recoverybench import parenthood

    parenthood.die_with(int(sys.argv[1]))
    print(json.dumps(gather()), flush=True)
    # Not through the interpreter's end: threads of the runtime may still be at work.
    os._exit(0)
