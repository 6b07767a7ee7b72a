"""Names of directories, made of texts that anybody may have chosen. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

LIMIT: Final = 100
"""Bytes of a cleaned name in UTF-8. With a number behind it, it is a file's name everywhere."""

_KEPT: Final = frozenset("._=+@,-")
_BETWEEN: Final = " · "  # what `labels.cell_label` puts between two factors


def safe_name(text: str, *, empty: str) -> str:
    """A text as the name of a directory: one component, which leads nowhere and is not hidden.

    Letters and digits of every script stay, so that people recognise it, and so does a little
    punctuation; everything else is a hyphen.

    Args:
        text: what it is called. empty: the name where nothing of the text is left.

    Returns:
        At most `LIMIT` bytes in UTF-8, without a dot, comma or hyphen at either end.
    """
    joined = unicodedata.normalize("NFC", text).replace(_BETWEEN, ",")
    words = "".join(c if c.isalnum() or c in _KEPT else " " for c in joined).split()
    name = "-".join(words).lstrip(".,-")
    return name.encode()[:LIMIT].decode(errors="ignore").rstrip(".,-") or empty


def unique_names(names: Iterable[str]) -> list[str]:
    """The names, those that were there before with a number behind them.

    Two names are the same if they differ in upper and lower case, or in how a character is
    composed: on some file systems that is one directory.
    """
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    found = []
    for name in names:
        plain, one = _key(name), name
        while _key(one) in taken:
            numbers[plain] = numbers.get(plain, 1) + 1
            one = f"{name}-{numbers[plain]}"
        taken.add(_key(one))
        found.append(one)
    return found


def _key(name: str) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
