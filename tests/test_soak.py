"""Soaks without a job: when and whom they strike, traces, their converter, and resuming."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.errors import UsageError
from recoverybench.faults import poisson, replay
from recoverybench.faults._soak import Soak, Strike, breakable
from recoverybench.plan import catalogue, traces
from recoverybench.plan.suite import Overrides, Suite, load_suite
from recoverybench.plan.traces import Preemption
from recoverybench.records import TrialRecord
from recoverybench.results import store as results
from tests.sample_run import make_cell, make_trial

SEEDS = st.integers(0, 2**32 - 1)
WORKERS = st.integers(2, 9)
COORDINATORS = st.sampled_from(["worker0", "external"])
BESIDE = Path(__file__).resolve().parents[2]


def drawn(soak: Soak, seed: int, workers: int = 3, coordinator: str = "worker0") -> list[Strike]:
    """The first strikes of a soak; of an endless one a thousand."""
    coming = soak.schedule(seed, breakable(workers, coordinator))
    return list(itertools.islice(coming, 1000))


@given(seed=SEEDS, workers=WORKERS, coordinator=COORDINATORS)
def test_poisson_is_ordered_repeatable_and_spares_the_coordinator(
    seed: int, workers: int, coordinator: str
) -> None:
    strikes = drawn(poisson.create("2s:100s"), seed, workers, coordinator)
    assert strikes == drawn(poisson.create("2s:100s"), seed, workers, coordinator)
    times = [strike.after_s for strike in strikes]
    assert times == sorted(times) and all(0 < t < 100 for t in times)
    lowest = 0 if coordinator == "external" else 1
    assert all(lowest <= strike.rank < workers for strike in strikes)


def test_poisson_strikes_everybody_at_the_mean_gap_that_was_asked_for() -> None:
    """Fixed seeds: 20000 gaps, whose mean has a standard error of 0.7 %."""
    gaps: list[float] = []
    struck: list[int] = []
    for seed in range(20):
        strikes = drawn(poisson.create("5s"), seed, workers=4)
        times = [0.0, *(strike.after_s for strike in strikes)]
        gaps += [b - a for a, b in itertools.pairwise(times)]
        struck += [strike.rank for strike in strikes]
    assert statistics.mean(gaps) == pytest.approx(5, rel=0.03)
    # Exponential: as spread as it is long, and a share of 1/e is longer than the mean.
    assert statistics.stdev(gaps) == pytest.approx(5, rel=0.04)
    assert sum(gap > 5 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.015)
    assert {rank: round(struck.count(rank) / len(struck), 1) for rank in set(struck)} == {
        1: 0.3,
        2: 0.3,
        3: 0.3,
    }


def test_other_seeds_other_soaks() -> None:
    assert len({tuple(drawn(poisson.create("5s:60s"), seed)) for seed in range(50)}) == 50


@pytest.mark.parametrize("argument", [None, "", "0s", "5s:", "5s:x", "-1s", "5s:60s:1s", "x"])
def test_poisson_refuses_what_is_no_mean_gap(argument: str | None) -> None:
    with pytest.raises(UsageError, match="poisson"):
        poisson.create(argument)


def test_a_soak_begins_in_training_and_chooses_its_victims() -> None:
    soak = poisson.create("5s")
    assert soak.unsupported(make_cell()) is None
    assert "victim" in str(soak.unsupported(make_cell(victim=1)))
    assert "rendezvous" in str(soak.unsupported(make_cell(trigger="rendezvous")))
    assert "controller" in str(soak.unsupported(make_cell(strategy="pathways:shrink")))


# Traces

PREEMPTIONS = st.lists(
    st.tuples(st.integers(0, 10**9), st.sampled_from(["0", "1", "2", "17", "spot-a", "spot-b"])),
    min_size=1,
    max_size=30,
).map(lambda found: [Preemption(micros / 1e6, node) for micros, node in sorted(found)])


@given(preemptions=PREEMPTIONS)
def test_a_trace_is_read_back_as_it_was_written(
    preemptions: list[Preemption], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    path.write_text(traces.text_of(preemptions))
    found = traces.read(path)
    assert [p.node for p in found] == [p.node for p in preemptions]
    assert [p.time_s for p in found] == pytest.approx([p.time_s for p in preemptions])


@given(preemptions=PREEMPTIONS, workers=WORKERS, coordinator=COORDINATORS)
def test_replay_strikes_as_the_trace_says(
    preemptions: list[Preemption], workers: int, coordinator: str
) -> None:
    strikes = drawn(replay.Replay(preemptions), 0, workers, coordinator)
    assert [s.after_s for s in strikes] == [p.time_s for p in preemptions]
    ranks = breakable(workers, coordinator)
    assert all(strike.rank in ranks for strike in strikes)
    by_node = {p.node: s.rank for p, s in zip(preemptions, strikes, strict=True)}
    assert all(by_node[p.node] == s.rank for p, s in zip(preemptions, strikes, strict=True))


def test_integers_are_workers_and_names_get_workers_in_turn() -> None:
    def ranks(*nodes: str, coordinator: str = "worker0") -> list[int]:
        found = [Preemption(float(n), node) for n, node in enumerate(nodes)]
        return [strike.rank for strike in drawn(replay.Replay(found), 0, 3, coordinator)]

    assert ranks("2", "1", "2") == [2, 1, 2]
    assert ranks("0", "3", "4") == [2, 1, 2]  # counted round: there are two to be broken
    assert ranks("0", "3", "4", coordinator="external") == [0, 0, 1]
    assert ranks("b", "a", "b", "c") == [1, 2, 1, 1]
    assert ranks("b", "2") == [1, 2]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "header"),
        ("time,node\n1,1\n", 1, "header"),
        ("time_s,node\n", 2, "no preemption"),
        ("time_s,node\n1,1\n\n2,1\n", 3, "time_s,node"),
        ("time_s,node\n1,1,1\n", 2, "time_s,node"),
        ("time_s,node\n1\n", 2, "time_s,node"),
        ("time_s,node\nx,1\n", 2, "time_s"),
        ("time_s,node\nnan,1\n", 2, "time_s"),
        ("time_s,node\n-1,1\n", 2, "time_s"),
        ("time_s,node\ninf,1\n", 2, "time_s"),
        ("time_s,node\n2,1\n1,1\n", 3, "at least 2"),
        ("time_s,node\n2,\n", 2, "node"),
        ("time_s,node\n1,1\n2,\xff\n", 3, "UTF-8"),
    ],
)
def test_a_bad_line_is_named_when_the_suite_is_read(
    text: str, line: int, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as refused:
        load_suite("quick", Overrides(fault=(f"replay:{path}",)))
    assert f"{path}:{line}:" in str(refused.value) and says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_trace_that_is_not_there_is_answered_with_those_that_ship() -> None:
    with pytest.raises(UsageError, match="made-up"):
        replay.create("nowhere.csv")
    with pytest.raises(UsageError, match="trace"):
        replay.create(None)


def test_every_trace_that_ships_can_be_read() -> None:
    shipped = sorted((catalogue.workloads_dir() / "traces").glob("*.csv"))
    assert shipped
    for path in shipped:
        assert traces.read(traces.find(path.stem)) == traces.read(path)


# The converter

CAPACITY = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 12)), min_size=1, max_size=40
).map(lambda found: [(float(t), size) for t, size in sorted(found, key=lambda row: row[0])])


def decreases(capacity: list[tuple[float, int]]) -> int:
    sizes = [0, *(size for _, size in capacity)]
    return sum(max(0, a - b) for a, b in itertools.pairwise(sizes))


@given(capacity=CAPACITY, compress=st.floats(0.1, 1000))
def test_every_decrease_is_that_many_preemptions(
    capacity: list[tuple[float, int]], compress: float
) -> None:
    found = traces.preemptions_of(capacity, compress)
    assert len(found) == decreases(capacity)
    times = [p.time_s for p in found]
    assert times == sorted(times)
    assert set(times) <= {t / compress for t, _ in capacity}
    assert len({p.node for p in found}) == len(found), "an instance goes once"


def convert(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "recoverybench.plan.traces", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_converter_as_a_command(tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("0.0,0\n0.1,3\n0.1,3\n0.5,3\n0.5,1\n1.0,2\n1.5,2\n1.5,0\n")
    done = convert(source, target, "--unit", "h", "--compress", "60")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert target.read_text() == "time_s,node\n30,i0\n30,i1\n90,i2\n90,i3\n"
    assert [p.node for p in traces.read(target)] == ["i0", "i1", "i2", "i3"]
    again = convert(source, target)
    assert again.returncode == 2 and "does not exist yet" in again.stderr
    assert target.read_text().count("\n") == 5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0,1\nx,2\n", "in.csv:2: elapsed time"),
        ("0,1\n1,1.5\n", "in.csv:2: instances running"),
        ("5,1\n1,0\n", "in.csv:2: elapsed time"),
        ("0,1\n1\n", "in.csv:2"),
        ("0,1\n1,2\n", "capacity falls"),
        ("", "capacity falls"),
    ],
)
def test_the_converter_names_what_is_wrong(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(text)
    with pytest.raises(UsageError) as refused:
        traces.convert(tmp_path / "in.csv", tmp_path / "out.csv")
    assert says in str(refused.value)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(("name", "unit", "hours"), [("g4dn", "s", 26.5), ("p2", "h", 96)])
def test_published_spot_traces_can_be_converted(
    name: str, unit: str, hours: float, tmp_path: Path
) -> None:
    """From uclasystem/bamboo, doc/data; the span in a file's name says what its unit is."""
    found = sorted(BESIDE.glob(f"*/data/aws-spot-instances-{name}-*.csv"))
    if not found:
        pytest.skip("the published spot traces (uclasystem/bamboo, doc/data) are not here")
    capacity = traces.read_capacity(found[0], unit)
    assert 0.8 * hours < capacity[-1][0] / 3600 <= hours
    count = traces.convert(found[0], tmp_path / "out.csv", unit, compress=1000)
    read = traces.read(tmp_path / "out.csv")
    assert count == len(read) == decreases(capacity) > 20
    assert read[-1].time_s <= capacity[-1][0] / 1000 + 1e-6


# Resuming a run with soaks


def soak_records(trial: str, count: int, of: int) -> list[TrialRecord]:
    """The first records of a soak that has `of`."""
    whole = {"injections": of, "goodput": None, "wall_s": None, "steps": 0}
    return [
        dataclasses.replace(make_trial(), trial=f"{trial}.{n:03d}", soak={"index": n, **whole})
        for n in range(count)
    ]


SUITE = Suite("mine", "a suite", 2, 0, 60.0, 45, (make_cell(),), source="mine.toml")


def written(out: Path, kept: Sequence[TrialRecord], rest: bytes = b"") -> None:
    """A run that was cut off after these records."""
    info = results.describe_run(SUITE, out.name, command=["recoverybench"], launcher="local")
    with results.RunDir.create(out, info) as run:
        for record in kept:
            run.append(record)
    with (out / "trials.jsonl").open("ab") as file:
        file.write(rest)


@pytest.mark.parametrize("rest", [b"", b'{"trial": "0001.0'])
@pytest.mark.parametrize("there", range(4))
def test_a_soak_counts_once_its_last_record_is_there(
    there: int, rest: bytes, tmp_path: Path
) -> None:
    """Whatever a crash between two records has left is set aside, and measured again."""
    out = tmp_path / "mine-1"
    first, second = soak_records("0000", 2, 2), soak_records("0001", there, 3)
    written(out, [*first, *second], rest)
    assert len(results.load(out).trials) == 2 + there, "a run that was cut off can be read"
    whole = {"0000"} | ({"0001"} if there == 3 else set())
    assert results.whole_trials(results.load(out).trials) == whole
    run, finished = results.RunDir.resume(out, SUITE)
    with run:
        assert results.whole_trials(finished) == whole
        if there < 3:
            assert [record.trial for record in finished] == ["0000.000", "0000.001"]
            for record in soak_records("0001", 3, 3):
                run.append(record)
    again = results.load(out)
    assert [record.trial for record in again.trials] == [
        *("0000.000", "0000.001"),
        *("0001.000", "0001.001", "0001.002"),
    ]
    assert again.dropped == (there if there < 3 else 0) + bool(rest)
    assert results.whole_trials(again.trials) == {"0000", "0001"}


def test_a_soak_without_an_injection_has_one_record_and_is_whole(tmp_path: Path) -> None:
    (record,) = soak_records("0000", 1, 0)
    written(tmp_path / "mine-1", [record])
    assert results.whole_trials(results.load(tmp_path / "mine-1").trials) == {"0000"}


def test_trials_with_one_injection_are_whole_by_themselves(tmp_path: Path) -> None:
    kept = [make_trial(0), *soak_records("0001", 1, 2)]
    written(tmp_path / "mine-1", kept)
    assert results.whole_trials(results.load(tmp_path / "mine-1").trials) == {"0000"}


def test_a_soak_that_nobody_could_live_through_is_refused() -> None:
    with pytest.raises(UsageError, match=r"at least 0\.1 s"):
        poisson.create("0.0000000001")
