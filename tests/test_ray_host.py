"""What runs on a node of a Ray cluster: an actor's children, and the variables that they get."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.errors import HarnessError
from recoverybench.launchers._ray_host import Host, descendants
from recoverybench.launchers._ray_variables import carried, without_ray

variables = st.dictionaries(
    st.sampled_from(
        [
            *("PATH", "HOME", "RAY_JOB_ID", "RAY_ADDRESS", "OMP_NUM_THREADS", "PYTHONBREAKPOINT"),
            *("JAX_PLATFORMS", "XLA_FLAGS", "RECOVERYBENCH_SECRET", "RECOVERYBENCH_OWNER"),
        ]
    ),
    st.sampled_from(["a", "b"]),
)


@given(environment=variables)
def test_nothing_of_ray_is_left_and_everything_else_is(environment: dict[str, str]) -> None:
    found = without_ray(environment)
    gone = environment.keys() - found.keys()
    assert all(n.startswith("RAY_") or n in ("OMP_NUM_THREADS", "PYTHONBREAKPOINT") for n in gone)
    assert not any(n.startswith("RAY_") for n in found)


@given(here=variables, more=variables)
def test_what_goes_along_is_what_was_set_for_workers(
    here: dict[str, str], more: dict[str, str]
) -> None:
    found = carried({**here, **more}, here)
    assert "RECOVERYBENCH_OWNER" not in found, "it belongs to one machine"
    for name, value in {**here, **more}.items():
        if name == "RECOVERYBENCH_OWNER":
            continue
        ours = name.startswith(("JAX_", "XLA_", "RECOVERYBENCH_"))
        assert (name in found) == (ours or here.get(name) != value), name


SLEEP = "import sys, time; time.sleep(60)"


def sleeper(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it start something that sleeps, in the place of a worker."""
    import subprocess

    def start(address: str, *_: Any, **__: Any) -> int:
        child = subprocess.Popen([sys.executable, "-c", address])
        child.returncode = 0
        return child.pid

    monkeypatch.setattr(host._local, "_exec", start)


def in_a_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """In a thread of its own: an open browser keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


@pytest.mark.parametrize(
    ("program", "number", "said"),
    [
        (SLEEP, signal.SIGKILL, (None, "SIGKILL")),
        ("raise SystemExit(3)", None, (3, None)),
    ],
)
def test_a_host_says_how_its_worker_ended(
    program: str, number: int | None, said: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host({}, str(tmp_path / "forks.log"), None)
    sleeper(host, monkeypatch)

    async def live() -> Any:
        # Ray brings calls in any order.
        end = asyncio.ensure_future(host.ended("k"))
        if number is not None:
            await host.signal("k", number)
        await asyncio.sleep(0)
        pid = await host.start("k", program, 0, 0, "cold", str(tmp_path / "log"), {})
        assert pid > 0
        found = await end
        await host.signal("k", signal.SIGKILL)
        return found

    assert in_a_loop(live()) == said


def test_a_worker_that_cannot_be_started_has_ended_and_its_log_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host({}, str(tmp_path / "forks.log"), None)

    def fail(*_: Any, **__: Any) -> int:
        raise HarnessError("the fork server has ended")

    monkeypatch.setattr(host._local, "start", fail)

    async def live() -> Any:
        assert await host.start("k", "x", 0, 0, "warm", str(tmp_path / "log"), {}) == 0
        return await host.ended("k")

    assert in_a_loop(live()) == (1, None)
    assert (tmp_path / "log").read_text() == "error: the fork server has ended\n"


def test_a_workers_variables_are_the_nodes_without_rays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_JOB_ID", "01000000")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("OF_THE_NODE", "1")
    host = Host({"OMP_NUM_THREADS": "1"}, str(tmp_path / "forks.log"), None)
    found = host._local.environment
    assert (found["OMP_NUM_THREADS"], found["OF_THE_NODE"]) == ("1", "1")
    assert "RAY_JOB_ID" not in found
    assert found["RECOVERYBENCH_OWNER"].startswith(f"{os.getpid()}-"), "the actor is its parent"


@given(st.dictionaries(st.integers(2, 40), st.integers(1, 40), max_size=30))
def test_whoever_is_below_is_found_and_nobody_else(drawn: dict[int, int]) -> None:
    parents = {pid: parent for pid, parent in drawn.items() if parent < pid}
    found = descendants(1, parents)

    def is_below(pid: int) -> bool:
        return parents.get(pid) == 1 or (pid in parents and is_below(parents[pid]))

    assert sorted(found) == sorted(pid for pid in parents if is_below(pid))
    places = {pid: place for place, pid in enumerate(found)}
    assert all(places[p] > places[c] for c, p in parents.items() if c in places and p in places)
