"""An interpreter that workers run on, and what is known of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recoverybench.results import provenance


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter for workers.

    Attributes:
        name: as a `Cell` holds it; None: what runs the supervisor.
        python: path of the interpreter.
        version: its ``sys.version``. release: as people write it, ``3.11.7``.
        packages: every distribution that is installed there -> its version, names normalised.
        variables: what its processes need beside those of any worker.
        lacks: what it cannot do (`support.NEEDED`), each with the reason.
        moved: packages that differ from the supervisor's although nobody asked for that, each with
            the version there and here; only of an environment that was made.
        lock: SHA-256 of the file that it was installed from, with the hash of every package; None
            where it was not made here.
        stable: the same name will be the same code in another run: nothing is installed from a
            directory that somebody may edit.
    """

    name: str | None
    python: str
    version: str
    release: str
    packages: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    lock: str | None = None
    stable: bool = True

    @property
    def sha256(self) -> str:
        """Of Python's release and all packages, in hex."""
        content = {"python": self.release, "packages": dict(self.packages)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def software(self) -> dict[str, Any]:
        """What the results of its code may depend on, for a key of the cache."""
        if self.name is None:
            return {"versions": provenance.versions(), "python": sys.version}
        return {"versions": dict(self.packages), "python": self.version}

    def as_dict(self) -> dict[str, Any]:
        """What a run keeps of it."""
        return {
            "python": self.release,
            "packages": dict(sorted(self.packages.items())),
            "sha256": self.sha256,
            "interpreter": self.python,
            "lock_sha256": self.lock,
            "moved": {name: list(pair) for name, pair in sorted(self.moved.items())},
        }

    def called(self, name: str) -> Environment:
        """The same one under another name."""
        return dataclasses.replace(self, name=name)


def own() -> Environment:
    """The supervisor's own; what it has is asked for only where it is needed."""
    return Environment(None, sys.executable, sys.version, platform.python_version(), {})
