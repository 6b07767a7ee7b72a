"""TensorBoard in a process of its own, over a directory, asked over HTTP."""

from __future__ import annotations

import gzip
import json
import os
import re
import select
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0

_LOADED_FIRST = ("--load_fast=false", "--reload_interval=0", "--reload_task=blocking")
"""All of the directory is read once, before the address is told."""


@contextmanager
def served(logdir: Path, scratch: Path) -> Iterator[str]:
    """Address of a TensorBoard over a directory; what it keeps for itself is in `scratch`."""
    arguments = ["--logdir", str(logdir), "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", *arguments, *_LOADED_FIRST],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    try:
        yield _address(process)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _address(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    said, end = b"", time.monotonic() + PATIENCE_S
    while (found := re.search(rb"at (http://127\.0\.0\.1:\d+)/", said)) is None:
        ready, _, _ = select.select([process.stderr], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(process.stderr.fileno(), 65536) if ready else b""
        assert piece, said.decode(errors="replace")
        said += piece
    return found[1].decode()


def asked(board: str, plugin: str, what: str, **query: str) -> Any:
    """JSON of a plugin."""
    address = f"{board}/data/plugin/{plugin}/{what}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        content = answer.read()
    return json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
