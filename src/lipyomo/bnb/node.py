"""The nodes of the tree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from lipyomo.affine.system import FlatPhases, UnitSystem
from lipyomo.bnb.experience import FEATURES
from lipyomo.bnb.tighten import Multipliers
from lipyomo.bounds.preactivation import Boxes, propagate
from lipyomo.bounds.stack import Stack
from lipyomo.network import FloatArray

Warm = dict[int, FloatArray]
"""Multipliers by target: (gamma, zeta, lambda of `Node.units`)."""


@dataclass(frozen=True)
class Split:
    """One side of a split.

    Attributes
    ----------
    index : int
        The unit that was decided, or the input whose interval was halved.
    phase : int or None
        The unit's phase; None for an input.
    ends : (float, float) or None
        The input's interval.
    """

    index: int
    phase: int | None = None
    ends: tuple[float, float] | None = None


@dataclass
class Node:
    """A part of the search space: an input box and a partial pattern.

    A node that waits in a queue is never written to: what is learnt about a part of it is written
    into a new node.

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
    candidates : ndarray of int
        Open units to branch on, the most promising first; none if it is still to be examined.
    outlook : ndarray, shape (k, FEATURES)
        What is known of each of those.
    ascent : Multipliers, optional
        Of its pre-activation bounds, or of those of the last ancestor that had some.
    trail : tuple of Split
        The splits that lead from the root to it; all else follows from bounds.
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
    candidates: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    outlook: FloatArray = field(default_factory=lambda: np.zeros((0, FEATURES)))
    ascent: Multipliers | None = None
    trail: tuple[Split, ...] = ()

    @property
    def bound(self) -> float:
        """Upper bound of every target on the node."""
        return float(self.target_bounds.max(initial=0.0))


def child_of(
    node: Node, phases: FlatPhases, low: FloatArray, high: FloatArray, split: Split
) -> Node:
    """A side of a split of `node`, with everything else inherited."""
    return replace(
        node,
        phases=phases,
        low=low,
        high=high,
        proved=node.proved.copy(),
        target_bounds=node.target_bounds.copy(),
        warm=dict(node.warm),
        trail=(*node.trail, split),
    )


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


def substitute_back(system: UnitSystem, over: Boxes, stack: Stack, first: int = 0) -> None:
    """Tighten a stack of nodes by CROWN from layer `first` on, as `propagate` does."""
    layers, errors = system.network.hidden, system.weight_errors
    propagate(layers, over, stack, intervals=False, first=first, errors=errors)
