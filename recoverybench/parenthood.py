"""Dying with one's parent, for all that a supervisor starts: Linux's parent-death signal, and its
two traps.

The signal is asked for by the child, so a parent that died a moment before is missed; and
it belongs to the parent that a process has at that moment, so a forked worker has to wait
until its real parent is the supervisor.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal

from recoverybench.protocol import OWNER_VARIABLE

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def near() -> bool:
    """Whether the supervisor, or what starts workers for it here, is on this machine; the main
    process of a container has nobody to die with but the control channel.
    """
    return OWNER_VARIABLE in os.environ


def supervisor() -> int:
    """The pid of the supervisor that started this process."""
    return int(os.environ[OWNER_VARIABLE].partition("-")[0])


def die_with(parent: int) -> None:
    """SIGKILL for this process when its parent, process `parent`, ends."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(74)


def await_adoption(old_parent: int) -> None:
    """Return once `old_parent` is no longer this process's parent."""
    try:
        pidfd = os.pidfd_open(old_parent)
    except ProcessLookupError:
        return
    try:
        while os.getppid() == old_parent:
            select.select([pidfd], [], [])
    finally:
        os.close(pidfd)
