"""Machines joined by a switch. One machine is a namespace with one link and one address."""

from __future__ import annotations

from contextlib import suppress

from recoverybench.errors import HarnessError
from recoverybench.network import rules
from recoverybench.network.echo import Echo
from recoverybench.network.namespace import Namespace

_BRIDGE = "bridge"
_PREFIX = 16
SUBNET = f"10.213.0.0/{_PREFIX}"
"""Addresses of the switch and its machines. No host outside them can have a conflicting one."""


def address(index: int) -> str:
    """Address of machine `index`; the switch's own is that of index 0."""
    return f"10.213.{(index + 1) >> 8}.{(index + 1) & 0xFF}"


class Machine:
    """What a worker lives on: a network namespace with a link to the switch.

    Attributes:
        index: from 1. address: IPv4. cut: packets are dropped here.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.address = address(index)
        self.cut = False
        self._namespace = Namespace()

    @property
    def path(self) -> str:
        """A file by which a process enters it (see `Namespace.path`)."""
        return self._namespace.path

    def link_up(self) -> None:
        """Give the link its address; the switch has made the link itself."""
        commands = [
            f"address add {self.address}/{_PREFIX} dev {rules.DEVICE}",
            f"link set {rules.DEVICE} up",
            "link set lo up",
        ]
        self._namespace.run(["ip", "-batch", "-"], "\n".join(commands) + "\n")

    def drop(self, table: str) -> None:
        """Drop packets from now on, by one of the tables of `rules`."""
        self._namespace.run(["nft", "-f", "-"], table)
        self.cut = True

    def mend(self) -> None:
        """Let every packet pass again."""
        if self.cut:
            self._namespace.run(["nft", "-f", "-"], rules.none())
            self.cut = False

    def close(self) -> None:
        """Let go of it; it ends with the last process in it."""
        self._namespace.close()


class Network:
    """A switch and the machines at it.

    Args:
        machines: how many are made at once, so that none has to be made while a clock runs.

    Raises:
        HarnessError: it cannot be made.
    """

    def __init__(self, machines: int) -> None:
        self.made: list[Machine] = []
        self._lived_on = 0
        self._of: dict[int, Machine] = {}
        try:
            self._switch = Namespace()
        except OSError as error:
            raise HarnessError(f"a network namespace cannot be made: {error}") from None
        try:
            commands = [
                f"link add {_BRIDGE} type bridge",
                f"address add {address(0)}/{_PREFIX} dev {_BRIDGE}",
                f"link set {_BRIDGE} up",
            ]
            self._switch.run(["ip", "-batch", "-"], "\n".join(commands) + "\n")
            self.echo = self._switch.inside(Echo)
            self._make(machines)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> str:
        """The switch's own namespace, for a process that stands beside the machines."""
        return self._switch.path

    def machine(self, slot: int) -> Machine:
        """Where the next process of that slot lives: on the machine of the one before it, or on
        a new one where there was none or where that one is cut off.
        """
        machine = self._of.get(slot)
        if machine is None or machine.cut:
            if self._lived_on == len(self.made):
                self._make(1)
            machine = self._of[slot] = self.made[self._lived_on]
            self._lived_on += 1
        return machine

    def close(self) -> None:
        """Let go of all of it."""
        with suppress(AttributeError):
            self.echo.close()
        for machine in self.made:
            machine.close()
        self.made.clear()
        self._switch.close()

    def _make(self, count: int) -> None:
        new = []
        for _ in range(count):
            machine = Machine(len(self.made) + 1)
            self.made.append(machine)
            new.append(machine)
        lines = []
        for machine in new:
            port = f"port{machine.index}"
            lines += [
                f"link add {port} type veth peer name {rules.DEVICE} netns {machine.path}",
                f"link set {port} master {_BRIDGE} up",
            ]
        self._switch.run(["ip", "-batch", "-"], "\n".join(lines) + "\n")
        for machine in new:
            machine.link_up()
