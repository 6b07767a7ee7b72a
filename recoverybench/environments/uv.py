"""uv, which resolves and installs: where it is, with which index, and what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from recoverybench.errors import UsageError

TIMEOUT_S: Final = 1800.0
"""For one call: an installation may have gigabytes to download."""

_PIP_TIMEOUT_S = 30.0
_LONGEST_REASON = 400


class UvError(Exception):
    """uv could not do it; the text is its reason, in one line."""


def find(where: str) -> str:
    """The program: the one beside this interpreter, else one on the path.

    Args:
        where: what asks for an environment, for the message.

    Raises:
        UsageError: there is none.
    """
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if found is None:
        raise UsageError(
            f"{where}: another release needs uv, which is not beside {sys.executable} nor on "
            "PATH: expected it to be installed (pip install uv)"
        )
    return found


def run(program: str, arguments: Sequence[str | Path], cwd: Path) -> None:
    """Run it to its end.

    Raises:
        UvError: it failed, or took longer than half an hour.
    """
    try:
        done = subprocess.run(
            [program, *map(str, arguments)],
            cwd=cwd,
            env=environment(os.environ, _pip_settings()),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UvError(f"uv was not done after {TIMEOUT_S / 60:.0f} minutes") from None
    except OSError as error:
        raise UvError(f"uv cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        raise UvError(reason(done.stderr))


def environment(base: Mapping[str, str], pip: Mapping[str, str]) -> dict[str, str]:
    """The variables of uv: those that are set, else what pip is configured with.

    The supervisor was most likely installed by pip, and its releases come from the same place.

    Args:
        base: environment variables. pip: its settings, without their sections.
    """
    found = {key: value for key, value in base.items() if key not in _NOT_FOR_UV}
    found["NO_COLOR"] = "1"
    # Timestamps, as pip has them: a hash of each source would be checked in every cold start.
    found["PYC_INVALIDATION_MODE"] = "TIMESTAMP"
    found.pop("SOURCE_DATE_EPOCH", None)
    if any(key in base for key in ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_FIND_LINKS")):
        return found
    for name, variable in _PIP_TO_UV.items():
        if pip.get(name):
            # pip has spaces between several, and so has uv, but for these.
            found.setdefault(variable, ",".join(pip[name].split()) if name == _LINKS else pip[name])
    if "UV_INDEX" in found:
        # pip takes the best version of all indexes that it is given.
        found.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return found


_LINKS: Final = "find-links"
_PIP_TO_UV: Final = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    _LINKS: "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "no-index": "UV_NO_INDEX",
}

_NOT_FOR_UV: Final = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME")
"""They would have it find another interpreter than the one that is named."""


def read_pip(text: str) -> dict[str, str]:
    """Settings from ``pip config list``; ``:env:`` and ``install`` come over ``global``."""
    found: dict[str, str] = {}
    rank = {"global": 0, "install": 1, ":env:": 2}
    lines = re.findall(r"^(global|install|:env:)\.([a-z-]+)='(.*)'$", text, re.MULTILINE)
    for _, name, value in sorted(lines, key=lambda line: rank[line[0]]):
        found[name] = value.replace("\\n", " ").strip()
    return found


@cache
def _pip_settings() -> dict[str, str]:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PIP_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}  # no pip here: uv goes by its own configuration
    return read_pip(done.stdout)


def reason(said: str) -> str:
    """What uv wrote to stderr, as one line without its drawing.

    Of a chain of conclusions only the last one is kept: it names what was asked for.
    """
    lines = [line.strip(" │╰─▶×├\t") for line in said.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("warning:", "hint:", "^"))]
    text = " ".join(lines)
    text = re.sub(r"^(error|×): ", "", text)
    text = re.sub(r" (cause|Caused by): ", ": ", text)
    head, conclusion = text.partition(" Because ")[0], text.rpartition(" And because ")[2]
    if conclusion and conclusion != text:
        text = f"{head} because {conclusion}"
    if len(text) > _LONGEST_REASON:
        text = text[: _LONGEST_REASON - 1] + "…"
    return text.rstrip(".") or "uv failed and said nothing"
