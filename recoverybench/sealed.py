"""Files that say themselves whether they are whole: a SHA-256 in front of the content.

For what is kept between runs: a file that was cut or damaged is as good as none, and is made
again, instead of failing every later run or being believed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

_SEAL = hashlib.sha256().digest_size


def write(path: Path, content: bytes) -> None:
    """Write a sealed file, whole or not at all; parents are made.

    Raises:
        OSError: it could not be written; it is the file that the error names.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        Path(temporary).replace(path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise


def read(path: Path) -> bytes | None:
    """The content of a sealed file; None where it is missing, cut or damaged."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    seal, content = whole[:_SEAL], whole[_SEAL:]
    return content if hashlib.sha256(content).digest() == seal else None
