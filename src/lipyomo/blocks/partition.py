r"""Units by partition of their inputs: between big-M and the convex hull.

The terms of ``z = sum_i w_i h_i + c`` are put into groups with values t_n in [L_n, U_n].  A
variable s_n takes the value of the group while the unit is on its left-hand side (a = 0) and is
zero otherwise:

    L_n (1 - a) <= s_n <= U_n (1 - a),    L_n a <= t_n - s_n <= U_n a.

With the left part I = sum_n s_n + c (1 - a) <= 0 and the right part z - I >= 0,

    y = right (z - I) + left I.

One group is big-M with tighter rows, one group a term the convex hull (Tsay, Kronqvist, Thebelt
and Misener, "Partition-based formulations for mixed-integer optimization of trained ReLU neural
networks", 2021).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.blocks.assemble import Rows, add_variables
from lipyomo.blocks.ranges import box_of
from lipyomo.blocks.units import OpenUnits


def terms_of(block: Any, k: int) -> tuple[list[float], list[Any], float]:
    """Coefficients, variables and constant of the pre-activation of unit k."""
    forms = block.affine.forms
    return *forms.row(k), float(forms.constant[k])


def tie_partition(block: Any, units: OpenUnits) -> None:
    """Declare ``switch``, ``share[k, n]`` and their rows."""
    switch = add_variables(block, "switch", units.keys, binary=True)
    plans = {k: _grouped(*terms_of(block, k), units.groups) for k in units.keys}
    pairs = [(k, n) for k, (groups, _) in plans.items() for n in range(len(groups))]
    ends = {(k, n): _range(*plans[k][0][n]) for k, n in pairs}
    lows = [min(ends[pair][0], 0.0) for pair in pairs]
    highs = [max(ends[pair][1], 0.0) for pair in pairs]
    found = add_variables(block, "share", pairs, lows, highs)
    share = dict(zip(pairs, found, strict=True))
    names = ("share_low", "share_high", "rest_low", "rest_high")
    share_low, share_high, rest_low, rest_high = (Rows(block, name, pairs) for name in names)
    on = dict(zip(units.keys, switch, strict=True))
    for k, n in pairs:
        (coefs, variables), (low, high) = plans[k][0][n], ends[k, n]
        s, a = share[k, n], on[k]
        share_low.at_least((k, n), [1.0, low], [s, a], low)
        share_high.at_most((k, n), [1.0, high], [s, a], high)
        rest_low.at_least((k, n), [*coefs, -1.0, -low], [*variables, s, a], 0.0)
        rest_high.at_most((k, n), [*coefs, -1.0, -high], [*variables, s, a], 0.0)
    _tie_outputs(block, units, plans, share, on)


def _tie_outputs(
    block: Any,
    units: OpenUnits,
    plans: dict[int, Any],
    share: dict[tuple[int, int], Any],
    on: dict[int, Any],
) -> None:
    """``y = right z - (right - left) I`` and the signs of both parts."""
    names = ("joined", "left_high", "left_low", "right_low", "right_high")
    joined, left_high, left_low, right_low, right_high = (
        Rows(block, name, units.keys) for name in names
    )
    for k, out in zip(units.keys, units.y, strict=True):
        groups, constant = plans[k]
        left, right = units.slopes(k)
        delta, z, a = right - left, units.z[k], on[k]
        shares = [share[k, n] for n in range(len(groups))]
        ones = [1.0] * len(shares)
        # The left part is sum(shares) + constant (1 - a).
        part, variables = [*ones, -constant], [*shares, a]
        scaled = [delta * c for c in part]
        joined.equal(k, [1.0, -right, *scaled], [out, z, *variables], -delta * constant)
        left_high.at_most(k, part, variables, -constant)
        low, high = float(units.lower[k]), float(units.upper[k])
        left_low.at_least(k, [*ones, low - constant], variables, low - constant)
        rest = [-c for c in part]
        right_low.at_least(k, [1.0, *rest], [z, *variables], constant)
        right_high.at_most(k, [1.0, *rest[:-1], constant - high], [z, *variables], constant)


def _grouped(
    coefs: list[float], variables: list[Any], constant: float, count: int
) -> tuple[list[tuple[list[float], list[Any]]], float]:
    """Terms in `count` groups of equal size, in the order of their coefficients."""
    order = np.argsort(coefs, kind="stable")
    groups = []
    for part in np.array_split(order, max(1, min(count, len(coefs)))):
        picked = part.tolist()
        groups.append(([coefs[i] for i in picked], [variables[i] for i in picked]))
    return groups, constant


def ends_of_terms(w: FloatArray, variables: list[Any]) -> tuple[FloatArray, FloatArray]:
    """Least and largest value of each term, from the bounds of its variable."""
    box = box_of(variables)
    at_lower, at_upper = w * box.lower, w * box.upper
    return np.minimum(at_lower, at_upper), np.maximum(at_lower, at_upper)


def _range(coefs: list[float], variables: list[Any]) -> tuple[float, float]:
    """Range of a group, rounded outwards."""
    low, high = ends_of_terms(np.array(coefs), variables)
    slack = 2.0**-50 * (len(coefs) + 2)
    return (
        float(low.sum() - slack * np.abs(low).sum()),
        float(high.sum() + slack * np.abs(high).sum()),
    )
