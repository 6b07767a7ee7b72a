"""A fork server: it has the imports done and no backend open, and forks workers on demand.

A healthy job from cold starts costs two cores four seconds of imports a trial, none of
which is being measured. Forking is safe as long as no backend was opened here: XLA's
threads do not survive a fork.

Requests are JSON lines on stdin, ``{"socket", "slot", "attempt", "log"}``, and ``"network"``
for a worker with a network of its own; the answer is the worker's pid as a line on stdout.
The worker is not our child: the process between us exits at once, so that the supervisor, as
the nearest subreaper, becomes its parent, sees its end, and is the process whose death kills it.
"""

from __future__ import annotations

import json
import os
import sys
import time

from recoverybench import parenthood
from recoverybench.worker import boot, links


def main() -> None:
    """Serve until stdin closes."""
    supervisor = parenthood.supervisor()
    parenthood.die_with(supervisor)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    boot.imports(None)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        request["t"] = time.monotonic_ns()
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            _between(request, supervisor, write_end)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            pid = pipe.readline().strip()
        os.waitpid(child, 0)
        print(pid, file=answers, flush=True)


def _between(request: dict[str, str], supervisor: int, write_end: int) -> None:
    """Fork the worker and exit, which hands it to the supervisor."""
    between = os.getpid()
    if os.fork() != 0:
        os._exit(0)
    os.write(write_end, f"{os.getpid()}\n".encode())
    os.close(write_end)
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, 256)
    parenthood.await_adoption(between)
    parenthood.die_with(supervisor)
    if "network" in request:
        links.enter(request["network"])
    boot.main([request["socket"], request["slot"], request["attempt"]], int(request["t"]))


if __name__ == "__main__":
    main()
