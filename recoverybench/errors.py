"""The two ways a command can fail, and the exit code of each.

Whatever a user can mend is a `UsageError`: one line that names the key, what it
holds and what is allowed, and exit code 2. Whatever is our own fault, or the
machine's, is a `HarnessError` and exit code 3.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_OK = 0
EXIT_WRONG = 1
EXIT_USAGE = 2
EXIT_HARNESS = 3
EXIT_INTERRUPTED = 130


class RecoverybenchError(Exception):
    """Base of every error that reaches the command line as one line."""

    exit_code = EXIT_HARNESS


class UsageError(RecoverybenchError):
    """The input cannot be used; the message says which key, its value and what is allowed."""

    exit_code = EXIT_USAGE


class HarnessError(RecoverybenchError):
    """The harness itself failed: nothing in the input explains it."""

    exit_code = EXIT_HARNESS


class NothingLeft(HarnessError):
    """What trials run on is used up: neither this one nor any later one can begin."""


def bad_value(where: str, value: object, allowed: str) -> UsageError:
    """A `UsageError` in the project's one form: ``WHERE = VALUE: expected ALLOWED``.

    Args:
        where: the key or option, with its file when there is one
            (``quick.toml: matrix.interval``).
        value: what was found there.
        allowed: what would have been accepted.
    """
    return UsageError(f"{where} = {shorten(value)}: expected {allowed}")


def unknown_name(where: str, name: object, known: Iterable[str]) -> UsageError:
    """A `UsageError` for a name that no registry holds, with the nearest known one."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return UsageError(f"{where} = {shorten(name)}: {hint}known: {', '.join(names) or 'none'}")


def shorten(value: object, limit: int = 80) -> str:
    """`repr(value)` on one line, cut to `limit` characters."""
    text = repr(value).replace("\n", " ")
    return text if len(text) <= limit else text[: limit - 1] + "…"
