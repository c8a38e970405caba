"""Nodes, values that are never written to; and parts of nodes on their way through the steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import FlatPhases, NodeForm
from lipyomo.relaxations.semidefinite.bounder import Minimum
from lipyomo.relaxations.semidefinite.switched_bounds import SwitchedMinimum
from lipyomo.search.engine.protocol import Pulse
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
    minima : mapping of int to SwitchedMinimum
        Likewise, by switches that depend on inputs.
    warm_start : WarmStart, optional
        Likewise; both can be found again.
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
    minima: Mapping[int, SwitchedMinimum] = field(default_factory=dict)
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
    def nbytes(self) -> int:
        """About the bytes that it cannot do without."""
        return 4096 + 40 * self.phases.nbytes + 32 * self.low.size

    @property
    def warm_bytes(self) -> int:
        """Those of its starts, which can be found again."""
        warm = sum(found.nbytes for found in self.minima.values())
        return warm + (0 if self.warm_start is None else self.warm_start.nbytes)

    def cooled(self) -> Node:
        """The node without its starts."""
        return replace(self, warm_start=None, minima={})

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


class OutOfTimeError(Exception):
    """The bounds of some parts came too late."""


@dataclass(frozen=True)
class Watch:
    """The time, and a sign of life.

    Attributes
    ----------
    clock : Clock
    pulse : callable
    """

    clock: Clock
    pulse: Pulse

    def check(self) -> None:
        """Give a sign of life; leave parts as they are when time is over.

        Those of large nodes take seconds.

        Raises
        ------
        OutOfTimeError
        """
        self.pulse()
        if self.clock.expired:
            raise OutOfTimeError


@dataclass(frozen=True, eq=False)
class Ahead:
    """The unit look-ahead of the target that holds a node's bound up.

    Attributes
    ----------
    value : float
        Its bound, in floating point.
    off, on : ndarray, shape (F,)
        Relative drop of the bound if a unit is decided and the multipliers stay.
    """

    value: float
    off: FloatArray
    on: FloatArray


@dataclass(frozen=True, eq=False)
class Worst(Ahead):
    """That with the target's multipliers, by which decisions can be ruled out.

    Attributes
    ----------
    found : Minimum
    """

    found: Minimum

    @classmethod
    def of(cls, found: Minimum) -> Worst:
        """With the look-ahead of a minimum."""
        return cls(found.state.value, *found.kernel.lookahead(found.state), found)


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a node: steps claim things of it, in a new part each.

    Attributes
    ----------
    parent, node : Node
        The same for the root.
    form : NodeForm, optional
        Its form, once its phases are settled.
    worst : Ahead, optional
        What holds its bound up.
    fathomed : tuple of (Node, float)
        Pieces of it with proved bounds that do not matter any more; minus infinity for empty ones.
    is_open : bool
        Whether the rest, `node`, may still hold something better.
    """

    parent: Node
    node: Node
    form: NodeForm | None = None
    worst: Ahead | None = None
    fathomed: tuple[tuple[Node, float], ...] = ()
    is_open: bool = True

    @property
    def keeps_box(self) -> bool:
        """Whether its box is its parent's."""
        return self.node.low is self.parent.low and self.node.high is self.parent.high

    @property
    def known_form(self) -> NodeForm:
        """The form of a part whose phases are settled."""
        assert self.form is not None
        return self.form

    @property
    def closed(self) -> float:
        """Largest bound among what is fathomed and targets that are dropped."""
        known = [bound for _, bound in self.fathomed]
        return max([*known, self.node.dropped or -math.inf])

    def fathom(self, bound: float, piece: Node | None = None) -> Part:
        """Without a piece of it, which by default is all that is left."""
        if not math.isinf(bound):
            bound = max(bound, self.node.dropped)
        fathomed = (*self.fathomed, (self.node if piece is None else piece, bound))
        return replace(self, fathomed=fathomed, is_open=piece is not None)

    def without_targets(self, cutoff: float) -> Part:
        """Without the targets that cannot beat the incumbent; if none is left, fathomed."""
        node = self.node
        keep = node.target_bounds > cutoff
        if not keep.any():
            return self.fathom(node.bound)
        if keep.all():
            return self
        dropped = max(node.dropped, float(node.target_bounds[~keep].max()))
        node = node.but(
            dropped=dropped,
            targets=node.targets[keep],
            target_bounds=node.target_bounds[keep],
            proved=node.proved[keep],
        )
        return replace(self, node=node)

    def without_unproved(self, cutoff: float) -> Part:
        """Without inherited floating-point bounds that an incumbent found since has overtaken."""
        node = self.node
        stale = (node.target_bounds <= cutoff) & (node.proved > cutoff)
        if not stale.any():
            return self
        bounds = np.where(stale, node.proved, node.target_bounds)
        return replace(self, node=node.but(target_bounds=bounds))
