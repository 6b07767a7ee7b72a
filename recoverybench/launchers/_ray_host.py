"""What runs on a node of a Ray cluster: an actor that has worker processes as its children.

Everything happens on the actor's one event loop: a worker dies with the thread that started it,
and that thread lives as long as the actor. Nothing here imports ray.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from recoverybench.errors import HarnessError
from recoverybench.launchers._ray_variables import without_ray
from recoverybench.launchers.base import Ended, How, Process
from recoverybench.launchers.local import Local
from recoverybench.protocol import OWNER_VARIABLE

Said = tuple[int | None, str | None]
"""How a process ended: exit code, or name of a signal."""

_ORDINARY = "0"


class Host:
    """Starts workers, passes signals on, and says how they end.

    Args:
        environment: what workers get over the node's own variables.
        log: output of the fork server, on the shared file system.
        python: the interpreter that workers run on; None: the node's.
    """

    def __init__(self, environment: dict[str, str], log: str, python: str | None) -> None:
        self._local = Local(environment, Path(log), python)
        mark = self._local.environment[OWNER_VARIABLE]
        clean = without_ray(os.environ)
        self._local.environment = {**clean, **environment, OWNER_VARIABLE: mark}
        self._processes: dict[str, Process] = {}
        self._ended: dict[str, asyncio.Future[Said]] = {}
        self._early: dict[str, list[int]] = {}

    async def prepare(self, variables: dict[str, str]) -> None:
        """Have the fork server started; its imports go on in the background."""
        _ordinary_thread()
        self._local.environment |= variables
        self._local.prepare()

    async def start(
        self,
        key: str,
        address: str,
        slot: int,
        attempt: int,
        how: How,
        log: str,
        variables: dict[str, str],
    ) -> int:
        """Start a worker; returns its pid.

        Args:
            key: names it from now on. variables: what this one gets besides.
        """
        _ordinary_thread()
        self._local.environment |= variables
        try:
            process = self._local.start(address, slot, attempt, how, Path(log))
        except (HarnessError, OSError) as error:
            self._end_of(key).set_result((1, None))
            with suppress(OSError), Path(log).open("a") as file:
                file.write(f"error: {error}\n")
            return 0
        with suppress(OSError):  # Ray has the kernel end its actors first; a worker is no actor
            Path(f"/proc/{process.pid}/oom_score_adj").write_text(_ORDINARY)
        self._processes[key] = process
        asyncio.get_running_loop().add_reader(process.fd, self._reap, key)
        for number in self._early.pop(key, ()):
            self._local.signal(process, number)
        return process.pid

    async def ended(self, key: str) -> Said:
        """How that worker ended, once it has."""
        return await asyncio.shield(self._end_of(key))

    async def signal(self, key: str, number: int) -> None:
        """Send it a signal; one that has ended is no error."""
        process = self._processes.get(key)
        if process is None:
            self._early.setdefault(key, []).append(number)
        elif not self._end_of(key).done():
            self._local.signal(process, number)

    async def lose_node(self) -> None:
        """SIGKILL for the raylet of this node and for everything below it, this actor last."""
        raylet = int(os.environ["RAY_RAYLET_PID"])
        below = descendants(raylet, _parents())
        for pid in (raylet, *(p for p in below if p != os.getpid()), os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _reap(self, key: str) -> None:
        process = self._processes[key]
        # The loop forgets the descriptor before it is closed, and its number used again.
        asyncio.get_running_loop().remove_reader(process.fd)
        ended: Ended | None = self._local.reap(process)
        assert ended is not None, "its pidfd was readable"
        self._end_of(key).set_result((ended.code, ended.signal))

    def _end_of(self, key: str) -> asyncio.Future[Said]:
        """Set once the worker has ended. Ray may bring a later call first, so it may be asked for
        before the worker is started.
        """
        if key not in self._ended:
            self._ended[key] = asyncio.get_running_loop().create_future()
        return self._ended[key]


def _ordinary_thread() -> None:
    """Ray blocks SIGINT in the thread of the event loop; a child would have it blocked, too."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def descendants(root: int, parents: dict[int, int]) -> list[int]:
    """Children of `root`, their children and so on; those without any of their own come first.

    Args:
        parents: pid -> pid of its parent.
    """
    found: list[int] = []
    level = [root]
    while level:
        level = [pid for pid, parent in parents.items() if parent in level and pid not in found]
        found = level + found
    return found


def _parents() -> dict[int, int]:
    """Every process of this node that can be seen -> its parent."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = int(fields[1])
    return found
