"""One place for all tests with real workers: functions are compiled once, nothing may be left."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_support import Command, await_gone


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """The command in a private place; in the end no process and no directory of it is left."""
    # Short, because the address of a Unix socket has to fit in.
    temporary = Path(tempfile.mkdtemp(prefix="rb-", dir="/tmp"))
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "RECOVERYBENCH_CACHE": str(tmp_path_factory.mktemp("cache")),
        "JAX_PLATFORMS": "cpu",
        "COLUMNS": "200",
    }
    # Ports are everybody's: a run of another such place takes none of ours.
    ports = f"recoverybench-ports-{os.getuid()}"
    shared = Path(tempfile.gettempdir()) / ports
    shared.mkdir(mode=0o700, exist_ok=True)
    (temporary / ports).symlink_to(shared)
    place = Command(temporary, environment)
    yield place
    processes = place.processes()
    left = await_gone(processes)
    directories = [path.name for path in temporary.glob("recoverybench-[0-9]*")]
    shutil.rmtree(temporary, ignore_errors=True)
    assert not left, f"left running: {[processes[pid] for pid in left]}"
    assert not directories, f"left behind: {directories}"
