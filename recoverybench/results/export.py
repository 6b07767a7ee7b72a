"""Runs as one table in a file: CSV, JSON or Parquet, a row a trial."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recoverybench.errors import UsageError, unknown_name
from recoverybench.new_file import new_file
from recoverybench.results.columns import dtypes, rows, table
from recoverybench.results.reading import Run

FORMATS = ("csv", "json", "parquet")

_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")  # noqa: RUF001 - some programs take these, too


def export(runs: Sequence[Run], format: str, path: Path) -> Path:
    """Writes every trial of these runs as one table into a file that did not exist.

    Args:
        runs: in the order of the rows. format: one of `FORMATS`. path: of the file.

    Raises:
        UsageError: there is no such format, the file exists or cannot be written, or a package
            is missing that the format needs.
    """
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if format == "parquet":
        _check_parquet()
    with new_file(path) as file:
        if format == "parquet":
            table(runs).to_parquet(file, engine="pyarrow", index=False)
        else:
            file.writelines(part.encode() for part in texts(runs, format))
    return path


def texts(runs: Sequence[Run], format: str) -> Iterator[str]:
    """The table as text, a row at a time; `format` is ``csv`` or ``json``."""
    return _csv(runs) if format == "csv" else _json(runs)


def _csv(runs: Sequence[Run]) -> Iterator[str]:
    """With a line of names; missing values are empty, floats are exact."""
    written: list[str] = []
    # Some versions of Python quote a carriage return only where it is part of this.
    writer = csv.writer(_Parts(written), lineterminator="\r\n")
    for values in itertools.chain([dtypes()], (row.values() for row in rows(runs))):
        writer.writerow([_harmless(value) for value in values])
        yield written.pop().removesuffix("\r\n") + "\n"


class _Parts:
    """What `csv` writes to: a list of rows."""

    def __init__(self, rows: list[str]) -> None:
        self.write = rows.append


def _harmless(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _json(runs: Sequence[Run]) -> Iterator[str]:
    """A list of objects, one a line; missing values are null."""
    before = "[\n"
    for row in rows(runs):
        yield before + json.dumps(row, allow_nan=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _check_parquet() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UsageError(
            "--format parquet needs pyarrow, which is not installed: install recoverybench[parquet]"
        ) from None
