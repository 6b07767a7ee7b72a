"""What a worker does to itself when it is told to: it is real, and it is only that."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.faults._memory import MemoryGroup
from recoverybench.leftovers import PREFIX
from recoverybench.plan import catalogue
from recoverybench.worker.breakages import async_exception, base, bit_flip_memory, nan, slow

ORDERED = [
    "async-exception",
    "bit-flip-memory",
    "exit",
    "lock-gil",
    "nan",
    "oom",
    "raise",
    "slow",
    "stuck",
]


def loop_with(**more: Any) -> Any:
    """What a breakage needs of a training loop."""
    rng = np.random.default_rng(0)
    state = {
        "optimizer.0.count": np.int32(3),
        "optimizer.0.mu": rng.standard_normal(20).astype(np.float32),
        "params.a": rng.standard_normal((4, 3)).astype(np.float32),
        "params.b": rng.standard_normal(7).astype(np.float32),
        "params.index": np.arange(5, dtype=np.int32),
    }
    return SimpleNamespace(
        names=list(state),
        leaves=[jax.device_put(array) for array in state.values()],
        before_step=lambda: None,
        journal=SimpleNamespace(span=lambda _: nullcontext()),
        **more,
    )


def bits(loop: Any) -> dict[str, np.ndarray]:
    return {
        name: np.unpackbits(np.array(leaf).reshape(-1).view(np.uint8), bitorder="little")
        for name, leaf in zip(loop.names, loop.leaves, strict=True)
    }


@pytest.mark.parametrize("name", ORDERED)
def test_a_fault_that_orders_finds_its_breakage(name: str) -> None:
    assert name in catalogue.names("faults")
    assert callable(base.load(name).strike)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_bit_of_one_parameter_flips(seed: int) -> None:
    loop = loop_with()
    before = bits(loop)
    bit_flip_memory.strike(loop, str(seed))
    after = bits(loop)
    differ = {name: int((before[name] != after[name]).sum()) for name in before}
    assert sum(differ.values()) == 1
    assert {name for name, count in differ.items() if count} <= {"params.a", "params.b"}
    again = loop_with()
    bit_flip_memory.strike(again, str(seed))
    assert all(np.array_equal(after[name], found) for name, found in bits(again).items())


def test_every_bit_can_be_the_one() -> None:
    """Of every value, and of all of them about as often."""
    hit = set()
    for seed in range(400):
        loop = loop_with()
        before = bits(loop)
        bit_flip_memory.strike(loop, str(seed))
        hit |= {
            (name, int(index))
            for name, found in bits(loop).items()
            for index in np.flatnonzero(found != before[name])
        }
    places = 32 * (4 * 3 + 7)
    assert 0.35 * places < len(hit) < 0.65 * places  # 1 - exp(-400 / 608) = 0.48


@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_nan_is_in_one_parameter_and_nowhere_else(seed: int) -> None:
    loop = loop_with()
    before = bits(loop)
    nan.strike(loop, str(seed))
    after = bits(loop)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert len(changed) == 1 and changed <= {"params.a", "params.b"}
    assert np.isnan(loop.leaves[loop.names.index(*changed)]).all()


def test_without_parameters_there_is_nothing_to_break() -> None:
    loop = loop_with()
    loop.names = [name.replace("params", "weights") for name in loop.names]
    for breakage in (nan, bit_flip_memory):
        with pytest.raises(RuntimeError, match="params"):
            breakage.strike(loop, "0")


class Clock:
    """Stands for the `time` module; only sleeping and training pass time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_a_straggler_takes_that_many_times_as_long_and_recovers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, loop = Clock(), loop_with()
    monkeypatch.setattr(slow, "time", clock)
    slow.strike(loop, "5.0:2.0")
    took = []
    for step_s in (0.1, 0.1, 0.3, 0.1, *[0.1] * 6):
        before = clock.now
        loop.before_step()
        clock.now += step_s
        took.append(clock.now - before)
    assert took[0] == pytest.approx(0.1)  # shows how long a step takes
    assert took[1] == pytest.approx(5 * 0.1)
    assert took[2] == pytest.approx(0.3 + 4 * 0.1)  # one long step is no new measure
    assert took[3] == pytest.approx(5 * 0.1)
    assert took[-1] == pytest.approx(0.1) and loop.before_step() is None
    assert sum(clock.slept) <= 2.0 and not isinstance(loop.before_step, slow.Drag)


def test_a_drag_keeps_what_another_breakage_has_set() -> None:
    called: list[int] = []
    loop = loop_with()
    loop.before_step = lambda: called.append(1)
    slow.strike(loop, "2:0.001")
    mine = loop.before_step
    while loop.before_step is mine:
        loop.before_step()
    loop.before_step()
    assert len(called) >= 3


def test_an_exception_surfaces_in_the_step_and_not_before() -> None:
    loop = loop_with()
    async_exception.strike(loop, None)
    with pytest.raises(async_exception.AsyncException):
        loop.before_step()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            time.sleep(0.001)
    loop.before_step()  # the hook is gone again


def test_the_named_exception_is_raised() -> None:
    for name, error in (("MemoryError", MemoryError), (None, RuntimeError)):
        with pytest.raises(error, match="on purpose"):
            base.load("raise").strike(loop_with(), name)


CODE = """
import sys, threading, time, types
from recoverybench.worker.breakages import base
import atexit
atexit.register(lambda: print("handlers ran", flush=True))
{before}
base.load({name!r}).strike(types.SimpleNamespace(), {argument!r})
"""


def in_a_process(
    name: str, argument: str | None, before: str = "", **options: Any
) -> subprocess.Popen[str]:
    code = CODE.format(name=name, argument=argument, before=before)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize(
    ("argument", "code", "said"), [("7", 7, ""), ("clean-9", 9, "handlers ran\n")]
)
def test_exit_ends_the_process_with_that_code(argument: str, code: int, said: str) -> None:
    process = in_a_process("exit", argument)
    out, error = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, said), error


SPEAKS = """
spoke = threading.Event()
def speak():
    while True:
        print("alive", flush=True)
        spoke.set()
        time.sleep(0.01)
threading.Thread(target=speak, daemon=True).start()
spoke.wait()
"""


@pytest.mark.parametrize(("name", "speaks"), [("stuck", True), ("lock-gil", False)])
def test_who_is_stuck_still_runs_threads_and_who_keeps_the_lock_does_not(
    name: str, speaks: bool
) -> None:
    process = in_a_process(name, None, SPEAKS)
    try:
        assert process.stdout is not None
        lines: list[str] = []
        reading = threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
        reading.start()
        end = time.monotonic() + 20
        while len(lines) < (300 if speaks else 1) and time.monotonic() < end:
            time.sleep(0.01)
        if not speaks:
            # Whatever was said before the lock was taken is here soon; then nothing follows.
            quiet, seen = 0, len(lines)
            while quiet < 20 and time.monotonic() < end:
                time.sleep(0.05)
                quiet, seen = (quiet + 1, seen) if len(lines) == seen else (0, len(lines))
            assert quiet == 20
        assert len(lines) >= (300 if speaks else 1)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_an_allocation_fails_at_a_limit_of_the_address_space() -> None:
    before = """
import resource
def check():
    try:
        b"x" * (1 << 30)
    except MemoryError:
        print("still limited", flush=True)
atexit.register(check)
"""
    process = in_a_process("oom", f"rlimit:{64 << 20}", before)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 1 and "MemoryError" in error, error
    assert out == "still limited\nhandlers ran\n"


@pytest.fixture
def group() -> Any:
    made = MemoryGroup.make("test", 48 << 20)
    if made is None:
        pytest.skip("no control group with a memory limit can be made here (run as root)")
    yield made
    made.remove()


def test_the_kernel_ends_who_passes_the_limit_of_a_control_group(group: MemoryGroup) -> None:
    process = in_a_process("oom", "cgroup", "sys.stdin.readline()", stdin=subprocess.PIPE)
    group.hold(process.pid)
    _, error = process.communicate("go\n", timeout=60)
    assert process.returncode == -signal.SIGKILL, error
    assert group.kills() == 1
    group.remove()
    assert not group.path.exists()


def test_a_control_group_lets_go_of_who_is_still_in_it(group: MemoryGroup) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        group.hold(process.pid)
        own = Path(f"/proc/{process.pid}/cgroup")
        assert group.path.name in own.read_text()
        group.remove()
        assert not group.path.exists()
        assert group.path.name not in own.read_text()
    finally:
        process.kill()
        process.communicate()


def test_groups_of_supervisors_that_are_gone_are_removed(
    group: MemoryGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    left = group.path.with_name(f"{PREFIX}{gone.pid}-1-left")
    left.mkdir()
    other = MemoryGroup.make("other", 1 << 20)
    assert other is not None
    other.remove()
    assert not left.exists() and group.path.exists()
