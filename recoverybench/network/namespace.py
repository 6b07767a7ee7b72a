"""Network namespaces without a name: held by a descriptor, gone when nobody holds them."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from recoverybench.errors import HarnessError

_CLONE_NEWNET = 0x40000000
_TIMEOUT_S = 10.0
_OWN = "/proc/thread-self/ns/net"

T = TypeVar("T")


class Namespace:
    """A new network namespace. It ends when this is closed and no process is in it any more.

    Raises:
        OSError: this process may not make one.
    """

    def __init__(self) -> None:
        self._fd = _aside(_unshared)

    @property
    def path(self) -> str:
        """A file that `setns` takes, for every process of this user, while this is open."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def inside(self, function: Callable[[], T]) -> T:
        """Call a function inside. What it opens or starts stays there; this process does not."""

        def entered() -> T:
            _checked(_libc().setns(self._fd, _CLONE_NEWNET), "setns")
            return function()

        return _aside(entered)

    def run(self, command: Sequence[str], text: str) -> None:
        """Run a command inside to its end, with that text as its input.

        Raises:
            HarnessError: it failed; the message is the command's own.
        """
        done = self.inside(
            lambda: subprocess.run(
                command,
                input=text,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        )
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise HarnessError(f"{said[0]} (from {' '.join(command)})")

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)


def _aside(function: Callable[[], T]) -> T:
    """In a thread of its own: a namespace is a thread's, and this one keeps the one it has."""
    with ThreadPoolExecutor(1, "rb-namespace") as pool:
        return pool.submit(function).result()


def _unshared() -> int:
    _checked(_libc().unshare(_CLONE_NEWNET), "unshare(CLONE_NEWNET)")
    return os.open(_OWN, os.O_RDONLY)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
