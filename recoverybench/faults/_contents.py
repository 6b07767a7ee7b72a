"""Asks a process that has the storage library what the files of a checkpoint hold.

The supervisor imports no such library; see `recoverybench.worker.contents` for the other end.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recoverybench.errors import HarnessError
from recoverybench.faults._damage import Extent
from recoverybench.launchers.base import Launcher
from recoverybench.leftovers import owner_mark
from recoverybench.protocol import OWNER_VARIABLE


class Contents:
    """See `_damage.Reader`. A context manager: its process ends with it, or with this one.

    Args:
        launcher: of the job, whose storage library wrote the checkpoint.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self._launcher.python, "-P", "-m", "recoverybench.worker.contents"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**self._launcher.environment, OWNER_VARIABLE: owner_mark()},
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def extents(self, directory: Path) -> list[Extent]:
        """See `_damage.Reader.extents`.

        Raises:
            HarnessError: the checkpoint cannot be read, or the process ended.
        """
        answer = self._ask(do="extents", directory=str(directory))
        if "problem" in answer:
            raise HarnessError(f"the checkpoint in {directory} cannot be read: {answer['problem']}")
        return [Extent(*each) for each in answer["extents"]]

    def digest(self, directory: Path, array: str) -> str | None:
        """See `_damage.Reader.digest`.

        Raises:
            HarnessError: the process ended.
        """
        return self._ask(do="digest", directory=str(directory), array=array).get("digest")

    def _ask(self, **request: str) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            return dict(json.loads(self._process.stdout.readline()))
        except (OSError, ValueError) as error:
            code = self._process.poll()
            raise HarnessError(f"the reader of checkpoints ended (code {code})") from error
