"""Asks another interpreter what it is: its Python, its packages, what it can do."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from recoverybench import sealed
from recoverybench.environments.environment import Environment
from recoverybench.environments.installed import normal
from recoverybench.environments.locate import variables
from recoverybench.errors import UsageError
from recoverybench.leftovers import owner_mark
from recoverybench.protocol import OWNER_VARIABLE

TIMEOUT_S: Final = 180.0
OLDEST: Final = (3, 11)
"""Python that the workers' code runs on."""

NEEDED_BY_ALL: Final = "workers"
"""The entry of `Environment.lacks` without which no worker starts."""


def described(
    name: str, python: str, code: Path, where: str, settings: Mapping[str, str] | None = None
) -> Environment:
    """What that interpreter is.

    Args:
        name: as a `Cell` holds it. python: path. code: see `locate.code_directory`.
        where: what names it, for messages. settings: what all workers get (XLA's flags).

    Raises:
        UsageError: it is no Python that answers, or one that is too old.
    """
    extra = variables(code, os.environ)
    answer = _ask(python, {**os.environ, **(settings or {}), **extra}, code, where)
    if tuple(answer["version_info"]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UsageError(f"{where}: expected Python {oldest} or newer, it is {answer['release']}")
    return Environment(
        name=name,
        python=python,
        version=str(answer["version"]),
        release=str(answer["release"]),
        packages={normal(n): str(v) for n, v in sorted(answer["packages"].items())},
        variables=extra,
        lacks={str(what): str(why) for what, why in answer["lacks"].items()},
        stable=not answer["edited"],
    )


def described_once(
    name: str,
    python: str,
    code: Path,
    where: str,
    settings: Mapping[str, str],
    kept: Path,
    identity: str,
) -> Environment:
    """As `described`, for an interpreter that stays as it is: its answer is kept.

    Args:
        kept: directory for answers. identity: what the interpreter is known by.

    Raises:
        UsageError: see `described`.
    """
    asked = [identity, python, sorted(settings.items()), variables(code, os.environ), _probed()]
    text = json.dumps(asked).encode()
    file = kept / f"{hashlib.sha256(text).hexdigest()[:24]}.json"
    if (answer := sealed.read(file)) is not None:
        return Environment(**{**json.loads(answer), "name": name})
    found = described(name, python, code, where, settings)
    values = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    sealed.write(file, json.dumps(values).encode())
    return found


def _probed() -> str:
    """A digest of the code that an interpreter is tried with."""
    worker = Path(__file__).parents[1] / "worker"
    total = hashlib.sha256()
    for path in sorted(worker.rglob("*.py")):
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _ask(python: str, environment: Mapping[str, str], code: Path, where: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [python, "-m", "recoverybench.worker.probe"],
            cwd=code,  # -m puts it on the path, and an old Python knows no -P
            env={**environment, OWNER_VARIABLE: owner_mark()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{where}: expected an interpreter that imports JAX within {TIMEOUT_S:.0f} s"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{where}: expected a Python that can be started ({error.strerror})"
        ) from None
    try:
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return {**_EMPTY, **answer}
    except (ValueError, IndexError, TypeError):
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        last = lines[-1][:200] if lines else f"it ended with code {done.returncode}"
        raise UsageError(f"{where}: expected a Python that answers ({last})") from None


_EMPTY: Final[dict[str, Any]] = {
    "version": "",
    "release": "",
    "version_info": [0],
    "packages": {},
    "lacks": {},
    "edited": [],
}
