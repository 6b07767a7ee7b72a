"""The worker's end of the storage gate: install the filter that the supervisor sends.

The filter is a program of seccomp(2); what it traps, the supervisor decides. The worker
takes it from a Unix socket, installs it on all of its threads, hands the filter's descriptor
back over the socket and keeps none itself: a supervisor that is gone must not leave it
waiting for an answer.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import socket
import struct

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_TSYNC, _NEW_LISTENER, _TSYNC_ESRCH, _WAIT_KILLABLE = 1, 8, 16, 32
_PR_SET_NO_NEW_PRIVS = 38
_EINVAL = 22
_INSTRUCTION_SIZE = 8
_FILES_WANTED = 1024


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(address: str) -> None:
    """Install the supervisor's filter on every thread of this process, for good.

    Args:
        address: of the gate's Unix socket.

    Raises:
        OSError: the kernel refuses, or the supervisor hangs up.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES_WANTED:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES_WANTED, hard), hard))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gate:
        gate.connect(address)
        (length,) = struct.unpack("=I", _exactly(gate, 4))
        listener = _set_filter(_exactly(gate, length))
        try:
            socket.send_fds(gate, [b"f"], [listener])
        finally:
            os.close(listener)
        _exactly(gate, 1)  # from here on the supervisor answers


def _set_filter(code: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    program = _Program(len(code) // _INSTRUCTION_SIZE, code)
    flags = _TSYNC | _NEW_LISTENER | _TSYNC_ESRCH
    # A signal would interrupt a call that waits for its answer, and it would be asked about
    # twice; kernels before 5.19 know no better.
    for wanted in (flags | _WAIT_KILLABLE, flags):
        number = _SECCOMP[platform.machine()]
        fd = int(libc.syscall(number, _SET_MODE_FILTER, wanted, ctypes.byref(program)))
        if fd >= 0:
            return fd
        if ctypes.get_errno() != _EINVAL:
            break
    raise OSError(ctypes.get_errno(), "seccomp(SECCOMP_SET_MODE_FILTER)")


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the supervisor closed the storage gate")
        data += part
    return data
