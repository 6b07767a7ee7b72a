"""The command, run for real in a place of its own, and what one needs to watch it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recoverybench.protocol import OWNER_VARIABLE
from recoverybench.records import TrialRecord
from recoverybench.results import store as results

PATIENCE_S = 100.0
"""How long anything may take before it counts as stuck; nothing is ever waited out."""

STEPS = 30
"""Length of every job of the small workload, so that all of them share one reference."""

BASE: dict[str, list[Any]] = {
    "workload": ["mlp:tiny"],
    "topology": ["3x1"],
    "strategy": ["hot-spare"],
    "fault": ["kill"],
    "trigger": ["step:17"],
    "interval": [8],
}
"""The matrix where a test says nothing else: before its trigger a checkpoint of step 8 that is
whole, and one of step 16 that may still be under way.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """``recoverybench`` in a private place.

    Attributes:
        temporary: its TMPDIR, which also marks every process that comes from it.
        environment: of the command.
    """

    temporary: Path
    environment: dict[str, str]

    def start(self, *arguments: str | Path, output: Path) -> subprocess.Popen[bytes]:
        """Start it in a session of its own; stdout and stderr go into the file `output`."""
        with output.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "recoverybench", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self.environment,
                start_new_session=True,
            )

    def measure(
        self,
        directory: Path,
        suite: str,
        *options: str,
        code: int = 0,
        name: str = "run",
        patience_s: float = PATIENCE_S,
    ) -> results.Run:
        """Run a suite, given as TOML, to its end, and read what it measured.

        Args:
            directory: receives the suite, the run and what was printed.
            suite: see `suite_text`.
            options: of the command line.
            code: the exit code that is expected.
            name: of the run's directory.
            patience_s: see `finish`.
        """
        process = self.start(
            *self.arguments(directory, suite, name), *options, output=directory / "said"
        )
        assert finish(process, patience_s) == code, (directory / "said").read_text()
        return results.load(directory / name)

    def arguments(self, directory: Path, suite: str, name: str = "run") -> list[str]:
        """Arguments that run a suite, given as TOML, into ``directory/name``."""
        path = directory / f"{name}.toml"
        path.write_text(suite)
        report = directory / f"{name}.html"
        return ["run", str(path), "--out", str(directory / name), "--report", str(report)]

    def processes(self) -> dict[int, str]:
        """Living processes that were started in this place, with their command lines."""
        return dict(_with_variable("TMPDIR", str(self.temporary)))


def suite_text(
    matrix: Mapping[str, Sequence[Any]] | None = None,
    *,
    include: Iterable[Mapping[str, Any]] = (),
    **settings: Any,
) -> str:
    """A suite as TOML: `BASE` with `matrix` over it, and the cells of `include`."""
    head = {"name": "real", "steps": STEPS, "deadline": "60s", **settings}
    lines = ["[suite]", *(f"{key} = {json.dumps(value)}" for key, value in head.items())]
    lines += ["[matrix]"]
    lines += [f"{k} = {json.dumps(list(v))}" for k, v in {**BASE, **(matrix or {})}.items()]
    for cell in include:
        lines += ["[[matrix.include]]", *(f"{k} = {json.dumps(v)}" for k, v in cell.items())]
    return "\n".join(lines) + "\n"


def finish(process: subprocess.Popen[bytes], patience_s: float = PATIENCE_S) -> int:
    """The exit code of a command, once it has ended; many cells need more patience."""
    try:
        return process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        pytest.fail(f"still running after {patience_s:.0f} s: {process.args!r}")


def lines_of(journal: Path) -> list[dict[str, Any]]:
    """The finished lines of a journal that is being written; none where it is not there yet."""
    try:
        content = journal.read_bytes()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in content.split(b"\n")[:-1]]


def await_line(
    process: subprocess.Popen[bytes], journal: Path, event: str, **fields: Any
) -> dict[str, Any]:
    """The first line with that event and these fields, once a running command has written it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for line in lines_of(journal):
            if line["event"] == event and all(line.get(k) == v for k, v in fields.items()):
                return line
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(0.005)
            pytest.fail(f"it ended with code {code} before {event!r} was in {journal}")
    pytest.fail(f"no {event!r} in {journal} after {PATIENCE_S:.0f} s: {lines_of(journal)}")


def started_by(supervisor: int) -> dict[int, str]:
    """Living processes that carry the mark of that supervisor, with their command lines."""
    return dict(_with_variable(OWNER_VARIABLE, f"{supervisor}-", whole=False))


def await_gone(pids: Iterable[int]) -> list[int]:
    """Those that are still there when patience ends; a stopped process is still there."""
    left = []
    end = time.monotonic() + PATIENCE_S / 4
    for pid in pids:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                    left.append(pid)
            finally:
                os.close(descriptor)
    return left


def state_of(pid: int) -> str:
    """One letter: ``T`` is stopped, ``Z`` a process that has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def await_state(pid: int, state: str) -> None:
    """Return once a process is in that state (see `state_of`)."""
    end = time.monotonic() + PATIENCE_S / 4
    while (found := state_of(pid)) != state:
        assert time.monotonic() < end, f"process {pid} is {found}, not {state}"
        os.sched_yield()


def story(run: results.Run, record: TrialRecord) -> str:
    """A trial for whoever reads a failing test: record, the supervisor's journal, logs' ends."""
    plain = {k: v for k, v in record.as_dict().items() if k not in ("spans", "cell", "memory")}
    parts = [f"trial {record.trial}: {record.cell.key}", json.dumps(plain, indent=1, default=str)]
    job = record.trial.partition(".")[0]  # all records of a soak are of one job
    journal = run.path / "journal" / job / "supervisor.0.jsonl"
    parts += [f"-- {journal}", journal.read_text()]
    for log in sorted((run.path / "logs" / job).iterdir()):
        parts += [f"-- the end of {log}", log.read_text(errors="replace")[-2000:]]
    return "\n".join(parts)


def only(run: results.Run, **factors: Any) -> TrialRecord:
    """The one trial whose cell has these factors; its story is printed for a test that fails."""
    found = [
        record
        for record in run.trials
        if all(getattr(record.cell, name) == value for name, value in factors.items())
    ]
    assert len(found) == 1, (
        f"{len(found)} trials of {factors} in {[t.cell.key for t in run.trials]}"
    )
    print(story(run, found[0]))
    return found[0]


def _with_variable(name: str, value: str, *, whole: bool = True) -> Iterator[tuple[int, str]]:
    """Processes with that environment variable. One that has ended has no environment."""
    wanted = f"{name}={value}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            items = (entry / "environ").read_bytes().split(b"\0")
            if any(i == wanted if whole else i.startswith(wanted) for i in items):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                yield int(entry.name), words.decode(errors="replace").strip()
