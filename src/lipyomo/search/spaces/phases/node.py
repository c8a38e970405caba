"""Nodes: values that are never written to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import FlatPhases
from lipyomo.search.spaces.phases.statistics import FEATURES


def _no_numbers() -> IntArray:
    return np.zeros(0, dtype=np.int64)


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


@dataclass(frozen=True, eq=False)
class DualCertificate:
    """Multipliers that prove a bound of a target.

    Attributes
    ----------
    target : int
    units : ndarray of int, shape (F,)
        The unstable units of the form that they were found for.
    multipliers : ndarray
        (gamma of a ball of functionals, zeta, lambda of `units`).
    signs : ndarray, shape (d,), optional
        By which inputs are joined, if not by those of the whole problem.
    """

    target: int
    units: IntArray
    multipliers: FloatArray
    signs: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Multipliers of a node's pre-activation bounds: a start for those of its children.

    Attributes
    ----------
    phases : ndarray of int8, shape (N,)
        That they were found under.
    keys : ndarray of int, shape (R,)
        ``2 unit + (sign < 0)``, rising.
    values : ndarray of float16, shape (R, columns)
    """

    phases: FlatPhases
    keys: IntArray
    values: npt.NDArray[np.float16]

    @property
    def nbytes(self) -> int:
        """What they take."""
        return self.keys.nbytes + self.values.nbytes


@dataclass(frozen=True, eq=False)
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
    certificates : mapping of int to DualCertificate
        By target: of this node, or of the last ancestor that had some.
    warm_start : WarmStart, optional
        Likewise; it can be found again.
    points : ndarray of int
        Numbers of known points that lie in the node.
    sample : ndarray, shape (k, d)
        Some of them, where the node travels.
    dropped : float
        Largest bound of the targets that it or its ancestors have dropped.
    candidates : ndarray of int
        Unstable units to split on, the best first; none if it is still to be examined.
    features : ndarray, shape (k, FEATURES)
        What is known of each of those.
    trail : tuple of Split
        The splits that lead from the root to it; all else follows from bounds.
    """

    phases: FlatPhases
    lower: FloatArray
    upper: FloatArray
    low: FloatArray
    high: FloatArray
    targets: IntArray
    target_bounds: FloatArray
    proved: FloatArray
    certificates: Mapping[int, DualCertificate] = field(default_factory=dict)
    warm_start: WarmStart | None = None
    points: IntArray = field(default_factory=_no_numbers)
    sample: FloatArray | None = None
    dropped: float = 0.0
    candidates: IntArray = field(default_factory=_no_numbers)
    features: FloatArray = field(default_factory=lambda: np.zeros((0, FEATURES)))
    trail: tuple[Split, ...] = ()

    @property
    def bound(self) -> float:
        """Upper bound of every target on the node."""
        return float(self.target_bounds.max(initial=0.0))

    @property
    def proved_bound(self) -> float:
        """The same without what is still to be proved."""
        return max(float(self.proved.max(initial=0.0)), self.bound)

    @property
    def still(self) -> int:
        """Number of unstable units."""
        return int(np.count_nonzero(self.phases == OPEN))

    @property
    def examined(self) -> bool:
        """Whether it is known what to split it on."""
        return self.candidates.size > 0

    def but(self, **changes: Any) -> Node:
        """The same but for some fields."""
        return replace(self, **changes)

    def sides(self, unit: int) -> list[Node]:
        """The two children of a split on an unstable unit."""
        children = []
        for phase in (LEFT, RIGHT):
            phases = self.phases.copy()
            phases[unit] = phase
            trail = (*self.trail, Split(unit, int(phase)))
            children.append(self.but(phases=phases, trail=trail))
        return children
