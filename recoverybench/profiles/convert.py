"""A process that reads traces with xprof: ``python -m recoverybench.profiles.convert FILE...``.

It prints a line of JSON for each file as soon as that is read. xprof is native code that gets
files from elsewhere, so it runs where its end is the end of nothing else; and it keeps what it
works out beside the file, so it is given a copy.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from recoverybench import leftovers
from recoverybench.profiles.events import parts_of

TABLES: Final = ("overview_page", "framework_op_stats", "hlo_stats")
"""Tools of xprof with a table; which of them know something is kept."""

_DEVICE: Final = "device_type"


def main(paths: list[str]) -> None:
    """Read each file, and print what is in it, or why that cannot be said."""
    for path in paths:
        try:
            found = converted(Path(path))
        except Exception as error:  # whatever xprof makes of a file that is not one of ours
            lines = str(error).strip().splitlines() or [""]
            found = {"problem": f"xprof cannot read it: {type(error).__name__}: {lines[0][:200]}"}
        print(json.dumps(found), flush=True)


def converted(path: Path) -> dict[str, Any]:
    """What is in a trace: ``converter``, ``device``, ``tools`` and ``parts`` of a
    `model.WorkerProfile`.

    Raises:
        ImportError: xprof is not there.
        ValueError: xprof does not take the file.
    """
    from xprof.convert import raw_to_tool_data

    with tempfile.TemporaryDirectory(prefix=leftovers.prefix()) as folder:
        copy = str(shutil.copy(path, Path(folder) / path.name))

        def tool(name: str) -> Any:
            data, _ = raw_to_tool_data.xspace_to_tool_data([copy], name, {})
            if not data:
                raise ValueError(f"{name} is empty")
            return json.loads(data)

        parts = parts_of(tool("trace_viewer"))
        tables = {name: _tables(tool(name)) for name in TABLES}
    return {
        "converter": f"xprof {metadata.version('xprof')}",
        "device": _device(tables["overview_page"]),
        "tools": {name: _rows(name, found) for name, found in tables.items()},
        "parts": [dataclasses.asdict(part) for part in parts],
    }


def _tables(data: Any) -> list[dict[str, Any]]:
    return [one for one in (data if isinstance(data, list) else [data]) if isinstance(one, dict)]


def _rows(tool: str, tables: list[dict[str, Any]]) -> int:
    """Rows with a measurement: of the overview those that are steps, of operations all but idle."""
    if tool == "overview_page":
        steps = [t for t in tables if "steptime_ms_average" in (t.get("p") or {})]
        return sum(len(t.get("rows", [])) for t in steps)
    rows = tables[0].get("rows", []) if tables else []
    return sum(not any(cell.get("v") == "IDLE" for cell in row["c"]) for row in rows)


def _device(tables: list[dict[str, Any]]) -> str | None:
    return next((str(t["p"][_DEVICE]) for t in tables if _DEVICE in (t.get("p") or {})), None)


if __name__ == "__main__":
    main(sys.argv[1:])
