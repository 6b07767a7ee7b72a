"""Files that commands write for people: one that is there is never touched, none is half there."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from recoverybench.errors import UsageError, bad_value

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
"""What file systems say that have no hard links."""


@contextmanager
def new_file(path: Path, option: str = "--out") -> Iterator[BinaryIO]:
    """A file that comes to be, whole, when the block ends; its folder is made too.

    Until then it has a hidden name beside its own (``.recoverybench-….part``), which is gone
    afterwards, whatever happened; only where the process was killed does it stay.

    Args:
        path: the file. option: what named it, for the message.

    Raises:
        UsageError: something with this name exists, or it cannot be written.
    """
    try:
        part, file = _part(path)
    except OSError as error:
        raise _refused(path, option, error) from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _named(part, path)
    except OSError as error:
        if error.filename not in (None, str(part)):
            raise  # of another file, which the block had to do with
        raise _refused(path, option, error) from None
    finally:
        part.unlink(missing_ok=True)


def check_new(path: Path, option: str = "--out") -> None:
    """Raise the `UsageError` that `new_file` would at its beginning.

    It leaves nothing there but the folder.
    """
    try:
        part, file = _part(path)
    except OSError as error:
        raise _refused(path, option, error) from None
    file.close()
    part.unlink(missing_ok=True)


def _part(path: Path) -> tuple[Path, BinaryIO]:
    """The file under its hidden name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.lstat()
    except FileNotFoundError:
        pass
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    for number in itertools.count():
        part = path.with_name(f".recoverybench-{os.getpid()}-{number}.part")
        try:
            return part, part.open("xb")
        except FileExistsError:  # another thread's, or left by a process that had this number
            continue
    raise AssertionError("not reached")


def _named(part: Path, path: Path) -> None:
    """Gives the file its name, which nobody else has; a rename would replace what is there."""
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        path.open("xb").close()  # for a moment it is there and empty
        part.replace(path)


def _refused(path: Path, option: str, error: OSError) -> UsageError:
    if isinstance(error, FileExistsError) and not path.parent.is_dir():
        return bad_value(option, str(path), "a file that can be written (Not a directory)")
    if isinstance(error, FileExistsError):
        return bad_value(option, str(path), "a file that does not exist yet")
    return bad_value(option, str(path), f"a file that can be written ({error.strerror})")
