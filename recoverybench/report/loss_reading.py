"""The losses of one trial and of its reference, from a run's directory: within bounds.

A run may come from anywhere. Files are opened by `received` alone; of a trial at most `TRIAL_LIMIT`
bytes of journals are read, and lines of other events are not decoded.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

from recoverybench.errors import UsageError
from recoverybench.received import MIB, is_file_name, read_file, read_lines
from recoverybench.records import TrialRecord
from recoverybench.results.reading import read_object

TRIAL_LIMIT: Final = 16 * MIB
"""Bytes of journals of one trial: 80,000 steps of one worker."""

REFERENCE_LIMIT: Final = 16 * MIB
"""Bytes of a reference."""

FILES_LIMIT: Final = 1000
"""Files of one trial's journals."""

_EVENTS: Final = (b'"step"', b'"mark"', b'"inject"')
"""What is in a line that says a loss, or when it was struck."""


@dataclass(frozen=True, slots=True)
class Point:
    """One loss.

    Attributes:
        t: when it was there, ns. step: of it. loss: the number; NaN where it is none.
        bits: what is compared: a float32's bits in hex, or the text that was printed.
    """

    t: int
    worker: int
    step: int
    loss: float
    bits: str


@dataclass(frozen=True, slots=True)
class Losses:
    """Of one trial.

    Attributes:
        before, after: the injection; one a step, of the worker of the lowest rank that has it.
        reference: step -> number and bits of all that may stand there; empty: there is none.
        trouble: why something could not be read, for people; None: all was.
    """

    before: tuple[Point, ...]
    after: tuple[Point, ...]
    reference: Mapping[int, tuple[tuple[float, str], ...]]
    trouble: str | None = None

    def difference(self, point: Point) -> float | None:
        """A loss less the reference's; None: there is none, or it is no number.

        Zero where the bits are the same.
        """
        expected = self.reference.get(point.step)
        if not expected:
            return None
        if any(bits == point.bits for _, bits in expected):
            return 0.0
        nearest = min((point.loss - loss for loss, _ in expected), key=abs)
        return nearest if math.isfinite(nearest) else None

    def differs(self, point: Point) -> bool:
        """Whether the reference has that step, and another loss there."""
        expected = self.reference.get(point.step)
        return bool(expected) and all(bits != point.bits for _, bits in expected or ())


def read_losses(run: Path, trial: TrialRecord) -> Losses | None:
    """What a trial's journals say; None: there are none, or no loss is in them.

    Args:
        run: the run's directory; nothing outside it is read. trial: of that run. Of a soak, its
            part of the job: from the injection before it to the next one.
    """
    directory = run / "journal" / trial.trial.partition(".")[0]
    if trial.t_inject is None or not directory.is_dir():
        return None
    try:
        if not directory.resolve().is_relative_to(run.resolve()):
            return Losses((), (), {}, "its journals are a link that leads out of the run")
        points, struck = _points(run, directory)
    except (UsageError, OSError, RuntimeError) as error:
        return Losses((), (), {}, f"its journals cannot be read: {_brief(error, run)}")
    earlier = max((t for t in struck if t < trial.t_inject), default=None)
    later = min((t for t in struck if t > trial.t_inject), default=None)
    before: list[Point] = []
    after: list[Point] = []
    for point in points:
        if trial.soak is not None and earlier is not None and point.t <= earlier:
            continue
        if trial.soak is not None and later is not None and point.t > later:
            continue
        (before if point.t <= trial.t_inject else after).append(point)
    if not points:
        return None
    reference, trouble = _reference(run, trial)
    return Losses(_one_a_step(before), _one_a_step(after), reference, trouble)


def _points(run: Path, directory: Path) -> tuple[list[Point], list[int]]:
    """All losses, and the instants of injections.

    Raises:
        UsageError, OSError: a file is none that may be read, or all are too long.
    """
    files = sorted(path for path in directory.iterdir() if path.suffix == ".jsonl")
    if len(files) > FILES_LIMIT or sum(p.lstat().st_size for p in files) > TRIAL_LIMIT:
        raise UsageError(f"more than {TRIAL_LIMIT // MIB} MiB, or than {FILES_LIMIT} files")
    points: list[Point] = []
    struck: list[int] = []
    for path in files:
        for line in read_lines(path, within=run, limit=TRIAL_LIMIT, line_limit=MIB):
            if not line.endswith(b"\n") or not any(event in line for event in _EVENTS):
                continue
            found = _decoded(line)
            if found.get("event") == "inject" and _is_int(found.get("t")):
                struck.append(found["t"])
            elif (point := _point(found)) is not None:
                points.append(point)
    return points, struck


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _point(line: Mapping[str, Any]) -> Point | None:
    """Of a line that says a loss: a step of ours, or what a command printed."""
    event, t, step = line.get("event"), line.get("t"), line.get("step")
    if not _is_int(t) or not _is_int(step) or abs(step) > 2**53:
        return None
    worker = line.get("worker")
    rank = worker if _is_int(worker) else -1
    if event == "step" and isinstance(bits := line.get("loss_bits"), str):
        loss = _float32(bits)
        return None if loss is None else Point(t, rank, step, loss, bits)
    if event == "mark" and line.get("what") in ("step", "loss"):
        text = line.get("loss")
        return Point(t, rank, step, _number(text), text) if isinstance(text, str) else None
    return None


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _float32(bits: str) -> float | None:
    """The number that these bits are; None: they are no float32."""
    try:
        (value,) = struct.unpack(">f", bytes.fromhex(bits))
    except (ValueError, struct.error):
        return None
    return float(value)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _one_a_step(points: list[Point]) -> tuple[Point, ...]:
    """The last that the lowest rank has of each step, in the order of the steps."""
    found: dict[int, Point] = {}
    for point in sorted(points, key=lambda p: (-p.worker, p.t)):
        found[point.step] = point
    return tuple(found[step] for step in sorted(found))


def _reference(
    run: Path, trial: TrialRecord
) -> tuple[dict[int, tuple[tuple[float, str], ...]], str | None]:
    name = trial.verify.reference if trial.verify else None
    if name is None:
        return {}, "it was compared with no reference"
    path = run / "reference" / f"{name}.json"
    if not is_file_name(path.name) or path.name != f"{name}.json":
        return {}, "its reference has no name of a file"
    try:
        read_file(path, within=run, limit=REFERENCE_LIMIT)
        data = read_object(path, "reference", within=run)
        return dict(_expected(data["losses"])), None
    except FileNotFoundError:
        return {}, "its reference is not there"
    except (UsageError, OSError, RuntimeError) as error:
        return {}, f"its reference cannot be read: {_brief(error, run)}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}, "its reference is none"


def _expected(losses: Mapping[str, Any]) -> Iterator[tuple[int, tuple[tuple[float, str], ...]]]:
    """Of our jobs: step -> bits. Of commands: rank -> step -> texts, all ranks together."""
    texts: dict[int, list[tuple[float, str]]] = {}
    for key, value in losses.items():
        if isinstance(value, str):
            loss = _float32(value)
            yield int(key), () if loss is None else ((loss, value),)
            continue
        for step, printed in value.items():
            known = texts.setdefault(int(step), [])
            known += [(_number(text), text) for text in map(str, printed[:100])]
    for step, found in texts.items():
        yield step, tuple(dict.fromkeys(found))


def _brief(error: Exception, run: Path) -> str:
    return str(error).replace(f"{run}/", "").splitlines()[0][:200]
