"""Why a trial came to what it came to, in one line for people."""

from __future__ import annotations

from recoverybench.analysis.history import History, who
from recoverybench.analysis.outcome import Facts, doubt
from recoverybench.analysis.timeline import Timeline, detail_of
from recoverybench.records import Verification


def explain(
    outcome: str, facts: Facts, history: History, line: Timeline, verification: Verification
) -> str | None:
    """What went wrong, in one line for people."""
    if outcome in ("recovered", "no_effect"):
        return None
    if outcome == "invalid":
        return doubt(facts)
    if outcome in ("diverged", "silent_corruption"):
        return verification.first_difference
    if outcome == "undetected":
        return "nothing in the system noticed before the deadline"
    if outcome == "timeout":
        return _overdue(line)
    if outcome == "restarted_from_scratch":
        return "came back at step 0 though a checkpoint had been committed"
    if outcome == "no_usable_checkpoint" and not facts.tried_in_vain:
        return "no checkpoint had been committed"
    return _first_error(history, line)


def _overdue(line: Timeline) -> str:
    """What the job was waiting for when the deadline came."""
    if line.waiting_for is None or line.waiting_for[0] == "progress":
        return "came back, and was not done at the deadline"
    name, ranks = line.waiting_for
    of = f" of worker {', '.join(map(str, ranks))}" if ranks else ""
    return f"noticed, and at the deadline still without {name}{of}"


def _first_error(history: History, line: Timeline) -> str | None:
    """Why the strategy gave up; else the first error that is no evidence of the fault, the
    first end of a worker that nobody broke, the first error at all, or the first exit.
    """
    t = line.t_inject or 0
    if given_up := history.named("given_up"):
        return str(given_up[0].get("reason"))
    errors = [e for e in history.named("error") if e["t"] >= t]
    own = [e for e in errors if e.get("mechanism") != "collective_error"]
    if own:
        return f"worker {own[0]['worker']}: {detail_of(own[0])}"
    victims = tuple(f"worker {inject['worker']}:" for inject in history.named("inject"))
    for seen in history.named("evidence"):
        detail = str(seen.get("detail", ""))
        ended = seen["mechanism"] in ("process_exit", "heartbeat") and seen["t"] >= t
        if ended and not detail.startswith(victims):
            return detail
    if errors:
        return f"worker {errors[0]['worker']}: {detail_of(errors[0])}"
    exits = [e for e in history.named("exit") if e["t"] >= t and not e.get("ours")]
    if not exits:
        return "the job ended, and no worker says why"
    return f"{who(exits[0])} by {exits[0].get('signal') or 'code ' + str(exits[0].get('code'))}"
