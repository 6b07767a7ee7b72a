"""A command from the command line: the file that it would have, written into the cache."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from recoverybench.errors import bad_value, unknown_name
from recoverybench.external.lines import library


def command_file(start: str, patterns: str | None, cwd: Path, folder: Path) -> Path:
    """The file of a command, which is run as it would be in that directory.

    Args:
        start: for the shell. patterns: a name of the library; None: it uses `recoverybench.mark`.
        folder: where the file is kept; its name comes from what is in it.

    Raises:
        UsageError: the command is empty, or there are no such patterns.
    """
    if not start.strip():
        raise bad_value("--command", start, 'a command, such as "bash train.sh"')
    if patterns is not None and patterns not in library():
        raise unknown_name("--patterns", patterns, library())
    # A JSON string is a TOML string, too.
    lines = [
        "# Made from the command line; copy it, and say more of the command.",
        "[workload]",
        'kind = "command"',
        f"description = {json.dumps(' '.join(start.split()))}",
        f"start = {json.dumps(start)}",
        f"cwd = {json.dumps(str(cwd))}",
        *(["", "[patterns]", f"use = {json.dumps(patterns)}"] if patterns else []),
    ]
    content = "\n".join(lines) + "\n"
    words = re.sub(r"[^A-Za-z0-9._]+", "-", start).strip("-.")[:40]
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    path = folder / f"{words or 'command'}-{digest}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(content, encoding="utf-8")
    temporary.replace(path)
    return path
