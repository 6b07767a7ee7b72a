"""Checks of what is installed, and of what the system lets us do with processes."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata

from recoverybench import leftovers as left_behind
from recoverybench.analysis.accelerators import summary
from recoverybench.campaign import cache
from recoverybench.devices import bad, device_words, reading_words
from recoverybench.doctor.check import Check
from recoverybench.environments import uv
from recoverybench.environments.make import MARK
from recoverybench.errors import HarnessError, UsageError
from recoverybench.job.ports import Ports

DISTRIBUTIONS = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "numpy",
    "pandas",
    "plotly",
    "tensorboard-plugin-profile",
    "pathwaysutils",
    "msgspec",
    "regex",
    "click",
    "rich",
    "jinja2",
)
"""What must be installed."""

TESTED = ((3, 11), (3, 12), (3, 13))
"""Versions of Python that the tests run on."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

_PR_GET_PDEATHSIG = 2
_PR_GET_CHILD_SUBREAPER = 37
_PROBE_TIMEOUT_S = 60.0

# jax is imported in processes of their own: it may open devices, hang, or crash.
_DEVICES = """
from recoverybench.worker import accelerators
accelerators.say()
"""

_GLOO = """
import sys, time
import jax, numpy as np
rank, port = int(sys.argv[1]), sys.argv[2]
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
start = time.monotonic()
jax.distributed.initialize("127.0.0.1:" + port, 2, rank, initialization_timeout=30,
                           cluster_detection_method="deactivate")
from jax.experimental import multihost_utils
got = multihost_utils.process_allgather(np.int32(rank + 1))
assert got.tolist() == [1, 2], got
print(time.monotonic() - start)
"""


def python(name: str) -> Check:
    """Version of the interpreter; an older one than the oldest cannot have installed this."""
    found = f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    if sys.version_info[:2] not in TESTED:
        tested = ", ".join(f"{major}.{minor}" for major, minor in TESTED)
        return Check(name, "warning", found, f"tested are {tested}")
    return Check(name, "ok", found)


def packages(name: str) -> Check:
    """Every package that is needed, with its version."""
    found, absent = [], []
    for distribution in DISTRIBUTIONS:
        try:
            found.append(f"{distribution} {metadata.version(distribution)}")
        except metadata.PackageNotFoundError:
            absent.append(distribution)
    if absent:
        what = "not installed: " + ", ".join(absent)
        return Check(name, "missing", what, "install the project again: make setup", needed=True)
    return Check(name, "ok", ", ".join(found), needed=True)


def jax_devices(name: str) -> Check:
    """The devices that JAX sees with the environment as it is, and how they are."""
    try:
        done = _probe([sys.executable, "-c", _DEVICES])
    except subprocess.TimeoutExpired:
        found = f"JAX did not answer within {_PROBE_TIMEOUT_S:.0f} s"
        advice = "another process may hold the accelerator; JAX_PLATFORMS=cpu leaves it alone"
        return Check(name, "missing", found, advice, needed=True)
    if done.returncode != 0:
        advice = "python -c 'import jax; jax.devices()' shows the whole error"
        return Check(name, "missing", _last_line(done.stderr), advice, needed=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    facts = seen["devices"]
    found = device_words(facts) or f"{facts['total']} × {facts['platform']} ({facts['kind']})"
    if runtime := facts.get("runtime") if device_words(facts) else None:
        found += f", runtime {runtime}"
    reading = summary([{"worker": 0, **seen["health"]}]) if seen["health"] else {}
    if words := reading_words(reading):
        found += f"; {'; '.join(words)}"
    if bad(reading):
        advice = "times measured on such chips are no good: have them replaced, or let them cool"
        return Check(name, "warning", found, advice, needed=True)
    return Check(name, "ok", found, needed=True)


def gloo(name: str) -> Check:
    """A real job of two CPU processes gathers a value over loopback."""
    ports = Ports()
    try:
        port = str(ports.take())
        jobs = [
            subprocess.Popen(
                [sys.executable, "-c", _GLOO, str(rank), port],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            ended = [job.communicate(timeout=_PROBE_TIMEOUT_S) for job in jobs]
        except subprocess.TimeoutExpired:
            found = f"two processes did not meet within {_PROBE_TIMEOUT_S:.0f} s"
            advice = "look for a firewall on the loopback interface"
            return Check(name, "missing", found, advice, needed=True)
        finally:
            for job in jobs:
                job.kill()
                job.communicate()
    finally:
        ports.close()
    for job, (_, error) in zip(jobs, ended, strict=True):
        if job.returncode != 0:
            advice = "the installed jaxlib may lack gloo: make setup installs one that has it"
            return Check(name, "missing", _last_line(error), advice, needed=True)
    seconds = max(float(out.splitlines()[-1]) for out, _ in ended)
    return Check(name, "ok", f"two processes met and gathered in {seconds:.2f} s", needed=True)


def process_control(name: str) -> Check:
    """Parent-death signals, subreapers and pidfds: what lets no worker outlive its supervisor."""
    absent = []
    if not sys.platform.startswith("linux"):
        absent.append("Linux")
    else:
        libc, value = ctypes.CDLL(None, use_errno=True), ctypes.c_int()
        for what, option in (
            ("parent-death signal", _PR_GET_PDEATHSIG),
            ("subreaper", _PR_GET_CHILD_SUBREAPER),
        ):
            if libc.prctl(option, ctypes.byref(value), 0, 0, 0) != 0:
                absent.append(what)
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (OSError, AttributeError):
            absent.append("pidfd_open")
    if absent:
        found = "not there: " + ", ".join(absent)
        return Check(name, "missing", found, "use Linux 5.4 or newer", needed=True)
    return Check(name, "ok", "parent-death signal, subreaper, pidfd", needed=True)


def ports(name: str) -> Check:
    """Ports that a job's coordination services can have, two at a time."""
    held = Ports()
    try:
        first, second = held.take(), held.take()
    except HarnessError as error:
        return Check(name, "missing", str(error), "end what holds them", needed=True)
    finally:
        held.close()
    return Check(name, "ok", f"free ones on loopback, {first} and {second} among them", needed=True)


def leftovers(name: str) -> Check:
    """Processes and directories of earlier runs whose supervisor is gone."""
    pids, paths = left_behind.processes(), left_behind.directories()
    if not pids and not paths:
        return Check(name, "ok", "none of an earlier run")
    found = []
    if pids:
        found.append(f"processes {', '.join(map(str, sorted(pids)))}")
    if paths:
        found.append(f"directories {', '.join(map(str, sorted(paths)))}")
    advice = "the next `recoverybench run` removes them"
    return Check(name, "warning", " and ".join(found), advice)


def releases(name: str) -> Check:
    """What makes environments of other releases, and those that are kept."""
    try:
        program = uv.find("environment")
    except UsageError:
        found = "no uv: only this release can be measured, and --env-python"
        return Check(name, "missing", found, "pip install uv, to compare releases")
    kept = len(list((cache.root() / "environments").glob(f"*/{MARK}")))
    return Check(name, "ok", f"{program}; {kept} environments are kept in {cache.root()}")


def browser(name: str) -> Check:
    """A Chromium, with which the tests look at reports."""
    for command in BROWSERS:
        if path := shutil.which(command):
            return Check(name, "ok", path)
    found = "no Chromium: the tests that look at a report in a browser are left out"
    return Check(name, "missing", found, "install chromium, if you change the report")


def _probe(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises `subprocess.TimeoutExpired` after a minute."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_PROBE_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def _last_line(text: str) -> str:
    """The last line of an error's output: where Python puts the exception."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it failed and said nothing"
