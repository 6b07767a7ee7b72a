"""Options of checkpoints: named sets of them, and free combinations, by commas.

``plain`` is a set, ``plain,chunk=16MB`` that set with a change, ``zarr=3`` Orbax's own defaults
with a change. One combination has one spelling, whatever way it was asked for, so that a cell
has one key.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, Final

from recoverybench.errors import bad_value
from recoverybench.protocol import CheckpointOptions

DEFAULT: Final = "default"
"""Orbax as it is: nothing is set anywhere."""

_PLAIN: Final = CheckpointOptions(ocdbt=False, compression=False)

NAMED: Final[dict[str, tuple[str, CheckpointOptions]]] = {
    DEFAULT: ("Orbax's own: OCDBT, zstd, zarr 2", CheckpointOptions()),
    "plain": ("a file for each array's chunk, uncompressed", _PLAIN),
    "ocdbt-plain": ("OCDBT, uncompressed", CheckpointOptions(compression=False)),
    "zarr3": ("OCDBT, zstd, zarr 3", CheckpointOptions(zarr=3)),
    "zarr3-plain": (
        "a file for each array's chunk, uncompressed, zarr 3",
        dataclasses.replace(_PLAIN, zarr=3),
    ),
    "mapped": ("as plain, files mapped to be read", dataclasses.replace(_PLAIN, io="memmap")),
    "straight": (
        "as plain, arrays read straight to where the device uses them",
        dataclasses.replace(_PLAIN, straight=True),
    ),
}
"""Name -> what it stands for, and its options."""

_SIZE: Final = re.compile(r"([0-9]{1,15})(B|kB|MB|GB)")
_UNITS: Final = {"B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3}


def _on_off(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("on or off")
    return text == "on"


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 4096 <= size <= 10**15:
        raise ValueError("a size of at least 4096B, as in 500kB, 64MB or 2GB")
    return size


def _gigabytes(text: str) -> int:
    size = _size(text) if _SIZE.fullmatch(text) else 0
    if size == 0 or size % _UNITS["GB"]:
        raise ValueError("whole gigabytes, as in 2GB, which is what Orbax takes")
    return size


def _choice(*allowed: str) -> Callable[[str], str]:
    def read_one(text: str) -> str:
        if text not in allowed:
            raise ValueError(" or ".join([", ".join(allowed[:-1]), allowed[-1]]))
        return text

    return read_one


def _zarr(text: str) -> int:
    return int(_choice("2", "3")(text))


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "ocdbt": _on_off,
    "compression": _on_off,
    "zarr": _zarr,
    "chunk": _size,
    "concurrent": _gigabytes,
    "replica-parallel": _on_off,
    "io": _choice("buffered", "memmap", "direct"),
    "straight": _on_off,
}
"""Option -> what reads its value; with ``_`` for ``-``, a field of `CheckpointOptions`."""


def options_of(text: str) -> CheckpointOptions:
    """The options that a spelling stands for.

    Raises:
        ValueError: what is allowed in its place.
    """
    parts = [part.strip() for part in text.split(",")]
    name = DEFAULT if "=" in parts[0] else parts.pop(0)
    if name not in NAMED:
        raise ValueError(f"one of {', '.join(NAMED)}, and then option=value, by commas")
    changes: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in _READERS or not equals:
            options = ", ".join(f"{name}=…" for name in _READERS)
            raise ValueError(f"after {name} nothing but {options}, and not {part!r}")
        field = key.replace("-", "_")
        if field in changes:
            raise ValueError(f"each option once, not {key} twice")
        try:
            changes[field] = _READERS[key](value)
        except ValueError as error:
            raise ValueError(f"{key} to be {error}, not {value!r}") from None
    return dataclasses.replace(NAMED[name][1], **changes)


def spelled(options: CheckpointOptions) -> str:
    """The one spelling of these options: the nearest set, and what differs from it."""
    name, base = min(
        ((name, base) for name, (_, base) in NAMED.items()),
        key=lambda each: len(_differences(options, each[1])),
    )
    parts = _differences(options, base)
    return ",".join(parts if parts and name == DEFAULT else [name, *parts])


def _differences(options: CheckpointOptions, base: CheckpointOptions) -> list[str]:
    found = []
    for key in _READERS:
        field = key.replace("-", "_")
        value = getattr(options, field)
        if value != getattr(base, field):
            found.append(f"{key}={_text(value)}")
    return found


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int) and value > 3:
        unit, factor = next((u, f) for u, f in reversed(_UNITS.items()) if value % f == 0)
        return f"{value // factor}{unit}"
    return str(value)


def read(value: object, where: str) -> str:
    """The one spelling of what a person wrote.

    Raises:
        UsageError: naming the place.
    """
    allowed = f"one of {', '.join(NAMED)}, and then option=value, by commas"
    if not isinstance(value, str):
        raise bad_value(where, value, allowed)
    try:
        return spelled(options_of(value))
    except ValueError as error:
        raise bad_value(where, value, str(error)) from None


def resolved(checkpoint: str) -> dict[str, Any] | None:
    """What `JobSpec.checkpoint` says of a cell's options; None: nothing is set."""
    options = options_of(checkpoint)
    return None if options == CheckpointOptions() else dataclasses.asdict(options)
