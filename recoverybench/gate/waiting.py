"""Calls of workers that wait for an answer, and how they get one."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from recoverybench.gate import seccomp
from recoverybench.gate.filecalls import Call
from recoverybench.gate.policies import Policy
from recoverybench.gate.seccomp import Listener, Notification


@dataclass(slots=True, eq=False)
class Worker:
    """A process whose filter asks us.

    Attributes:
        pid: of the process. listener: its filter.
        next_fd: where the search for a free descriptor begins.
    """

    pid: int
    listener: Listener
    next_fd: int = seccomp.FIRST_FD


@dataclass(slots=True, eq=False)
class Waiting:
    """A call that got no answer yet.

    Attributes:
        worker, notification, call: who asks, and what.
        policy: the one that has it wait; None: none has.
        result: (value, error number) where it was executed here already.
    """

    worker: Worker
    notification: Notification
    call: Call
    policy: Policy | None = None
    result: tuple[int, int] | None = None

    def forget(self) -> None:
        """Its process has ended: let go of what was opened for it."""
        if self.call.opens and self.result is not None and not self.result[1]:
            os.close(self.result[0])


def finish(waiting: Waiting) -> None:
    """Let a call have its result: what was done already, or what the kernel makes of it."""
    call = waiting.call
    if waiting.result is None and not call.opens:
        seccomp.go_on(waiting.notification)
        return
    value, error = waiting.result or call.attempt()
    if error or not call.opens:
        seccomp.answer(waiting.notification, value, error)
        return
    try:
        _place(waiting, value)
    finally:
        os.close(value)


def _place(waiting: Waiting, fd: int) -> None:
    """Give our descriptor to the caller, under a number that its filter traps."""
    worker, notification = waiting.worker, waiting.notification
    span = seccomp.LAST_FD - seccomp.FIRST_FD + 1
    for offset in range(span):
        number = seccomp.FIRST_FD + (worker.next_fd - seccomp.FIRST_FD + offset) % span
        if not os.path.lexists(f"/proc/{notification.pid}/fd/{number}"):
            worker.next_fd = number + 1
            if seccomp.answer_with_file(notification, fd, number, waiting.call.close_on_exec):
                return
            break
    seccomp.answer(notification, 0, errno.EMFILE)
