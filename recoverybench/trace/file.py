"""A trace in a file that was not there before."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recoverybench.new_file import new_file


def write(trace: Mapping[str, Any], path: Path) -> Path:
    """Writes a trace as JSON; compressed where the name of the file ends in ``.gz``.

    Raises:
        UsageError: the file exists or cannot be written.
    """
    with new_file(path) as file:
        text = "".join(_lines(trace)).encode()
        # No time and no name in it: the same trace is the same file.
        zipped = path.suffix.lower() == ".gz"
        file.write(gzip.compress(text, mtime=0) if zipped else text)
    return path


def _lines(trace: Mapping[str, Any]) -> Iterator[str]:
    """An event a line, so that it can be read and compared as text.

    In UTF-8: some releases of Perfetto show the escape of a character, and not the character.
    """
    head = {name: value for name, value in trace.items() if name != "traceEvents"}
    yield json.dumps(head, allow_nan=False, ensure_ascii=False)[:-1] + ', "traceEvents": ['
    before = "\n"
    for event in trace["traceEvents"]:
        yield before + json.dumps(event, allow_nan=False, ensure_ascii=False)
        before = ",\n"
    yield "\n]}\n"
