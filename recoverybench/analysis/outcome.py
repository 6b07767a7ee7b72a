"""What became of a trial: facts -> one name of the closed list of outcomes.

The rules are asked in the order of `RULES`; the first that holds is the outcome. Each says
of itself what it takes to hold, so that the order can be read from top to bottom:

1. `invalid`: the measurement is not to be trusted, whatever else happened.
2. `no_effect`: nothing acted, no generation was begun, and the job came to its end.
3. `undetected`: the deadline came and nobody had noticed.
4. `timeout`: it came, somebody had noticed, and the job was not back and done.
5. `not_recovered`: the job ended before it was done, for another reason than that every
   restore failed.
6. `no_usable_checkpoint`: nothing was restored, because every try failed or because no
   checkpoint had been committed. Whether the job then began anew makes no difference.
7. `restarted_from_scratch`: nothing was restored and nothing was tried, though a
   checkpoint had been committed.
8. `silent_corruption`: the restored state is not the one that was saved, and the restore
   raised nothing.
9. `diverged`: the job ran to its end, and differs from the reference. A fault without
   effect on the run but with one on its numbers is here too.
10. `recovered`: what is left: it ran to its end and equals the reference. That all
    processes ended with code 0 is never enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from recoverybench.analysis.generations import broken_generation
from recoverybench.analysis.history import PASSED, Attempt, History, rank_of, who

_FROM_OUTSIDE: Final = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGSTOP")
"""Signals that a process does not send itself when it crashes or is aborted."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that an outcome depends on.

    Attributes:
        problem: why the measurement is not to be trusted, or None.
        injected: the fault took effect.
        noticed: there is evidence, from before the deadline.
        acted: the strategy acted, or a worker began a new generation.
        finished: every worker was done before the deadline, in the last generation that was
            begun.
        deadline: the deadline came.
        restored_step: step the state came back from; None or 0: none, it began anew.
        tried_in_vain: restores were tried, and each of them failed.
        committed: a checkpoint had been committed before the recovery.
        as_saved: the restored state is the one that was saved; None: not compared.
        passed: the training equals the reference; None: nothing could be compared.
    """

    problem: str | None
    injected: bool
    noticed: bool
    acted: bool
    finished: bool
    deadline: bool
    restored_step: int | None
    tried_in_vain: bool
    committed: bool
    as_saved: bool | None
    passed: bool | None

    @property
    def from_nothing(self) -> bool:
        """The job came back, and no state with it."""
        return self.acted and not self.restored_step

    @property
    def every_restore_failed(self) -> bool:
        """Restores were tried, and nothing came of them."""
        return self.from_nothing and self.tried_in_vain


RULES: Final[tuple[tuple[str, Callable[[Facts], bool]], ...]] = (
    ("invalid", lambda f: doubt(f) is not None),
    ("no_effect", lambda f: f.finished and not f.acted and f.passed is True),
    ("undetected", lambda f: f.deadline and not f.finished and not f.noticed),
    ("timeout", lambda f: f.deadline and not f.finished),
    ("not_recovered", lambda f: not f.finished and not f.every_restore_failed),
    ("no_usable_checkpoint", lambda f: f.from_nothing and (f.tried_in_vain or not f.committed)),
    ("restarted_from_scratch", lambda f: f.from_nothing),
    ("silent_corruption", lambda f: f.as_saved is False),
    ("diverged", lambda f: f.passed is False),
    ("recovered", lambda f: f.finished and f.passed is True),
)
"""Outcome and when it holds, asked in this order."""


def classify(facts: Facts) -> str:
    """The outcome of a trial; see the module's text for the rules and their order."""
    return next((name for name, holds in RULES if holds(facts)), "invalid")


def doubt(facts: Facts) -> str | None:
    """Why a trial with these facts is `invalid`, or None."""
    if facts.problem is not None:
        return facts.problem
    if not facts.injected:
        return "the fault was never injected"
    if facts.finished and facts.passed is None:
        return "there is no reference to compare with"
    return None


def foreign_death(history: History, t_inject: int | None, victim: int | None) -> str | None:
    """A death that neither we nor the fault caused, for people; None if there is none.

    Before the injection that is any end of a process that the harness did not bring about.
    After it, a process may crash, be aborted by its runtime or give up: that is the fault's
    doing, and measured. A signal that only comes from outside is not, except for the victim
    as it was when the fault struck (once more, where it did so); its replacement is nobody's
    victim.
    """
    struck = _struck(history, victim)
    for line in history.named("exit"):
        if line.get("ours"):
            continue
        how = line.get("signal") or f"code {line.get('code')}"
        if t_inject is not None and line["t"] < t_inject:
            gap_s = (t_inject - line["t"]) / 1e9
            return f"{who(line)} by {how} {gap_s:.3f} s before the injection"
        if line.get("signal") in _FROM_OUTSIDE and rank_of(line) not in struck:
            return f"{who(line)} by {how}, which neither we nor the fault sent"
    return None


def _struck(history: History, victim: int | None) -> set[Attempt]:
    """The attempts that the fault broke."""
    if victim is None:
        return set()
    broken = broken_generation(history)
    found = {
        rank_of(line)
        for line in history.named(*PASSED)
        if line["generation"] == broken and line["worker"] == victim
    }
    exits = history.named("exit")
    for again in history.named("again"):
        if again.get("struck") is False:
            continue  # that worker was lost already
        ends = [e for e in exits if e["worker"] == again["worker"] and e["t"] >= again["t"]]
        found |= {rank_of(e) for e in ends[:1]}
    return found | ({(victim, 0)} if broken == 0 else set())
