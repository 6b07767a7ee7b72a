"""An exception that another thread puts into the training thread in the middle of a step."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


class AsyncException(RuntimeError):
    """Raised by nobody's code: the interpreter raises it between two instructions."""


def strike(loop: Loop, argument: str | None) -> None:
    """Have the exception set during the next step; it surfaces at the next Python instruction.

    While the training thread is inside a collective there is none: it is raised as soon as the
    collective returns.
    """
    begun, before = threading.Event(), loop.before_step

    def in_a_step() -> None:
        loop.before_step = before
        before()
        begun.set()

    loop.before_step = in_a_step
    target = ctypes.c_ulong(threading.get_ident())
    threading.Thread(target=_raise_in, args=(target, begun), name="rb-async", daemon=True).start()


def _raise_in(target: ctypes.c_ulong, begun: threading.Event) -> None:
    begun.wait()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(AsyncException))
