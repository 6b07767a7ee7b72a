"""Makes an environment of requirements, complete or not at all, and keeps it in the cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recoverybench.environments import installed, uv
from recoverybench.environments.locate import key_of, locked
from recoverybench.environments.resolve import moved, pinned
from recoverybench.environments.uv import UvError
from recoverybench.errors import UsageError, shorten

MARK: Final = "recoverybench.json"
"""File of an environment that is complete; the last one to be written."""

LOCK: Final = "recoverybench.lock"
"""What it was installed from."""


PYTHON: Final = "bin/python"
"""The interpreter of a virtual environment, in its directory."""

LIMITS: Final = "limits"
"""File of versions that must be as they are here, while versions are looked for."""

_LOCKED: Final = (
    "--generate-hashes",
    "--no-annotate",
    "--no-header",
    "--constraint",
    LIMITS,
    "--output-file",
)
# Compiled here, as pip does: else the first cold start of a trial would do it.
_INSTALLED: Final = ("--no-deps", "--compile-bytecode", "--requirement")


@dataclass(frozen=True, slots=True)
class Made:
    """An environment in the cache.

    Attributes:
        directory: of the virtual environment. moved: see `resolve.moved`.
        lock: SHA-256 of its lock file, in hex.
    """

    directory: Path
    moved: dict[str, tuple[str | None, str | None]]
    lock: str

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / PYTHON


def made(
    asked: Sequence[str],
    root: Path,
    where: str,
    told: Callable[[str], object] = lambda text: None,
) -> Made:
    """The environment for these requirements, made now where it is not there yet.

    Args:
        asked: requirements. root: directory of environments.
        where: what asks for it, for messages: ``environment = 'jax==0.10.1'``.
        told: hears what takes a while.

    Raises:
        UsageError: it cannot be made: no uv, no network, no such version, nothing that fits.
    """
    here, roots = installed.versions(), installed.roots()
    directory = root / key_of(asked, roots, here)
    if (found := _complete(directory)) is not None:
        return found
    program = uv.find(where)
    told(f"waiting for the environment {' '.join(asked)}")
    with locked(directory.with_suffix(".lock")):
        if (found := _complete(directory)) is not None:
            return found  # another run made it meanwhile
        told(f"making the environment {' '.join(asked)}")
        part = directory.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)  # of a run that was cut off
        shutil.rmtree(directory, ignore_errors=True)
        try:
            _build(part, program, asked, roots, here)
            part.rename(directory)
        except UvError as error:
            raise UsageError(f"{where}: {error}") from None
        except OSError as error:
            raise UsageError(f"{where}: it cannot be made: {error}") from None
        finally:
            shutil.rmtree(part, ignore_errors=True)
    found = _complete(directory)
    assert found is not None
    return found


def _complete(directory: Path) -> Made | None:
    """What is in the cache; None where it is missing or damaged."""
    try:
        mark: dict[str, Any] = json.loads((directory / MARK).read_bytes())
        lock = hashlib.sha256((directory / LOCK).read_bytes()).hexdigest()
        differ = {name: (str(a), None if b is None else str(b)) for name, (a, b) in _pairs(mark)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    result = Made(directory, dict(differ), lock)
    return result if lock == mark.get("lock_sha256") and result.python.exists() else None


def _pairs(mark: Mapping[str, Any]) -> Iterable[tuple[str, tuple[Any, Any]]]:
    return [(str(name), (pair[0], pair[1])) for name, pair in mark["moved"].items()]


def _build(
    part: Path, program: str, asked: Sequence[str], roots: Sequence[str], here: Mapping[str, str]
) -> None:
    """The whole of it in `part`.

    Raises:
        UvError, OSError: it did not come to that.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    uv.run(
        program,
        ["venv", "--no-project", "--relocatable", "--python", sys.executable, part],
        part.parent,
    )
    text = pinned(_Resolver(program, part, (*asked, *roots)), here, asked)
    (part / LOCK).write_text(text, encoding="utf-8")
    uv.run(
        program,
        ["pip", "install", "--python", part / PYTHON, *_INSTALLED, part / LOCK],
        part,
    )
    mark = {
        "asked": list(asked),
        "moved": moved(text, here, asked),
        "lock_sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    (part / MARK).write_text(json.dumps(mark, indent=1), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Resolver:
    """A `resolve.Resolver` by uv.

    Attributes:
        program: uv. part: the virtual environment, which says for which Python.
        requirements: what is wanted.
    """

    program: str
    part: Path
    requirements: tuple[str, ...]

    def __call__(self, preferred: Mapping[str, str], held: Iterable[str]) -> str:
        wanted, limits, lock = (self.part / name for name in ("wanted", LIMITS, "lock"))
        wanted.write_text("\n".join(self.requirements) + "\n", encoding="utf-8")
        limits.write_text("".join(f"{n}=={preferred[n]}\n" for n in held), encoding="utf-8")
        # uv keeps to what an output file holds already, wherever that is allowed.
        lock.write_text("".join(f"{n}=={v}\n" for n, v in preferred.items()), encoding="utf-8")
        uv.run(
            self.program,
            ["pip", "compile", "--python", self.part / PYTHON, *_LOCKED, lock, wanted],
            self.part,
        )
        return lock.read_text(encoding="utf-8")


def where_of(environment: str) -> str:
    """How messages name it."""
    return f"environment = {shorten(environment)}"
