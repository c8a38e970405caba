r"""Formulations of unstable units ``y = left min(z, 0) + right max(z, 0)``.

- ``bigm``: a switch and four rows per unit (see `lipyomo.blocks.relu`).
- ``partition``: a switch, and the unit's inputs in a few groups with a variable each, between
  big-M and the convex hull (Tsay, Kronqvist, Thebelt and Misener, 2021).
  The terms of ``z = sum_i w_i h_i + c`` are put into groups with values t_n in [L_n, U_n].  A
  variable s_n takes the value of the group while the unit is on its left-hand side (a = 0) and is
  zero otherwise, ``L_n (1 - a) <= s_n <= U_n (1 - a)`` and ``L_n a <= t_n - s_n <= U_n a``.  With
  the left part ``I = sum_n s_n + c (1 - a) <= 0`` and the right part ``z - I >= 0``,
  ``y = right (z - I) + left I``.  One group is big-M with tighter rows, one per term the hull.
- ``gdp``: two disjuncts per unit for Pyomo's ``gdp`` transformations; the switch is the binary
  variable of the right-hand disjunct.
- ``sos1``: ``z = p - n`` with p, n >= 0 in a special ordered set, so that at most one is positive.
- ``complementarity``: the same with ``p n <= 0``, for solvers of nonlinear programs.

The last two need no bounds and have no switch, so they do not support derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyomo.environ as pyo
from pyomo.gdp import Disjunct, Disjunction

from lipyomo.base.arrays import FloatArray
from lipyomo.blocks.assemble import add_variables, declared
from lipyomo.networks.network import Layer
from lipyomo.solvers.rows import Rows, linear
from lipyomo.solvers.variables import box_of

UnitFormulation: TypeAlias = Literal["bigm", "partition", "gdp", "sos1", "complementarity"]

WITHOUT_SWITCH = ("sos1", "complementarity")


@dataclass(frozen=True)
class OpenUnits:
    """The unstable units of a layer whose block has ``preactivation[k]`` and ``output[k]``.

    Attributes
    ----------
    layer : Layer
    keys : list of int
        At least one.
    lower, upper : ndarray, shape (n,)
        Bounds of all pre-activations.
    groups : int
        Number of groups of the partition.
    """

    layer: Layer
    keys: list[int]
    lower: FloatArray
    upper: FloatArray
    groups: int

    def slopes(self, k: int) -> tuple[float, float]:
        """Left and right slope of unit k."""
        return float(self.layer.left[k]), float(self.layer.right[k])


def tie_bigm(block: Any, units: OpenUnits) -> None:
    """Add a switch and at most four rows per unit."""
    free = units.keys
    switch = add_variables(block, "switch", free, binary=True)
    left, right = units.layer.left.tolist(), units.layer.right.tolist()
    names = ("right_line", "right_tie", "left_tie")
    right_line, right_tie, left_tie = (Rows(block, name, free) for name in names)
    # For a ReLU, the left line is a bound of its output variable.
    written = [k for k in free if left[k] != 0.0 or right[k] < left[k]]
    left_line = Rows(block, "left_line", written)
    lows, highs = units.lower.tolist(), units.upper.tolist()
    for k, a in zip(free, switch, strict=True):
        z, out = block.preactivation[k], block.output[k]
        delta = right[k] - left[k]
        sign = 1.0 if delta > 0 else -1.0
        right_coefs, right_vars = _difference(sign, out, right[k], z)
        left_coefs, left_vars = _difference(sign, out, left[k], z)
        big = [-abs(delta) * lows[k], -abs(delta) * highs[k]]
        right_line.at_least(k, right_coefs, right_vars, 0.0)
        right_tie.at_most(k, [*right_coefs, big[0]], [*right_vars, a], big[0])
        left_tie.at_most(k, [*left_coefs, big[1]], [*left_vars, a], 0.0)
        if len(left_vars) > 1 or sign < 0:
            left_line.at_least(k, left_coefs, left_vars, 0.0)


def add_sides(block: Any, keys: list[int], low: FloatArray, high: FloatArray) -> None:
    """Add switches that select the side of pre-activations, without outputs of the units."""
    switch = add_variables(block, "switch", keys, binary=True)
    rows = Rows(block, "conditional", [(k, side) for k in keys for side in (0, 1)])
    for k, a in zip(keys, switch, strict=True):
        pair = [block.preactivation[k], a]
        rows.at_most((k, 1), [1.0, -float(high[k])], pair, 0.0)
        rows.at_least((k, 0), [1.0, float(low[k])], pair, float(low[k]))


def _difference(sign: float, out: Any, slope: float, z: Any) -> tuple[list[float], list[Any]]:
    """Return coefficients and variables of ``sign (out - slope z)`` without a zero term."""
    if slope == 0.0:
        return [sign], [out]
    return [sign, -sign * slope], [out, z]


def tie_sides(block: Any, units: OpenUnits) -> None:
    """Add ``z = p - n`` and ``y = right p - left n`` with p = side[k, 1] and n = side[k, 0]."""
    keys = [(k, side) for k in units.keys for side in (0, 1)]
    tops = np.stack([-units.lower, units.upper], axis=1)[units.keys]
    add_variables(block, "side", keys, np.zeros(len(keys)), np.maximum(tops, 0.0).reshape(-1))
    split, joined = Rows(block, "split", units.keys), Rows(block, "joined", units.keys)
    for k in units.keys:
        left, right = units.slopes(k)
        p, n = block.side[k, 1], block.side[k, 0]
        split.equal(k, [1.0, -1.0, 1.0], [block.preactivation[k], p, n], 0.0)
        joined.equal(k, [1.0, -right, left], [block.output[k], p, n], 0.0)


def tie_sos1(block: Any, units: OpenUnits) -> None:
    """Add sides in a special ordered set of type 1, so that at most one is positive."""
    tie_sides(block, units)
    pairs = {k: [(k, 0), (k, 1)] for k in units.keys}
    sets = pyo.SOSConstraint(units.keys, var=block.side, index=pairs, sos=1)
    block.add_component("exclusive", sets)


def tie_complementarity(block: Any, units: OpenUnits) -> None:
    """Add sides whose product is at most zero."""
    tie_sides(block, units)
    exclusive = pyo.Constraint(units.keys)
    block.add_component("exclusive", exclusive)
    for k in units.keys:
        exclusive[k] = block.side[k, 0] * block.side[k, 1] <= 0.0


def tie_gdp(block: Any, units: OpenUnits) -> None:
    """Add two disjuncts per unit: ``z >= 0, y = right z`` or ``z <= 0, y = left z``."""
    for name in ("on", "off"):
        declared(block, name, Disjunct, units.keys)
    sides = Disjunction(units.keys)
    block.add_component("sides", sides)
    for k in units.keys:
        z, slopes = block.preactivation[k], units.slopes(k)
        for disjunct, slope, ends in (
            (block.off[k], slopes[0], (None, 0.0)),
            (block.on[k], slopes[1], (0.0, None)),
        ):
            coefs, variables = _difference(1.0, block.output[k], slope, z)
            for name, row in (
                ("sign", (ends[0], linear([1.0], [z]), ends[1])),
                ("line", (linear(coefs, variables), 0.0)),
            ):
                disjunct.add_component(name, pyo.Constraint(expr=row))
        sides[k] = [block.on[k], block.off[k]]


def switch_of(block: Any) -> dict[int, Any]:
    """Return the switch variables of a layer block by unit; empty if its units have none."""
    if block.component("switch") is not None:
        return dict(block.switch.items())
    if block.component("on") is not None:
        return {k: block.on[k].binary_indicator_var for k in block.on}
    return {}


def terms_of(block: Any, k: int) -> tuple[list[float], list[Any], float]:
    """Return coefficients, variables and constant of the pre-activation of unit k."""
    forms = block.affine.forms
    return *forms.row(k), float(forms.constant[k])


def tie_partition(block: Any, units: OpenUnits) -> None:
    """Declare ``switch``, ``share[k, n]`` and their rows."""
    add_variables(block, "switch", units.keys, binary=True)
    plans = {k: _grouped(*terms_of(block, k)[:2], units.groups) for k in units.keys}
    pairs = [(k, n) for k, groups in plans.items() for n in range(len(groups))]
    ends = {(k, n): _range(*plans[k][n]) for k, n in pairs}
    lows = [min(ends[pair][0], 0.0) for pair in pairs]
    highs = [max(ends[pair][1], 0.0) for pair in pairs]
    add_variables(block, "share", pairs, lows, highs)
    names = ("share_low", "share_high", "rest_low", "rest_high")
    share_low, share_high, rest_low, rest_high = (Rows(block, name, pairs) for name in names)
    for k, n in pairs:
        (coefs, variables), (low, high) = plans[k][n], ends[k, n]
        s, a = block.share[k, n], block.switch[k]
        share_low.at_least((k, n), [1.0, low], [s, a], low)
        share_high.at_most((k, n), [1.0, high], [s, a], high)
        rest_low.at_least((k, n), [*coefs, -1.0, -low], [*variables, s, a], 0.0)
        rest_high.at_most((k, n), [*coefs, -1.0, -high], [*variables, s, a], 0.0)
    # ``y = right z - (right - left) I`` and the bounds of both parts
    joined, left_high, left_low, right_low, right_high = (
        Rows(block, name, units.keys)
        for name in ("joined", "left_high", "left_low", "right_low", "right_high")
    )
    for k in units.keys:
        constant = terms_of(block, k)[2]
        left, right = units.slopes(k)
        delta, z, a = right - left, block.preactivation[k], block.switch[k]
        shares = [block.share[k, n] for n in range(len(plans[k]))]
        ones = [1.0] * len(shares)
        # The left part is sum(shares) + constant (1 - a).
        part, variables = [*ones, -constant], [*shares, a]
        scaled = [delta * c for c in part]
        joined.equal(k, [1.0, -right, *scaled], [block.output[k], z, *variables], -delta * constant)
        left_high.at_most(k, part, variables, -constant)
        low, high = float(units.lower[k]), float(units.upper[k])
        left_low.at_least(k, [*ones, low - constant], variables, low - constant)
        rest = [-c for c in part]
        right_low.at_least(k, [1.0, *rest], [z, *variables], constant)
        right_high.at_most(k, [1.0, *rest[:-1], constant - high], [z, *variables], constant)


def _grouped(
    coefs: list[float], variables: list[Any], count: int
) -> list[tuple[list[float], list[Any]]]:
    """Partition terms into `count` groups of equal size, by their coefficients."""
    order = np.argsort(coefs, kind="stable")
    parts = [part.tolist() for part in np.array_split(order, max(1, min(count, len(coefs))))]
    return [([coefs[i] for i in part], [variables[i] for i in part]) for part in parts]


def ends_of_terms(w: FloatArray, variables: list[Any]) -> tuple[FloatArray, FloatArray]:
    """Return the least and largest value of each term, from its variable's bounds."""
    box = box_of(variables)
    at_lower, at_upper = w * box.lower, w * box.upper
    return np.minimum(at_lower, at_upper), np.maximum(at_lower, at_upper)


def _range(coefs: list[float], variables: list[Any]) -> tuple[float, float]:
    """Return the range of a group, rounded outwards."""
    low, high = ends_of_terms(np.array(coefs), variables)
    slack = 2.0**-50 * (len(coefs) + 2)
    return (
        float(low.sum() - slack * np.abs(low).sum()),
        float(high.sum() + slack * np.abs(high).sum()),
    )


UNIT_TIES = {
    "bigm": tie_bigm,
    "partition": tie_partition,
    "gdp": tie_gdp,
    "sos1": tie_sos1,
    "complementarity": tie_complementarity,
}
"""The formulations of unstable units by name."""
