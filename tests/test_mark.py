"""Marks of a training script: silent outside a run, whole lines inside of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.external.lines import Seen
from recoverybench.external.receiver import Receiver, Told, parse

SCRIPT = """
import os, sys
import recoverybench.mark as mark
mark.event("up"); mark.restore_begin(); mark.restore_end(7)
mark.step(8, loss=0.1); mark.step(9)
mark.saved(9); mark.event("half time")
if not os.fork():
    mark.rank(2); mark.step(1, loss=float("nan")); os._exit(0)
os.wait()
print(sorted(m for m in sys.modules if m.startswith("recoverybench")))
"""


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_marks_arrive_whole_and_in_order(tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "marks")
    try:
        run(
            SCRIPT,
            RECOVERYBENCH_MARKS=str(receiver.path),
            RECOVERYBENCH_RANK_VARIABLES="NOT_THERE,MY_RANK",
            MY_RANK="5",
        )
        told = receiver.read()
    finally:
        receiver.close()
    assert [one.seen for one in told] == [
        Seen("up", None, None, 5),
        Seen("restore_begin", None, None, 5),
        Seen("restore_end", 7, None, 5),
        Seen("step", 8, "0.1", 5),
        Seen("step", 9, None, 5),
        Seen("saved", 9, None, 5),
        Seen("event", None, None, 5),
        Seen("rank", None, None, 2),
        Seen("step", 1, "nan", 2),
    ]
    assert told[6].name == "half time"
    assert len({one.pid for one in told}) == 2, "a forked process speaks for itself"
    assert [one.t for one in told] == sorted(one.t for one in told)


def test_outside_a_run_nothing_happens_and_nothing_is_needed() -> None:
    assert run(SCRIPT, RECOVERYBENCH_MARKS="/no/such/fifo") == (
        "['recoverybench', 'recoverybench.mark']"
    )
    clean = {k: v for k, v in os.environ.items() if k != "RECOVERYBENCH_MARKS"}
    script = (
        "import recoverybench.mark as m, sys\n"
        "class Loss:\n"
        "    def __float__(self): raise AssertionError('waited for the device')\n"
        "m.step(1, loss=Loss()); m.event('x'); m.rank(1)\n"
        "heavy = {'click', 'numpy', 'jax', 'rich'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], env=clean, check=True, timeout=60)


def test_the_file_works_alone(tmp_path: Path) -> None:
    import recoverybench.mark as module

    (tmp_path / "mark.py").write_bytes(Path(str(module.__file__)).read_bytes())
    subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.append({str(tmp_path)!r}); import mark",
        ],
        check=True,
        timeout=60,
    )


def test_a_full_pipe_holds_nobody_up_and_is_counted(tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "marks")
    try:
        count = run(
            "import recoverybench.mark as m\n"
            "for i in range(3000): m.step(i, loss=1.5)\n"
            "print(m._dropped)",
            RECOVERYBENCH_MARKS=str(receiver.path),
        )
        told = receiver.read()
    finally:
        receiver.close()
    assert int(count) > 0 and len(told) + int(count) == 3000
    assert [one.seen.step for one in told] == list(range(len(told)))


@pytest.mark.parametrize(
    "line",
    [b"", b"no json", b"[]", b"{}", b'{"t":1,"pid":"x","mark":"step"}', b'{"t":1,"mark":"step"}'],
)
def test_what_is_no_mark_is_left_out(line: bytes) -> None:
    assert parse(line) is None


@given(
    st.integers(0, 2**62),
    st.sampled_from(["step", "saved", "restore_end", "event"]),
    st.none() | st.integers(0, 10**9),
    st.none() | st.integers(0, 1000),
)
def test_a_mark_is_read_as_it_was_written(
    t: int, what: str, step: int | None, rank: int | None
) -> None:
    data: dict[str, Any] = {"t": t, "pid": 3, "rank": rank, "mark": what, "step": step}
    assert parse(json.dumps(data).encode()) == Told(t, 3, Seen(what, step, None, rank))
