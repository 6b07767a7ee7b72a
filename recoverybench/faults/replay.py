"""SIGKILL as a trace of preemptions tells: a soak, and each kill a trial of its own.

``replay:FILE``, the name of a trace that ships or a path; `recoverybench.plan.traces` says
what such a file holds and makes one from a trace of spot capacity. A node that is an integer n
is the worker n, counted round among those that may be broken: any but 0, or any at all where
the coordination service is external. Where a node has another name, nodes are given to these
workers in turn, in the order in which the trace first names them. A preemption that falls into
a recovery belongs to that trial. It needs nothing, and leaves nothing to undo.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults._soak import Soak, Strike
from recoverybench.plan import traces

NEEDS = ()


class Replay(Soak):
    """See `faults._soak.Soak`.

    Args:
        preemptions: in the order of their times.
    """

    name: ClassVar[str] = "replay"

    def __init__(self, preemptions: Sequence[traces.Preemption]) -> None:
        super().__init__()
        self._preemptions = preemptions

    def schedule(self, seed: int, ranks: Sequence[int]) -> Iterator[Strike]:
        """See `Soak.schedule`; the seed has no part in it."""
        nodes = list(dict.fromkeys(p.node for p in self._preemptions))
        if all(node.isascii() and node.isdecimal() for node in nodes):
            place = {node: int(node) - ranks[0] for node in nodes}
        else:
            place = {node: number for number, node in enumerate(nodes)}
        for preemption in self._preemptions:
            yield Strike(preemption.time_s, ranks[place[preemption.node] % len(ranks)])


def create(argument: str | None) -> Replay:
    """``replay:FILE``."""
    if argument is None:
        raise bad_value("fault", "replay", 'a trace, as in "replay:made-up" or "replay:mine.csv"')
    return Replay(traces.read(traces.find(argument)))
