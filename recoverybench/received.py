"""Reading files that somebody else may have made: within bounds, and nothing but plain files.

A run's directory may come from anywhere. Whatever stands in it is data: it is opened for reading
and never followed out of the directory; a pipe or a device in the place of a file is not opened
at all; and what is longer than anything that this program writes is refused before it is in memory.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from recoverybench.errors import UsageError

MIB = 2**20
LINE_LIMIT = 16 * MIB
"""Bytes of a line; a record of a job with three workers has 30,000."""
FILE_LIMIT = 64 * MIB
"""Bytes of a file that is read as a whole: run.json, a reference, a command's settings."""
JOURNAL_LIMIT = 1024 * MIB
"""Bytes of a journal: 5 million steps of a worker."""
LINES_LIMIT = 4096 * MIB
"""Bytes of a file that is read by lines: 140,000 such records."""

_BUFFER = 1 * MIB
"""Bytes that are read at a time: lines of records are longer than the usual 8 KiB."""

_TRIAL_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}(\.[0-9]{1,9})?")


def is_trial_id(text: str) -> bool:
    """Whether it can name a trial: letters, digits, ``_`` and ``-``, and for one injection of a
    soak a number after a dot. It is a file's name on every system, and leads nowhere else.
    """
    return _TRIAL_ID.fullmatch(text) is not None


def is_file_name(text: str) -> bool:
    """Whether it can be the name of a file, and names nothing beyond the directory it stands in."""
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError:
        return False
    return 0 < size <= 255 and text not in (".", "..") and not {"/", "\0"} & set(text)


def read_file(path: Path, *, within: Path, limit: int = FILE_LIMIT) -> bytes:
    """All of a file.

    Args:
        path: the file. within: directory that it may not lead out of.
        limit: bytes that it may have.

    Raises:
        UsageError: it is no plain file, leads elsewhere or is too long; one line says which.
        OSError: it cannot be read, or is not there.
    """
    with open_file(path, within=within, limit=limit) as file:
        content = file.read(limit + 1)
    if len(content) > limit:  # it grew
        raise _too_long(path, limit)
    return content


def read_lines(
    path: Path, *, within: Path, limit: int = LINES_LIMIT, line_limit: int = LINE_LIMIT
) -> Iterator[bytes]:
    """The lines of a file, each with its newline; the last one has none where it was cut off.

    Raises:
        UsageError: as `read_file`, or a line is too long; its number is named.
        OSError: likewise.
    """
    with open_file(path, within=within, limit=limit) as file:
        number = 0
        while line := file.readline(line_limit + 1):
            number += 1
            if len(line) > line_limit:
                raise UsageError(
                    f"{path}:{number}: more than {line_limit // MIB} MiB: expected a shorter line"
                )
            yield line


def open_file(path: Path, *, within: Path, limit: int) -> BinaryIO:
    """A plain file, opened for reading, as `read_file` says."""
    try:
        real = path.resolve(strict=True)
    except RuntimeError:  # so it was before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    if not real.is_relative_to(within.resolve()):
        raise UsageError(f"{path}: a link that leads out of {within}: expected a file in it")
    _check_plain(os.lstat(real), path)  # before it is opened: that alone can do something
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.fdopen(os.open(real, flags), "rb", buffering=_BUFFER)
    try:
        found = os.fstat(file.fileno())
        _check_plain(found, path)
        if found.st_size > limit:
            raise _too_long(path, limit)
    except BaseException:
        file.close()
        raise
    return file


def _check_plain(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path}: a pipe, a socket or a device: expected a file")


def _too_long(path: Path, limit: int) -> UsageError:
    return UsageError(f"{path}: more than {limit // MIB} MiB: expected a shorter file")
