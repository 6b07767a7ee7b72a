"""How a workload is named: ``family:preset``, with changes to the preset, or a file of one's own.

Pure, and for both sides. ``transformer:gpt2-124m,batch_size=4`` is a preset in which one entry is
another; ``path/to/file.py:factory`` is a function in a user's file that returns a workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

COMMANDS = "external/"
"""What the names of the commands that ship begin with."""

_CHANGE = re.compile(r"([a-z][a-z0-9_]*)=(.*)")


@dataclass(frozen=True, slots=True)
class WorkloadName:
    """A workload's name, taken apart.

    Attributes:
        family: of a standard or an installed workload; of a user's, the path of its file.
        preset: of the family; of a user's, the name of the function that makes it.
        own: it is a user's file.
        changes: entry of the preset -> its value, as text.
    """

    family: str
    preset: str
    own: bool = False
    changes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Self:
        """Read one.

        Raises:
            ValueError: what is allowed in its place.
        """
        if own_file(text):
            path, colon, factory = text.rpartition(":")
            if not colon or not path.endswith(".py") or not factory.isidentifier():
                raise ValueError("a file and a function in it, as in path/to/file.py:factory")
            return cls(path, factory, own=True)
        head, *parts = text.split(",")
        family, _, preset = head.partition(":")
        changes: dict[str, str] = {}
        for part in parts:
            found = _CHANGE.fullmatch(part.strip())
            if found is None or found[1] in changes:
                raise ValueError("family:preset and then, each once, entry=value, by commas")
            changes[found[1]] = found[2]
        return cls(family, preset, changes=changes)

    def preset_with_changes(self, preset: Mapping[str, Any]) -> dict[str, Any]:
        """The preset's entries, with the changes in the type that each entry has.

        Raises:
            ValueError: what is allowed in the place of a change.
        """
        return {**preset, **self.typed_changes(preset)}

    def typed_changes(self, preset: Mapping[str, Any]) -> dict[str, Any]:
        """The changes alone, in the types of the preset's entries; raises as above."""
        return {key: _typed(key, text, preset) for key, text in self.changes.items()}


def own_file(text: str) -> bool:
    """Whether it names a user's own file."""
    return ".py:" in text or text.endswith(".py")


def short_name(text: str) -> str:
    """A workload's name for people: a user's own without the folders of its file."""
    return (
        text.replace("\\", "/").rpartition("/")[2]
        if own_file(text) or text.endswith(".toml")
        else text
    )


def _typed(key: str, text: str, preset: Mapping[str, Any]) -> Any:
    if key not in preset:
        raise ValueError(f"changes to {', '.join(sorted(preset))}, not to {key!r}")
    kind = type(preset[key])
    words = {int: "a whole number above 0", float: "a number above 0", bool: "true or false"}
    if kind is bool:
        if text in ("true", "false"):
            return text == "true"
    elif kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if 0 < value < 2**63:
            return value
    elif kind is str:
        return text
    allowed = words.get(kind, "nothing else: this entry cannot be changed")
    raise ValueError(f"{key} to be {allowed}, not {text!r}")


def is_command(workload: str) -> bool:
    """Whether the text of a workload names a command: ``external/NAME`` or a ``.toml`` file."""
    return workload.startswith(COMMANDS) or workload.endswith(".toml")
