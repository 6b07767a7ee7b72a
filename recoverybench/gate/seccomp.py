"""The kernel's side of the storage gate: system call numbers, a filter, and its notifications.

seccomp(2) can have a filter of a process ask another process what is to become of a system
call (``SECCOMP_RET_USER_NOTIF``). Here are the program of such a filter, as bytes, and the
three things that are done with its notifications: receive, answer, and answer an ``openat``
with a descriptor. Nothing here decides anything.

Which descriptors are asked about is a matter of their number alone, for that is all a filter
sees. So the supervisor opens the files it watches itself and places them in the worker at
`FIRST_FD` and above, and the filter lets everything below pass: sockets, pipes, logs and the
journal cost nothing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from dataclasses import dataclass
from typing import Final

FIRST_FD: Final = 512
"""Descriptors of watched files have this number or a higher one."""

LAST_FD: Final = 1023
"""The highest number; a soft limit of 1024 open files is the usual one."""

_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (number on x86_64, number on aarch64); None: it has no such call
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "write": (1, 64),
    "read": (0, 63),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "preadv": (295, 69),
    "pwritev": (296, 70),
    "preadv2": (327, 286),
    "pwritev2": (328, 287),
    "sendfile": (40, 71),
    "copy_file_range": (326, 285),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "ftruncate": (77, 46),
    "fallocate": (285, 47),
    "open": (2, None),
    "creat": (85, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "truncate": (76, 45),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
}
_PIDFD_GETFD: Final = 438

READS: Final = frozenset({"read", "pread64", "readv", "preadv", "preadv2"})
"""Calls that are asked about only where reads are watched."""

_BY_DESCRIPTOR: Final = {
    name: 0
    for name in (
        *("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile"),
        *("fsync", "fdatasync", "ftruncate", "fallocate"),
        *READS,
    )
} | {"copy_file_range": 2}
"""Calls on an open file, and the argument that is its descriptor."""

_REFUSED: Final = frozenset({"openat2", "sendfile", "copy_file_range"})
"""Calls that cannot be judged (flags in memory) or torn; ENOSYS has callers use plainer ones."""

_OPENING: Final = {"open": 1, "openat": 2}
"""Calls that open by name, and the argument that holds the flags."""

_OPEN_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECTORY
"""An ``openat`` with none of these changes nothing. A directory is opened to be synced."""

# Of linux/filter.h and linux/seccomp.h.
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_INSTRUCTION = struct.Struct("=HBBI")
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_ADD_FD = struct.Struct("=QIIII")
_RECEIVE, _SEND, _ADD = 0xC0502100, 0xC0182101, 0x40182103
_CONTINUE: Final = 1
_AT_THIS_NUMBER, _AND_ANSWER = 1, 2


def supported() -> bool:
    """Whether this processor's system calls are known here."""
    return platform.machine() in _ARCHITECTURES


def call_names() -> dict[int, str]:
    """System calls of this machine that the filter may ask about, by number."""
    column = list(_ARCHITECTURES).index(platform.machine())
    return {
        number: name
        for name, numbers in _NUMBERS.items()
        if (number := numbers[column]) is not None
    }


def program(reads: bool) -> bytes:
    """The filter, as an array of ``struct sock_filter``.

    Args:
        reads: ask about reads, too, and about files that are opened for reading.
    """
    lines = [
        _INSTRUCTION.pack(_LOAD, 0, 0, _ARCHITECTURE_AT),
        _INSTRUCTION.pack(_JUMP_EQUAL, 1, 0, _ARCHITECTURES[platform.machine()]),
        _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW),
        _INSTRUCTION.pack(_LOAD, 0, 0, _NUMBER_AT),
    ]
    for number, name in call_names().items():
        if name in READS and not reads:
            continue
        body = _body(name, reads)
        lines.append(_INSTRUCTION.pack(_JUMP_EQUAL, 0, len(body), number))
        lines += body
    lines.append(_INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW))
    return b"".join(lines)


def _body(name: str, reads: bool) -> list[bytes]:
    """What is done with one system call; every path through it returns."""
    allow = _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW)
    verdict = _ERRNO | errno.ENOSYS if name in _REFUSED else _NOTIFY
    notify = _INSTRUCTION.pack(_RETURN, 0, 0, verdict)
    if name in _BY_DESCRIPTOR:
        at = _ARGUMENTS_AT + 8 * _BY_DESCRIPTOR[name]
        test = _INSTRUCTION.pack(_JUMP_AT_LEAST, 0, 1, FIRST_FD)
        return [_INSTRUCTION.pack(_LOAD, 0, 0, at), test, notify, allow]
    if name in _OPENING and not reads:
        at = _ARGUMENTS_AT + 8 * _OPENING[name]
        test = _INSTRUCTION.pack(_JUMP_SET, 0, 1, _OPEN_FLAGS)
        return [_INSTRUCTION.pack(_LOAD, 0, 0, at), test, notify, allow]
    return [notify]


@dataclass(frozen=True, slots=True)
class Notification:
    """One system call that waits for an answer.

    Attributes:
        listener: the filter's descriptor. id: what the answer refers to.
        pid: the thread that called. name: of the system call. arguments: six words.
    """

    listener: int
    id: int
    pid: int
    name: str
    arguments: tuple[int, ...]


class Listener:
    """The notifications of one process.

    Args:
        fd: the filter's descriptor; it is closed by `close`.
    """

    _NAMES: dict[int, str] | None = None

    def __init__(self, fd: int) -> None:
        self.fd = fd
        if Listener._NAMES is None:
            Listener._NAMES = call_names()
        self._names = Listener._NAMES

    def receive(self) -> Notification | None:
        """The next one; None where its process has ended meanwhile."""
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, buffer)
        except (FileNotFoundError, InterruptedError):
            return None
        id_, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
        return Notification(
            self.fd, id_, pid, self._names.get(number, str(number)), tuple(arguments)
        )

    def close(self) -> None:
        """Let go of the filter; calls that it traps from now on fail with ENOSYS."""
        os.close(self.fd)


def go_on(notification: Notification) -> bool:
    """Have the kernel execute the call; False where its process has ended."""
    return _answer(notification, 0, 0, _CONTINUE)


def answer(notification: Notification, value: int, error: int = 0) -> bool:
    """End the call with a value, or with an error number where `error` is not 0."""
    return _answer(notification, 0 if error else value, -error, 0)


def _answer(notification: Notification, value: int, error: int, flags: int) -> bool:
    try:
        fcntl.ioctl(
            notification.listener, _SEND, _RESPONSE.pack(notification.id, value, error, flags)
        )
    except OSError:  # ENOENT
        return False
    return True


def answer_with_file(notification: Notification, fd: int, number: int, close_on_exec: bool) -> bool:
    """End an opening call with our `fd` as descriptor `number` of the caller.

    Returns:
        False where its process has ended, or may not have so high a descriptor.
    """
    flags = _AT_THIS_NUMBER | _AND_ANSWER
    new_flags = os.O_CLOEXEC if close_on_exec else 0
    request = _ADD_FD.pack(notification.id, flags, fd, number, new_flags)
    try:
        fcntl.ioctl(notification.listener, _ADD, request)
    except OSError:
        return False
    return True


_libc = ctypes.CDLL(None, use_errno=True)


def descriptor_of(pid: int, number: int) -> int:
    """Our own descriptor of a file that another process has open (its offset is shared).

    Raises:
        OSError: it has none of that number, or has ended.
    """
    pidfd = os.pidfd_open(pid)
    try:
        fd = int(_libc.syscall(_PIDFD_GETFD, pidfd, number, 0))
        if fd < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        return fd
    finally:
        os.close(pidfd)
