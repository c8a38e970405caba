"""Nodes of the search tree, and the children that the steps work on; all are immutable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import FlatPhases, NodeForm
from lipyomo.relaxations.semidefinite.bounder import Minimum
from lipyomo.search.engine.protocol import Pulse
from lipyomo.search.spaces.phases.statistics import FEATURES

if TYPE_CHECKING:
    from lipyomo.relaxations.semidefinite.switched_bounds import SwitchedMinimum


_NO_NUMBERS = np.zeros(0, dtype=np.int64)


class Split(NamedTuple):
    """One side of a split.

    Attributes
    ----------
    number : int
        Of the unit that was decided, or of the input whose interval was bisected.
    phase : int or None
        The unit's phase; None for an input.
    ends : (float, float) or None
        The input's interval.
    """

    number: int
    phase: int | None = None
    ends: tuple[float, float] | None = None


class DualCertificate(NamedTuple):
    """Multipliers that prove a bound of a target.

    Attributes
    ----------
    target : int
    units : ndarray of int, shape (F,)
        The unstable units of the form that they were found for.
    multipliers : ndarray
        (gamma of a ball of functionals, zeta, lambda of `units`).
    signs : ndarray, shape (d,), optional
        Signs by which inputs are joined, if not those of the whole problem.
    """

    target: int
    units: IntArray
    multipliers: FloatArray
    signs: FloatArray | None = None


class WarmStart(NamedTuple):
    """Multipliers of a node's pre-activation bounds: a warm start for its children.

    Attributes
    ----------
    phases : ndarray of int8, shape (N,)
        The phases under which they were found.
    keys : ndarray of int, shape (R,)
        ``2 unit + (sign < 0)``, ascending.
    values : ndarray of float16, shape (R, columns)
    """

    phases: FlatPhases
    keys: IntArray
    values: npt.NDArray[np.float16]

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.keys.nbytes + self.values.nbytes


class PhaseNode(NamedTuple):
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
        Upper bounds of the targets in floating point.
    proved : ndarray
        Proved upper bounds of the targets.
    certificates : mapping of int to DualCertificate
        By target: of this node, or of its last ancestor that has one.
    minima : mapping of int to SwitchedMinimum
        The same for bounds with switches that depend on the inputs.
    warm_start : WarmStart, optional
        Of this node or its last ancestor; like `minima`, it can be recomputed.
    points : ndarray of int
        Indices of the known points that lie in the node.
    sample : ndarray, shape (k, d)
        Some of these points, for a node that is sent to another process.
    dropped : float
        Largest bound of the targets that were dropped here or at ancestors.
    candidates : ndarray of int
        Branching candidates: unstable units, the best first; empty before the node is examined.
    features : ndarray, shape (k, FEATURES)
        Features of the candidates.
    trail : tuple of Split
        The splits on the path from the root; all other phases follow from bounds.
    """

    phases: FlatPhases
    lower: FloatArray
    upper: FloatArray
    low: FloatArray
    high: FloatArray
    targets: IntArray
    target_bounds: FloatArray
    proved: FloatArray
    certificates: Mapping[int, DualCertificate] = {}
    minima: Mapping[int, SwitchedMinimum] = {}
    warm_start: WarmStart | None = None
    points: IntArray = _NO_NUMBERS
    sample: FloatArray | None = None
    dropped: float = 0.0
    candidates: IntArray = _NO_NUMBERS
    features: FloatArray = np.zeros((0, FEATURES))
    trail: tuple[Split, ...] = ()

    @property
    def bound(self) -> float:
        """Upper bound of every target on the node."""
        return float(self.target_bounds.max(initial=0.0))

    @property
    def proved_bound(self) -> float:
        """Upper bound of every target on the node that is proved already."""
        return max(float(self.proved.max(initial=0.0)), self.bound)

    @property
    def nbytes(self) -> int:
        """See `lipyomo.search.engine.protocol.Node`."""
        return 4096 + 40 * self.phases.nbytes + 32 * self.low.size

    @property
    def warm_bytes(self) -> int:
        """Memory of its warm starts, which can be recomputed."""
        warm = sum(found.nbytes for found in self.minima.values())
        return warm + (0 if self.warm_start is None else self.warm_start.nbytes)

    def cooled(self) -> PhaseNode:
        """Return the node without its warm starts."""
        return self._replace(warm_start=None, minima={})

    @property
    def still(self) -> int:
        """Number of unstable units."""
        return int(np.count_nonzero(self.phases == OPEN))

    @property
    def examined(self) -> bool:
        """Whether its branching candidates are known."""
        return self.candidates.size > 0

    def sides(self, unit: int) -> list[PhaseNode]:
        """Return the two children of a split on an unstable unit."""
        children = []
        for phase in (LEFT, RIGHT):
            phases = self.phases.copy()
            phases[unit] = phase
            trail = (*self.trail, Split(unit, int(phase)))
            children.append(self._replace(phases=phases, trail=trail))
        return children


class OutOfTimeError(Exception):
    """The time was up before some children were bounded."""


class Watch(NamedTuple):
    """The clock of a search, and the callback that serves other workers.

    Attributes
    ----------
    clock : Clock
    pulse : callable
    """

    clock: Clock
    pulse: Pulse

    def check(self) -> None:
        """Call `pulse`, and stop if the time is up; one part of a large node may take seconds.

        Raises
        ------
        OutOfTimeError
        """
        self.pulse()
        if self.clock.expired:
            raise OutOfTimeError


class Ahead(NamedTuple):
    """Look-ahead on the units, for the target with the largest bound of a node.

    Attributes
    ----------
    value : float
        The target's bound, in floating point.
    off, on : ndarray, shape (F,)
        Relative drop of the bound if a unit is decided and the multipliers are kept.
    found : Minimum, optional
        The target's multipliers, if these can exclude one side of a unit.
    """

    value: float
    off: FloatArray
    on: FloatArray
    found: Minimum | None = None

    @classmethod
    def of(cls, found: Minimum) -> Ahead:
        """Compute the look-ahead of a minimum."""
        return cls(found.state.value, *found.kernel.lookahead(found.state), found)


class Child(NamedTuple):
    """A child of a node in the making: the steps add their results; each returns a new child.

    Attributes
    ----------
    parent, node : PhaseNode
        The node that was split, and what is left of its child; the same for the root.
    form : NodeForm, optional
        Its form, once its phases are propagated.
    worst : Ahead, optional
        Look-ahead of its worst target.
    fathomed : tuple of (PhaseNode, float)
        Fathomed pieces of it with their proved bounds; minus infinity for empty ones.
    is_open : bool
        Whether the rest, `node`, may still contain something better than the incumbent.
    """

    parent: PhaseNode
    node: PhaseNode
    form: NodeForm | None = None
    worst: Ahead | None = None
    fathomed: tuple[tuple[PhaseNode, float], ...] = ()
    is_open: bool = True

    @property
    def keeps_box(self) -> bool:
        """Whether its input box is that of its parent."""
        return self.node.low is self.parent.low and self.node.high is self.parent.high

    @property
    def known_form(self) -> NodeForm:
        """The form of a child whose phases are propagated."""
        assert self.form is not None
        return self.form

    @property
    def closed(self) -> float:
        """Largest bound of its fathomed pieces and dropped targets."""
        known = [bound for _, bound in self.fathomed]
        return max([*known, self.node.dropped or -math.inf])

    def fathom(self, bound: float, piece: PhaseNode | None = None) -> Child:
        """Return the child with a piece of it fathomed, by default all that is left."""
        if not math.isinf(bound):
            bound = max(bound, self.node.dropped)
        fathomed = (*self.fathomed, (self.node if piece is None else piece, bound))
        return self._replace(fathomed=fathomed, is_open=piece is not None)

    def without_targets(self, cutoff: float) -> Child:
        """Drop the targets that cannot beat the incumbent; if none is left, fathom the child."""
        node = self.node
        keep = node.target_bounds > cutoff
        if not keep.any():
            return self.fathom(node.bound)
        if keep.all():
            return self
        dropped = max(node.dropped, float(node.target_bounds[~keep].max()))
        node = node._replace(
            dropped=dropped,
            targets=node.targets[keep],
            target_bounds=node.target_bounds[keep],
            proved=node.proved[keep],
        )
        return self._replace(node=node)

    def without_unproved(self, cutoff: float) -> Child:
        """Replace unproved inherited bounds that the cutoff has overtaken by proved ones."""
        node = self.node
        stale = (node.target_bounds <= cutoff) & (node.proved > cutoff)
        if not stale.any():
            return self
        bounds = np.where(stale, node.proved, node.target_bounds)
        return self._replace(node=node._replace(target_bounds=bounds))
