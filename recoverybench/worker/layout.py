"""How a model's state is laid out on a mesh: logical axes of its parameters, and their rules.

A workload says once what the dimensions of its parameters are (``embed``, ``heads`` …) and
along which axis of a mesh each of them may be split; every topology follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Layout:
    """Logical axes of parameters, and where they go.

    Attributes:
        axes: name of a parameter (the last part of the dotted path of a leaf, so that an
            optimizer's moments lie like their parameter) -> a logical axis for each of its
            dimensions, or None.
        rules: logical axis -> axis of the mesh.
    """

    axes: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)

    def split(self, name: str, shape: tuple[int, ...]) -> tuple[str | None, ...]:
        """The mesh axis along which each dimension of a leaf is split; None: along none.

        A leaf that has no entry, or another rank than its entry, is split nowhere. Of two
        dimensions that would go to the same axis, the first does.

        Args:
            name: of the leaf, dotted. shape: of the whole leaf.
        """
        logical = self.axes.get(name.rpartition(".")[2], ())
        if len(logical) != len(shape):
            return (None,) * len(shape)
        found: list[str | None] = []
        for each in logical:
            axis = None if each is None else self.rules.get(each)
            found.append(None if axis in found else axis)
        return tuple(found)
