"""Commands of somebody else's, run for real: a few lines of Python that start in no time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recoverybench.external import spec
from recoverybench.external.support import lacking
from recoverybench.plan.catalogue import workloads_dir
from tests.real_support import Command, await_gone, finish, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

TRAIN = """
import json, os, socket, sys, time

if "--marks" in sys.argv:
    import recoverybench.mark as mark
rank, steps, interval, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
world, address = int(os.environ["RECOVERYBENCH_WORLD_SIZE"]), os.path.join(folder, "socket")
peers = []
if rank == 0:
    if os.path.exists(address):
        os.unlink(address)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(world)
        peers = [listener.accept()[0] for _ in range(world - 1)]
while not peers:
    try:
        one = socket.socket(socket.AF_UNIX)
        one.connect(address)
        peers = [one]
    except (FileNotFoundError, ConnectionRefusedError):
        time.sleep(0.005)


def together():
    "As an all-reduce does: nobody is a step ahead, and who is lost takes the others along."
    for here in (rank == 0, rank != 0):
        for peer in peers:
            if here:
                assert peer.recv(1), "a peer is gone"
            else:
                peer.sendall(b"x")


kept = os.path.join(folder, "state.json")
state, done = 1.0, 0
if os.path.exists(kept):
    state, done = json.load(open(kept))
    print(f"[rank {rank}] restored step {done}")
for step in range(done + 1, steps + 1):
    time.sleep(0.004)
    together()
    state = state * 0.97 + 0.01 * (step * 7 % 5)
    if "--marks" in sys.argv:
        mark.step(step, loss=state)
    else:
        print(f"[rank {rank}] step {step} loss {state:.9f}")
    if rank == 0 and step % interval == 0:
        json.dump((state, step), open(kept + ".new", "w"))
        os.replace(kept + ".new", kept)
"""

LOOP = (
    "for try in 1 2 3 4 5 6; do "
    "{python} train.py {rank} {steps} {interval} {directory}%s && exit 0; done; exit 1"
)


def write(folder: Path, name: str, **more: Any) -> str:
    """A command's file beside the script; returns its path."""
    (folder / "train.py").write_text(TRAIN)
    tables: dict[str, dict[str, Any]] = {
        "workload": {"kind": "command", "start": LOOP % "", "each": True, "files": ["train.py"]},
        "patterns": {"use": "plain"},
    }
    for table, values in more.items():
        tables.setdefault(table, {}).update(values)
    lines = []
    for table, values in tables.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    path = folder / f"{name}.toml"
    path.write_text("\n".join(lines))
    return str(path)


def suite(workload: str, **matrix: Any) -> str:
    base: dict[str, Any] = {"workload": [workload], "strategy": ["own"], "interval": [10]}
    return suite_text({**base, **matrix}, deadline="20s")


def test_a_shell_loop_is_timed_and_verified(command: Command, tmp_path: Path) -> None:
    run = command.measure(tmp_path, suite(write(tmp_path, "loop")), "--strict")
    record = only(run, fault="kill")
    assert record.outcome == "recovered" and record.victim in (1, 2)
    assert record.verify is not None and record.verify.passed
    assert record.verify.losses_compared == 20  # from the step after the tenth to the end
    assert record.step_before in (16, 17, 18)
    assert record.restored_step == 10
    assert record.lost_steps == record.step_before - 10
    assert record.recovery_s is not None and 0 < record.recovery_s < 20
    recovery = [s for name, s in record.phases.items() if name != "catch_up"]
    assert sum(recovery) == pytest.approx(record.recovery_s)
    assert "unnamed" in record.phases
    assert len(record.pids[str(record.victim)]) == 2
    assert record.exits[0].signal == "SIGKILL" and record.exits[0].ours
    # What it printed, and what it was, is kept with the run.
    assert "step 30 loss" in (run.path / "logs" / record.trial / "0.0.log").read_text()
    assert (run.path / "commands" / "loop.toml").exists()
    assert not command.processes()


def test_marks_in_the_place_of_lines(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, "marks", workload={"start": LOOP % " --marks"}, patterns={})
    path = str(Path(path).rename(tmp_path / "marked.toml"))
    text = Path(path).read_text().partition("[patterns]")[0]
    Path(path).write_text(text)
    record = only(command.measure(tmp_path, suite(path), "--strict"), fault="kill")
    assert record.outcome == "recovered" and record.step_before in (16, 17, 18)
    assert record.verify is not None and record.verify.losses_compared == 20


def refused(command: Command, tmp_path: Path, *arguments: str) -> str:
    """The one line of an input that cannot be used, found when the command is first run."""
    out = ["--out", str(tmp_path / "refused"), "--report", str(tmp_path / "refused.html"), "-q"]
    code = finish(command.start("run", *arguments, *out, output=tmp_path / "said"))
    said = (tmp_path / "said").read_text().strip()
    assert code == 2, said
    assert said.startswith("recoverybench: error: ") and "\n" not in said
    return said


def test_a_pattern_that_never_matches_is_named(command: Command, tmp_path: Path) -> None:
    path = write(
        tmp_path, "odd", workload={"warm_up": "1s"}, patterns={"step": r"Schritt (?P<step>\d+)"}
    )
    said = refused(command, tmp_path, "--workload", path, "--steps", "2000", "--trigger", "step:17")
    assert r"patterns.step = 'Schritt (?P<step>\\d+)' (of use = 'plain'): never matched" in said
    assert "its last lines: " in said and "loss 0." in said
    assert not command.processes()


def test_a_command_that_ends_before_the_fault_is_said(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, "short", workload={"start": (LOOP % "").replace("{steps}", "12")})
    said = refused(command, tmp_path, "--workload", path, "--trigger", "step:17")
    assert "trigger = 'step:17': expected a step that" in said and "did steps 1 to 12" in said


def test_nothing_stays_however_it_was_started(command: Command, tmp_path: Path) -> None:
    """Grandchildren of grandchildren in sessions of their own, whose parents have ended."""
    script = tmp_path / "hide.py"
    script.write_text(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execve('/bin/sleep', ['sleep', '100'], {'TMPDIR': os.environ['TMPDIR']})\n"
        "    os._exit(0)\n"
    )
    start = "{python} hide.py; " + LOOP % ""
    path = write(tmp_path, "hiding", workload={"start": start})
    record = only(command.measure(tmp_path, suite(path)), fault="kill")
    assert record.outcome == "recovered"
    assert await_gone(command.processes()) == []


def test_a_command_of_the_command_line(command: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    (tmp_path / "train.py").write_text(TRAIN)
    script.write_text(
        "for rank in 0 1 2; do\n"
        f"  (export RANK=$rank; for try in 1 2 3 4 5; do {sys.executable} train.py $rank "
        "$RECOVERYBENCH_STEPS $RECOVERYBENCH_INTERVAL $RECOVERYBENCH_DIRECTORY && exit 0; done) &\n"
        "done\nwait\n"
    )
    out = ["--out", str(tmp_path / "run"), "--report", str(tmp_path / "r.html"), "--format", "json"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "recoverybench", "run", "--command", "sh train.sh"),
            *(
                "--patterns",
                "plain",
                "--topology",
                "3x1",
                "--fault",
                "kill",
                "--trigger",
                "step:17",
            ),
            *("--steps", "30", "--trials", "1", "--strict", "-q", *out),
        ],
        cwd=tmp_path,
        env=command.environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["outcomes"] == ["recovered"]


def test_torchrun(command: Command, tmp_path: Path) -> None:
    missing = lacking(spec.load("external/torchrun-ddp"))
    if missing is not None:
        pytest.skip(missing)
    run = command.measure(
        tmp_path, suite("external/torchrun-ddp", topology=["2x1"]), "--strict", patience_s=250
    )
    assert only(run, fault="kill").verify is not None


def test_a_command_without_its_package_is_unsupported(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(workloads_dir() / "external", folder)
    path = folder / "torchrun-ddp.toml"
    path.write_text(path.read_text().replace('needs = ["torch"]', 'needs = ["no_such_package"]'))
    said = refused(command, tmp_path, "--workload", str(path))
    assert "unsupported" in said and "no_such_package" in said and os.sep in said
