"""What an earlier supervisor may have left behind: found by its mark, and removed.

Workers die with their supervisor by the kernel's hand. This is for what that misses: a
process that gave up its parent-death signal, and working directories after a SIGKILL.
Only what carries the mark of a supervisor that no longer runs is touched.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from recoverybench.protocol import OWNER_VARIABLE as OWNER_VARIABLE

PREFIX = "recoverybench-"
_MARK = re.compile(r"(\d+)-(\d+)")


def owner_mark() -> str:
    """This process, for all time since boot: ``pid-starttime``."""
    return f"{os.getpid()}-{_start_time(os.getpid())}"


def prefix() -> str:
    """What the name of a temporary directory of this process begins with, so that it is found."""
    return f"{PREFIX}{owner_mark()}-"


def working_directory(base: Path | None = None) -> Path:
    """A new private directory, marked as this process's.

    Args:
        base: where; what an earlier supervisor left there is removed. None: TMPDIR, unless that is
            so long that a Unix socket in it could not be addressed.
    """
    if base is not None:
        for left in base.glob(f"{PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=prefix(), dir=base.absolute()))
    short = tempfile.gettempdir()
    if len(short) > 40:
        short = "/tmp"
    return Path(tempfile.mkdtemp(prefix=prefix(), dir=short))


def processes() -> list[int]:
    """Processes of supervisors that no longer run."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            mark = _variable((entry / "environ").read_bytes())
            if mark and not runs(mark):
                found.append(int(entry.name))
    return found


def directories() -> list[Path]:
    """Working directories of supervisors that no longer run."""
    found = []
    for base in {tempfile.gettempdir(), "/tmp"}:
        for path in Path(base).glob(f"{PREFIX}*"):
            mark = _MARK.match(path.name.removeprefix(PREFIX))
            mine = path.is_dir() and path.stat().st_uid == os.getuid()
            if mark and mine and not runs(mark.group(0)):
                found.append(path)
    return found


def reap() -> tuple[int, int]:
    """Remove both kinds; returns how many processes and directories there were."""
    ended: set[int] = set()
    # What was just being forked while we looked is there the next time.
    while pids := set(processes()) - ended:
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= pids
    paths = directories()
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    return len(ended), len(paths)


def _variable(environ: bytes) -> str | None:
    for item in environ.split(b"\0"):
        if item.startswith(OWNER_VARIABLE.encode() + b"="):
            value = item.split(b"=", 1)[1].decode(errors="replace")
            return value if _MARK.fullmatch(value) else None
    return None


def runs(mark: str) -> bool:
    """Whether the process with that `owner_mark` still runs."""
    try:
        pid, start = mark.split("-")
        return _start_time(int(pid)) == int(start)
    except (OSError, ValueError, IndexError):
        return False


def _start_time(pid: int) -> int:
    """Start of a process in clock ticks since boot: a pid that is used again has another."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if fields[0] == "Z":
        raise ProcessLookupError(f"process {pid} has ended, and nobody has asked how")
    return int(fields[19])
