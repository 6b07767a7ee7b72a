"""Faults of the storage without a job: what they accept, and what they break."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from recoverybench.errors import UsageError
from recoverybench.faults import disk_full, io_error, read_only, slow_storage
from recoverybench.faults._storage import StorageFault, parse_bandwidth
from recoverybench.gate.policies import CONTINUE, Delay, Fail, Kind, Operation


def op(kind: Kind, size: int = 0, time_s: float = 0.0) -> Operation:
    return Operation(0, kind, "/c/20/x", size, 1, time_s, 20)


@pytest.mark.parametrize(
    ("fault", "number", "fails", "works"),
    [
        (
            disk_full.create(None),
            errno.ENOSPC,
            ("create", "write", "truncate", "mkdir", "link"),
            ("open", "sync", "rename", "unlink", "rmdir", "look", "read"),
        ),
        (
            read_only.create(None),
            errno.EROFS,
            ("create", "open", "write", "truncate", "rename", "mkdir", "unlink", "rmdir", "link"),
            ("sync", "look", "read"),
        ),
        (
            io_error.create("save"),
            errno.EIO,
            ("write", "sync"),
            ("create", "open", "rename", "mkdir", "unlink", "look", "read"),
        ),
        (io_error.create("restore"), errno.EIO, ("read",), ("write", "sync", "look", "rename")),
    ],
)
def test_what_fails_and_what_does_not(
    fault: StorageFault, number: int, fails: tuple[Kind, ...], works: tuple[Kind, ...]
) -> None:
    policy = fault.policy(5.0)
    assert [policy.decide(op(kind)) for kind in fails] == [Fail(number)] * len(fails)
    assert [policy.decide(op(kind)) for kind in works] == [CONTINUE] * len(works)
    assert [policy.decide(op(kind, time_s=5.0)) for kind in fails] == [CONTINUE] * len(fails)
    assert policy.hits == len(fails)


def test_slow_storage_moves_so_many_bytes_a_second() -> None:
    policy = slow_storage.create("2kB/s").policy(None)
    assert policy.decide(op("write", 1000)) == Delay(0.5)
    assert policy.decide(op("read", 1000)) == Delay(1.0)
    assert policy.decide(op("rename")) == CONTINUE


@pytest.mark.parametrize(
    ("fault", "reads", "kills"),
    [
        (disk_full.create("2s"), False, False),
        (read_only.create("2s"), False, False),
        (io_error.create("save:1s"), False, False),
        (io_error.create("restore"), True, True),
        (slow_storage.create(None), True, False),
        (slow_storage.create("1MB/s:save"), True, False),
        (slow_storage.create("1MB/s:restore"), True, True),
    ],
)
def test_who_meets_the_disk(fault: StorageFault, reads: bool, kills: bool) -> None:
    """What only a recovery meets comes with a kill."""
    assert (fault.reads, fault.kills) == (reads, kills)


@pytest.mark.parametrize(
    ("text", "bytes_per_s"), [("250B/s", 250), ("1.5kB/s", 1500), ("1MB/s", 1e6), ("2GB/s", 2e9)]
)
def test_a_bandwidth(text: str, bytes_per_s: float) -> None:
    assert parse_bandwidth(text, "slow-storage") == bytes_per_s


@pytest.mark.parametrize(
    ("part", "argument"),
    [
        *((disk_full, bad) for bad in ("", "soon", "0s", "-1s")),
        *((read_only, bad) for bad in ("", "soon")),
        *((io_error, bad) for bad in (None, "", "both", "save:", "save:soon", "restore:0s")),
        *((slow_storage, bad) for bad in ("", "1", "1MB", "0MB/s", "1mb/s", "-1MB/s")),
        *((slow_storage, bad) for bad in ("1MB/s:", "1MB/s:both", "restore")),
    ],
)
def test_what_is_refused(part: Any, argument: str | None) -> None:
    with pytest.raises(UsageError):
        part.create(argument)
