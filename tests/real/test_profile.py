"""`run --profile`: one trial more of each cell under JAX's profiler, with real workers."""

from __future__ import annotations

import pytest

from recoverybench.profiles.model import PARTS
from recoverybench.profiles.reading import profiles_of
from recoverybench.results.store import Run
from tests.real_support import Command, story, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

STRATEGIES = ("elastic", "restart")


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    suite = suite_text({"strategy": STRATEGIES}, trials=1)
    return command.measure(tmp_path_factory.mktemp("profile"), suite, "--profile")


def test_each_cell_has_one_more_and_no_statistic_counts_it(run: Run) -> None:
    assert len(run.trials) == len(run.profiled) == 2
    assert {t.cell for t in run.profiled} == {t.cell for t in run.trials}
    assert len(run.frame()) == run.jobs == 2
    # The same trial over again: its seed, its victim.
    seeds = {t.cell: (t.seed, t.victim) for t in run.trials}
    assert {t.cell: (t.seed, t.victim) for t in run.profiled} == seeds


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_worker_of_a_recovery_has_a_trace(run: Run, strategy: str) -> None:
    (found,) = (p for p in profiles_of(run) if p.cell.strategy == strategy)
    print(story(run, found.record))
    assert (found.problem, found.record.outcome) == (None, "recovered")
    victim = found.record.victim
    replaced = {0, 1, 2} if strategy == "restart" else {victim}
    expected = [(w, 1 if w in replaced else 0, 1) for w in range(3)]
    assert [(w.worker, w.attempt, w.generation) for w in found.workers] == expected
    for worker in found.workers:
        assert worker.problem is None and worker.warnings == ()
        assert worker.file is not None and (run.path / worker.file).stat().st_size == worker.bytes
        assert worker.file.split("/")[:3] == [
            "profile",
            found.trial,
            f"{worker.worker}.{worker.attempt}",
        ]
        assert [part.name for part in worker.parts] == list(PARTS)
        restore, step = worker.part("restore"), worker.part("first_step")
        assert restore is not None and restore.spans["read the checkpoint"] > 0
        assert step is not None and step.split["device"] + step.split["collective"] > 0
    assert [one.phase for one in found.overhead] == list(PARTS)
    assert {one.trials for one in found.overhead} == {1}
    only_traces = {p.suffix for p in (run.path / found.directory).rglob("*") if p.is_file()}
    assert only_traces == {".pb", ".gz", ".json"}
