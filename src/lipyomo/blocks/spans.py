"""Interval propagation through a network on a box with variable centre, as rows of a model.

The ends of the intervals are affine in variables.  In the forward pass, an interval allows for both
slopes of a unit unless a binary certifies one of them on the whole box; in the backward pass,
derivatives are multiplied by the possible slopes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.numerics.split import SplitMatrix
from lipyomo.blocks.assemble import add_equalities, add_variables
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import LEFT, OPEN, decide
from lipyomo.relaxations.linear.relax import Switches, activated
from lipyomo.solvers.rows import Forms, Rows


@dataclass(frozen=True)
class Span:
    """n intervals whose ends are affine in variables of the model.

    Attributes
    ----------
    ends : Forms
        2 n forms: the lower ends, then the upper ones.
    least, most : ndarray, shape (n,)
        Bounds of the intervals for all values of the variables.
    """

    ends: Forms
    least: FloatArray
    most: FloatArray

    @classmethod
    def numbers(cls, values: FloatArray) -> Span:
        """Return degenerate intervals of one number each."""
        return cls(Forms.numbers(np.tile(values, 2)), values, values)

    def map(self, weight: Matrix, bias: FloatArray | float = 0.0) -> Span:
        """Apply ``weight @ h + bias`` in interval arithmetic."""
        split = SplitMatrix.of(sp.csr_array(weight))
        signed = [[split.positive, split.negative], [split.negative, split.positive]]
        least, most = split.range(self.least, self.most, bias)
        both = np.tile(np.broadcast_to(bias, least.shape), 2)
        return Span(self.ends.map(sp.block_array(signed), both), least, most)

    def passed(
        self,
        slopes: Mapping[int, float],
        low: Mapping[int, Any],
        high: Mapping[int, Any],
        own: Mapping[int, tuple[Any, Any]],
    ) -> Span:
        """Return intervals of the units' results, whose constant bounds are those of `self`.

        Parameters
        ----------
        slopes : mapping
            Slopes of stable units; the result is zero for units that are not in `low`.
        low, high : mapping
            Variables for the ends of the units' arguments.
        own : mapping
            Variables for the ends of a unit's result, if it has them; for other unstable units the
            constant bounds are used.
        """
        n = self.least.size
        terms: list[tuple[int, float, Any]] = []
        constant = np.zeros(2 * n)
        for k in low:
            factor, ends = slopes.get(k, 1.0), (low[k], high[k])
            if k not in slopes:
                if k not in own:
                    constant[k], constant[n + k] = self.least[k], self.most[k]
                    continue
                ends = own[k]
            first, last = ends if factor > 0 else ends[::-1]
            terms += [(k, factor, first), (n + k, factor, last)]
        dead = np.ones(n, dtype=bool)
        dead[list(low)] = False
        least, most = np.where(dead, 0.0, self.least), np.where(dead, 0.0, self.most)
        return Span(Forms.of_terms(terms, constant), least, most)


def through_units(
    block: Any, layer: Layer, before: Span, known: np.ndarray, margin: float
) -> tuple[Span, np.ndarray]:
    """Add the rows of one hidden layer for the forward pass.

    Some units get binaries ``block.on[k]``, ``block.off[k]``, which are 1 only if the unit has its
    right-hand (left-hand) slope on the whole box.

    Parameters
    ----------
    block : BlockData
    layer : Layer
    before : Span
        Intervals of its inputs.
    known : int8 array, shape (n,)
        Phases that hold for every position of the box.
    margin : float
        Distance from its kink from which a unit counts as stable.

    Returns
    -------
    Span
        Intervals of its outputs.
    int8 array, shape (n,)
        Phases of its units that hold for every position of the box.
    """
    z = before.map(layer.weight, layer.bias)
    (phases,) = decide((known,), [z.least], [z.most])
    _declare_ends(block, layer, phases, z)
    p, q = block.low, block.high
    # Binaries certify one slope on the whole box, of convex nondecreasing units: ReLU, LeakyReLU.
    convex = (layer.left >= 0.0) & (layer.left < layer.right)
    keys = np.flatnonzero((phases == OPEN) & convex).tolist()
    for name in ("on", "off"):
        add_variables(block, name, keys, binary=True)
    on, off = block.on, block.off
    names = ("surely_on", "surely_off", "one_side")
    surely_on, surely_off, one_side = (Rows(block, name, keys) for name in names)
    for k in keys:
        low, high = float(z.least[k]), float(z.most[k])
        surely_on.at_least(k, [1.0, low - margin], [p[k], on[k]], low)
        surely_off.at_most(k, [1.0, high + margin], [q[k], off[k]], high)
        one_side.at_most(k, [1.0, 1.0], [on[k], off[k]], 1.0)
    ends = activated(layer, phases[None], z.least[None], z.most[None])
    after = Span(z.ends, ends[0][0], ends[1][0])
    own, lows, highs = _own_ends(block, "output", keys, after)
    for k, (h, g) in own.items():
        left, right = float(layer.left[k]), float(layer.right[k])
        delta = right - left
        down, up = -delta * float(z.least[k]), delta * float(z.most[k])
        lows.at_most((k, 0), [1.0, -left, -up], [h, p[k], on[k]], 0.0)
        lows.at_most((k, 1), [1.0, -right, down], [h, p[k], on[k]], down)
        highs.at_least((k, 0), [1.0, -left], [g, q[k]], 0.0)
        highs.at_least((k, 1), [1.0, -right], [g, q[k]], 0.0)
    return after.passed(_slopes(layer, phases), p, q, own), phases


def through_slopes(
    block: Any, layer: Layer, arriving: Span, phases: np.ndarray, forward: Any
) -> Span:
    """Add the rows of one hidden layer for the backward pass.

    The derivatives that arrive are multiplied by the possible slopes of the units on the box, whose
    binaries are those of the layer's block `forward` of the forward pass.
    """
    least, most = arriving.least, arriving.most
    _declare_ends(block, layer, phases, arriving)
    t, top = block.low, block.high
    ends = Switches.of(layer, phases[None]).range(least[None], most[None])
    after = Span(arriving.ends, ends[0][0], ends[1][0])
    own, below, above = _own_ends(block, "passed", list(forward.on), after)
    for k, (s, big) in own.items():
        left, right = float(layer.left[k]), float(layer.right[k])
        delta = right - left
        under, over = delta * max(-float(least[k]), 0.0), delta * max(float(most[k]), 0.0)
        # The right-hand slope is possible unless the unit is off, the left-hand unless it is on.
        above.at_least((k, 1), [1.0, -right, over], [big, top[k], forward.off[k]], 0.0)
        above.at_least((k, 0), [1.0, -left, under], [big, top[k], forward.on[k]], 0.0)
        below.at_most((k, 1), [1.0, -right, -under], [s, t[k], forward.off[k]], 0.0)
        below.at_most((k, 0), [1.0, -left, -over], [s, t[k], forward.on[k]], 0.0)
    return after.passed(_slopes(layer, phases), t, top, own)


def above_sizes(block: Any, name: str, variables: list[Any], forms: Span) -> None:
    """Add rows ``variables[j] >= |t|`` for all t in interval j."""
    n = forms.least.size
    above, below = (Rows(block, f"{name}_{where}", list(range(n))) for where in ("above", "below"))
    rows, constants = list(forms.ends.rows()), forms.ends.constant.tolist()
    for j, item in enumerate(variables):
        (low, others), (high, columns) = rows[j], rows[n + j]
        above.at_least(j, [1.0, *(-c for c in high)], [item, *columns], constants[n + j])
        below.at_least(j, [1.0, *low], [item, *others], -constants[j])


def _slopes(layer: Layer, phases: np.ndarray) -> dict[int, float]:
    """Return the slopes of stable units."""
    slopes = layer.slopes(phases != LEFT)
    decided = np.flatnonzero(phases != OPEN)
    return dict(zip(decided.tolist(), slopes[decided].tolist(), strict=True))


def _declare_ends(block: Any, layer: Layer, phases: np.ndarray, span: Span) -> None:
    """Declare variables ``low[k]``, ``high[k]`` for the intervals of units with nonzero slopes."""
    slopes = _slopes(layer, phases)
    units = [k for k in range(layer.units) if slopes.get(k, 1.0) != 0.0]
    for name, first in (("low", 0), ("high", layer.units)):
        ends = add_variables(block, name, units, span.least[units], span.most[units])
        places = first + np.array(units, dtype=np.intp)
        add_equalities(block, f"{name}_affine", units, ends, span.ends, places)


def _own_ends(
    block: Any, name: str, keys: list[int], span: Span
) -> tuple[dict[int, tuple[Any, Any]], Rows, Rows]:
    """Declare variables for the ends of units' results, and empty rows for them."""
    low, high = (
        add_variables(block, f"{name}_{end}", keys, span.least[keys], span.most[keys])
        for end in ("low", "high")
    )
    sides = [(k, side) for k in keys for side in (0, 1)]
    below, above = (Rows(block, f"{name}_{where}", sides) for where in ("below", "above"))
    return dict(zip(keys, zip(low, high, strict=True), strict=True)), below, above
