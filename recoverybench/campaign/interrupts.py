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
        for each in _ASKED_TO_END:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, first) for number in _ASKED_TO_END}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
