"""Ctrl-C, and whatever else asks a run to end: once is enough, and cleaning up is not cut off."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def once() -> Iterator[None]:
    """The first of these signals raises KeyboardInterrupt here; more of them change nothing."""

    def first(number: int, frame: FrameType | None) -> None:
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    # What was ignored from the start stays ignored: that is how `nohup` asks for it.
    heard = [n for n in _ASKED_TO_END if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, first) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
