"""What made the numbers: versions of everything that counts, and the state of the code."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "recoverybench",
    "jax",
    "jaxlib",
    "orbax-checkpoint",
    "flax",
    "optax",
    "grain",
    "numpy",
    "pathwaysutils",
)
"""Distributions whose versions are kept with a run."""

_CHECKOUT = Path(__file__).parents[2]
_GIT_TIMEOUT_S = 10.0


def versions() -> dict[str, str | None]:
    """Version of Python and of each of `PACKAGES`; None where one is not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        if name != "recoverybench":
            return None
    from recoverybench import __version__  # a checkout that is on the path, not installed

    return __version__


def git_state(checkout: Path = _CHECKOUT) -> dict[str, Any] | None:
    """``commit`` and ``dirty`` of the checkout that this code runs from.

    None where it runs from no checkout (an installed wheel), or git is not there. A package
    that lies inside somebody else's repository is no checkout of ours.
    """
    top = _git(checkout, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != checkout.resolve():
        return None
    commit = _git(checkout, "rev-parse", "HEAD")
    changes = _git(checkout, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "dirty": bool(changes)}


def release(folder: Path | None = None) -> str | None:
    """What git describes the user's own repository as: ``v1.4`` or ``v1.4-3-gabc1234``.

    Args:
        folder: in that repository; by default the working directory, which holds what is being
            measured; this program's own release is in the environment anyway.

    Returns:
        None where there is no repository, no tag in it, or no git.
    """
    return _git(folder or Path.cwd(), "describe", "--tags", "--dirty") or None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
