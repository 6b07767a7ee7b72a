"""What a run keeps of a command beside the command's own file: commands/NAME.json."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptCommand:
    """How a command was started, as JSON.

    Attributes:
        schema: version of the format.
        name: path of the command's file when it was run.
        start: what was started: a line for the shell, or its words.
        environment: variables that its file sets.
        python: its interpreter.
        versions: of the interpreter, and of each package that its file says it needs.
    """

    schema: int
    name: str
    start: str | tuple[str, ...]
    environment: dict[str, str]
    python: str
    versions: dict[str, str]
