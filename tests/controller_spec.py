"""The job of `controller_run`, for those who must not import jax."""

from __future__ import annotations

from typing import Any

SPEC: dict[str, Any] = {
    "workload": "mlp:tiny",
    "data": None,
    "seed": 1,
    "steps": 20,
    "interval": 5,
    "topology": "3x1",
    "restore_topology": None,
    "workers": 3,
    "devices": 1,
    "platform": "cpu",
    "state_source": "storage",
    "persist_every": 1,
    "rejoin": False,
    "suspend": False,
    "donate": True,
    "preemption_service": False,
    "agreement": False,
    "replica_check": False,
    "gate": False,
    "coordinator": "worker0",
    "heartbeat_s": 10.0,
    "init_timeout_s": 60.0,
    "compile_cache": "executable",
    "controller": {
        "minimum_slice_count": None,
        "poll_s": 0.2,
        "timeout_s": 60.0,
        "attempts": 3,
    },
}

FAULT: dict[str, Any] = {"slice": 1, "back_s": 0.1}
"""The argument of the breakage; with ``back_s`` None and ``"back": true`` among the changes, the
slice comes back once the job runs again."""
