"""Whether the storage gate works on this machine: tried with a process of its own."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from recoverybench import leftovers
from recoverybench.gate import seccomp
from recoverybench.gate.gate import Gate
from recoverybench.gate.policies import Broken

_TIMEOUT_S = 20.0

# It is under the filter when it writes: once in vain, by order, and once for good.
_CHILD = """
import errno, os, sys
from recoverybench.worker import gate
try:
    gate.install(sys.argv[1])
except OSError as error:
    sys.exit(f"the filter is refused: {error.strerror}")
try:
    os.mkdir(os.path.join(sys.argv[2], "forbidden"))
except OSError as error:
    if error.errno != errno.EDQUOT:
        raise
else:
    sys.exit("a system call went on that was to fail")
with open(os.path.join(sys.argv[2], "file"), "w") as file:
    if file.fileno() < int(sys.argv[3]):
        sys.exit("files cannot be handed over (Linux 5.14 or newer)")
    file.write("written")
"""


def why_not() -> str | None:
    """Why it does not work here, in a few words; None: it does."""
    if not seccomp.supported():
        return "its system calls are known for x86_64 and aarch64 only"
    with tempfile.TemporaryDirectory(prefix=leftovers.prefix()) as text:
        directory = Path(text)
        watched = directory / "watched"
        watched.mkdir()
        gate = Gate(directory / "g", [watched], lambda _: 0)
        gate.impose(Broken(errno.EDQUOT, frozenset({"mkdir"})))
        arguments = [gate.address, str(watched), str(seccomp.FIRST_FD)]
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        try:
            _, said = child.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"a process under the filter did not end within {_TIMEOUT_S:.0f} s"
        finally:
            child.kill()
            child.wait()
            gate.close()
        if child.returncode != 0:
            return (said.strip().splitlines() or ["the process under the filter ended"])[-1]
        if (watched / "file").read_text() != "written":
            return "what a process wrote did not reach the file"
        return None
