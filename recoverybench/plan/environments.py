"""What the workers of a job run on: spellings of an environment, read and checked.

``this`` is the interpreter that runs the supervisor; ``python:PATH`` another one; anything
else are requirements (``jax==0.10.1``, several with spaces between them), over what the
supervisor itself was installed with.
"""

from __future__ import annotations

import os
import re

from recoverybench.errors import bad_value

THIS = "this"
"""How a suite names the environment of the supervisor."""

PYTHON = "python:"
"""What the path of an interpreter follows."""

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_EXTRAS = r"(?:\[[A-Za-z0-9._,-]+\])?"
_LIMIT = r"(?:===?|~=|!=|<=?|>=?)[A-Za-z0-9.*+!_-]+"
_REQUIREMENT = re.compile(rf"{_NAME}{_EXTRAS}(?:{_LIMIT}(?:,{_LIMIT})*|@[^\s;]+)?")
"""A name with versions, or with the address of a file or a repository after an ``@``."""


def read(value: object, where: str) -> str | None:
    """An environment as a `Cell` holds it.

    Raises:
        UsageError: it is no text, or has no requirement in it, or something else.
    """
    text = " ".join(value.split()) if isinstance(value, str) else ""
    allowed = f'requirements such as "jax==0.10.1", "{PYTHON}PATH" or "{THIS}"'
    if not text or text == PYTHON or "\0" in text:
        raise bad_value(where, value, allowed)
    if text == THIS:
        return None
    if text.startswith(PYTHON):
        # A path may have more than one space in a row.
        path = str(value).strip().removeprefix(PYTHON).strip()
        # A run that goes on elsewhere goes on with the same one.
        return PYTHON + (os.path.abspath(os.path.expanduser(path)) if os.sep in path else path)
    for each in text.split(" "):
        if each == THIS or not _REQUIREMENT.fullmatch(each):
            raise bad_value(where, value, f"{allowed}; {each!r} is no requirement")
    return text


def path_of(environment: str) -> str | None:
    """The interpreter that an environment names; None: it is one of requirements."""
    return environment.removeprefix(PYTHON) if environment.startswith(PYTHON) else None


def requirements_of(environment: str) -> tuple[str, ...]:
    """The requirements that an environment consists of."""
    return tuple(environment.split(" "))
