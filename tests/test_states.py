"""States from memory: how they are sent, which step is taken, and a recovery among threads."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

from recoverybench.journal_writer import Journal
from recoverybench.protocol import Place
from recoverybench.worker.program import Leaf, Shardings, Signature
from recoverybench.worker.sharing import tiers, transfer
from recoverybench.worker.sharing.exchange import Exchange, own_host
from recoverybench.worker.sharing.persistent import due
from recoverybench.worker.sharing.tiers import Candidate, Memory, Recovery, candidates, donor_of
from recoverybench.worker.sharing.transfer import Donor, HostState, TransferError, receive
from recoverybench.worker.states.base import Part, Restored

HOST = "127.0.0.1"


def state_of(step: int, **arrays: np.ndarray) -> HostState:
    arrays = arrays or {"w": np.full((2, 3), step, np.float32), "n": np.array(step, np.int32)}
    return HostState(step, arrays, {"step": step, "pipeline": {"position": step}})


def leaves_of(state: HostState) -> tuple[Leaf, ...]:
    return tuple(Leaf(n, a.shape, str(a.dtype)) for n, a in state.arrays.items())


@contextmanager
def giving(state: HostState, receivers: int = 1) -> Iterator[Donor]:
    with closing(Donor(state, HOST, receivers)) as donor:
        yield donor


DTYPES = [
    *(np.dtype(name) for name in ("float32", "float64", "float16", "int8", "int64", "uint32")),
    *(np.dtype(name) for name in ("bool", "complex64")),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.int4),
]
SHAPES: list[tuple[int, ...]] = [(), (0,), (3, 0, 2), (1,), (7,), (3, 4), (2, 3, 5)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_received_has_the_bits_that_were_given(dtype: np.dtype[Any]) -> None:
    random = np.random.default_rng(1)
    arrays = {}
    for i, shape in enumerate(SHAPES):
        raw = random.integers(0, 2, (*shape, dtype.itemsize), np.uint8)
        arrays[f"a.{i}"] = raw.view(dtype).reshape(shape)
    given = state_of(7, **arrays)
    with giving(given) as donor:
        got = receive(donor.address, donor.token, leaves_of(given))
        assert donor.wait(5) == []
    assert (got.step, got.data) == (7, given.data)
    for name, array in arrays.items():
        assert (got.arrays[name].dtype, got.arrays[name].shape) == (dtype, array.shape)
        assert got.arrays[name].tobytes() == array.tobytes()
    assert got.nbytes == given.nbytes == donor.sent


def test_an_array_that_is_not_contiguous_comes_through() -> None:
    given = state_of(1, t=np.arange(12, dtype=np.int16).reshape(3, 4).T)
    with giving(given) as donor:
        got = receive(donor.address, donor.token, leaves_of(given))
    assert np.array_equal(got.arrays["t"], given.arrays["t"])


def test_more_than_one_piece_to_several_receivers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PIECE", 1000)
    given = state_of(1, big=np.random.default_rng(0).random(250_000))
    with giving(given, receivers=3) as donor, ThreadPoolExecutor(3) as pool:
        all_got = list(
            pool.map(lambda _: receive(donor.address, donor.token, leaves_of(given)), range(3))
        )
        assert donor.wait(5) == []
    assert all(np.array_equal(got.arrays["big"], given.arrays["big"]) for got in all_got)
    assert donor.sent == 3 * given.nbytes


def test_a_stranger_gets_nothing_and_takes_nobodys_place() -> None:
    given = state_of(1)
    with giving(given) as donor:
        with socket.create_connection((HOST, int(donor.address.rpartition(":")[2]))) as stranger:
            stranger.sendall(b"0" * len(donor.token))
            stranger.settimeout(5)
            assert stranger.recv(1) == b""
        socket.create_connection((HOST, int(donor.address.rpartition(":")[2]))).close()
        with pytest.raises(TransferError, match="the other side ended after 0 of 8 bytes"):
            receive(donor.address, "f" * len(donor.token), leaves_of(given))
        assert receive(donor.address, donor.token, leaves_of(given)).step == 1
        assert donor.wait(5) == []
        assert donor.sent == given.nbytes


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ([Leaf("w", (2, 3), "float32")], "another state: Leaf.name='n'"),
        ([Leaf("w", (3, 2), "float32"), Leaf("n", (), "int32")], "another state: Leaf.name='w'"),
        ([Leaf("w", (2, 3), "float64"), Leaf("n", (), "int32")], "another state: Leaf.name='w'"),
        (
            [Leaf("w", (2, 3), "float32"), Leaf("n", (), "int32"), Leaf("x", (), "int8")],
            "a leaf is missing",
        ),
    ],
)
def test_a_state_that_was_not_expected_is_refused(expected: list[Leaf], message: str) -> None:
    with giving(state_of(1)) as donor, pytest.raises(TransferError, match=message):
        receive(donor.address, donor.token, expected)


def test_nobody_listens() -> None:
    with closing(socket.create_server((HOST, 0))) as server:
        port = server.getsockname()[1]
    with pytest.raises(TransferError, match=f"no state from {HOST}:{port}"):
        receive(f"{HOST}:{port}", "token", [])


DONOR = """
import numpy as np, sys
from recoverybench.worker.sharing import transfer
transfer.PIECE = 1 << 16
state = transfer.HostState(1, {"big": np.zeros(1 << 28, np.uint8)}, {})
donor = transfer.Donor(state, "127.0.0.1", 1)
print(donor.address, donor.token, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("how", "message"), [(signal.SIGKILL, "ended after|reset"), (signal.SIGSTOP, "timed out")]
)
def test_a_donor_that_dies_or_stalls_in_the_middle_is_an_error_and_no_hang(
    how: signal.Signals, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "STALL_S", 2.0)
    donor = subprocess.Popen(
        [sys.executable, "-c", DONOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert donor.stdin is not None and donor.stdout is not None
    into = transfer._receive
    got = 0

    def broken_off(connection: socket.socket, buffer: Any) -> Any:
        """Let the donor's fate come once the first part of the array is here."""
        nonlocal got
        got += 1
        if got == 3:
            connection.recv(4096)
            os.kill(donor.pid, how)
        return into(connection, buffer)

    monkeypatch.setattr(transfer, "_receive", broken_off)
    try:
        address, token = donor.stdout.readline().split()
        since = time.monotonic()
        with pytest.raises(TransferError, match=message):
            receive(address, token, [Leaf("big", (1 << 28,), "uint8")])
        assert time.monotonic() - since < 30
    finally:
        donor.kill()
        donor.communicate()


def test_a_receiver_that_dies_is_what_went_wrong_at_the_donor() -> None:
    given = state_of(1, big=np.zeros(1 << 26, np.uint8))
    with giving(given) as donor:
        with socket.create_connection((HOST, int(donor.address.rpartition(":")[2]))) as receiver:
            receiver.sendall(donor.token.encode())
            receiver.recv(100)
        problems = donor.wait(5)
    assert len(problems) == 1 and "while sending the state" in problems[0]


def test_a_receiver_that_never_comes_is_waited_for_in_vain() -> None:
    with giving(state_of(1), receivers=2) as donor:
        assert donor.wait(0.05) == ["2 workers have not fetched the state"]


def test_closing_a_donor_cuts_what_it_sends() -> None:
    given = state_of(1, big=np.zeros(1 << 26, np.uint8))
    with giving(given) as donor:
        port = int(donor.address.rpartition(":")[2])
        receiver = socket.create_connection((HOST, port))
        receiver.sendall(donor.token.encode())
        assert receiver.recv(1)
    with receiver:
        receiver.settimeout(5)
        with pytest.raises(OSError), socket.create_connection((HOST, port), timeout=5):
            pass
        try:
            while receiver.recv(1 << 20):
                pass
        except ConnectionResetError:
            pass


def test_own_host_is_the_address_on_the_way_to_the_coordinator() -> None:
    assert own_host("127.0.0.1:4321") == "127.0.0.1"


# Which step


def test_candidates_are_newest_first_and_at_hand_before_storage() -> None:
    held = [[20, 25], [], [20]]
    assert candidates(held, [20, 10]) == [
        Candidate(25, (0,)),
        Candidate(20, (0, 2)),
        Candidate(20, ()),
        Candidate(10, ()),
    ]
    assert candidates([[], []], []) == []


@pytest.mark.parametrize(("holders", "world"), [((0, 2), 3), ((1,), 5), ((0, 1, 3), 8), ((2,), 3)])
def test_holders_take_turns_in_giving(holders: tuple[int, ...], world: int) -> None:
    load = [donor_of(i, holders, world) for i in range(world) if i not in holders]
    assert set(load) <= set(holders)
    counts = [load.count(holder) for holder in holders]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(("step", "expected"), [(5, False), (10, True), (15, False), (20, True)])
def test_every_second_save_is_due_on_storage(step: int, expected: bool) -> None:
    spec = cast(Any, SimpleNamespace(interval=5, persist_every=2))
    assert due(step, spec) is expected


# A recovery among workers that are threads


class Store:
    """What the coordination service's key-value store does."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()

    def key_value_set(self, key: str, value: str) -> None:
        with self._changed:
            assert key not in self._values, f"{key} is set twice"
            self._values[key] = value
            self._changed.notify_all()

    def blocking_key_value_get(self, key: str, timeout_ms: int) -> str:
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, timeout_ms / 1000):
                raise TimeoutError(key)
            return self._values[key]


class Disk:
    """A storage that every worker sees: steps, and those that cannot be read."""

    def __init__(self, steps: Sequence[int], broken: Sequence[int] = ()) -> None:
        self._steps, self._broken = list(steps), broken

    def steps(self) -> list[int]:
        return self._steps

    def load(self, step: int, signature: Signature, places: Shardings) -> Any:
        if step in self._broken:
            raise ValueError("damaged")
        return state_of(step).arrays, {"step": step}


class Fragile(Memory):
    """A memory whose state cannot be used."""

    def load(self, step: int, signature: Signature) -> HostState:
        raise ValueError("no good")


Make = Callable[[dict[str, Any], str], Memory]


def recover(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    held: Sequence[HostState | None],
    disk: Disk | None = None,
    make: dict[int, Make] | None = None,
) -> tuple[list[Restored], list[dict[str, Any]]]:
    """All workers together get the state back; a worker for each of `held`."""
    monkeypatch.setattr(tiers, "to_devices", lambda arrays, signature, places: dict(arrays))
    world, store = len(held), Store()
    votes: dict[str, list[bool]] = defaultdict(list)
    everybody = threading.Barrier(world)
    keeps: list[dict[str, Any]] = [{} if s is None else {"k": s} for s in held]

    def agree(what: str, mine: bool) -> bool:
        votes[what].append(mine)
        everybody.wait(10)
        return all(votes[what])

    def one(index: int) -> Restored:
        place = Place(1, index, 0, f"{HOST}:1", world, index, f"{world}x1")
        journal = Journal(tmp_path / f"{index}.jsonl", index, 0)
        spec = cast(Any, SimpleNamespace(init_timeout_s=10.0))
        part = Part(spec, place, journal, keeps[index], agree)
        tier = (make or {}).get(index, Memory)(keeps[index], "k")
        exchange = Exchange(store, index, world, 10.0)
        signature = Signature(leaves_of(state_of(0)), ())
        return Recovery(part, tier, disk, exchange).restore(signature, cast(Any, None))

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(one, range(world))), keeps


def test_the_newest_state_goes_to_all_that_lack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [state_of(25), None, state_of(20), None]
    found, keeps = recover(tmp_path, monkeypatch, held, Disk([20, 10]))
    assert [r.step for r in found] == [25] * 4
    assert [r.tier for r in found] == ["memory", "peer", "peer", "peer"]
    size = state_of(25).nbytes
    assert [r.received for r in found] == [0, size, size, size]
    assert all(r.tried == () and r.data["step"] == 25 for r in found)
    assert all(float(cast(Any, r.state["w"])[0, 0]) == 25 for r in found)
    assert [keep["k"].step for keep in keeps] == [25] * 4  # so that the next failure finds it


def test_storage_is_used_when_nobody_has_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = recover(tmp_path, monkeypatch, [None, None], Disk([20, 10], broken=[20]))
    assert {(r.step, r.tier, r.received) for r in found} == {(10, "storage", 0)}
    assert {r.tried for r in found} == {((20, "storage: ValueError: damaged"),)}


def test_a_state_that_one_worker_cannot_use_is_given_up_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [state_of(25), None, state_of(25)]
    found, _ = recover(tmp_path, monkeypatch, held, Disk([25, 20]), {0: Fragile})
    assert {(r.step, r.tier) for r in found} == {(25, "storage")}
    assert [r.tried for r in found] == [
        ((25, "memory: ValueError: no good"),),
        ((25, "memory: TransferError: worker 0 cannot use its own copy"),),
        ((25, "memory: another worker failed"),),
    ]


def test_a_state_with_another_steps_data_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = HostState(25, state_of(25).arrays, {"step": 20})
    found, _ = recover(tmp_path, monkeypatch, [odd, None], Disk([10]))
    assert {(r.step, r.tier) for r in found} == {(10, "storage")}
    assert {r.tried for r in found} == {((25, "memory: it holds the data position of step 20"),)}


def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = recover(tmp_path, monkeypatch, [None, None])
    assert {(r.step, r.tier, r.tried) for r in found} == {(None, None, ())}


def test_what_takes_time_is_in_a_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recover(tmp_path, monkeypatch, [state_of(25), None])
    names = [
        {line["name"] for line in map(json.loads, path.read_text().splitlines()) if "name" in line}
        for path in sorted(tmp_path.glob("*.jsonl"))
    ]
    assert {"read the state (memory)", "give the state to others"} <= names[0]
    assert {"wait for a donor", "receive the state"} <= names[1]
    both = {"agree on what there is", "put the state onto the devices", "agree on the state"}
    assert both <= names[0] & names[1]
