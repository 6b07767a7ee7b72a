"""A control group with a memory limit for one process: made, read, and removed.

Both versions of control groups are known. A process that is moved into the group keeps what it
has where it was charged; the limit is on what it uses from then on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recoverybench.leftovers import PREFIX, owner_mark, runs

_LIMITS = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), ("memory.max",)
_SWAP = "memory.swap.max"


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """One control group.

    Attributes:
        path: its directory.
    """

    path: Path

    @classmethod
    def make(cls, name: str, limit: int) -> MemoryGroup | None:
        """A new group with a limit in bytes, in the first place where that is possible.

        Returns:
            None where there is none: no such controller, or no right to use it.
        """
        for parent in _parents():
            _sweep(parent)
            path = parent / f"{PREFIX}{owner_mark()}-{name}"
            try:
                path.mkdir()
            except OSError:
                continue
            group = cls(path)
            if group._limit(limit) and os.access(path / "cgroup.procs", os.W_OK):
                return group
            group.remove()
        return None

    def hold(self, pid: int) -> None:
        """Move a process into it. Raises OSError where that fails."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def kills(self) -> int:
        """How many processes the kernel has ended in it for lack of memory."""
        for name in ("memory.oom_control", "memory.events"):
            with suppress(OSError):
                for line in (self.path / name).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
        return 0

    def remove(self) -> None:
        """Remove it; processes that are still in it go to its parent."""
        with suppress(OSError):
            for pid in (self.path / "cgroup.procs").read_text().split():
                with suppress(OSError):
                    (self.path.parent / "cgroup.procs").write_text(pid)
        with suppress(OSError):
            self.path.rmdir()

    def _limit(self, limit: int) -> bool:
        names = next((n for n in _LIMITS if (self.path / n[0]).exists()), ())
        try:
            for name in names:
                if (self.path / name).exists():  # no accounting of swap: no such file
                    (self.path / name).write_text(str(limit))
            if (self.path / _SWAP).exists():
                (self.path / _SWAP).write_text("0")
        except OSError:
            return False
        return bool(names)


def _parents() -> Iterator[Path]:
    """Groups that a new one could be made in: this process's own, then those above it."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, own = line.split(":", 2)
        root = _mount(controllers)
        if root is None:
            continue
        place = root / own.strip("/")
        for path in (place, *place.parents):
            if path.is_dir() and path.is_relative_to(root):
                yield path


def _mount(controllers: str) -> Path | None:
    """Where the hierarchy of the memory controller is mounted, if these are its controllers."""
    wanted = (
        "cgroup" if "memory" in controllers.split(",") else "cgroup2" if not controllers else ""
    )
    for line in _lines("/proc/self/mountinfo"):
        fields, _, kind = line.partition(" - ")
        words = kind.split()
        if words[:1] != [wanted]:
            continue
        if wanted == "cgroup2" or "memory" in words[2].split(","):
            return Path(fields.split()[4])
    return None


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text().splitlines()
    except OSError:
        return []


def sweep() -> None:
    """Remove what supervisors left behind that no longer run."""
    for parent in _parents():
        _sweep(parent)


def _sweep(parent: Path) -> None:
    """Remove groups of supervisors that no longer run."""
    for path in parent.glob(f"{PREFIX}*"):
        mark = "-".join(path.name.removeprefix(PREFIX).split("-")[:2])
        if path.is_dir() and not runs(mark):
            MemoryGroup(path).remove()
