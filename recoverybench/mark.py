"""Marks in a training script: what it has done, told to a run of recoverybench that watches it.

```python
import recoverybench.mark as mark

mark.restore_begin()
state, step = load()
mark.restore_end(step)
for step in range(step + 1, steps + 1):
    loss = train()
    mark.step(step, loss=loss)
```

A mark costs a few microseconds (one `write(2)`), is never waited for, and outside a run costs a
tenth of one and does nothing. This file needs nothing but Python's standard library, so it may
also be copied into a project that does not have recoverybench.

Times are taken here, when the function is called: mark a step once its loss is on the host.
"""

from __future__ import annotations

import json
import os
import time
from typing import SupportsFloat

VARIABLE = "RECOVERYBENCH_MARKS"
"""Environment variable that names the run's FIFO; without it every mark is silent."""

LONGEST = 200
"""Characters of an event's name that are kept: a line must fit into the pipe at once."""

RANK_VARIABLES = "RECOVERYBENCH_RANK_VARIABLES"
"""Environment variable that names, separated by commas, the variables that may hold the rank."""

_path = os.environ.get(VARIABLE)
_fd: int | None = None
_who = ""
_pid = -1
_rank: int | None = None
_dropped = 0


def step(number: int, loss: SupportsFloat | None = None) -> None:
    """Step `number` is completed; `loss` is its loss, compared across the fault bit for bit."""
    if _path is not None:
        what = "null" if loss is None else f'"{float(loss)!r}"'
        _tell(time.monotonic_ns(), f'"step","step":{int(number)},"loss":{what}')


def restore_begin() -> None:
    """The state begins to be read."""
    if _path is not None:
        _tell(time.monotonic_ns(), '"restore_begin"')


def restore_end(step: int | None = None) -> None:
    """The state is there; it is the one after `step` (0: from the beginning)."""
    if _path is not None:
        of = "null" if step is None else int(step)
        _tell(time.monotonic_ns(), f'"restore_end","step":{of}')


def saved(step: int) -> None:
    """The state after `step` is durable."""
    if _path is not None:
        _tell(time.monotonic_ns(), f'"saved","step":{int(step)}')


def event(name: str) -> None:
    """Something else: ``up`` (imports done), ``rendezvous`` (the distributed runtime is there),
    ``compiled`` (the step function is ready) end the phases of those names, ``error`` is
    evidence of a failure; any other name is kept in the journal.
    """
    if _path is not None:
        _tell(time.monotonic_ns(), f'"event","name":{json.dumps(str(name)[:LONGEST])}')


def rank(number: int) -> None:
    """This process is that rank; needed where no environment variable says so."""
    global _rank, _pid
    if _path is not None:
        _rank, _pid = int(number), -1
        _tell(time.monotonic_ns(), '"rank"')


def _tell(t: int, what: str) -> None:
    """Write one line, whole or not at all; a full pipe or a run that is gone is no error."""
    global _path, _dropped
    pid = os.getpid()
    if pid != _pid:
        _begin(pid)
    if _fd is None:
        return
    lost = f',"dropped":{_dropped}' if _dropped else ""
    try:
        os.write(_fd, f'{{"t":{t},{_who},"mark":{what}{lost}}}\n'.encode())
        _dropped = 0
    except BlockingIOError:
        _dropped += 1
    except OSError:
        _path = None


def _begin(pid: int) -> None:
    """This process speaks for the first time: the first one at all, or one that was forked."""
    global _fd, _who, _pid, _path
    assert _path is not None
    try:
        if _fd is None:
            _fd = os.open(_path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        _path = None
    own = _rank if _rank is not None else _rank_in_environment()
    _who, _pid = f'"pid":{pid},"rank":{"null" if own is None else own}', pid


def _rank_in_environment() -> int | None:
    values = (os.environ.get(n, "") for n in os.environ.get(RANK_VARIABLES, "").split(","))
    return next((int(value) for value in values if value.isdigit()), None)
