"""What a process's end says: the line of the journal, and the evidence."""

from __future__ import annotations

from typing import Any

from recoverybench.job.member import Member
from recoverybench.job.watchdog import last_words
from recoverybench.launchers.base import Ended


def fields_of(member: Member, ended: Ended) -> dict[str, Any]:
    """Of the line ``exit``."""
    fields = {
        "worker": member.slot if member.rank is None else member.rank,
        "attempt": member.attempt,
        "pid": member.process.pid,
        "code": ended.code,
        "signal": ended.signal,
        "ours": member.why is not None,
        "reason": member.why or "own",
    }
    return fields if ended.seen else {**fields, "seen": False}


def evidence_of(member: Member, ended: Ended) -> tuple[str, str] | None:
    """Mechanism and detail; None: the supervisor ended it, so its end says nothing."""
    if member.why not in (None, "inject"):
        return None
    how = ended.signal or "gone" if ended.code is None else f"exit code {ended.code}"
    mechanism, reason = "process_exit", ""
    if member.why is None:
        mechanism, reason = last_words(member.process.log)
    return mechanism, f"{member.name}: {how}{reason}"
