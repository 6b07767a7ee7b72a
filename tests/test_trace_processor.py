"""Traces in Perfetto itself: what its trace processor reads is what was written, with no error."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recoverybench.records import TrialRecord
from recoverybench.results.lookup import find_trial
from recoverybench.results.store import Run, load
from recoverybench.trace import trace_of, write
from tests.browser import Opened, keep_screenshot
from tests.perfetto_page import arrange, dialogs, needs_perfetto, page_with, processor, shell
from tests.sample_run import failed_trial, make_run, make_trial, soak_trials, timed_out_trial
from tests.test_trace import HOSTILE, slices

ROOT = Path(__file__).parent.parent
QUICK = ROOT / "results/quick-0.1.0"
SAMPLES = Path(__file__).parent / "samples"


def made(run: Run, record: TrialRecord, folder: Path) -> tuple[dict[str, Any], bytes]:
    trace = trace_of(run, record)
    path = write(trace, folder / f"{record.trial}.json")
    return trace, path.read_bytes()


@contextmanager
def shell_processor(content: bytes) -> Iterator[Any]:
    """The program of the package `perfetto`, where it is on this machine."""
    import io

    from perfetto.trace_processor import (  # type: ignore[import-untyped]
        TraceProcessor,
        TraceProcessorConfig,
    )

    config = TraceProcessorConfig(bin_path=shell())
    with TraceProcessor(trace=io.BytesIO(content), config=config) as found:
        yield found


ENGINES = [
    pytest.param(processor, id="wasm", marks=needs_perfetto),
    pytest.param(
        shell_processor,
        id="shell",
        marks=pytest.mark.skipif(
            shell() is None, reason="no trace_processor_shell here, and none is fetched"
        ),
    ),
]

ERRORS = "select name, value from stats where severity != 'info' and value > 0"
SLICES = """
select p.pid, t.tid, s.name, s.ts, s.dur, s.depth
from slice s join thread_track tt on s.track_id = tt.id join thread t using (utid)
join process p using (upid) where s.dur > 0 order by s.ts, s.depth, p.pid, t.tid"""
FLOWS = """
select a.name as source, b.name as target, b.ts - a.ts as after, pa.pid as came, pb.pid as went
from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id
join thread_track ta on a.track_id = ta.id join thread xa on ta.utid = xa.utid
join process pa on xa.upid = pa.upid
join thread_track tb on b.track_id = tb.id join thread xb on tb.utid = xb.utid
join process pb on xb.upid = pb.upid"""


def rows(engine: Any, sql: str) -> list[tuple[Any, ...]]:
    found = engine.query(sql)
    return [tuple(vars(row).values()) for row in found]


def loaded_whole(engine: Any, trace: dict[str, Any]) -> None:
    """No error, and every slice, instant and flow is there as it was written."""
    assert rows(engine, ERRORS) == []
    written = sorted(
        (e["pid"], e["tid"], e["name"], e["ts"] * 1000, e["dur"] * 1000) for e in slices(trace)
    )
    assert sorted(row[:5] for row in rows(engine, SLICES)) == written
    events = trace["traceEvents"]
    instants = sum(e["ph"] == "i" for e in events)
    assert rows(engine, "select count(1) as c from slice where dur = 0") == [(instants,)]
    arrows = sum(e["ph"] in "tf" for e in events)
    assert len(rows(engine, FLOWS)) == arrows


@pytest.mark.parametrize("engine", ENGINES)
def test_a_real_trial_by_sql(engine: Any, tmp_path: Path) -> None:
    run = load(QUICK)
    record = find_trial(run, "0001")
    trace, content = made(run, record, tmp_path)
    with engine(content) as found:
        loaded_whole(found, trace)
        names = {pid: name for pid, name in rows(found, "select pid, name from process") if name}
        assert list(names.values()).count("supervisor") == 1
        workers = {f"worker {w}, attempt {a}" for w, a in ((0, 0), (1, 0), (1, 1), (2, 0))}
        assert workers <= set(names.values())
        for worker, pids in record.pids.items():
            for attempt, pid in enumerate(pids):
                assert names[pid] == f"worker {worker}, attempt {attempt}"
        assert record.recovery_s is not None and record.verify_s is not None
        phases = rows(found, "select name, dur from slice where category = 'phase' order by ts")
        assert [name for name, _ in phases][:4] == ["detect", "react", "teardown", "replace"]
        assert sum(dur for name, dur in phases if name != "catch up") / 1e9 == pytest.approx(
            record.recovery_s + record.verify_s, abs=1e-5
        )
        # What happened first made what came then: each arrow goes on in time.
        flows = rows(found, FLOWS)
        assert all(after >= 0 for _, _, after, _, _ in flows)
        arrived = [name for source, name, _, _, _ in flows if source == "injection: kill"]
        assert len(arrived) == len(record.detection_evidence)
        assert {names[came] for source, _, _, came, _ in flows if source.startswith("inj")} == {
            f"worker {record.victim}, attempt 0"
        }
        assert ("elastic acts", "restore") in {(a, b) for a, b, _, _, _ in flows}
        steps = rows(
            found,
            "select max(c.value) as m from counter c join process_counter_track t"
            " on c.track_id = t.id where t.name = 'last completed step'",
        )
        assert steps == [(float(run.info.suite.steps),)]
        args = rows(
            found,
            "select string_value from args join slice using (arg_set_id)"
            " where slice.category = 'trial' and flat_key = 'args.outcome'",
        )
        assert args == [("recovered",)]


def odd_trials() -> list[tuple[Run, TrialRecord]]:
    """Trials of every kind: of older versions, a command's, a soak's, cut off, hostile."""
    found = []
    for name, trial in (("v1", "0001"), ("v2-command", "0000")):
        run = load(SAMPLES / name)
        found.append((run, find_trial(run, trial)))
    base = make_trial(0)
    spans = [dataclasses.replace(s, name=HOSTILE) for s in base.spans]
    evidence = [dataclasses.replace(e, detail=HOSTILE) for e in base.detection_evidence]
    cell = dataclasses.replace(base.cell, fault=HOSTILE, strategy=HOSTILE)
    hostile = dataclasses.replace(
        base, spans=tuple(spans), detection_evidence=tuple(evidence), cell=cell, error="\\"
    )
    for record in (hostile, timed_out_trial(1), failed_trial(2), soak_trials(2)[1]):
        found.append((make_run([record]), record))
    return found


@needs_perfetto
def test_trials_of_every_kind_load_without_an_error(tmp_path: Path) -> None:
    for number, (run, record) in enumerate(odd_trials()):
        trace, content = made(run, record, tmp_path / str(number))
        with processor(content) as found:
            loaded_whole(found, trace)


@needs_perfetto
def test_what_is_cut_off_is_an_error_here(tmp_path: Path) -> None:
    """So that the tests above can fail."""
    run = load(QUICK)
    _, content = made(run, find_trial(run, "0001"), tmp_path)
    with pytest.raises(AssertionError, match="incomplete"), processor(content[:-200]):
        pass
    broken = json.loads(content)
    first = next(e for e in broken["traceEvents"] if e["ph"] == "X" and e["name"] == "step 3")
    broken["traceEvents"].append({**first, "ts": first["ts"] + 1})  # overlaps, and does not nest
    with processor(json.dumps(broken).encode()) as found:
        assert rows(found, ERRORS) != [] or len(rows(found, SLICES)) != len(slices(broken))


@needs_perfetto
def test_perfettos_page_shows_a_real_trial(tmp_path: Path) -> None:
    run = load(QUICK)
    _, content = made(run, find_trial(run, "0001"), tmp_path)
    with page_with(content, size=(1500, 1150)) as page:
        arrange(page, content)
        assert dialogs(page) == []
        errors = "() => [app.trace.loadingErrors, app.trace.traceInfo.importErrors]"
        assert page.evaluate(errors) == [[], 0]
        titles = page.evaluate("() => app.trace.workspace.children.map((track) => track.name)")
        assert titles[0].startswith("trial 0001: recovered") and len(titles) == 6
        page.get_by_text("last completed step").nth(3).wait_for()
        shown = page.inner_text("body")
        assert all(name in shown for name in ("phases", "milestones", "noticed", "fault"))
        keep_screenshot(Opened(page, []), "trace-perfetto", full=False)
