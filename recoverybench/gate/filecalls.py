"""From a trapped system call to a file operation, and to executing it in the worker's stead.

Paths and bytes are read from the caller's memory through ``/proc``. A call on a file outside
the watched directories is None here, and none of our business.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

from recoverybench.gate import seccomp
from recoverybench.gate.policies import Kind
from recoverybench.gate.seccomp import Notification

_AT_FDCWD = -100
_AT_REMOVEDIR = 0x200
_PATH_MAX = 4096
_LONGEST_VECTOR = 1024
_IOVEC = struct.Struct("=QQ")

_KINDS: dict[str, Kind] = {
    "write": "write",
    "pwrite64": "write",
    "writev": "write",
    "pwritev": "write",
    "pwritev2": "write",
    "read": "read",
    "pread64": "read",
    "readv": "read",
    "preadv": "read",
    "preadv2": "read",
    "fsync": "sync",
    "fdatasync": "sync",
    "ftruncate": "truncate",
    "fallocate": "truncate",
}
_POSITIONED = {"pwrite64", "pwritev", "pwritev2"}
_VECTORS = {"writev", "pwritev", "pwritev2", "readv", "preadv", "preadv2"}
_UNPOSITIONED = 0xFFFFFFFFFFFFFFFF
"""Offset of a ``pwritev2`` that is to write where the file stands."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A file operation that waits.

    Attributes:
        kind: see `policies.Kind`. path: absolute; of a rename the new name.
        bytes: to be written or read.
        execute: do it here, in the caller's stead; returns the call's value, and for an
            opening call our descriptor. Raises what it fails with as OSError; None: reads,
            which only the caller can do.
        tear: write the first half of the bytes at the place where they belong, without
            moving the file's offset; None: nothing to tear.
        opens: the value is a descriptor. close_on_exec: of that descriptor.
    """

    kind: Kind
    path: str
    bytes: int = 0
    execute: Callable[[], int] | None = None
    tear: Callable[[], None] | None = None
    opens: bool = False
    close_on_exec: bool = False

    def attempt(self) -> tuple[int, int]:
        """Execute it: (value, 0), or (0, error number) where it fails."""
        assert self.execute is not None
        try:
            return self.execute(), 0
        except OSError as error:
            return 0, error.errno or errno.EIO


class FileCalls:
    """Understands calls that touch the watched directories.

    Args:
        watched: directories; spelled as the workers spell them, or as they really are.
    """

    def __init__(self, watched: tuple[str, ...]) -> None:
        spelled = [os.path.abspath(path) for path in watched]
        self.roots = tuple(dict.fromkeys([*spelled, *map(os.path.realpath, spelled)]))
        self._below = tuple(root + "/" for root in self.roots)

    def parse(self, notification: Notification, pid: int) -> Call | None:
        """The operation; None where it is outside, or its caller has ended.

        Args:
            notification: from the filter. pid: of the process that installed it.
        """
        try:
            if notification.name in _KINDS:
                return self._on_file(notification, pid)
            return self._on_name(notification)
        except OSError:
            return None

    def _watched(self, path: str) -> bool:
        return path in self.roots or path.startswith(self._below)

    # On an open file

    def _on_file(self, n: Notification, pid: int) -> Call | None:
        number = n.arguments[0] & 0xFFFFFFFF
        path = os.readlink(f"/proc/{n.pid}/fd/{number}")
        if not self._watched(path):
            return None
        kind = _KINDS[n.name]
        if kind == "read":
            return Call(kind, path, _length(n))
        if kind != "write":
            return Call(kind, path, execute=lambda: _on_descriptor(n, pid, number))
        size = _length(n)
        return Call(
            kind,
            path,
            size,
            execute=lambda: _write(n, pid, number, size, move=True),
            tear=lambda: _tear(n, pid, number, size),
        )

    # By name

    def _on_name(self, n: Notification) -> Call | None:
        a = n.arguments
        match n.name:
            case "open":
                return self._open(n, _AT_FDCWD, a[0], a[1], a[2])
            case "creat":
                return self._open(n, _AT_FDCWD, a[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, a[1])
            case "openat":
                return self._open(n, a[0], a[1], a[2], a[3])
            case "truncate":
                return self._one(n, "truncate", _AT_FDCWD, a[0], lambda p: os.truncate(p, a[1]))
            case "mkdir":
                return self._one(n, "mkdir", _AT_FDCWD, a[0], lambda p: os.mkdir(p, a[1] & 0o7777))
            case "mkdirat":
                return self._one(n, "mkdir", a[0], a[1], lambda p: os.mkdir(p, a[2] & 0o7777))
            case "unlink":
                return self._one(n, "unlink", _AT_FDCWD, a[0], os.unlink)
            case "rmdir":
                return self._one(n, "rmdir", _AT_FDCWD, a[0], os.rmdir)
            case "unlinkat" if a[2] & _AT_REMOVEDIR:
                return self._one(n, "rmdir", a[0], a[1], os.rmdir)
            case "unlinkat":
                return self._one(n, "unlink", a[0], a[1], os.unlink)
            case "rename":
                return self._two(n, "rename", (_AT_FDCWD, a[0]), (_AT_FDCWD, a[1]), os.rename)
            case "renameat" | "renameat2":
                flags = a[4] & 0xFFFFFFFF if n.name == "renameat2" else 0
                return self._two(
                    n, "rename", (a[0], a[1]), (a[2], a[3]), lambda o, w: _rename(o, w, flags)
                )
            case "link":
                return self._two(n, "link", (_AT_FDCWD, a[0]), (_AT_FDCWD, a[1]), os.link)
            case "linkat":
                return self._two(n, "link", (a[0], a[1]), (a[2], a[3]), os.link)
            case "symlink":
                target = _text(n.pid, a[0])
                return self._one(n, "link", _AT_FDCWD, a[1], lambda p: os.symlink(target, p))
            case "symlinkat":
                target = _text(n.pid, a[0])
                return self._one(n, "link", a[1], a[2], lambda p: os.symlink(target, p))
        return None

    def _open(self, n: Notification, at: int, name: int, flags: int, mode: int) -> Call | None:
        flags &= 0xFFFFFFFF
        path = _path(n.pid, at, name)
        if flags & os.O_PATH or not self._watched(path):
            return None
        kind: Kind = "look"
        if flags & os.O_CREAT and not os.path.lexists(path):
            kind = "create"
        elif flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC):
            kind = "open"
        return Call(
            kind,
            path,
            execute=lambda: os.open(path, flags, mode & 0o7777),
            opens=True,
            close_on_exec=bool(flags & os.O_CLOEXEC),
        )

    def _one(
        self, n: Notification, kind: Kind, at: int, name: int, do: Callable[[str], None]
    ) -> Call | None:
        path = _path(n.pid, at, name)
        return Call(kind, path, execute=lambda: _done(do, path)) if self._watched(path) else None

    def _two(
        self,
        n: Notification,
        kind: Kind,
        old: tuple[int, int],
        new: tuple[int, int],
        do: Callable[[str, str], None],
    ) -> Call | None:
        source, target = _path(n.pid, *old), _path(n.pid, *new)
        if not (self._watched(source) or self._watched(target)):
            return None
        return Call(kind, target, execute=lambda: _done(do, source, target))


def _done(do: Callable[..., None], *names: str) -> int:
    do(*names)
    return 0


def _path(pid: int, at: int, name: int) -> str:
    text = _text(pid, name)
    if not text.startswith("/"):
        at = ctypes.c_int32(at & 0xFFFFFFFF).value
        base = f"/proc/{pid}/cwd" if at == _AT_FDCWD else f"/proc/{pid}/fd/{at}"
        text = os.path.join(os.readlink(base), text)
    return os.path.normpath(text)


def _text(pid: int, address: int) -> str:
    return os.fsdecode(_memory(pid, address, _PATH_MAX).partition(b"\0")[0])


def _memory(pid: int, address: int, size: int) -> bytes:
    """Up to `size` bytes of a thread's memory; fewer where less is mapped."""
    fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        return os.pread(fd, size, address)
    finally:
        os.close(fd)


def _vector(n: Notification) -> list[tuple[int, int]]:
    """(address, length) of each piece of a call that moves bytes."""
    if n.name not in _VECTORS:
        return [(n.arguments[1], n.arguments[2])]
    count = min(n.arguments[2], _LONGEST_VECTOR)
    raw = _memory(n.pid, n.arguments[1], count * _IOVEC.size)
    return list(_IOVEC.iter_unpack(raw[: len(raw) // _IOVEC.size * _IOVEC.size]))


def _length(n: Notification) -> int:
    return sum(length for _, length in _vector(n))


def _data(n: Notification, size: int) -> bytes:
    """The first `size` bytes that a call is to write."""
    data = b""
    for address, length in _vector(n):
        if len(data) >= size:
            break
        data += _memory(n.pid, address, min(length, size - len(data)))
    return data


def _offset(n: Notification) -> int | None:
    """Where a call writes; None: where the file stands."""
    if n.name in _POSITIONED and n.arguments[3] != _UNPOSITIONED:
        return n.arguments[3]
    return None


def _write(n: Notification, pid: int, number: int, size: int, *, move: bool) -> int:
    fd = seccomp.descriptor_of(pid, number)
    try:
        data, offset = _data(n, size), _offset(n)
        if offset is None and move:
            return os.write(fd, data)
        if offset is None:
            offset = os.lseek(fd, 0, os.SEEK_CUR)
        return os.pwrite(fd, data, offset)
    finally:
        os.close(fd)


def _tear(n: Notification, pid: int, number: int, size: int) -> None:
    _write(n, pid, number, size // 2, move=False)


def _on_descriptor(n: Notification, pid: int, number: int) -> int:
    fd = seccomp.descriptor_of(pid, number)
    try:
        match n.name:
            case "fsync":
                os.fsync(fd)
            case "fdatasync":
                os.fdatasync(fd)
            case "ftruncate":
                os.ftruncate(fd, n.arguments[1])
            case "fallocate":
                mode, offset, length = n.arguments[1:4]
                result = _libc.fallocate(
                    fd, ctypes.c_int(mode), ctypes.c_long(offset), ctypes.c_long(length)
                )
                _check(result, "fallocate")
        return 0
    finally:
        os.close(fd)


def _rename(old: str, new: str, flags: int) -> None:
    if flags == 0:
        os.rename(old, new)
        return
    names = os.fsencode(old), os.fsencode(new)
    _check(_libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flags), "renameat2")


def _check(result: int, name: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), name)
