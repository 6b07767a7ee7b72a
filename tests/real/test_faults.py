"""Every fault of a process, of its numbers, of checkpoints and of the compile cache, for real.

One suite, and a table of what has to come of each cell. Faults of the network, of the storage
itself and of time have files of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recoverybench import sealed
from recoverybench.analysis.journal import read_trial
from recoverybench.records import Exit, TrialRecord
from recoverybench.results.store import Run
from tests.real_support import Command, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]

TRIGGER, INTERVAL, NEWEST = 17, 7, 14
STRATEGIES = ("warm-restart", "hot-spare")

BACK = ("recovered",)
WRONG = ("silent_corruption", "not_recovered")  # the latter where the values are not finite

EXPECTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # from outside
    "segv": (BACK, BACK),
    "abort": (BACK, BACK),
    "interrupt": (BACK, BACK),
    "kill-many": (BACK, BACK),
    "kill-all": (BACK, ("not_recovered",)),
    "kill-coordinator": (BACK, ("not_recovered",)),
    "preempt:unhandled": (BACK, BACK),
    # in the process
    "exit:3": (BACK, BACK),
    "exit:clean": (BACK, BACK),
    "raise:MemoryError": (BACK, BACK),
    "oom": (BACK, BACK),
    "oom:rlimit": (BACK, BACK),
    "stuck": (BACK, BACK),
    "slow": (("no_effect",), ("no_effect",)),
    "lock-gil": (BACK, BACK),
    "async-exception": (BACK, BACK),
    # numbers
    "nan": (BACK, BACK),
    "bit-flip-memory": (("diverged",), ("diverged",)),
    # the newest checkpoint
    "bit-flip": (WRONG, WRONG),
    "truncate": (BACK, BACK),
    "missing-file": (BACK, BACK),
    "missing-file:manifest": (BACK, BACK),
    "empty-step": (BACK, BACK),
    "leftover-tmp": (BACK, BACK),
    "wrong-step": (BACK, BACK),
    "lost-data-state": (BACK, BACK),
    # the compile cache
    "cache-lost": (BACK, BACK),
    "cache-corrupt": (BACK, BACK),
}
"""Fault -> the outcomes that are right under `warm-restart` and under `hot-spare`."""

MECHANISM = {
    "raise:MemoryError": "exception",
    "oom:rlimit": "exception",
    "async-exception": "exception",
    "stuck": "watchdog",
    "lock-gil": "watchdog",
    "nan": "non_finite",
}
"""Fault -> the mechanism that notices it first."""

DAMAGED = {
    "bit-flip": (NEWEST, NEWEST),
    "truncate": (NEWEST, NEWEST - INTERVAL),
    "missing-file": (NEWEST, NEWEST - INTERVAL),
    "missing-file:manifest": (NEWEST, NEWEST - INTERVAL),
    "lost-data-state": (NEWEST, NEWEST - INTERVAL),
    "empty-step": (NEWEST + INTERVAL, NEWEST),
    "wrong-step": (NEWEST + INTERVAL, NEWEST),
    "leftover-tmp": (NEWEST + INTERVAL, NEWEST),
}
"""Fault -> the step that is damaged, and the one that comes back."""


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    matrix = {
        "strategy": STRATEGIES,
        "fault": list(EXPECTED),
        "trigger": [f"step:{TRIGGER}"],
        "interval": [INTERVAL],
        "watchdog": ["3s"],
    }
    checked = {"strategy": "hot-spare", "fault": "bit-flip-memory", "replica_check": "save"}
    suite = suite_text(matrix, include=[checked], deadline="30s")
    return command.measure(tmp_path_factory.mktemp("faults"), suite, patience_s=1100)


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def trial(run: Run, fault: str, strategy: str, replica_check: str = "off") -> TrialRecord:
    return only(run, fault=fault, strategy=strategy, replica_check=replica_check)


def lines(run: Run, record: TrialRecord, event: str) -> list[dict[str, Any]]:
    found = read_trial(run.path / "journal" / record.trial).lines
    return [dict(line) for line in found if line["event"] == event]


def first_exit(record: TrialRecord, worker: int | None = None) -> Exit:
    """How the first incarnation of a worker (the victim, if none is named) ended."""
    worker = record.victim if worker is None else worker
    return next(e for e in record.exits if (e.worker, e.attempt) == (worker, 0))


@pytest.mark.parametrize("fault", EXPECTED)
def test_what_becomes_of_it(run: Run, fault: str, strategy: str) -> None:
    record = trial(run, fault, strategy)
    assert record.outcome in EXPECTED[fault][STRATEGIES.index(strategy)], record.error
    if record.outcome == "recovered":
        assert record.verify is not None and record.verify.passed and record.verify.samples_ok


@pytest.mark.parametrize("fault", MECHANISM)
def test_what_notices_it_first(run: Run, fault: str, strategy: str) -> None:
    assert trial(run, fault, strategy).detected_by == MECHANISM[fault]


def test_an_error_is_told_as_it_is_and_never_as_a_preemption(run: Run, strategy: str) -> None:
    record = trial(run, "raise:MemoryError", strategy)
    first = record.detection_evidence[0]
    assert (first.mechanism, first.observer) == ("exception", record.victim)
    assert first.detail.startswith("MemoryError: ")
    assert "preempt" not in str(record.as_dict()["detection_evidence"])


def test_a_straggler_alarms_nobody(run: Run, strategy: str) -> None:
    record = trial(run, "slow", strategy)
    assert record.detection_evidence == ()
    spans = [x for x in lines(run, record, "span") if x["name"] == "slowed down"]
    assert {x["worker"] for x in spans} == {record.victim} and len(spans) >= 5
    (inject,) = lines(run, record, "inject")
    assert all(x["t0"] >= inject["t"] for x in spans)
    shortest = min(x["t"] - x["t0"] for x in spans[:-1])  # the last one ends with the fault
    assert shortest > 1e6  # four times a step, which takes some milliseconds


@pytest.mark.parametrize(
    ("fault", "code", "signal"),
    [
        ("segv", None, "SIGSEGV"),
        ("abort", None, "SIGABRT"),
        ("preempt:unhandled", None, "SIGTERM"),
        ("exit:3", 3, None),
        ("truncate", None, "SIGKILL"),
        ("cache-lost", None, "SIGKILL"),
    ],
)
def test_how_the_victim_ends(
    run: Run, strategy: str, fault: str, code: int | None, signal: str | None
) -> None:
    ended = first_exit(trial(run, fault, strategy))
    assert (ended.code, ended.signal) == (code, signal)
    if fault == "exit:3":  # the others' error may have the strategy end it while it ends itself
        assert ended.reason in ("own", "teardown")
    else:
        assert ended.reason == "inject"


def test_who_runs_out_of_memory_is_ended_by_the_kernel_where_it_can_be(
    run: Run, strategy: str
) -> None:
    record = trial(run, "oom", strategy)
    ended = first_exit(record)
    if record.detected_by == "exception":
        pytest.skip("no control group with a memory limit can be made here (run as root)")
    assert (ended.signal, ended.reason) == ("SIGKILL", "inject")


def test_how_many_are_killed_and_who(run: Run, strategy: str) -> None:
    for fault, count in (("kill-many", 2), ("kill-all", 3), ("kill-coordinator", 1)):
        record = trial(run, fault, strategy)
        killed = {e.worker for e in record.exits if e.attempt == 0 and e.reason == "inject"}
        assert len(killed) == count, fault
        if fault == "kill-many":
            assert record.victim in killed and 0 not in killed
        if fault == "kill-coordinator":
            assert killed == {0}


@pytest.mark.parametrize("fault", ["stuck", "lock-gil"])
def test_only_who_is_stuck_is_replaced(run: Run, fault: str) -> None:
    """A stuck worker answers, and one whose lock is held does not: both are found."""
    record = trial(run, fault, "hot-spare")
    replaced = {int(worker) for worker, pids in record.pids.items() if len(pids) > 1}
    assert replaced == {record.victim}
    assert first_exit(record).reason == "teardown"


@pytest.mark.parametrize("fault", ["raise:MemoryError", "async-exception", "nan", "oom:rlimit"])
def test_who_catches_an_exception_keeps_its_process(run: Run, fault: str) -> None:
    """A loss that is no number breaks all alike, and nobody is ended for being the last to see it.

    One that raised alone may be, if the watchdog speaks first: the others wait for it meanwhile.
    """
    record = trial(run, fault, "hot-spare")
    replaced = {int(worker) for worker, pids in record.pids.items() if len(pids) > 1}
    assert replaced == set() if fault == "nan" else replaced <= {record.victim}


@pytest.mark.parametrize("fault", DAMAGED)
def test_damage_is_to_the_newest_checkpoint_and_before_the_kill(
    run: Run, fault: str, strategy: str
) -> None:
    record = trial(run, fault, strategy)
    damaged, back = DAMAGED[fault]
    (damage,), (inject,) = lines(run, record, "damage"), lines(run, record, "inject")
    assert damage["step"] == damaged and damage["t"] < inject["t"] == record.t_inject
    committed = [x for x in lines(run, record, "committed") if x["generation"] == 0]
    assert {x["step"] for x in committed} == {INTERVAL, NEWEST}
    assert all(x["t"] < damage["t"] for x in committed)
    assert record.restored_step == back or fault == "bit-flip"
    assert record.lost_steps == TRIGGER - 1 - back or fault == "bit-flip"
    tried = {text.partition(":")[0] for text in record.restore_tried}
    assert tried == (set() if fault in ("bit-flip", "leftover-tmp") else {str(damaged)})


def test_a_flipped_bit_is_never_a_recovery(run: Run, strategy: str) -> None:
    record = trial(run, "bit-flip", strategy)
    (damage,) = lines(run, record, "damage")
    assert damage["bit"] in range(8) and damage["before"] != damage["after"] is not None
    if record.outcome == "not_recovered":  # the bit made a loss that is no number, every time
        assert record.error is not None
        return
    restored = {x["digest"] for x in lines(run, record, "digest") if x["what"] == "restored"}
    saved = {x["digest"] for x in lines(run, record, "digest") if x["what"] == "saved"}
    assert not restored & saved
    assert record.verify is not None and record.verify.first_difference is not None


def test_the_file_that_is_missing_is_named(run: Run, strategy: str) -> None:
    record = trial(run, "missing-file:manifest", strategy)
    assert any("NOT_FOUND" in text for text in record.restore_tried)


def test_a_step_whose_unfinished_directory_is_there_is_saved(run: Run, strategy: str) -> None:
    record = trial(run, "leftover-tmp", strategy)
    after = [x["step"] for x in lines(run, record, "committed") if x["generation"] == 1]
    assert after == [NEWEST + INTERVAL, NEWEST + 2 * INTERVAL]


@pytest.mark.parametrize("fault", ["empty-step", "wrong-step"])
def test_a_name_that_is_taken_stays_taken_and_later_saves_land(
    run: Run, fault: str, strategy: str
) -> None:
    """Orbax passes over the save of a step whose directory is there, and says nothing."""
    record = trial(run, fault, strategy)
    after = [x["step"] for x in lines(run, record, "committed") if x["generation"] == 1]
    assert after == [NEWEST + 2 * INTERVAL]


@pytest.mark.parametrize("fault", ["cache-lost", "cache-corrupt"])
def test_who_starts_anew_compiles_and_who_lives_on_does_not(
    run: Run, fault: str, strategy: str
) -> None:
    record = trial(run, fault, strategy)
    anew = set(record.pids) if strategy == "warm-restart" else {str(record.victim)}
    assert record.compile_cache == {
        worker: "compiled" if worker in anew else "executable" for worker in record.pids
    }


def test_the_shared_compile_cache_is_whole(run: Run, command: Command) -> None:
    store = Path(command.environment["RECOVERYBENCH_CACHE"]) / "executables"
    files = sorted(store.rglob("*.bin"))
    assert run.trials and files
    assert all(sealed.read(file) is not None for file in files)


def test_a_comparison_of_the_copies_finds_a_flipped_bit_in_memory(run: Run) -> None:
    record = trial(run, "bit-flip-memory", "hot-spare", replica_check="save")
    assert (record.outcome, record.detected_by) == ("recovered", "digest_mismatch")
    assert record.restored_step in (NEWEST, NEWEST - INTERVAL)  # the newest may be on its way
    unchecked = trial(run, "bit-flip-memory", "hot-spare")
    assert unchecked.detection_evidence == () and unchecked.recovery_s is None


def test_nothing_is_left_of_a_memory_limit(run: Run) -> None:
    groups = [
        path
        for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory"))
        if root.is_dir()
        for path in root.rglob("recoverybench-*-worker-*")
        # Of a run that is over; another one may be going on beside this.
        if not Path("/proc", path.name.split("-")[1]).exists()
    ]
    assert run.trials and not groups


def test_nothing_that_was_measured_is_invalid(run: Run) -> None:
    assert [t.cell.key for t in run.trials if t.outcome == "invalid"] == []
    assert len(run.trials) == 2 * len(EXPECTED) + 1
