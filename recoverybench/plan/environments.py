"""What the workers of a job run on: spellings of an environment, read and checked.

``this`` is the interpreter that runs the supervisor; ``python:PATH`` another one; anything
else are requirements (``jax==0.10.1``, several with spaces between them), over what the
supervisor itself was installed with.
"""

from __future__ import annotations

from recoverybench.errors import bad_value

THIS = "this"
"""How a suite names the environment of the supervisor."""

PYTHON = "python:"
"""What the path of an interpreter follows."""


def read(value: object, where: str) -> str | None:
    """An environment as a `Cell` holds it.

    Raises:
        UsageError: it is no text, or has no requirement in it.
    """
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text or text == PYTHON:
        allowed = f'requirements such as "jax==0.10.1", "{PYTHON}PATH" or "{THIS}"'
        raise bad_value(where, value, allowed)
    return None if text == THIS else text
