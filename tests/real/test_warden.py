"""What is left of a supervisor that was killed: found by its mark, and ended by a warden.

Every run on this machine ends the leftovers of all that are gone, also one beside these tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recoverybench import leftovers
from recoverybench.doctor import software
from tests.real_support import started_by

SUPERVISOR = """
import os, subprocess, time
from recoverybench.external.warden import Warden
from recoverybench.leftovers import owner_mark
from recoverybench.protocol import OWNER_VARIABLE
with Warden():
    env = {**os.environ, OWNER_VARIABLE: owner_mark()}
    loop = subprocess.Popen(
        ["bash", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!; while :; do sleep 0.05; done"],
        env=env, start_new_session=True, stdout=subprocess.PIPE, text=True,
    )
    print(loop.stdout.readline().strip(), flush=True)
    {until}
print(flush=True)
input()
"""


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_killed_supervisor_takes_a_command_and_all_its_children_along() -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR.replace("{until}", "time.sleep(300)")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert supervisor.stdout is not None
    sleeper = int(supervisor.stdout.readline())
    mark = f"{supervisor.pid}-{leftovers._start_time(supervisor.pid)}"
    assert leftovers.runs(mark) and not gone(sleeper)
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.wait()
    end = time.monotonic() + 20
    while (not gone(sleeper) or started_by(supervisor.pid)) and time.monotonic() < end:
        time.sleep(0.02)
    assert gone(sleeper)
    assert started_by(supervisor.pid) == {}
    supervisor.stdout.close()


def test_it_ends_with_what_it_watches_over_and_harms_nothing() -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR.replace("{until}", "loop.kill()")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert supervisor.stdout is not None
    sleeper = int(supervisor.stdout.readline())
    supervisor.stdout.readline()  # the warden has ended
    assert not gone(sleeper)  # nobody was killed: it is the job's to end what it started
    os.kill(sleeper, signal.SIGKILL)
    _, said = supervisor.communicate("\n", timeout=60)
    assert supervisor.returncode == 0, said


def test_the_doctor_finds_leftovers_and_leaves_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "OWNER_VARIABLE", "RECOVERYBENCH_OWNER_OF_A_TEST")
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = Path(f"/proc/{owner.pid}/stat").read_text().rpartition(")")[2].split()[19]
    orphan = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        env={**os.environ, leftovers.OWNER_VARIABLE: f"{owner.pid}-{start}"},
    )
    try:
        until = time.monotonic() + 30
        while (
            leftovers.OWNER_VARIABLE.encode()
            not in Path(f"/proc/{orphan.pid}/environ").read_bytes()
        ):
            assert time.monotonic() < until, "the orphan never got its environment"
        assert str(orphan.pid) not in software.leftovers("leftovers").found
        owner.communicate(b"\n")
        check = software.leftovers("leftovers")
        assert check.status == "warning"
        assert str(orphan.pid) in check.found
        assert orphan.poll() is None
    finally:
        orphan.communicate(b"\n")
