"""Processes of this machine: a session each, dying with the supervisor, forked or cold.

A worker is always the supervisor's own child (also one that the fork server made, see
`recoverybench.worker.zygote`), so that its end is seen at once through a pidfd, its exit
code is real, and SIGKILL of the supervisor takes it along.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from recoverybench.errors import HarnessError
from recoverybench.launchers.base import LOOPBACK, Ended, How, Process, Reach
from recoverybench.leftovers import owner_mark
from recoverybench.network.network import SUBNET
from recoverybench.protocol import OWNER_VARIABLE, SPAWN_NS

_PR_SET_CHILD_SUBREAPER = 36
_FORK_SERVER_START_S = 120.0
_FORK_S = 30.0
# gRPC sends even loopback through a proxy, unless this names it; nothing else reads it.
_NO_PROXY = {"no_grpc_proxy": f"127.0.0.1,localhost,{SUBNET}"}


class Local:
    """See `launchers.base.Launcher`. Use it from one thread, the one that outlives the workers.

    Args:
        environment: added to every worker's environment.
        log: output of the fork server.
        python: the interpreter that workers run on; None: the supervisor's.
    """

    reach: Reach = "host"
    bind: str = LOOPBACK

    def __init__(self, environment: dict[str, str], log: Path, python: str | None = None) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise HarnessError("prctl(PR_SET_CHILD_SUBREAPER) failed: Linux 3.4 or newer needed")
        self.python = python or sys.executable
        self.environment = {**os.environ, **_NO_PROXY, **environment, OWNER_VARIABLE: owner_mark()}
        self._log = log
        self._forks: subprocess.Popen[bytes] | None = None
        self._running: dict[int, Process] = {}

    def command(self) -> list[str]:
        """What runs a cold worker, before its own arguments."""
        return [self.python, "-P", "-m", "recoverybench.worker"]

    def prepare(self) -> None:
        """Have the fork server started (its imports go on in the background)."""
        if self._forks is not None and self._forks.poll() is None:
            return
        with self._log.open("ab") as log:
            self._forks = subprocess.Popen(
                [self.python, "-P", "-m", "recoverybench.worker.zygote"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        self._ready = False

    def start(
        self,
        address: str,
        slot: int,
        attempt: int,
        how: How,
        log: Path,
        network: str | None = None,
    ) -> Process:
        """See `launchers.base.Launcher.start`."""
        if how == "warm":
            pid = self._fork(address, slot, attempt, log, network)
        else:
            pid = self._exec(address, slot, attempt, log, network)
        process = Process(pid, os.pidfd_open(pid), how, log)
        self._running[pid] = process
        return process

    def signal(self, process: Process, number: int) -> None:
        """See `launchers.base.Launcher.signal`."""
        with suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(process.fd, number)

    def reap(self, process: Process) -> Ended | None:
        """See `launchers.base.Launcher.reap`."""
        result = os.waitid(os.P_PIDFD, process.fd, os.WEXITED | os.WNOHANG)
        if result is None:
            return None
        os.close(process.fd)
        self._running.pop(process.pid, None)
        if result.si_code == os.CLD_EXITED:
            return Ended(result.si_status, None)
        return Ended(None, signal.Signals(result.si_status).name)

    def close(self) -> None:
        """See `launchers.base.Launcher.close`."""
        for process in list(self._running.values()):
            self.signal(process, signal.SIGKILL)
        for process in list(self._running.values()):
            select.select([process.fd], [], [], 5.0)
            self.reap(process)
        if self._forks is not None:
            self._forks.kill()
            self._forks.wait()
            for pipe in (self._forks.stdin, self._forks.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            self._forks = None

    def _exec(self, address: str, slot: int, attempt: int, log: Path, network: str | None) -> int:
        with log.open("ab") as output:
            arguments = [address, str(slot), str(attempt), *([network] if network else [])]
            child = subprocess.Popen(
                [*self.command(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**self.environment, SPAWN_NS: str(time.monotonic_ns())},
                start_new_session=True,
            )
        # `reap` is the only one to wait for it: Popen must not, nor warn that nobody did.
        child.returncode = 0
        return child.pid

    def _fork(
        self, address: str, slot: int, attempt: int, log: Path, network: str | None = None
    ) -> int:
        self.prepare()
        assert self._forks is not None and self._forks.stdin and self._forks.stdout
        if not self._ready:
            self._answer(_FORK_SERVER_START_S)
            self._ready = True
        asked = {"socket": address, "slot": str(slot), "attempt": str(attempt), "log": str(log)}
        if network is not None:
            asked["network"] = network
        try:
            self._forks.stdin.write(json.dumps(asked).encode() + b"\n")
            self._forks.stdin.flush()
        except BrokenPipeError:
            raise self._fork_server_failed("has ended") from None
        return int(self._answer(_FORK_S))

    def _answer(self, timeout_s: float) -> str:
        assert self._forks is not None and self._forks.stdout
        readable, _, _ = select.select([self._forks.stdout], [], [], timeout_s)
        if not readable:
            raise self._fork_server_failed(f"did not answer within {timeout_s:.0f} s")
        line = self._forks.stdout.readline().decode().strip()
        if not line:
            raise self._fork_server_failed("has ended")
        return line

    def _fork_server_failed(self, what: str) -> HarnessError:
        tail = self._log.read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
        return HarnessError(f"the fork server {what}: {tail[0]} (all of it: {self._log})")


def create(environment: dict[str, str], log: Path, python: str | None = None) -> Local:
    """A launcher for this machine, whose workers run on that interpreter."""
    return Local(environment, log, python)
