"""The nodes of the tree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from lipyomo.affine.system import FlatPhases
from lipyomo.bnb.propagate import Stack
from lipyomo.bnb.tighten import Multipliers
from lipyomo.network import FloatArray

Warm = dict[int, FloatArray]
"""Multipliers by target: (gamma, zeta, lambda of `Node.units`)."""


@dataclass
class Node:
    """A part of the search space: an input box and a partial pattern.

    Attributes
    ----------
    phases : ndarray of int8, shape (N,)
    lower, upper : ndarray, shape (N,)
        Bounds of the pre-activations on the node.
    low, high : ndarray, shape (d,)
        Input box.
    targets : ndarray of int
        Targets that may still beat the incumbent.
    target_bounds : ndarray
        Their upper bounds, in floating point.
    proved : ndarray
        Their upper bounds that need no further proof.
    units : ndarray of int
        Open units that `warm` speaks of.
    warm : dict
    pool : ndarray of int
        Points of the pool that lie in the node.
    dropped : float
        Largest bound of the targets that it or its ancestors have dropped.
    branch : int
        Unit to branch on, or -1.
    ascent : Multipliers, optional
        Of its pre-activation bounds, or of those of the last ancestor that had some.
    """

    phases: FlatPhases
    lower: FloatArray
    upper: FloatArray
    low: FloatArray
    high: FloatArray
    targets: npt.NDArray[np.int64]
    target_bounds: FloatArray
    proved: FloatArray
    units: npt.NDArray[np.int64]
    warm: Warm = field(default_factory=dict)
    pool: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    dropped: float = 0.0
    branch: int = -1
    ascent: Multipliers | None = None

    @property
    def bound(self) -> float:
        """Upper bound of every target on the node."""
        return float(self.target_bounds.max(initial=0.0))


def child_of(node: Node, phases: FlatPhases, low: FloatArray, high: FloatArray) -> Node:
    """A part of `node` with these phases and this box, everything else inherited."""
    return replace(node, phases=phases, low=low, high=high, branch=-1)


def stack_of(nodes: list[Node]) -> Stack:
    """Copies of the nodes' phases, bounds and boxes, to be tightened together."""
    return Stack(
        np.stack([node.phases for node in nodes]),
        np.stack([node.lower for node in nodes]),
        np.stack([node.upper for node in nodes]),
        np.stack([node.low for node in nodes]),
        np.stack([node.high for node in nodes]),
        np.ones(len(nodes), dtype=bool),
    )
