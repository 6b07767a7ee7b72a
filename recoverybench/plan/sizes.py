"""How large a workload is, asked of a process that can make its shapes; and what follows.

The supervisor imports no jax; see `recoverybench.worker.sizes` for the other end.
"""

from __future__ import annotations

import json
import math
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from recoverybench.errors import HarnessError, RecoverybenchError, UsageError
from recoverybench.leftovers import owner_mark
from recoverybench.protocol import OWNER_VARIABLE
from recoverybench.topology import ROW_AXES, Topology
from recoverybench.workload_name import short_name

TIMEOUT_S: Final = 180.0
"""For one workload. A model of 70 billion parameters takes one second on one core; a user's
module may import much."""


@dataclass(frozen=True, slots=True)
class Array:
    """One leaf of a state.

    Attributes:
        name: dotted path. shape: of the whole leaf. itemsize: bytes of an element.
        split: mesh axis along which each dimension may be split, None: along none.
    """

    name: str
    shape: tuple[int, ...]
    itemsize: int
    split: tuple[str | None, ...]

    def nbytes_on(self, topology: Topology) -> int:
        """Bytes of it that each device holds."""
        parts = (
            math.ceil(length / (topology.size(axis) if axis else 1))
            for length, axis in zip(self.shape, self.split, strict=True)
        )
        return math.prod(parts) * self.itemsize


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is known of a workload through its shapes.

    Attributes:
        workload: its name.
        parameters: elements below ``params`` of the state; None: there is no such entry.
        parameter_bytes: likewise, in bytes.
        state_bytes: parameters, optimizer state and all else, each array once.
        checkpoint_bytes: those of the state, uncompressed, and of the position in the data.
        batch_size, batch_bytes: of the global batch.
        axes: axes of a mesh that it can use.
        leaves: the arrays of the state.
    """

    workload: str
    parameters: int | None
    parameter_bytes: int | None
    state_bytes: int
    checkpoint_bytes: int
    batch_size: int
    batch_bytes: int
    axes: tuple[str, ...]
    leaves: tuple[Array, ...]

    @classmethod
    def of(cls, workload: str, answer: Mapping[str, Any]) -> Self:
        """From the answer of `worker.sizes`; KeyError, TypeError or ValueError on another's."""
        plain = {key: answer[key] for key in _PLAIN}
        leaves = [Array(n, tuple(s), int(i), tuple(p)) for n, s, i, p in answer["leaves"]]
        return cls(workload, **plain, axes=tuple(answer["axes"]), leaves=tuple(leaves))

    def device_bytes(self, topology: Topology) -> int:
        """Bytes of the state that each device holds; the same on all of them."""
        return sum(leaf.nbytes_on(topology) for leaf in self.leaves)

    def gradient_bytes(self, topology: Topology) -> int:
        """Bytes of gradients that each device makes in a step: as many as of parameters."""
        mine = (leaf for leaf in self.leaves if leaf.name.partition(".")[0] == "params")
        return sum(leaf.nbytes_on(topology) for leaf in mine)

    def why_not_on(self, topology: Topology) -> str | None:
        """What is allowed in the place of a topology that it cannot have; None: it can.

        See `plan.workloads.why_not_on`, which knows a preset; this knows the arrays.
        """
        label = short_name(self.workload)
        for name, _ in topology.axes:
            if name not in self.axes:
                known = ", ".join(self.axes)
                return f"axes that {label} knows: {known}, and {name} is none of them"
        if self.batch_size % topology.row_shares:
            names = " x ".join(name for name, _ in topology.mesh if name in ROW_AXES)
            what = names if topology.axes else "a number of devices"
            return (
                f"{what} that divides {label}'s batch of {self.batch_size} "
                f"(it is {topology.row_shares})"
            )
        for leaf in self.leaves:
            for place, (length, axis) in enumerate(zip(leaf.shape, leaf.split, strict=True)):
                if axis and length % topology.size(axis):
                    return f"{axis} to divide dimension {place} of {leaf.name}, which is {length}"
        return None


_PLAIN: Final = (
    "parameters",
    "parameter_bytes",
    "state_bytes",
    "checkpoint_bytes",
    "batch_size",
    "batch_bytes",
)


class Sizer:
    """The process that answers. A context manager; it starts with the first question.

    Args:
        timeout_s: for one answer.
        python: the interpreter that makes the shapes, by default this one.
        variables: what it needs beside this process's own environment.
    """

    def __init__(
        self,
        timeout_s: float = TIMEOUT_S,
        *,
        python: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._python = python or sys.executable
        self._variables = dict(variables or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._said = tempfile.TemporaryFile()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        self._said.close()

    def answer(self, workload: str, data: str | None, *, attempt: bool) -> dict[str, Any]:
        """The answer of `worker.sizes`, as it is.

        Args:
            workload: its name. data: the user's data file.
            attempt: look for what a job would stumble over.

        Raises:
            UsageError: the workload cannot be made; the line of the user's file is in it.
            HarnessError: the process took too long, or ended.
        """
        try:
            answer = self._ask({"workload": workload, "data": data, "try": attempt})
        except BaseException:
            self._end()  # whatever it says later is no answer to the next question
            raise
        if "problem" in answer:
            raise UsageError(str(answer["problem"]))
        return answer

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        what = f"the sizes of {short_name(str(request['workload']))}"
        end = time.monotonic() + self._timeout_s
        line = b""
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            while not line.endswith(b"\n"):
                left = end - time.monotonic()
                if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                    raise _failure(request, f"{what} were not known after {self._timeout_s:g} s")
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise OSError("ended")
                line += piece
        except OSError as error:
            code = process.wait(timeout=10)
            raise _failure(
                request,
                f"{what} are not known: the process that finds them out ended with code "
                f"{code}{self._last_words()}",
            ) from error
        return dict(json.loads(line))

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._python, "-P", "-m", "recoverybench.worker.sizes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            # Shapes need no accelerator, and a job may want the one that is there.
            env={
                **os.environ,
                **self._variables,
                "JAX_PLATFORMS": "cpu",
                OWNER_VARIABLE: owner_mark(),
            },
        )

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").split("\n")
        words = [line.strip() for line in lines if line.strip()]
        return f" ({words[-1][:200]})" if words else ""


def _failure(request: Mapping[str, Any], text: str) -> RecoverybenchError:
    """What a process that was lost means: somebody else's workload ended or held it."""
    return UsageError(text) if request["try"] else HarnessError(text)


def bytes_words(count: int) -> str:
    """Bytes for people, in decimal units: ``512 B``, ``1.09 MB``, ``847 GB``."""
    return _scaled(count, ("B", "KB", "MB", "GB", "TB", "PB"))


def count_words(count: int) -> str:
    """A number of parameters for people: ``90.4 k``, ``8.03 B``."""
    return _scaled(count, ("", "k", "M", "B", "T"))


def _scaled(count: int, units: tuple[str, ...]) -> str:
    """Three digits that count, and no more; whole numbers below a thousand."""
    value, place = float(count), 0
    # 999.6 would be written as 1000, so it is one of the next unit.
    while value >= 999.5 and place < len(units) - 1:
        value, place = value / 1000, place + 1
    digits = 0 if place == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {units[place]}".rstrip()
