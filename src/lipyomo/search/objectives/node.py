"""Nodes of the search for values, which are immutable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.phases import LEFT, RIGHT
from lipyomo.problems.affine.system import FlatPhases
from lipyomo.search.engine.protocol import Arrays
from lipyomo.search.spaces.phases.node import WarmStart

_STORED = ("phases", "lower", "upper", "low", "high", "bound", "unit", "axis")


@dataclass(frozen=True, eq=False)
class ValueNode:
    """A part of the domain: an input box and a partial pattern.

    Attributes
    ----------
    phases : ndarray of int8, shape (N,)
        Phases; the last one is the aim's.
    lower, upper : ndarray, shape (N,)
        Bounds of the pre-activations on the node; the aim's without its bias.
    low, high : ndarray, shape (d,)
        Input box.
    bound : float
        Upper bound of the objective on the node.
    warm_start : WarmStart, optional
        Multipliers for the pre-activation bounds of the children; they can be recomputed.
    unit : int
        The unstable unit to split; -1 if there is none, or if the box is split.
    axis : int
        The input to bisect; -1 if a unit is split.
    """

    phases: FlatPhases
    lower: FloatArray
    upper: FloatArray
    low: FloatArray
    high: FloatArray
    bound: float = np.inf
    warm_start: WarmStart | None = None
    unit: int = -1
    axis: int = -1

    @property
    def proved_bound(self) -> float:
        """The bound, as all bounds are proved."""
        return self.bound

    @property
    def nbytes(self) -> int:
        """See `lipyomo.search.engine.protocol.Node`."""
        return 1024 + 17 * self.phases.size + 16 * self.low.size

    @property
    def warm_bytes(self) -> int:
        """Memory of its warm start."""
        return 0 if self.warm_start is None else self.warm_start.nbytes

    def cooled(self) -> ValueNode:
        """Return the node without its warm start."""
        return replace(self, warm_start=None)

    @property
    def splits(self) -> bool:
        """Whether a unit or an input to split is chosen."""
        return self.unit >= 0 or self.axis >= 0

    def sides(self) -> list[ValueNode]:
        """Return the two children of the split of its unit or box."""
        if self.axis >= 0:
            k, middle = self.axis, 0.5 * (self.low[self.axis] + self.high[self.axis])
            low, high = self.low.copy(), self.high.copy()
            low[k] = high[k] = middle
            return [replace(self, high=high, axis=-1), replace(self, low=low, axis=-1)]
        children = []
        for phase in (LEFT, RIGHT):
            phases = self.phases.copy()
            phases[self.unit] = phase
            children.append(replace(self, phases=phases, unit=-1))
        return children


def arrays_of(nodes: Sequence[ValueNode]) -> Arrays:
    """Encode nodes as plain arrays, without their warm starts."""
    return {f"node_{name}": np.array([getattr(node, name) for node in nodes]) for name in _STORED}


def nodes_of(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[ValueNode, ...]:
    """Restore what `arrays_of` returned."""
    columns = (arrays[f"node_{name}"] for name in _STORED)
    rows = (dict(zip(_STORED, row, strict=True)) for row in zip(*columns, strict=True))
    return tuple(
        ValueNode(**row | {name: row[name].item() for name in ("bound", "unit", "axis")})
        for row in rows
    )
