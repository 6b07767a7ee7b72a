"""Restores against a raw read: what a record holds of it, and what report and terminal show."""

from __future__ import annotations

import dataclasses
import io
import time
from typing import Any

import pytest
from rich.console import Console

from recoverybench import page_cache
from recoverybench.analysis.record import analyse
from recoverybench.job.watchdog import Limit, Watchdog
from recoverybench.plan import catalogue
from recoverybench.plan.suite import Overrides, load_suite
from recoverybench.plan.support import unsupported
from recoverybench.reads import SMALL_BYTES, read_of, reads_of
from recoverybench.records import TrialRecord
from recoverybench.report.page import render
from recoverybench.report.restore_sizes import size_figure
from recoverybench.report.restores import fraction_figure, restores
from recoverybench.report.rows import rows_of
from recoverybench.results.columns import row
from recoverybench.terminal import run_table
from tests import histories
from tests.histories import Files, at, patched, with_line
from tests.sample_run import make_cell, make_run, make_trial

GB = 1_000_000_000


def read_trial(
    index: int = 0, read_s: float = 1.0, *, size: int = GB, **factors: Any
) -> TrialRecord:
    """A trial that read a checkpoint whose raw read takes 0.8 s cold and 0.2 s warm."""
    return dataclasses.replace(
        make_trial(index, rep=index, cell=make_cell(**factors)),
        restore_tier="storage",
        restore_bytes=size,
        checkpoint_bytes=size,
        raw_read_cold_s=0.8,
        raw_read_warm_s=0.2,
        restore_read_s=read_s,
        save_stall_s=0.05,
        save_s=2.0,
    )


# What a record holds


def with_storage(raw_step: int = histories.RESTORED, **raw: Any) -> Files:
    """A recovery in which every worker reads the checkpoint, worker 2 for 15 ms and in vain
    before; saves hold worker 0 up for 2 ms, and are durable 3 ms after they were handed over.
    """
    files = histories.recovery("restart")
    for (slot, n), lines in files.items():
        for line in list(lines):
            if line["event"] == "save":
                span = {"name": "save", "t0": line["t"] - 2_000_000}
                lines.insert(lines.index(line), line | {"event": "span"} | span)
        if slot is not None and n == 1:
            for name, start, end in (("in vain", 111, 112), ("", 112, 122 + (slot == 2) * 5)):
                if name and slot != 2:
                    continue
                read = {"name": "read the checkpoint", "t0": at(start), "t": at(end)}
                lines.append(
                    {"event": "span", "worker": slot, "attempt": n, "generation": 1} | read
                )
    raw = {"bytes": 5 * GB, "cold_s": 0.012, "warm_s": 0.003} | raw
    return with_line(files, None, 0, 900, "raw_read", step=raw_step, **raw)


def record(files: Files, **factors: Any) -> TrialRecord:
    return analyse(
        histories.journals(files),
        trial="0000",
        cell=make_cell(**factors),
        rep=0,
        seed=1,
        workers=histories.WORKERS,
        reference=histories.reference(),
        load=(0.0, 0.0),
        memory_available_bytes=(0, 0),
        wall_s=1.0,
    )


def test_a_record_holds_the_restore_and_the_raw_read() -> None:
    found = record(with_storage())
    assert found.outcome == "recovered", found.error
    assert found.checkpoint_bytes == 5 * GB
    assert (found.raw_read_cold_s, found.raw_read_warm_s) == (0.012, 0.003)
    assert found.restore_read_s == pytest.approx(0.015)  # worker 2's second one
    assert found.save_stall_s == pytest.approx(0.002)
    assert found.save_s == pytest.approx(0.005)
    assert found.restore_fraction == pytest.approx(0.2)
    cold = dataclasses.replace(found, cell=make_cell(page_cache="cold"))
    assert cold.restore_fraction == pytest.approx(0.8)


def test_the_fraction_is_in_the_table() -> None:
    flat = row(record(with_storage()))
    assert flat["restore_fraction"] == pytest.approx(0.2)
    assert flat["checkpoint_bytes"] == 5 * GB
    assert (flat["checkpoint"], flat["page_cache"]) == ("default", "warm")


def test_a_raw_read_of_another_step_is_not_of_this_restore() -> None:
    found = record(with_storage(raw_step=10))
    assert found.checkpoint_bytes is None and found.restore_fraction is None


def test_without_a_raw_read_there_is_no_fraction() -> None:
    found = record(histories.recovery("restart"))
    assert found.outcome == "recovered"
    assert found.restore_read_s is None and found.restore_fraction is None
    slow = record(patched(with_storage(), {"event": "raw_read"}, cold_s=None))
    assert slow.restore_fraction is not None
    assert dataclasses.replace(slow, cell=make_cell(page_cache="cold")).restore_fraction is None


def test_a_save_on_a_node_is_not_one_on_storage() -> None:
    local = patched(with_storage(), {"event": "committed"}, tier="local")
    assert record(local).save_s is None


def test_files_that_were_not_dropped_are_no_cold_restore() -> None:
    files = with_storage()
    dropped = with_line(files, None, 0, -1, "dropped", steps=[10, 20], bytes=2, left=0)
    assert record(dropped, page_cache="cold").outcome == "recovered"
    early = with_line(files, None, 0, -1, "dropped", steps=[10], bytes=1, left=0)
    found = record(early, page_cache="cold")
    assert found.outcome == "invalid"
    assert "step 20 came back, which was not committed when" in str(found.error)
    assert record(early).outcome == "recovered"


def test_old_records_have_no_storage() -> None:
    plain = make_trial().as_dict()
    new = ("checkpoint_bytes", "raw_read_cold_s", "restore_read_s", "save_stall_s", "save_s")
    old = {k: v for k, v in plain.items() if k not in (*new, "raw_read_warm_s")}
    old["cell"] = {k: v for k, v in plain["cell"].items() if k not in ("checkpoint", "page_cache")}
    found = TrialRecord.from_dict(old)
    assert found == make_trial()
    assert (found.cell.checkpoint, found.cell.page_cache) == ("default", "warm")
    assert found.cell.key == make_cell().key


# What is shown


def test_small_states_are_shown_only_where_somebody_asked() -> None:
    small = [read_trial(size=SMALL_BYTES - 1)]
    assert reads_of(small) == []
    assert len(reads_of([read_trial(size=SMALL_BYTES)])) == 1
    (asked,) = reads_of([read_trial(size=1000, checkpoint="plain")])
    assert asked.small
    assert reads_of([make_trial()]) == []
    assert len(reads_of([read_trial(size=1000, interval=n) for n in (1, 5)])) == 2


def test_medians_and_the_fraction_of_the_same_page_cache() -> None:
    trials = [read_trial(i, s, page_cache="cold") for i, s in enumerate((0.8, 1.0, 1.6))]
    found = read_of([*trials, dataclasses.replace(trials[0], outcome="invalid")])
    assert found is not None
    assert (found.trials, found.size, found.read_s, found.raw_s) == (3, GB, 1.0, 0.8)
    assert found.fraction == pytest.approx(0.8)
    assert [f for _, f in found.fractions] == pytest.approx([1.0, 0.8, 0.5])
    warm = read_of([read_trial()])
    assert warm is not None and warm.fraction == pytest.approx(0.2)


def test_the_terminal_shows_a_line_for_each_option() -> None:
    trials = [
        read_trial(0, 2.0, checkpoint="default", page_cache="cold"),
        read_trial(1, 1.0, checkpoint="plain", page_cache="cold"),
    ]
    for width in (80, 120):
        out = Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)
        run_table(make_run(trials), out)
        assert isinstance(out.file, io.StringIO)
        text = out.file.getvalue()
        assert "as a part of a raw read" in text and "0.80 cold" in text and "0.40 cold" in text
        assert max(map(len, text.split("\n"))) <= width
        assert "below 50 MB" not in text


def test_the_report_shows_the_best_option_first() -> None:
    trials = [
        read_trial(0, 2.0, checkpoint="default", page_cache="cold"),
        read_trial(1, 1.0, checkpoint="plain", page_cache="cold"),
        read_trial(2, 0.9, checkpoint="plain", page_cache="cold"),
    ]
    rows = rows_of([make_run(trials)])
    found = restores(rows)
    assert [one.row.cell.checkpoint for one in found] == ["plain", "default"]
    assert (found[0].rate, found[0].raw_rate, found[1].fraction) == ("1.05", "1.25", "0.40")
    figure = fraction_figure(found)
    assert figure is not None
    dots = [trace["x"] for trace in figure["data"] if trace["mode"] == "markers"]
    assert dots == [pytest.approx([0.8, 0.8 / 0.9]), pytest.approx([0.4])]
    assert {shape["x0"] for shape in figure["layout"]["shapes"]} == {0.8, 1.0}
    page = render([make_run(trials)])
    assert "Restore against the storage&#39;s limit" in page or "storage's limit" in page
    assert 'id="fractions"' in page and 'id="by-size"' not in page


def test_a_report_without_large_checkpoints_has_no_such_section() -> None:
    page = render([make_run([make_trial()])])
    assert 'id="fractions"' not in page and fraction_figure([]) is None


def test_the_figure_of_sizes_needs_two_of_something() -> None:
    one = rows_of([make_run([read_trial(0), read_trial(1)])])
    assert size_figure(one) is None
    sizes = [read_trial(0), read_trial(1, size=2 * GB, workload="mlp:small")]
    figure = size_figure(rows_of([make_run(sizes)]))
    assert figure is not None
    assert [trace["name"] for trace in figure["data"]] == ["3 workers", "3 workers"]
    assert sorted(figure["data"][0]["x"]) == [GB, 2 * GB]
    workers = [read_trial(0), read_trial(1, topology="4x1")]
    figure = size_figure(rows_of([make_run(workers)]))
    assert figure is not None and len(figure["data"]) == 4
    assert 'id="by-size"' in render([make_run(workers)])


# What is refused, and what is left alone


def why(**changes: Any) -> str | None:
    factors = {"watchdog_s": 5.0, "coordinator": "worker0", "workload": "mlp:tiny"}
    return unsupported(make_cell(page_cache="cold", **(factors | changes)))


def test_a_cold_page_cache_needs_files_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "why_not", lambda: None)
    assert why() is None and why(state_source="local") is None
    assert "not for peer" in str(why(state_source="peer"))
    assert "poisson makes many" in str(why(fault="poisson:10s"))
    monkeypatch.setattr(page_cache, "why_not", lambda: "files in /dev/shm stay in memory")
    assert why() == "page_cache = cold: files in /dev/shm stay in memory"


def test_the_suites_that_compare_checkpoints_can_be_read() -> None:
    limit: dict[str, Any] = {"device_limit": 8}
    for name in ("checkpoints", "intervals", "save-crash-formats"):
        assert name in catalogue.names("suites")
        assert load_suite(name, Overrides(page_cache=("warm",)), **limit).cells
    cells = load_suite("checkpoints", Overrides(page_cache=("warm",)), **limit).cells
    assert {"default", "plain", "ocdbt-plain"} <= {cell.checkpoint for cell in cells}


class Steps:
    """A board on which nothing moves."""

    def steps(self) -> tuple[int, ...]:
        return (4, 4)


def test_what_the_harness_takes_is_not_the_job_s(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watchdog = Watchdog(Steps(), Limit(5.0))  # type: ignore[arg-type]
    now[0] += 60
    watchdog.discount()
    assert watchdog.look() is None
    now[0] += 5.1
    assert watchdog.look() is not None
