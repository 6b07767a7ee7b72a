"""Traces as a worker makes them, with JAX's own profiler, and TensorBoard on what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoverybench.profiles.model import Summary
from recoverybench.profiles.summarise import summarise
from tests.profiled_worker import TRIAL
from tests.tensorboards import PATIENCE_S, asked, served

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the process left; see `profiled_worker`."""
    folder = tmp_path_factory.mktemp("profiles")
    done = subprocess.run(
        [sys.executable, "-m", "tests.profiled_worker", str(folder)],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder / "said.json").write_text(done.stdout.splitlines()[-1])
    return folder


@pytest.fixture(scope="module")
def summary(root: Path) -> Summary:
    return summarise(root, TRIAL)


def test_each_worker_and_generation_has_a_trace_of_its_own(root: Path, summary: Summary) -> None:
    """One directory for all makes a profiler raise or overwrite what another one wrote."""
    kept = sorted(str(p.relative_to(root)) for p in root.glob("profile/**/*.xplane.pb"))
    assert kept == [p.file for p in summary.profiles if p.file is not None]
    assert [p.split("/")[2] + p.split("/")[5][-1] for p in kept] == ["0.01", "0.02", "1.01"]
    assert not list(root.glob("profile/**/.generation-*"))


def test_what_is_in_them(summary: Summary) -> None:
    first = summary.profiles[0]
    assert first.problem is None and first.device == "CPU" and set(first.tools) > {"hlo_stats"}
    assert [part.name for part in first.parts] == ["restore", "compile", "first_step"]
    restore, _, step = first.parts
    assert "read the checkpoint" in restore.spans
    assert "input" in step.spans and step.split["input"] > 0
    assert step.split["compile"] > 0  # the function had not been compiled before
    assert summary.converter is not None and summary.converter.startswith("xprof ")


def test_a_workload_that_traces_too_is_warned_and_nobody_fails(
    root: Path, summary: Summary
) -> None:
    """It gets none while ours is made, and its own as soon as that has ended; and the other way
    round ours is the one that there is not.
    """
    said = json.loads((root / "said.json").read_text())
    assert said == {"own": [0, 0, 1], "active": False}
    ours, late = (p for p in summary.profiles if p.worker == 1)
    assert len(ours.warnings) == 2 and "a trace of its own" in ours.warnings[0]
    assert ours.problem is None and ours.parts
    assert late.file is None and "Only one profile may be run at a time" in str(late.problem)


def test_an_error_of_the_profiler_never_fails_a_generation(summary: Summary) -> None:
    begins, ends, nothing, killed = (p for p in summary.profiles if p.worker >= 3)
    assert begins.problem == ends.problem == "no profile: ValueError: Invalid trace folder: x"
    assert "the profiler has written no trace" in str(nothing.problem)
    assert killed.problem == "no profile: it was not stopped"  # no supervisor saw its end here
    assert all(p.file is None for p in (begins, ends, nothing, killed))


# --- TensorBoard ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def board(root: Path) -> Iterator[str]:
    """Address of a TensorBoard over the profiles."""
    pytest.importorskip("tensorboard")
    with served(root / "profile", root) as address:
        yield address


def test_tensorboard_reads_the_directory_of_profiles(board: str) -> None:
    runs = asked(board, "profile", "runs")
    assert sorted(runs) == [
        f"{TRIAL}/0.0/generation-1",
        f"{TRIAL}/0.0/generation-2",
        f"{TRIAL}/1.0/generation-1",
    ]
    run = f"{TRIAL}/0.0/generation-1"
    tools = asked(board, "profile", "run_tools", run=run)
    assert {"trace_viewer@", "overview_page", "framework_op_stats"} <= set(tools)
    (host,) = asked(board, "profile", "hosts", run=run, tag="trace_viewer@")
    trace = asked(board, "profile", "data", run=run, tag="trace_viewer@", host=host["hostname"])
    names = {event.get("name") for event in trace["traceEvents"]}
    assert "recoverybench: first_step" in names
    tables = asked(
        board, "profile", "data", run=run, tag="framework_op_stats", host=host["hostname"]
    )
    assert tables[0]["cols"]
