"""The closed lists everybody shares: phases, milestones, outcomes, event names.

Nothing here does anything. Workers write these names into journals, the timeline
reads them, reports show them; a name that is not in this file does not exist.
"""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 6
"""Version of `run.json` and of a trial record; its history stands in `results/store.py`."""

JOURNAL_SCHEMA: Final = 1
"""Version of a journal, written in its first line."""

MILESTONES: Final = (
    "inject",  # the injection takes effect
    "evidence",  # first evidence in any part of the system
    "act",  # the strategy acts
    "closed",  # the old attempt is out of the way
    "up",  # every worker of the new attempt is up, imports done
    "rendezvous",  # the distributed runtime and the device mesh are there
    "restored",  # the state is on the devices
    "compiled",  # the step function is ready
    "first_step",  # the first step's loss is on the host
    "progress",  # a step that had not been completed before is completed
)
"""Instants of the job in their order; each is when the last worker that is needed got there."""

PHASES: Final = (
    "detect",
    "react",
    "teardown",
    "replace",
    "rendezvous",
    "restore",
    "compile",
    "first_step",
    "catch_up",
)
"""`PHASES[i]` lies between `MILESTONES[i]` and `MILESTONES[i + 1]`."""

UNNAMED: Final = "unnamed"
"""The time between milestones that lie further apart, where a command marks none between them."""

RECOVERY_PHASES: Final = PHASES[:-1]
"""The phases whose sum is the recovery time (`catch_up` ends the time to progress); with
`UNNAMED`, where there is such time.
"""

SHOWN_PHASES: Final = (PHASES[0], UNNAMED, *PHASES[1:])
"""Every phase, in the order in which they are shown."""

WORKER_MILESTONES: Final = (
    "closed",
    "up",
    "rendezvous",
    "restored",
    "compiled",
    "first_step",
)
"""Milestones that each worker of the new generation writes into its own journal, in this order."""

OUTCOMES: Final = (
    "recovered",
    "diverged",
    "silent_corruption",
    "restarted_from_scratch",
    "no_usable_checkpoint",
    "not_recovered",
    "undetected",
    "timeout",
    "no_effect",
    "invalid",
)

EVIDENCE: Final = (
    "collective_error",  # an exception from a collective, in a survivor
    "exception",  # any other exception in a worker
    "process_exit",  # a worker's exit, seen by the launcher
    "heartbeat",  # the coordination service's timeout ended survivors
    "connection_lost",  # a worker's control channel closed
    "watchdog",  # no step completed for longer than the watchdog allows
    "health_probe",  # a worker did not answer a probe
    "agreement",  # the survivors agree on who is left, through the coordination service
    "coordinator_connection",  # a worker lost the coordination service
    "non_finite",  # a loss that is not a number
    "digest_mismatch",  # the workers' copies of the state differ
    "preemption_notice",  # the notice itself: everybody has saved and stopped
    "slice_lost",  # devices of a slice are gone, seen by a single controller
)
"""Mechanisms that can notice a failure; `detected_by` names the first."""

WORKER_EVENTS: Final = (
    "journal",  # first line: schema, boot id, clock offset and bound, pid
    "span",  # `name`, `t0` (start, ns); `t` is the end
    *WORKER_MILESTONES,  # each with `generation`
    "step",  # `step`, `loss`, `samples` (ids of this worker's rows), `t0` (start, ns)
    "save",  # asynchronous save of `step` has been handed to Orbax
    "committed",  # a save of `step` is durable
    "digest",  # `what` (saved|restored|final), `step`, `digest`, `leaves`; final: `norms`
    "restore",  # `step`, `bytes`, `tried` (steps and why each failed), `tier`, `received`
    "compile_cache",  # `function`, `status`
    "error",  # `mechanism`, `type`, `message`
    "devices",  # what this process's devices are; once a process
    "health",  # `when` (before|after), `metrics`, `unavailable`: how they are
    "assigned",  # a standby has been given a rank: `slot`, `rank`
    "profile",  # `state` (begun|kept|failed|warned), `problem`: of a profiled trial
    "suspended",  # `step`: it is saved after a notice, and training has stopped
    "done",  # the last step is completed and what had to be saved is saved
)

SUPERVISOR_EVENTS: Final = (
    "journal",
    "span",
    "spawn",  # `worker`, `attempt`, `pid`, `how` (cold|warm)
    "clock",  # `at`, `offset_ns`, `bound_ns`: of the clock of another host
    "exit",  # `worker`, `attempt`, `code`, `signal`, `ours`
    "damage",  # `what`, `step`, `file`, `offset`, `bit`, …: made before the injection
    "notice",  # a preemption notice was sent (SIGTERM), before the injection
    "inject",  # `fault`, `worker`, `generation`: the one that was broken
    "again",  # `fault`, `worker`: the fault struck once more, in the recovery
    "undone",  # `fault`, `worker`: no longer broken; `operations` of the storage that it hit
    "stopped",  # `operation`, `path`, `kind`, `torn`: a file operation of a save, held there
    "dropped",  # `steps`, `bytes`, `left`: checkpoints dropped from the page cache before it
    "raw_read",  # `step`, `bytes`, `cold_s`, `warm_s`: the checkpoint's files, after the end
    "evidence",  # `mechanism`, `worker`, `detail`
    "act",  # `strategy`, `generation`
    "transition",  # `kind` (resume|grow), `generation`: set up anew, with nothing broken
    "mark",  # `what`, `step`, `loss`, `source`: what a command printed or marked
    "command_ended",  # `code`, `signal`: a command ended, that of `worker` where each has one
    "given_up",  # `reason`: the strategy has no way back
    "channel_resumed",  # `seconds`: a worker's connection was lost for that long, and is back
    "stranger",  # `address`, `reason`: somebody who is no worker of ours was turned away
    "strangers",  # `count`: of them; not all have a line
    "stood_still",  # `seconds`: the harness did not run for that long, after the injection
    "deadline",
    "end",
)

RESTORE_TIERS: Final = (
    "storage",  # the persistent path
    "local",  # the node's own storage
    "memory",  # a copy in the worker's own memory
    "peer",  # from the memory of another worker
)
"""Where a state can come back from."""

CACHE_STATES: Final = (
    "executable",  # loaded from the executable store: neither traced nor compiled
    "hit",  # traced, then read from JAX's persistent cache
    "miss",  # traced and compiled; JAX said so
    "compiled",  # traced and compiled; JAX said neither hit nor miss (ranks other than 0)
    "below_threshold",  # compiled faster than JAX's threshold, so never cached
    "off",  # no cache in use
)
