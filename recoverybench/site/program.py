"""What made a page: a digest of this program's files, and of what it draws with."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from recoverybench import __version__

_PARTS: Final = ("worker", "launchers", "faults", "strategies", "gate", "network", "job")
"""What measures and draws nothing."""

_ENDINGS: Final = (".py", ".j2", ".css", ".js")


@cache
def program() -> str:
    """SHA-256 of every file of this program that a page may depend on.

    A release's number would do for a release; a checkout changes without one.
    """
    digest = hashlib.sha256(f"{__version__}\0{_version('plotly')}\0".encode())
    for name, content in sorted(_files(files("recoverybench"), "")):
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _files(folder: Traversable, at: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        name = f"{at}{entry.name}"
        if entry.is_dir():
            if name not in _PARTS and entry.name != "__pycache__":
                found += _files(entry, f"{name}/")
        elif entry.name.endswith(_ENDINGS):
            found.append((name, entry.read_bytes()))
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
