"""The local launcher: what it tells the fork server, and what its workers inherit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recoverybench.launchers import local

ECHO = "import sys; print('ready', flush=True); print(len(sys.stdin.buffer.readline()), flush=True)"


class Forks(local.Local):
    """With a fork server that answers the length of the request where a pid is expected."""

    def prepare(self) -> None:
        if self._forks is None:
            command = [sys.executable, "-c", ECHO]
            pipe = subprocess.PIPE
            self._forks = subprocess.Popen(command, stdin=pipe, stdout=pipe)
            self._ready = False


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", os.fsdecode(b"a\xff"), "rün"])
def test_a_request_holds_any_path(tmp_path: Path, name: str) -> None:
    launcher = Forks({}, tmp_path / "fork-server.log")
    log = tmp_path / name / "0.0.log"
    try:
        length = launcher._fork("address", 0, 1, log)
    finally:
        launcher.close()
    asked = {"socket": "address", "slot": "0", "attempt": "1", "log": str(log)}
    assert length == len(json.dumps(asked)) + 1, "one whole line of JSON"


def test_workers_reach_each_other_without_a_proxy(tmp_path: Path) -> None:
    launcher = local.create({"mine": "1"}, tmp_path / "fork-server.log")
    assert launcher.environment["no_grpc_proxy"] == "127.0.0.1,localhost,10.213.0.0/16"
    assert launcher.environment["mine"] == "1"
