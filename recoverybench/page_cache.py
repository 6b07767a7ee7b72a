"""The kernel's page cache: drop files from it, and see whether they are gone.

What a process reads again on the machine that wrote it comes from memory; on another machine, or
later, it comes from the disk. `drop` makes the second out of the first.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

_TRIES = 3
"""Pages that the kernel is just reading or writing are only gone at a second try."""


def drop(files: Iterable[Path]) -> tuple[int, int]:
    """Make files durable and drop them from the page cache.

    Returns:
        Bytes that they have, and bytes of them that are still in the page cache.

    Raises:
        OSError: one of them cannot be read or written to the disk.
    """
    total = left = 0
    for path in files:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            total += os.fstat(descriptor).st_size
            for _ in range(_TRIES):
                os.fsync(descriptor)  # only what is clean can be dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                if (still := _resident(descriptor)) == 0:
                    break
            left += still
        finally:
            os.close(descriptor)
    return total, left


def resident(path: Path) -> int:
    """Bytes of a file that are in the page cache; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _resident(descriptor)
    finally:
        os.close(descriptor)


@functools.cache
def why_not(directory: str | None = None) -> str | None:
    """Why files in a directory cannot be dropped, tried with one; None: they can.

    Args:
        directory: None: where jobs have their files.
    """
    where = directory or tempfile.gettempdir()
    if not hasattr(os, "posix_fadvise"):
        return "this system has no posix_fadvise"
    try:
        with tempfile.NamedTemporaryFile(dir=where) as file:
            file.write(b"recoverybench" * 10_000)
            file.flush()
            size, left = drop([Path(file.name)])
    except OSError as error:
        return f"{where}: {error.strerror}"
    if left == 0:
        return None
    return f"files in {where} stay in memory ({left} of {size} bytes), as in a tmpfs"


def _resident(descriptor: int) -> int:
    """By mincore(2), of a mapping that touches no page."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        return 0
    # Private and writable, for ctypes takes the address of nothing else.
    mapping = mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    try:
        pages = -(-size // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * pages)()
        first = ctypes.c_char.from_buffer(mapping)
        address = ctypes.c_void_p(ctypes.addressof(first))
        failed = _libc().mincore(address, ctypes.c_size_t(size), found)
        number = ctypes.get_errno()
        del first
        if failed:
            raise OSError(number, os.strerror(number))
        cached = bytes(found).translate(_LOWEST_BIT).count(1)
        return min(size, cached * mmap.PAGESIZE)
    finally:
        mapping.close()


_LOWEST_BIT = bytes(value & 1 for value in range(256))
"""Of each page's byte only this bit says anything."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
