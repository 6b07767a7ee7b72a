"""Where the supervisor listens: a Unix socket, or TCP where workers may be on other machines."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from recoverybench.errors import HarnessError
from recoverybench.launchers.base import Launcher
from recoverybench.wire.address import JOB_BYTES, Address
from recoverybench.wire.handshake import SECRET_VARIABLE, secret_of, secret_of_job

BACKLOG = 128
"""Connections that may wait to be accepted."""


class Hub:
    """Listens at a path that only this user can reach, or on a port where it has to.

    Where workers are elsewhere there is no Unix socket: the directory may be on a file system that
    has none, or its name be longer than the address of one can be.

    Args:
        path: of the Unix socket; its directory must be private.
        launcher: says where workers may be, on which address to listen, and the secret.

    Attributes:
        socket: does not block. secret: of this job; None: it is a Unix socket.
        address: what workers connect to.

    Raises:
        HarnessError: that address is not one of this machine, or there is no secret.
    """

    def __init__(self, path: Path, launcher: Launcher) -> None:
        self.secret: bytes | None = None
        self._path = path
        if launcher.reach != "network":
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.bind(str(path))
            os.chmod(path, 0o600)
            self.socket.listen(BACKLOG)
            self.address = str(path)
        else:
            job = secrets.token_hex(JOB_BYTES)
            self.secret = secret_of_job(_secret(launcher), job)
            self.socket = _listen(launcher.bind)
            self.address = str(Address(launcher.bind, self.socket.getsockname()[1], job))
        self.socket.setblocking(False)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self.socket.close()
        self._path.unlink(missing_ok=True)


def _secret(launcher: Launcher) -> bytes:
    try:
        return secret_of(launcher.environment.get(SECRET_VARIABLE, ""))
    except ValueError as error:
        raise HarnessError(
            f"the control channel has no secret (the launcher's module says "
            f'REACH = "network" to be given one): {error}'
        ) from None


def _listen(host: str) -> socket.socket:
    try:
        family, _, _, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise HarnessError(f"the control channel cannot listen on {host}: {error}") from None
    try:
        listener.bind(where)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise HarnessError(f"the control channel cannot listen on {host}: {error}") from None
    return listener
