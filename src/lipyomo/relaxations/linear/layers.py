"""Bounds of pre-activations: `LayerBounds` over one domain, a `Stack` over many nodes at once.

`parts_of` caches per layer what all bounds need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import real_numbers
from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.base.numerics.split import SplitMatrix
from lipyomo.networks import activations
from lipyomo.networks.layer import remembered
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, Phases, count_open, decide, open_phases

Entry = TypeVar("Entry", bound=np.generic)


def by_layer(layers: Sequence[Layer], units: npt.NDArray[Entry]) -> list[npt.NDArray[Entry]]:
    """Split an array over all units (..., N) into the layers."""
    ends = np.cumsum([0, *(layer.units for layer in layers)]).tolist()
    return [units[..., a:b] for a, b in pairwise(ends)]


class LayerParts(NamedTuple):
    """Cached data of a layer, as the bounds need them.

    Attributes
    ----------
    split : SplitMatrix
    rounding : ndarray, shape (units,)
        Relative error of a multiplication by a slope; zero where both slopes are 0, 1 or -1.
    """

    split: SplitMatrix
    rounding: FloatArray


@remembered
def parts_of(layer: Layer) -> LayerParts:
    """Return the parts of `layer`, cached."""
    easy = np.isin(layer.left, (-1.0, 0.0, 1.0)) & np.isin(layer.right, (-1.0, 0.0, 1.0))
    return LayerParts(SplitMatrix.of(layer.weight), np.where(easy, 0.0, UNIT))


class LayerBounds(NamedTuple):
    """Bounds of all pre-activations.

    Attributes
    ----------
    lower, upper : list of ndarray, shapes (n_i,)
        One pair for each hidden layer; infinite where nothing is known.
    relaxation : str
        The tightest relaxation that was used: interval, linear, ascent or lp; user for bounds that
        were passed by the user.
    phases : tuple of int8 arrays
        The given phases, with those units fixed that the bounds decide.
    empty : bool
        Whether the given phases contradict the bounds: no point of the domain has them, and the
        bounds are meaningless.
    """

    lower: list[FloatArray]
    upper: list[FloatArray]
    relaxation: str
    phases: Phases
    empty: bool = False

    @property
    def unstable(self) -> int:
        """Number of units that stayed open."""
        return count_open(self.phases)

    def with_confined_units(self, network: Network) -> LayerBounds:
        """Return the bounds, intersected for confined units with their proved argument ranges."""
        lower, upper = [list(map(np.array, side)) for side in (self.lower, self.upper)]
        for low, high, layer in zip(lower, upper, network.hidden, strict=True):
            for curve in layer.curves:
                if isinstance(curve.activation, activations.Confined):
                    low[curve.units] = np.maximum(low[curve.units], curve.activation.low)
                    high[curve.units] = np.minimum(high[curve.units], curve.activation.high)
        return self._replace(lower=lower, upper=upper)


def given_bounds(network: Network, given: Any) -> LayerBounds:
    """Check and convert pre-activation bounds passed by the user.

    Parameters
    ----------
    network : Network
    given : LayerBounds, or pairs (lower, upper) of arrays, one for each hidden layer

    Raises
    ------
    ProblemError
        If `given` is something else, or does not fit the network.
    """
    sizes = [layer.units for layer in network.hidden]
    if isinstance(given, LayerBounds):
        own = [len(side) for side in given.lower]
        if own != sizes:
            raise ProblemError(
                f"bounds: they are for hidden layers of {own} units, the network has {sizes}"
            )
        return given
    try:
        pairs = [(low, high) for low, high in given]
    except (TypeError, ValueError):
        raise ProblemError(
            f"bounds: {given!r} is no relaxation, and no list of pairs "
            "(lower, upper), one a hidden layer"
        ) from None
    if len(pairs) != len(sizes):
        raise ProblemError(f"{len(pairs)} pairs of bounds for {len(sizes)} hidden layers")
    sides: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for i, (pair, size) in enumerate(zip(pairs, sizes, strict=True)):
        for side, values in zip(sides, pair, strict=True):
            array = real_numbers(values, f"bounds of hidden layer {i}", ProblemError)
            try:
                side.append(np.broadcast_to(array, (size,)))
            except ValueError as error:
                raise ProblemError(f"bounds of hidden layer {i}: {error}") from None
        if not (sides[0][i] <= sides[1][i]).all():
            raise ProblemError(
                f"bounds of hidden layer {i} hold NaN, or a lower one exceeds its upper one"
            )
    return LayerBounds(*sides, "user", decide(open_phases(network), *sides))


def slope_ranges(
    layer: Layer, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return sound ranges of the slopes of smooth units, and both slopes of two-slope units.

    Parameters
    ----------
    layer : Layer
    lower, upper : ndarray, shape (..., units)
        Bounds of the pre-activations; may be infinite.

    Returns
    -------
    ndarray, ndarray, shapes (..., units)
    """
    left, right = (np.broadcast_to(s, lower.shape).copy() for s in (layer.left, layer.right))
    for curve in layer.curves:
        ends = lower[..., curve.units], upper[..., curve.units]
        left[..., curve.units], right[..., curve.units] = curve.activation.slope_range(*ends)
    return left, right


def with_slopes(network: Network, bounds: LayerBounds) -> Network:
    """Replace smooth units by two-slope units whose patterns bound the network's Jacobians.

    Parameters
    ----------
    network : Network
    bounds : LayerBounds
        Bounds of its pre-activations.

    Returns
    -------
    Network
        `network` itself if it has no smooth units.  Its values are not those of `network`.

    Notes
    -----
    On a domain the slope of each smooth unit lies in a range [a, b].  The Jacobian is affine in the
    slope of each single unit, so its norm is convex in it, and the largest norm over all slopes in
    their ranges is attained at end points: at a *pattern* of the network whose units have the
    slopes a and b and may take either, whatever their pre-activation is.  All upper bounds over
    open switches (FastLip, CROWN of derivatives, LipSDP and other semidefinite ones) are bounds
    over these patterns.  Other properties of two-slope units do not carry over: the phase of a unit
    implies nothing about the sign of its pre-activation, so these bounds must not use
    pre-activations.
    """
    if not network.smooth:
        return network
    ranges = zip(network.hidden, bounds.lower, bounds.upper, strict=True)
    hidden = [
        Layer(layer.weight, layer.bias, *slope_ranges(layer, *ends)) for layer, *ends in ranges
    ]
    return Network([*hidden, network.head], network.name)


PhaseBatch = npt.NDArray[np.int8]
"""Phases of a batch of B patterns, shape (B, units)."""


class PatternPart(Protocol):
    """A partial pattern on a part of the domain."""

    @property
    def phases(self) -> npt.NDArray[np.int8]:
        """Shape (N,)."""
        ...

    @property
    def lower(self) -> FloatArray:
        """Lower bounds of the pre-activations, shape (N,)."""
        ...

    @property
    def upper(self) -> FloatArray:
        """Their upper bounds, shape (N,)."""
        ...

    @property
    def low(self) -> FloatArray:
        """Lower ends of a box, shape (d,)."""
        ...

    @property
    def high(self) -> FloatArray:
        """Its upper ends, shape (d,)."""
        ...


@dataclass(frozen=True, eq=False)
class Stack:
    """B partial patterns, each over a box of its own, whose bounds are tightened in place.

    Attributes
    ----------
    phases : ndarray of int8, shape (B, N)
    lower, upper : ndarray, shape (B, N)
        Bounds of the pre-activations; infinite when unknown.
    low, high : ndarray, shape (B, d)
        Input boxes.
    alive : ndarray of bool, shape (B,)
        False once a pattern is known to have no point in its box.
    """

    phases: PhaseBatch
    lower: FloatArray
    upper: FloatArray
    low: FloatArray
    high: FloatArray
    alive: BoolArray

    @classmethod
    def unknown(cls, phases: PhaseBatch, low: FloatArray, high: FloatArray) -> Stack:
        """Return a stack with infinite bounds of the pre-activations; `phases` are copied."""
        infinite = np.full(phases.shape, np.inf)
        return cls(phases.copy(), -infinite, infinite, low, high, np.ones(len(phases), dtype=bool))

    @classmethod
    def of(cls, parts: Sequence[PatternPart]) -> Stack:
        """Stack copies of the phases, bounds and boxes of some parts."""
        return cls(
            np.stack([part.phases for part in parts]),
            np.stack([part.lower for part in parts]),
            np.stack([part.upper for part in parts]),
            np.stack([part.low for part in parts]),
            np.stack([part.high for part in parts]),
            np.ones(len(parts), dtype=bool),
        )

    def layer(self, span: slice) -> Stack:
        """Return the units of one layer, as views."""
        phases, lower, upper = self.phases[:, span], self.lower[:, span], self.upper[:, span]
        return Stack(phases, lower, upper, self.low, self.high, self.alive)

    def take(self, index: IntArray) -> Stack:
        """Return copies of some of the patterns."""
        phases, lower, upper = self.phases[index], self.lower[index], self.upper[index]
        return Stack(phases, lower, upper, self.low[index], self.high[index], self.alive[index])

    def put(self, index: IntArray, part: Stack) -> None:
        """Overwrite some of the patterns; their boxes remain."""
        self.phases[index], self.alive[index] = part.phases, part.alive
        self.lower[index], self.upper[index] = part.lower, part.upper

    def meet(self, lower: FloatArray, upper: FloatArray, units: IntArray | None = None) -> None:
        """Intersect the bounds of some units, by default of all, with other bounds."""
        if units is None:
            np.maximum(self.lower, lower, out=self.lower)
            np.minimum(self.upper, upper, out=self.upper)
        elif units.size:
            self.lower[:, units] = np.maximum(self.lower[:, units], lower)
            self.upper[:, units] = np.minimum(self.upper[:, units], upper)

    def decide(self) -> None:
        """Fix the phases of open units that the bounds decide."""
        open_ = self.phases == OPEN
        on = open_ & (self.lower >= 0)
        self.phases[on] = RIGHT
        self.phases[open_ & ~on & (self.upper <= 0)] = LEFT

    def cut(self, kinked: BoolArray) -> None:
        """Cut the bounds of stable units at zero; patterns with empty bounds are no longer alive.

        Parameters
        ----------
        kinked : ndarray of bool, shape (N,)
            Phases of units without a kink do not constrain the sign.
        """
        lower, upper = self.lower, self.upper
        np.maximum(lower, 0.0, out=lower, where=(self.phases == RIGHT) & kinked)
        np.minimum(upper, 0.0, out=upper, where=(self.phases == LEFT) & kinked)
        self.alive[(lower > upper).any(axis=1)] = False
        np.maximum(upper, lower, out=upper)

    def decide_and_cut(self, kinked: BoolArray) -> None:
        """Fix units that the bounds decide, and cut the bounds of stable units."""
        self.decide()
        self.cut(kinked)
