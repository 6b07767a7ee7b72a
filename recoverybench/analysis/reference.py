"""The reference: what the same job came to without a fault, and how it is made from journals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from recoverybench.analysis.history import History, Journal, Line
from recoverybench.errors import HarnessError
from recoverybench.vocabulary import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Reference:
    """What a trial without a fault came to.

    Attributes:
        id: names it in records.
        losses: step -> bit pattern of the loss (hex), the same on every worker.
        samples: step -> ids of the samples of the global batch, in the order of the ranks.
        digests: step -> digest of the state that was saved there (rank 0).
        final: digest of the state at the end.
        steps: the last step.
        norms: Euclidean norm of each leaf of the state at the end, in the order of their
            names; None: it was made by a release that did not note them.
    """

    id: str
    losses: Mapping[int, str]
    samples: Mapping[int, list[int]]
    digests: Mapping[int, str]
    final: str
    steps: int
    norms: tuple[float, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data; steps become text, as JSON has no other keys."""
        return {
            "schema": SCHEMA_VERSION,
            "id": self.id,
            "losses": {str(k): v for k, v in self.losses.items()},
            "samples": {str(k): list(v) for k, v in self.samples.items()},
            "digests": {str(k): v for k, v in self.digests.items()},
            "final": self.final,
            "steps": self.steps,
            "norms": None if self.norms is None else list(self.norms),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`. Raises KeyError, TypeError or ValueError on foreign data."""
        norms = data.get("norms")
        return cls(
            id=str(data["id"]),
            losses={int(k): str(v) for k, v in data["losses"].items()},
            samples={int(k): [int(i) for i in v] for k, v in data["samples"].items()},
            digests={int(k): str(v) for k, v in data["digests"].items()},
            final=str(data["final"]),
            steps=int(data["steps"]),
            norms=None if norms is None else tuple(float(n) for n in norms),
        )


def reference_of(journals: Iterable[Journal], reference_id: str) -> Reference:
    """The reference that a trial without a fault makes.

    Raises:
        HarnessError: a line is malformed, workers disagree, a step is missing or twice, the
            job did not end, or it recovered from something. One line says which.
    """
    history = History.of(journals)
    if history.problem:
        raise _unfit(history.problem)
    if not history.named("step"):
        raise _unfit("no step was completed")
    if late := next((s for s in history.named("step") if s["generation"] != 0), None):
        raise _unfit(f"worker {late['worker']} was in generation {late['generation']}")
    workers = sorted({line["worker"] for line in history.named("step")})
    last = _agreed(history.named("done"), workers, "last step", "step")
    by_step: dict[int, dict[int, Line]] = defaultdict(dict)
    for line in history.named("step"):
        if line["worker"] in by_step[line["step"]]:
            raise _unfit(f"worker {line['worker']} has step {line['step']} twice")
        by_step[line["step"]][line["worker"]] = line
    first = min(by_step)
    losses: dict[int, str] = {}
    samples: dict[int, list[int]] = {}
    for step in range(first, max(last, max(by_step)) + 1):
        lines = by_step[step].values()
        losses[step] = _agreed(lines, workers, f"loss of step {step}", "loss_bits")
        samples[step] = [i for worker in workers for i in by_step[step][worker]["samples"]]
    saved, final = _digests_of(history, "saved"), _digests_of(history, "final")
    for step, by_worker in saved.items():
        if len(set(by_worker.values())) > 1:
            raise _unfit(f"workers disagree on the state saved at step {step}: {by_worker}")
    finals = {worker: digest for by in final.values() for worker, digest in by.items()}
    if len(set(finals.values())) != 1:
        raise _unfit(f"the workers have no one final state: {finals}")
    return Reference(
        id=reference_id,
        losses=losses,
        samples=samples,
        digests={step: by[min(by)] for step, by in sorted(saved.items())},
        final=next(iter(finals.values())),
        steps=last,
        norms=_norms(history),
    )


def _agreed(lines: Iterable[Line], workers: list[int], what: str, key: str) -> Any:
    """The value that all workers have in `key`."""
    values = {line["worker"]: line[key] for line in lines}
    if missing := [str(worker) for worker in workers if worker not in values]:
        raise _unfit(f"worker {', '.join(missing)} has no {what}")
    if len(set(values.values())) > 1:
        raise _unfit(f"workers disagree on the {what}: {values}")
    return next(iter(values.values()))


def _digests_of(history: History, what: str) -> dict[int, dict[int, str]]:
    """Digests by step and worker."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for line in history.named("digest"):
        if line["what"] == what:
            found[line["step"]][line["worker"]] = line["digest"]
    return found


def _norms(history: History) -> tuple[float, ...] | None:
    """Of the final state, as the first worker that noted them did: their states are equal."""
    lines = [line for line in history.named("digest") if line["what"] == "final"]
    norms = next((line["norms"] for line in lines if line.get("norms") is not None), None)
    return None if norms is None else tuple(norms)


def _unfit(why: str) -> HarnessError:
    return HarnessError(f"this trial is no reference: {why}")
