"""Networks for one job: addresses, rules and packets as text, and, as root, the real thing."""

from __future__ import annotations

import ipaddress
import os
import re
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from recoverybench.cells import Cell
from recoverybench.errors import HarnessError, UsageError
from recoverybench.faults import coordinator_cut, coordinator_reset, one_way, partition
from recoverybench.faults._network import NetworkFault
from recoverybench.job.watchdog import last_words
from recoverybench.network import Machine, Network, rules, tried
from recoverybench.network.echo import checksum, reply_to, request
from recoverybench.network.network import SUBNET, address
from recoverybench.worker import links
from tests.machines import needs_rights, on

T = TypeVar("T")

COORDINATOR = "10.213.0.2:20123"
FAULTS = (partition, one_way, coordinator_cut, coordinator_reset)


# As text


def test_machines_have_addresses_of_their_own() -> None:
    subnet = ipaddress.ip_network(SUBNET)
    found = [ipaddress.ip_address(address(index)) for index in range(2000)]
    assert len(set(found)) == len(found)
    assert all(one in subnet for one in found)
    assert not {subnet.network_address, subnet.broadcast_address} & set(found)


@pytest.mark.parametrize(
    ("table", "incoming", "outgoing"),
    [
        (rules.partition(), ["drop"], ["drop"]),
        (rules.one_way(), [], ["drop"]),
        (
            rules.coordinator_cut(COORDINATOR),
            ["ip saddr 10.213.0.2 tcp sport 20123 drop"],
            ["ip daddr 10.213.0.2 tcp dport 20123 drop"],
        ),
        (
            rules.coordinator_reset(COORDINATOR),
            [],
            ["ip daddr 10.213.0.2 tcp dport 20123 reject with tcp reset"],
        ),
    ],
    ids=["partition", "one-way", "coordinator-cut", "coordinator-reset"],
)
def test_rules_are_for_the_link_alone(table: str, incoming: list[str], outgoing: list[str]) -> None:
    """A machine always reaches itself: what goes through ``lo`` is never dropped."""
    assert re.findall(r'iifname "eth0" (.*)', table) == incoming
    assert re.findall(r'oifname "eth0" (.*)', table) == outgoing
    assert table.count("drop") + table.count("reject") == len(incoming) + len(outgoing)
    assert table.count("policy accept") == 2


def test_a_request_has_the_right_checksum() -> None:
    assert checksum(request(0x1234, 7)) == 0
    assert request(1, 65536 + 5) == request(1, 5)


def test_an_answer_is_told_from_everything_else() -> None:
    header = bytes([0x45]) + bytes(19)
    longer = bytes([0x46]) + bytes(23)  # with an option
    answer = struct.pack("!BBHHH", 0, 0, 0, 77, 5)
    assert reply_to(77, header + answer) == 5
    assert reply_to(77, longer + answer) == 5
    assert reply_to(78, header + answer) is None
    assert reply_to(77, header + request(77, 5)) is None
    for cut in (b"", header, header + answer[:-1]):
        assert reply_to(77, cut) is None


# The faults


@pytest.mark.parametrize("module", FAULTS)
def test_what_follows_the_colon(module: object) -> None:
    create: Callable[[str | None], NetworkFault] = module.create  # type: ignore[attr-defined]
    assert create(None).duration_s is None
    assert create("250ms").duration_s == 0.25
    for wrong in ("0s", "soon", "-1s", "2s:1"):
        with pytest.raises(UsageError, match=create(None).name):
            create(wrong)


def cell(**factors: object) -> Cell:
    """A cell that the network faults are for, with some factors changed."""
    plain = dict.fromkeys(Cell.__dataclass_fields__)
    plain |= {"topology": "3x1", "strategy": "elastic", "coordinator": "worker0"}
    return Cell(**(plain | factors))  # type: ignore[arg-type]


@pytest.mark.parametrize("module", FAULTS)
def test_cells_that_have_no_network_to_lose(module: object) -> None:
    fault: NetworkFault = module.create(None)  # type: ignore[attr-defined]
    assert fault.unsupported(cell()) is None
    assert fault.unsupported(cell(victim=1)) is None
    assert fault.unsupported(cell(victim=0, coordinator="external")) is None
    for refused in (cell(topology="1x4"), cell(strategy="pathways")):
        assert str(fault.unsupported(refused)).startswith(f"fault {fault.name}: ")


def test_whoever_runs_the_service_cannot_be_cut_from_it() -> None:
    for module in (coordinator_cut, coordinator_reset):
        assert "worker 0" in str(module.create(None).unsupported(cell(victim=0)))
    for module in (partition, one_way):
        assert module.create(None).unsupported(cell(victim=0)) is None


# What an ended worker said

_FATAL = (
    "F1202 00:57:12.875615 10693 client.h:80] Terminating process because the JAX distributed "
    "service detected fatal errors. absl::Status: "
)


@pytest.mark.parametrize(
    ("text", "mechanism", "reason"),
    [
        (
            "E1202 00:57:12.874365 1 agent.cc:289] Polled an error from coordination service.\n"
            + _FATAL
            + "UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was "
            "preempted/died/restarted unexpectedly or this task is experiencing network issues.\n"
            "    @     0x7ffa0630c93b  xla::CoordinationServiceAgent::SetError()\n",
            "coordinator_connection",
            "UNAVAILABLE: Failed to send RPC",
        ),
        (
            _FATAL
            + "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
            "/job:jax_worker/replica:0/task:2\n",
            "heartbeat",
            "UNAVAILABLE: The following tasks",
        ),
        (
            _FATAL + "DEADLINE_EXCEEDED: Deadline Exceeded\n\n"
            "RPC: /xla.coordination.CoordinationService/Heartbeat [type.googleapis.com/x]\n",
            "heartbeat",
            "DEADLINE_EXCEEDED: Deadline Exceeded",
        ),
        ("Traceback (most recent call last):\nValueError: no\n", "process_exit", "ValueError: no"),
        ("", "process_exit", ""),
    ],
    ids=["connection", "another's heart", "its own heart", "an exception", "nothing"],
)
def test_last_words_name_the_mechanism(
    tmp_path: Path, text: str, mechanism: str, reason: str
) -> None:
    log = tmp_path / "0.0.log"
    log.write_text(text)
    found = last_words(log)
    assert found[0] == mechanism
    assert found[1].startswith(f" ({reason}" if reason else "")


# For real


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    network = Network(3)
    yield network
    network.close()


@pytest.fixture
def pair(network: Network) -> Iterator[tuple[Machine, Machine]]:
    """Two sound machines."""
    found = network.machine(0), network.machine(1)
    yield found
    for machine in found:
        machine.mend()


def listen(machine: Machine, port: int = 0) -> socket.socket:
    return on(machine, lambda: socket.create_server((machine.address, port)))


def reach(machine: Machine, server: socket.socket, patience_s: float = 3.0) -> str:
    """What becomes of a connection from `machine` to a server elsewhere."""
    try:
        on(machine, lambda: socket.create_connection(server.getsockname(), patience_s)).close()
    except TimeoutError:
        return "silence"
    except OSError as error:
        return type(error).__name__
    return "connected"


@needs_rights
def test_machines_reach_one_another_until_one_is_cut_off(
    network: Network, pair: tuple[Machine, Machine]
) -> None:
    one, other = pair
    with listen(one) as here, listen(other) as there:
        assert reach(other, here) == reach(one, there) == "connected"
        for table in (rules.partition(), rules.one_way()):
            other.drop(table)
            assert reach(other, here, 0.1) == reach(one, there, 0.1) == "silence"
            assert reach(other, there) == "connected", "a machine reaches itself"
            other.mend()
            assert reach(other, here) == reach(one, there) == "connected"


@needs_rights
def test_only_the_coordinator_is_out_of_reach(pair: tuple[Machine, Machine]) -> None:
    one, other = pair
    with listen(one) as service, listen(one) as neighbour:
        name = "{}:{}".format(*service.getsockname())
        other.drop(rules.coordinator_cut(name))
        assert (reach(other, service, 0.1), reach(other, neighbour)) == ("silence", "connected")
        assert not on(other, lambda: links.reaches(name))
        other.mend()
        other.drop(rules.coordinator_reset(name))
        assert reach(other, service) == "ConnectionRefusedError"
        assert reach(other, neighbour) == "connected"


@needs_rights
def test_a_reset_ends_a_connection_that_is_there(pair: tuple[Machine, Machine]) -> None:
    one, other = pair
    with listen(one) as service:
        link = on(other, lambda: socket.create_connection(service.getsockname(), 3))
        other.drop(rules.coordinator_reset("{}:{}".format(*service.getsockname())))
        with link, pytest.raises(ConnectionResetError):
            link.sendall(b"x")
            link.recv(1)


@needs_rights
def test_who_is_cut_off_does_not_answer(network: Network, pair: tuple[Machine, Machine]) -> None:
    one, other = pair
    other.drop(rules.one_way())
    for machine in pair:
        network.echo.ask(machine.address, 9)
    network.echo.ask("10.213.200.1", 9)  # nobody's
    assert select.select([network.echo.socket], [], [], 3)[0]
    assert network.echo.answers() == [(one.address, 9)]


@needs_rights
def test_connections_are_shut_down_but_for_the_coordinators(
    pair: tuple[Machine, Machine],
) -> None:
    one, other = pair
    with listen(one) as service, listen(one) as peer:
        spared = on(other, lambda: socket.create_connection(service.getsockname(), 3))
        link = on(other, lambda: socket.create_connection(peer.getsockname(), 3))
        with spared, link:
            assert on(other, lambda: links.cut("{}:{}".format(*service.getsockname()))) == 1
            assert link.recv(1) == b""
            spared.sendall(b"x")
            with service.accept()[0] as accepted:
                assert accepted.recv(1) == b"x"


@needs_rights
def test_a_slot_keeps_its_machine_unless_it_is_cut_off() -> None:
    network = Network(1)
    try:
        first = network.machine(4)
        assert network.machine(4) is first
        first.drop(rules.partition())
        second = network.machine(4)
        assert second.address != first.address and network.machine(4) is second
        assert network.machine(5) not in (first, second)
    finally:
        network.close()


@needs_rights
def test_the_host_has_no_part_in_it() -> None:
    def host() -> tuple[list[str], str, str]:
        links = sorted(os.listdir("/sys/class/net"))
        return links, Path("/proc/net/route").read_text(), os.readlink("/proc/thread-self/ns/net")

    before = host()
    network = Network(1)
    try:
        machine = network.machine(0)
        assert on(machine, lambda: os.readlink("/proc/thread-self/ns/net")) != before[2]
        machine.drop(rules.partition())
        assert host() == before
    finally:
        network.close()


@needs_rights
def test_it_ends_with_whoever_made_it() -> None:
    """A namespace without a name is the descriptor's; the descriptor is the process's."""
    code = (
        "import os, signal; from recoverybench.network import Network\n"
        "print(os.readlink(Network(1).machine(0).path), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("net:["), done.stderr
    held = [
        path for path in Path("/proc").glob("[0-9]*/fd/*") if _target(path) == done.stdout.strip()
    ]
    assert not held


def _target(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


@needs_rights
def test_what_nft_says_is_kept(pair: tuple[Machine, Machine]) -> None:
    with pytest.raises(HarnessError, match="syntax error"):
        pair[0].drop("tabel what")


def test_on_loopback_there_is_nothing_to_choose() -> None:
    assert links.own_address("127.0.0.1:80") is None
    assert links.own_address("no.such.host.invalid:80") is None
    assert links.reaches("127.0.0.1:1")


def test_a_process_without_connections_has_none_to_cut() -> None:
    """In a process of its own: here it would cut those that other tests and libraries keep."""
    code = "from recoverybench.worker import links; print(links.cut('127.0.0.1:1'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_without_the_tools_the_try_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert (tried.namespaces(), tried.nftables()) == ("no ip command", "no nft command")
