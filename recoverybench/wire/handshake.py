"""Who is at the other end of a connection: both sides prove that they know a job's secret. Pure.

Three lines, each of a fixed form and length::

    supervisor   recoverybench/1 challenge NONCE
    worker       answer NONCE PROOF
    supervisor   welcome PROOF

A nonce is 32 random bytes, made anew for each connection. A proof is HMAC-SHA256 (RFC 2104, FIPS
180-4) with the job's secret (see `secret_of_job`) over the side that proves and both nonces, so
that neither side can be answered with its own proof or with one from another connection; the form
is that of the mutual authentication of ISO/IEC 9798-4 with three passes. The supervisor proves
itself only to somebody who has proved himself: a stranger learns 32 random bytes and no more.

From the secret and both nonces each connection has two keys of its own, one for a direction. What
follows is in frames under these (see `frames`), for a proof alone would not keep somebody who sits
on the way from passing the handshake on and writing into the connection afterwards.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from typing import Final, Literal

SECRET_VARIABLE: Final = "RECOVERYBENCH_SECRET"
"""Environment variable of a worker: the run's secret, 64 hexadecimal digits."""

SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 32

LONGEST: Final = 256
"""Most bytes of a line of the handshake; the longest has 137."""

HANDSHAKE_S: Final = 5.0
"""How long a handshake may take: three messages, on a machine that has much else to do."""

Side = Literal["worker", "supervisor"]

_PROTOCOL = b"recoverybench/1"
_HEX = rb"([0-9a-f]{64})"
_CHALLENGE = re.compile(_PROTOCOL + rb" challenge " + _HEX)
_ANSWER = re.compile(rb"answer " + _HEX + rb" " + _HEX)
_WELCOME = re.compile(rb"welcome " + _HEX)


class NotOurs(Exception):
    """Whoever is at the other end does not know the secret, or does not speak the protocol."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one connection, 32 bytes each: of what a side sends."""

    worker: bytes = field(repr=False)
    supervisor: bytes = field(repr=False)


def secret_of(text: str) -> bytes:
    """The secret from its variable.

    Raises:
        ValueError: it is none; the message does not say what it was.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError(f"{SECRET_VARIABLE}: expected {2 * SECRET_BYTES} hexadecimal digits")
    return bytes.fromhex(text)


def secret_of_job(secret: bytes, job: str) -> bytes:
    """What both sides of one job prove that they know, from the run's secret and the job's name.

    A worker of an earlier job of the same run, left over somewhere, so proves nothing to the next
    one that listens on its port.
    """
    return hmac.digest(secret, _PROTOCOL + b" job " + job.encode(), "sha256")


def challenge(nonce: bytes) -> bytes:
    """The supervisor's first line."""
    return _PROTOCOL + b" challenge " + nonce.hex().encode()


def answer(secret: bytes, challenged: bytes, nonce: bytes) -> bytes:
    """The worker's line.

    Raises:
        NotOurs: that was no challenge.
    """
    theirs = _nonce(_CHALLENGE, challenged, "challenge")
    return b"answer %b %b" % (nonce.hex().encode(), _proof(secret, "worker", theirs, nonce))


def admit(secret: bytes, nonce: bytes, answered: bytes) -> tuple[bytes, Keys]:
    """The supervisor's last line to a worker that answered its challenge, and the keys.

    Raises:
        NotOurs: that was no answer to it.
    """
    found = _ANSWER.fullmatch(answered)
    if found is None:
        raise NotOurs("no answer to the challenge")
    theirs = bytes.fromhex(found[1].decode())
    if not hmac.compare_digest(found[2], _proof(secret, "worker", nonce, theirs)):
        raise NotOurs("a proof that does not hold")
    welcome = b"welcome " + _proof(secret, "supervisor", nonce, theirs)
    return welcome, _keys(secret, nonce, theirs)


def confirm(secret: bytes, challenged: bytes, nonce: bytes, welcomed: bytes) -> Keys:
    """The keys, for a worker that was let in.

    Raises:
        NotOurs: the other side has not proved itself.
    """
    theirs = _nonce(_CHALLENGE, challenged, "challenge")
    found = _WELCOME.fullmatch(welcomed)
    if found is None:
        raise NotOurs("no welcome")
    if not hmac.compare_digest(found[1], _proof(secret, "supervisor", theirs, nonce)):
        raise NotOurs("a proof that does not hold")
    return _keys(secret, theirs, nonce)


def _nonce(form: re.Pattern[bytes], line: bytes, what: str) -> bytes:
    found = form.fullmatch(line)
    if found is None:
        raise NotOurs(f"no {what}")
    return bytes.fromhex(found[1].decode())


def _proof(secret: bytes, side: Side, supervisors: bytes, workers: bytes) -> bytes:
    return _mac(secret, b"proof", side, supervisors, workers).hex().encode()


def _keys(secret: bytes, supervisors: bytes, workers: bytes) -> Keys:
    return Keys(
        _mac(secret, b"key", "worker", supervisors, workers),
        _mac(secret, b"key", "supervisor", supervisors, workers),
    )


def _mac(secret: bytes, what: bytes, side: Side, supervisors: bytes, workers: bytes) -> bytes:
    # Every part but the side is of a fixed length, and the side is between blanks.
    text = b" ".join((_PROTOCOL, what, side.encode(), supervisors + workers))
    return hmac.digest(secret, text, "sha256")
