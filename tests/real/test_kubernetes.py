"""Real workers as pods of a cluster that is this machine: through the API, over TCP."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from recoverybench.results import store as results
from tests.real_support import Command, only, story, suite_text

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(200),
    pytest.mark.skipif(
        importlib.util.find_spec("kubernetes_validate") is None,
        reason="kubernetes-validate is not installed",
    ),
]


def test_pods_that_are_lost_are_replaced(
    command: Command, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A signal in the pod that survivors outlive, and a pod that is gone at once."""
    volume = tmp_path_factory.getbasetemp()  # the cache lies on it, too
    (tmp_path / "kubernetes.toml").write_text(
        f'image = "here"\nnamespace = "bench"\nvolume = "v"\nmount = {json.dumps(str(volume))}\n'
        'supervisor_address = "127.0.0.1"\n',
        encoding="utf-8",
    )
    include = {"strategy": "restart", "fault": "pod-delete:0s"}
    suite = suite_text({"strategy": ["elastic"]}, include=[include])
    launcher = f"kubernetes:{tmp_path / 'kubernetes.toml'}"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.kubelet", str(tmp_path)),
            *command.arguments(tmp_path, suite),
            *("--launcher", launcher),
        ],
        env=command.environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = results.load(tmp_path / "run")
    for strategy in ("elastic", "restart"):
        record = only(run, strategy=strategy)
        assert record.outcome == "recovered", story(run, record)
    killed = only(run, strategy="elastic").exits[0]
    assert (killed.signal, killed.reason) == ("SIGKILL", "inject")
    deleted = next(e for e in only(run, strategy="restart").exits if e.reason == "inject")
    assert (deleted.code, deleted.signal) == (None, None), "nobody has seen how it ended"
    secret = "RECOVERYBENCH_SECRET"
    kept = [p for p in (tmp_path / "run").rglob("*") if p.is_file()]
    assert not [p for p in kept if secret.encode() in p.read_bytes()]
