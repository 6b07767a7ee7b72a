"""What the files of a checkpoint hold: which bytes of which file are which array.

A process of its own for whoever damages checkpoints: the supervisor imports no storage
library. It answers JSON lines on stdin with JSON lines on stdout:

``{"do": "extents", "directory": D}``            ``{"extents": [[array, file, offset, length], …]}``
``{"do": "digest", "directory": D, "array": A}``  ``{"digest": hex}`` or ``{"problem": text}``

Only bytes that the newest version of the checkpoint refers to are extents. Orbax's files also
hold what nothing refers to: older versions of its index, and whole data files that a later
write made again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorstore as ts

Extent = tuple[str, str, int, int]
"""Array, file relative to the directory, offset and length in bytes."""

_HEADS = (".zarray", "zarr.json")
"""Files that describe an array, in its two formats."""


def extents(directory: Path) -> list[Extent]:
    """Every stored piece of an array below `directory` (the checkpoint's item ``state``).

    Both layouts of Orbax are read: one database (OCDBT), or a file for each piece. Pieces so
    small that the database keeps them in its index are left out: they have no bytes of their own.

    Raises:
        ValueError: the database cannot be read.
    """
    if (directory / "manifest.ocdbt").exists():
        return sorted(_of_database(directory))
    return sorted(_of_files(directory))


def array_digest(directory: Path, array: str) -> str:
    """SHA-256 (hex) of an array's bytes, as a restore would get them.

    Raises:
        ValueError: whatever the storage library raises for it.
    """
    place = f"{directory}/"
    if (directory / "manifest.ocdbt").exists():
        base: dict[str, Any] = {
            "driver": "ocdbt",
            "base": {"driver": "file", "path": place},
            "path": f"{array}/",
        }
    else:
        base = {"driver": "file", "path": f"{place}{array}/"}
    for driver in ("zarr", "zarr3"):
        # A new context: the default one would answer from its cache.
        asked = ts.open({"driver": driver, "kvstore": base}, open=True, context=ts.Context())
        try:
            store = asked.result()
        except ValueError as error:
            if driver == "zarr3" or "NOT_FOUND" not in str(error):
                raise
            continue
        return hashlib.sha256(store.read().result().tobytes()).hexdigest()
    raise AssertionError("unreachable")


def _of_database(directory: Path) -> Iterator[Extent]:
    store = ts.KvStore.open({"driver": "file", "path": f"{directory}/"}).result()
    manifest = ts.ocdbt.dump(store).result()
    waiting = [manifest["versions"][-1]["root"]["location"]]
    arrays: set[str] = set()
    pieces: list[tuple[str, str]] = []
    while waiting:
        for entry in ts.ocdbt.dump(store, waiting.pop()).result()["entries"]:
            if "location" in entry:
                waiting.append(entry["location"])
                continue
            array, _, name = entry["key"].decode().rpartition("/")
            if name in _HEADS:
                arrays.add(array)
            elif "indirect_value" in entry:
                pieces.append((array, entry["indirect_value"]))
    for folder, value in pieces:
        # A piece's folder is its array's, or one below it.
        array = max((a for a in arrays if f"{folder}/".startswith(f"{a}/")), key=len)
        # ``value:BASE:FILE:OFFSET:LENGTH``, BASE a folder that ends in a slash.
        _, base, file, offset, length = value.split(":")
        yield array, base + file, int(offset), int(length)


def _of_files(directory: Path) -> Iterator[Extent]:
    for head in [path for name in _HEADS for path in directory.rglob(name)]:
        array = head.parent.relative_to(directory).as_posix()
        for file in head.parent.rglob("*"):
            if file.is_file() and not file.name.startswith(".") and file.name not in _HEADS:
                yield array, file.relative_to(directory).as_posix(), 0, file.stat().st_size


def answer(request: dict[str, str]) -> dict[str, Any]:
    """What `main` says to one request."""
    directory = Path(request["directory"])
    try:
        if request["do"] == "extents":
            return {"extents": extents(directory)}
        return {"digest": array_digest(directory, request["array"])}
    except (ValueError, OSError) as error:
        return {"problem": (str(error).splitlines() or [type(error).__name__])[0][:300]}


def main() -> None:
    """Serve until stdin closes."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
