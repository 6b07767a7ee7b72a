"""Losses across the fault: joined on the step with those of the same command without a fault."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from recoverybench.errors import HarnessError
from recoverybench.external.marks import Mark, Split, Who, steps_of
from recoverybench.records import Verification
from recoverybench.vocabulary import SCHEMA_VERSION

Losses = dict[Who, dict[int, list[str]]]
"""Rank -> step -> what was printed there, each text once."""


@dataclass(frozen=True, slots=True)
class CommandReference:
    """What a command came to without a fault.

    Attributes:
        id: names it in records.
        first, last: numbers of its first and its last step.
        losses: see `Losses`; empty: it prints none.
    """

    id: str
    first: int
    last: int
    losses: Losses

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data; the rank None becomes ``-``."""
        losses = {
            "-" if who is None else str(who): {str(step): texts for step, texts in own.items()}
            for who, own in self.losses.items()
        }
        return {
            "schema": SCHEMA_VERSION,
            "id": self.id,
            "kind": "command",
            "first": self.first,
            "last": self.last,
            "losses": losses,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`. Raises KeyError, TypeError or ValueError on foreign data."""
        losses: Losses = {
            None if who == "-" else int(who): {
                int(step): list(texts) for step, texts in own.items()
            }
            for who, own in data["losses"].items()
        }
        return cls(str(data["id"]), int(data["first"]), int(data["last"]), losses)

    def expected(self, who: Who, step: int) -> list[str]:
        """What may be printed at that step: by that rank where it is known, else by anybody."""
        if who in self.losses:
            return self.losses[who].get(step, [])
        found = (text for own in self.losses.values() for text in own.get(step, []))
        return list(dict.fromkeys(found))


def reference_of(marks: Sequence[Mark], reference_id: str) -> CommandReference:
    """The reference that a run without a fault makes.

    Raises:
        HarnessError: it has no step.
    """
    steps = [m.step for m in steps_of(marks) if m.step is not None]
    if not steps:
        raise HarnessError("this trial is no reference: no step was seen")
    losses: Losses = defaultdict(lambda: defaultdict(list))
    for mark in printed(marks):
        assert mark.step is not None and mark.loss is not None
        texts = losses[mark.who][mark.step]
        if mark.loss not in texts:
            texts.append(mark.loss)
    plain: Losses = {who: dict(own) for who, own in losses.items()}
    return CommandReference(reference_id, min(steps), max(steps), plain)


def printed(marks: Iterable[Mark]) -> list[Mark]:
    """Each loss with its step. What is printed of a step once more takes the place of what was
    there before.
    """
    found: list[Mark] = []
    last: dict[tuple[Who, int], int] = {}
    for mark in marks:
        if mark.what not in ("step", "loss") or mark.step is None or mark.loss is None:
            continue
        key = mark.who, mark.attempt
        if mark.again and key in last and found[last[key]].step == mark.step:
            found[last[key]] = mark
            continue
        last[key] = len(found)
        found.append(mark)
    return found


def differs(loss: str, expected: Sequence[str], tolerance: float | None) -> float | None:
    """How far a loss is from what is expected, where that is too far; None: it is close enough.

    Without a tolerance texts are compared, and the distance is that of their numbers.
    """
    if loss in expected:
        return None
    distance = min((_distance(loss, text) for text in expected), default=float("inf"))
    return None if tolerance is not None and distance <= tolerance else distance


def _distance(a: str, b: str) -> float:
    """Relative; infinite where one of them is no number."""
    try:
        x, y = float(a), float(b)
    except ValueError:
        return float("inf")
    if x == y:
        return 0.0
    distance = abs(x - y) / abs(y) if y else float("inf")
    return distance if distance == distance else float("inf")


@dataclass(frozen=True, slots=True)
class Compared:
    """What became of the comparison.

    Attributes:
        verification: for the record; `passed` None: nothing could be compared.
        unsteady: what differs although no fault had struck, one line; None: nothing.
    """

    verification: Verification
    unsteady: str | None


def compare(
    splits: Sequence[Split],
    reference: CommandReference | None,
    *,
    tolerance: float | None,
    whole: bool,
    finished: bool,
) -> Compared:
    """Compare a trial with its reference.

    Args:
        splits: see `marks.split`.
        tolerance: relative; None: as printed. whole: every step of the reference must be there.
        finished: the job came to its end; only then it is proven to be the same training.
    """
    if reference is None:
        return Compared(Verification(None, None, 0, 0, 0, None, None), None)
    unsteady = _first(printed(m for s in splits for m in s.before), reference, tolerance)
    after = [mark for s in splits for mark in printed(s.after)]
    difference = _first(after, reference, tolerance)
    gap = _gap(splits, reference) if whole and finished else None
    found = difference or gap
    compared = {m.step for m in after if m.step is not None and reference.expected(m.who, m.step)}
    distances = [
        min(_distance(m.loss, text) for text in texts)
        for m in after
        if m.loss is not None and m.step is not None and tolerance is not None
        if (texts := reference.expected(m.who, m.step))
    ]
    largest = [d for d in distances if math.isfinite(d)]
    proven = bool(compared) and finished
    verification = Verification(
        passed=False if found else (True if proven else None),
        reference=reference.id,
        losses_compared=len(compared),
        digests_compared=0,
        samples_checked=0,
        samples_ok=None,
        first_difference=found,
        losses_within=len(compared) if tolerance is not None else 0,
        tolerance=tolerance,
        largest_difference=max(largest, default=None),
    )
    return Compared(verification, unsteady)


def _first(
    marks: Sequence[Mark], reference: CommandReference, tolerance: float | None
) -> str | None:
    """The first loss that is not as it is without a fault, for people."""
    for mark in sorted(marks, key=lambda m: (m.step or 0, m.t)):
        assert mark.step is not None and mark.loss is not None
        if not reference.first <= mark.step <= reference.last:
            continue
        expected = reference.expected(mark.who, mark.step)
        distance = differs(mark.loss, expected, tolerance) if expected else None
        if distance is not None:
            by = "" if mark.who is None else f", worker {mark.who}"
            want = " or ".join(expected[:3])
            much = f", a relative difference of {distance:.2g}" if distance < math.inf else ""
            return f"step {mark.step}{by}: loss is {mark.loss}, expected {want}{much}"
    return None


def _gap(splits: Sequence[Split], reference: CommandReference) -> str | None:
    """A step that the reference printed and the job left out after it had come back."""
    for one in splits:
        steps = {m.step for m in one.steps}
        known = reference.losses.get(one.who) or {}
        if not steps:
            continue
        first = min(s for s in steps if s is not None)
        missing = sorted(s for s in known if s >= first and s not in steps)
        if missing:
            by = "" if one.who is None else f", worker {one.who}"
            return f"step {missing[0]}{by}: the step is missing"
    return None
