"""The devices of one controller in slices, and the simulated loss of one of them.

On a Pathways cluster a device says to which slice it belongs. A CPU device does not, and the
devices of one host are all of one slice: those are shared out, in order. Nothing can take
such a device away, so that a slice is lost through pathwaysutils' own simulator: from
then on an array that touches the lost devices raises ``DATA_LOSS`` wherever it is read.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import jax
from pathwaysutils.elastic import elastic
from pathwaysutils.elastic.manager import Manager
from pathwaysutils.test.mock_fault_injection import DeviceLossSimulator

SliceDevices = Mapping[int, Sequence[jax.Device]]
"""Slice index -> its devices."""


def slices_of(devices: Sequence[jax.Device], count: int) -> SliceDevices:
    """The slices that the devices say they belong to; of one slice, `count` equal shares.

    Raises:
        ValueError: the devices cannot be shared out, or form another number of slices.
    """
    said = {getattr(device, "slice_index", 0) for device in devices}
    if len(said) == 1:
        if len(devices) % count:
            raise ValueError(f"{len(devices)} devices cannot be shared by {count} slices")
        share = len(devices) // count
        return {i: list(devices[i * share : (i + 1) * share]) for i in range(count)}
    found: SliceDevices = elastic.get_slice_to_devices(devices)
    if len(found) != count:
        raise ValueError(f"the devices form {len(found)} slices, and the job has {count}")
    return found


def manager_of(slices: SliceDevices) -> Manager:
    """The manager over these slices; it runs a first health check on each."""
    devices = [device for index in sorted(slices) for device in slices[index]]
    # The manager asks each device for its slice, which a CPU device cannot tell.
    with mock.patch.object(elastic, "get_slice_to_devices", lambda _: dict(slices)):
        return Manager(devices)


class Loss:
    """Loses slices, and gives them back.

    Args:
        slices: all of them.
        say: receives a line for the log.
    """

    def __init__(self, slices: SliceDevices, say: Callable[[str], None]) -> None:
        self._slices = slices
        self._say = say
        self._simulator = _Simulator()
        self._lost: set[int] = set()

    def lose(self, index: int, back_s: float | None) -> None:
        """Lose a slice now, with every array that has a part on it.

        Args:
            index: of the slice.
            back_s: seconds until a slice is there again in its place, empty; None: never.
        """
        if index not in self._slices:
            raise ValueError(f"there is no slice {index}, only {sorted(self._slices)}")
        self._simulator.start()
        for array in jax.live_arrays():
            # The simulator takes an array for a new one when it first sees it after the loss.
            self._simulator.track_array(array)
        self._simulator.mark_slice_lost(index, self._slices)
        self._lost.add(index)
        self._say(f"slice {index} is lost (simulated)")
        if back_s is not None:
            timer = threading.Timer(back_s, self._give_back, (index,))
            timer.daemon = True
            timer.start()

    def _give_back(self, index: int) -> None:
        self._simulator.mark_slice_connected(index, self._slices)
        self._lost.discard(index)
        self._say(f"slice {index} is back, with nothing on it (simulated)")

    def over(self) -> None:
        """Take the simulator off, once nothing is lost and the arrays of before are gone."""
        if not self._lost:
            self._simulator.stop()

    def computes(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """`function` of the inputs; what is computed from a lost array is lost."""
        if not self._simulator.active:
            return function(*inputs)
        # Asked beforehand: an array that was donated tells nothing any more.
        lost = any(self._simulator.is_array_corrupted(x) for x in jax.tree.leaves(inputs))
        outputs = function(*inputs)
        self._simulator.made(jax.tree.leaves(outputs), lost=lost)
        return outputs


class _Simulator(DeviceLossSimulator):  # type: ignore[misc]
    """pathwaysutils' simulator, for a job that goes on afterwards.

    It knows arrays by `id`, which Python gives to another array when one is gone: that one
    would be lost as well. So an array that goes is forgotten.
    """

    @property
    def active(self) -> bool:
        """Whether it stands between the program and its arrays."""
        return bool(self._active)

    def made(self, arrays: Sequence[jax.Array], *, lost: bool) -> None:
        """These were computed, from arrays of which one was lost or none."""
        self.propagate_corruption([], arrays)
        if lost:
            self._corrupted_array_ids.update(id(array) for array in arrays)

    def track_array(self, arr: Any) -> None:
        """As the original; arranges for the array to be forgotten in time."""
        known = id(arr) in self._array_generation
        super().track_array(arr)
        if not known and id(arr) in self._array_generation:
            weakref.finalize(arr, self._forget, id(arr)).atexit = False

    def _forget(self, array_id: int) -> None:
        self._array_devices.pop(array_id, None)
        self._array_generation.pop(array_id, None)
        self._corrupted_array_ids.discard(array_id)

    def _patch(self, target: Any, attr: str, wrapper_factory: Any) -> Any:
        """As the original, but for `jax.jit`.

        What stands in for it has no ``lower``, so that nothing could be compiled ahead of
        time any more; the loop runs its compiled step through `Loss.computes`.
        """
        if target is jax and attr == "jit":
            return None
        return super()._patch(target, attr, wrapper_factory)
