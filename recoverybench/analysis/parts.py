"""Digests of a state that no worker has whole: from each worker's parts to those of the whole.

A worker that has only parts of the state logs the digest of what it has, a name for which parts
these are, and the digest of the parts that it is the first to have; the latter add up to that
of the whole state, on any topology. Everything after this module sees whole states only.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MASK = (1 << 64) - 1


def joined(lines: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """``digest`` lines with those of parts made into lines of the whole state.

    A state of which a worker has not logged its parts is unknown: its lines are left out. Where
    two workers have the same parts and not the same bits, the lines of one say so in their
    digest, so that it equals no other.
    """
    groups: dict[tuple[Any, ...], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for line in lines:
        if _in_parts(line):
            groups[_state(line)][line["worker"]] = line
    wholes = {state: _whole(by_worker) for state, by_worker in groups.items()}
    found: list[Mapping[str, Any]] = []
    for line in lines:
        if not _in_parts(line):
            found.append(line)
        elif (whole := wholes[_state(line)]) is not None:
            found.append({**line, **whole[line["worker"]]})
    return tuple(found)


def _in_parts(line: Mapping[str, Any]) -> bool:
    return "owned" in line and "holds" in line


def _state(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return line["what"], line["step"], line["generation"]


def _whole(by_worker: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]] | None:
    """Worker -> the fields of its line that become those of the whole; None: incomplete."""
    lines = list(by_worker.values())
    if len(lines) < max(int(line.get("of", 1)) for line in lines):
        return None
    total = f"{sum(int(line['owned'], 16) for line in lines) & _MASK:016x}"
    first: dict[str, str] = {}
    for worker in sorted(by_worker):
        first.setdefault(by_worker[worker]["holds"], by_worker[worker]["digest"])
    norms = _norms(lines)
    return {
        worker: {
            "digest": total
            if line["digest"] == first[line["holds"]]
            else f"{total}, and its copy of a part is another one ({line['digest']})",
            **({} if norms is None else {"norms": norms}),
        }
        for worker, line in by_worker.items()
    }


def _norms(lines: Iterable[Mapping[str, Any]]) -> list[float] | None:
    """The Euclidean norms of the whole leaves, from the sums of squares of the parts."""
    squares = [line["squares"] for line in lines if line.get("squares") is not None]
    if not squares:
        return None
    return [math.sqrt(sum(column)) for column in zip(*squares, strict=True)]
