"""Making the summary of a profiled trial, once it is over: which traces there are, and what is in
each.

Which there should be stands in the workers' journals. The traces are read by a process of its own
(`profiles.convert`): xprof takes time to load, and is native code. Where it fails, the summary says
so; a trial never does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from recoverybench import leftovers
from recoverybench.analysis.journal import Journal, JournalError, read_trial
from recoverybench.profiles.model import Part, Summary, WorkerProfile, part_of
from recoverybench.profiles.reading import SUMMARY, directory_of
from recoverybench.results.decoding import read_json
from recoverybench.results.shapes import check_shape
from recoverybench.results.store import replace_file
from recoverybench.vocabulary import SCHEMA_VERSION

PATIENCE_S: Final = 120.0
"""For all traces of a trial; those of the small workloads take a second each."""

MOST_BYTES: Final = 512 * 2**20
"""Of a trace that is read: xprof and what it prints need many times that in memory."""


def summarise(run: Path, trial: str) -> Summary:
    """Writes ``profile/<trial>/summary.json`` of a trial that is over; returns what is in it.

    Args:
        run: the run's directory. trial: id.
    """
    directory = directory_of(run, trial)
    try:
        expected = list(expected_profiles(read_trial(run / "journal" / trial).all, run, trial))
    except (JournalError, OSError):
        expected = []
    answers = convert([run / one.file for one in expected if one.file is not None])
    converter = next((str(a["converter"]) for a in answers if "converter" in a), None)
    left = iter(answers)
    profiles = tuple(one if one.file is None else _filled(one, next(left)) for one in expected)
    summary = Summary(trial, converter, profiles)
    directory.mkdir(parents=True, exist_ok=True)
    data = {"schema": SCHEMA_VERSION, **summary.as_dict()}
    replace_file(directory / SUMMARY, json.dumps(data, allow_nan=False).encode() + b"\n")
    return summary


def expected_profiles(
    journals: Iterable[Journal], run: Path, trial: str
) -> Iterator[WorkerProfile]:
    """A profile, without what is in it, for each that was begun, by worker and generation.

    Args:
        journals: of the trial. run: the run's directory, in which files are looked for.
    """
    said: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    exits: dict[tuple[int, int], dict[str, Any]] = {}
    for journal in journals:
        for line in journal.lines:
            if line["event"] == "exit" and journal.worker_slot is None:
                exits[line["worker"], line["attempt"]] = line
            if line["event"] == "profile" and isinstance(line.get("generation"), int):
                key = line["worker"], line["attempt"], line["generation"]
                said.setdefault(key, []).append(line)
    for (worker, attempt, generation), lines in sorted(said.items()):
        states = [line.get("state") for line in lines]
        problems = [str(x.get("problem")) for x in lines if x.get("state") == "failed"]
        file = _file(run, trial, f"{worker}.{attempt}", generation) if "kept" in states else None
        problem = None
        if file is None:
            ended = f"no profile: {_ended(exits.get((worker, attempt)))}"
            problem = f"no profile: {problems[0]}" if problems else ended
            if "kept" in states:
                problem = "no profile: its file is not there any more"
        yield WorkerProfile(
            worker,
            attempt,
            generation,
            file=None if file is None else str(file.relative_to(run)),
            bytes=None if file is None else file.stat().st_size,
            problem=problem,
            warnings=tuple(str(x.get("problem")) for x in lines if x.get("state") == "warned"),
        )


def _file(run: Path, trial: str, who: str, generation: int) -> Path | None:
    session = directory_of(run, trial) / who / "plugins" / "profile" / f"generation-{generation}"
    return next(iter(sorted(session.glob("*.xplane.pb"))), None)


def _ended(line: dict[str, Any] | None) -> str:
    """Why a trace that was begun was not kept: how its process ended."""
    if line is None:
        return "it was not stopped"
    if line.get("signal") == "SIGKILL":
        return "killed"
    if line.get("signal"):
        return f"ended by {line['signal']}"
    return f"ended with exit code {line.get('code')}"


def convert(files: Sequence[Path]) -> list[dict[str, Any]]:
    """What is in each of these traces, as `profiles.convert.converted` says, or its ``problem``."""
    answers: list[dict[str, Any]] = []
    end = time.monotonic() + PATIENCE_S
    while len(answers) < len(files):
        # A process that ends at a file is started again with those behind it.
        left = files[len(answers) :]
        if left[0].stat().st_size > MOST_BYTES:
            answers.append({"problem": f"more than {MOST_BYTES // 2**20} MiB: not read"})
            continue
        patience_s = end - time.monotonic()
        if patience_s <= 0:
            answers.append({"problem": f"reading the traces took more than {PATIENCE_S:.0f} s"})
            continue
        found, how = _asked(left, patience_s)
        answers += found
        if len(found) < len(left):
            answers.append({"problem": f"what reads it {how}"})
    return answers[: len(files)]


def _asked(files: Sequence[Path], patience_s: float) -> tuple[list[dict[str, Any]], str]:
    """What the process said of the first of these files, and how it ended."""
    command = [sys.executable, "-m", "recoverybench.profiles.convert", *map(str, files)]
    try:
        # It may be killed, here or with this process: what it keeps meanwhile is in our place.
        folder = leftovers.working_directory()
        try:
            said, code = _run(command, folder, patience_s)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        said, end = b"", f"cannot be started ({error.strerror})"
    else:
        end = f"ended with exit code {code}"
        if code is None:
            end = f"needed more than {patience_s:.0f} s"
        elif code < 0:
            end = f"was ended by signal {-code}"
    found = []
    for line in said.split(b"\n")[:-1]:
        try:
            answer = read_json(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(answer, dict):
            break
        found.append(answer)
    return found, end


def _run(command: Sequence[str], folder: Path, patience_s: float) -> tuple[bytes, int | None]:
    """What a process wrote to stdout, and its exit code; None: it needed too long.

    It has ended when this returns, whatever happens here: `subprocess.run` does not wait for what
    it kills at an interrupt.
    """
    mark = {"TMPDIR": str(folder), leftovers.OWNER_VARIABLE: leftovers.owner_mark()}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **mark},
    ) as process:
        try:
            return process.communicate(timeout=patience_s)[0], process.returncode
        except subprocess.TimeoutExpired as late:
            return late.stdout or b"", None
        finally:
            process.kill()
            process.wait()


def _filled(profile: WorkerProfile, answer: dict[str, Any]) -> WorkerProfile:
    """The profile with what was read from its trace."""
    if "problem" in answer:
        return replace(profile, problem=str(answer["problem"]))
    for part in answer["parts"]:
        check_shape(part, Part)
    parts = tuple(part_of(part) for part in answer["parts"])
    problem = None if parts else "there is nothing in it of a restore or a first step"
    return replace(
        profile, device=answer["device"], tools=answer["tools"], parts=parts, problem=problem
    )
