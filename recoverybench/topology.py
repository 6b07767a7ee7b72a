"""Topologies: workers, devices per worker, and the mesh that all devices form.

Pure, and for both sides: the supervisor checks with it what the workers build with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Final, Self

AXES: Final = ("data", "fsdp", "expert", "tensor")
"""Every axis that a mesh may have, outermost first: neighbouring devices, which are those of one
worker, differ in the last axis. ``data``: replicas of the model. ``fsdp``: replicas that hold a
part of the parameters each. ``expert``: likewise, of the experts. ``tensor``: parts of each
layer; the devices along it share the same rows of a batch.
"""

ROW_AXES: Final = ("data", "fsdp", "expert")
"""The axes over which the rows of a batch are split."""

_TEXT: Final = re.compile(r"([0-9]{1,6})x([0-9]{1,6})(?::(.+))?")
_AXIS: Final = re.compile(r"([a-z]+)=([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Topology:
    """Workers and devices per worker, written ``WxD`` or ``WxD:axis=n,…``.

    Attributes:
        workers: processes of the job (JAX's `process_count`).
        devices: devices each of them holds.
        axes: name and size of each axis of the mesh, in the order of `AXES`; empty: one axis
            ``data`` over all devices.
    """

    workers: int
    devices: int
    axes: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, text: str) -> Self:
        """Read one.

        Raises:
            ValueError: what is allowed in its place.
        """
        found = _TEXT.fullmatch(text)
        if found is None or int(found[1]) * int(found[2]) < 1:
            raise ValueError(_ALLOWED)
        workers, devices = int(found[1]), int(found[2])
        if found[3] is None:
            return cls(workers, devices)
        sizes = _sizes(found[3])
        if prod(sizes.values()) != workers * devices:
            spelled = " x ".join(str(n) for n in sizes.values())
            raise ValueError(
                f"axes whose product is {workers * devices}, the number of devices "
                f"({spelled} is {prod(sizes.values())})"
            )
        made = cls(workers, devices, tuple((n, sizes[n]) for n in AXES if n in sizes))
        tensor = made.size("tensor")
        if tensor % devices and devices % tensor:
            raise ValueError(
                f"a tensor axis that divides the {devices} devices of a worker, or is a multiple "
                "of them: a worker's devices have to work on the same rows"
            )
        # All devices on one axis is what nothing said means, spelled out.
        return cls(workers, devices) if made.axes == (("data", made.total),) else made

    @property
    def total(self) -> int:
        """Devices of the whole job."""
        return self.workers * self.devices

    @property
    def mesh(self) -> tuple[tuple[str, int], ...]:
        """Name and size of each axis of the mesh."""
        return self.axes or (("data", self.total),)

    def size(self, axis: str) -> int:
        """Devices along an axis; 1 where the mesh does not have it."""
        return dict(self.mesh).get(axis, 1)

    @property
    def row_shares(self) -> int:
        """Parts into which the rows of a batch are split."""
        return prod(size for name, size in self.mesh if name in ROW_AXES)

    @property
    def whole_in_worker(self) -> bool:
        """Every worker's devices together hold the whole state, whatever the model splits."""
        return self.devices % prod(n for name, n in self.mesh if name != "data") == 0

    def share(self, process: int) -> tuple[int, int, bool]:
        """A worker's part of the rows of every batch.

        Args:
            process: its process index.

        Returns:
            Which part, of how many equal ones, and whether this worker is the first that has
            it (others have it too where a tensor axis spans workers).
        """
        alike = max(1, self.size("tensor") // self.devices)
        return process // alike, self.workers // alike, process % alike == 0

    def resized(self, workers: int) -> Topology | None:
        """The same with another number of workers: the ``data`` axis gives; None: it cannot."""
        if not self.axes:
            return Topology(workers, self.devices)
        others = prod(n for name, n in self.axes if name != "data")
        data, left = divmod(workers * self.devices, others)
        if left or data < 1:
            return None
        sizes = {**dict(self.axes), "data": data}
        text = ",".join(f"{name}={sizes[name]}" for name in AXES if name in sizes)
        try:
            return Topology.of(f"{workers}x{self.devices}:{text}")
        except ValueError:
            return None

    @property
    def slug(self) -> str:
        """Its text, fit for a file name."""
        return str(self).replace(":", "-").replace(",", "-").replace("=", "")

    def __str__(self) -> str:
        axes = ",".join(f"{name}={size}" for name, size in self.axes)
        return f"{self.workers}x{self.devices}" + (f":{axes}" if axes else "")


_ALLOWED: Final = (
    'workers x devices per worker, each at least 1, as in "3x1", and after a colon the axes of '
    'the mesh, as in "2x2:data=2,fsdp=2"'
)


def _sizes(text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in text.split(","):
        found = _AXIS.fullmatch(part.strip())
        if found is None or int(found[2]) < 1:
            raise ValueError(_ALLOWED)
        if found[1] not in AXES:
            raise ValueError(f"axes out of {', '.join(AXES)}, not {found[1]!r}")
        if found[1] in sizes:
            raise ValueError(f"each axis once, not {found[1]!r} twice")
        sizes[found[1]] = int(found[2])
    return sizes
