"""What is known of a workload without importing it: its preset and axes, from its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recoverybench.errors import bad_value, unknown_name
from recoverybench.external.spec import check_command
from recoverybench.plan import catalogue
from recoverybench.topology import ROW_AXES, Topology
from recoverybench.workload_name import WorkloadName, is_command, own_file, short_name


def check_workload(value: object, where: str) -> str:
    """Checks ``family:preset``, with changes, or a user's ``file.py:factory``.

    Returns:
        The text; a user's file by its absolute path.

    Raises:
        UsageError: there is no such workload, or no such entry to change.
    """
    text = value if isinstance(value, str) else ""
    if is_command(text):
        return check_command(text, where)
    try:
        name = WorkloadName.of(text)
        if name.own:
            return _own(name, text, where)
        _check_known(name, value, where)
        name.typed_changes(catalogue.presets(name.family)[name.preset])
    except ValueError as error:
        raise bad_value(where, value, str(error)) from None
    return text


def _check_known(name: WorkloadName, value: object, where: str) -> None:
    """Anything that is not there is answered with all there is."""
    families = catalogue.names("workloads")
    known = [
        f"{family}:{preset}"
        for family in ([name.family] if name.family in families else families)
        for preset in catalogue.presets(family)
    ]
    if f"{name.family}:{name.preset}" not in known:
        raise unknown_name(where, value, known)


def _own(name: WorkloadName, text: str, where: str) -> str:
    path = Path(name.family)
    if not path.is_file():
        raise bad_value(where, text, f"a file that is there; {path} is not")
    return f"{path.resolve()}:{name.preset}"


def preset_of(workload: str) -> dict[str, Any] | None:
    """The entries of a workload's preset, with its changes; None: it is a user's own."""
    if is_command(workload) or own_file(workload):
        return None
    name = WorkloadName.of(workload)
    return name.preset_with_changes(catalogue.presets(name.family)[name.preset])


def batch_size(workload: str) -> int | None:
    """Rows of the global batch of a workload; None: its preset does not say."""
    batch = (preset_of(workload) or {}).get("batch_size")
    return batch if isinstance(batch, int) else None


def why_not_on(workload: str, topology: Topology) -> str | None:
    """What is allowed in the place of a topology that this workload cannot have; None: it can.

    Its rows have to be shared out evenly, it has to know every axis of the mesh, and each axis
    has to divide what it splits.
    """
    preset, label = preset_of(workload) or {}, short_name(workload)
    batch = batch_size(workload)
    if batch is not None and batch % topology.row_shares:
        axes = [name for name, _ in topology.mesh if name in ROW_AXES]
        what = "a number of devices" if not topology.axes else f"{' x '.join(axes)}"
        return f"{what} that divides {label}'s batch of {batch} (it is {topology.row_shares})"
    known = axes_of(workload)
    if known is None:
        return None
    for axis, size in topology.axes:
        if axis not in known:
            return f"axes that {label} knows: {', '.join(known)}, and {axis} is none of them"
        for entry in known[axis]:
            if isinstance(preset.get(entry), int) and preset[entry] % size:
                return f"{axis} to divide {label}'s {entry}, which is {preset[entry]}"
    return None


def axes_of(workload: str) -> dict[str, tuple[str, ...]] | None:
    """Axes of a mesh that a workload knows, each with the entries of its preset that the size of
    the axis must divide; None: it is a user's own, and only itself knows.
    """
    if is_command(workload) or own_file(workload):
        return None
    axes = catalogue.literal("workloads", WorkloadName.of(workload).family, "AXES")
    return {"data": ()} if axes is None else dict(axes)
