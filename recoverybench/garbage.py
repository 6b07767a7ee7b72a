"""Python's search for cycles of objects, held off while a great many objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept() -> Iterator[None]:
    """Within it nothing is searched for cycles. Records hold none, and every search walks through
    all of them again: a fifth of the time of reading 10,000, a third of that of their report.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
