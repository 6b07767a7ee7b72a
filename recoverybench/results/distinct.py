"""Whether several paths of runs are of different runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from recoverybench.errors import bad_value


def check_distinct(paths: Iterable[Path]) -> None:
    """Refuses a directory that is given twice, which would count each of its trials twice.

    Raises:
        UsageError: two of the paths lead to one directory, however they are spelled.
    """
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        try:
            found = path.stat()
        except (OSError, ValueError):
            continue  # whoever reads it says what is wrong
        directory = (found.st_dev, found.st_ino)
        if directory in seen:
            first = str(seen[directory])
            raise bad_value("RUN", str(path), f"each run once (it is {first!r} again)")
        seen[directory] = path
