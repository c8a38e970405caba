r"""The gradient of a smooth network, propagated backwards, in a Pyomo block.

For a functional c on the outputs, with D_i the diagonal of ``sigma'(z)`` of hidden layer i,

    t_L = W_{L+1}^T c,   s_i = D_i t_i,   t_{i-1} = W_i^T s_i,   gradient = t_0.

There is one variable for each t and each s, in addition to those of the network's values.  The rows
of t are affine, those of s have three variables each, so that the model's Jacobian stays sparse.
In the reduced space, the gradient is one expression in the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.assemble import add_equalities, add_layers, add_variables, declared
from lipyomo.blocks.curves import activations_of, need_no_kink, slope_of
from lipyomo.blocks.forward import Ranges
from lipyomo.blocks.labels import Labels
from lipyomo.networks.network import Network
from lipyomo.relaxations.linear.layers import parts_of
from lipyomo.relaxations.linear.relax import Switches
from lipyomo.solvers.expressions import combination
from lipyomo.solvers.rows import Forms
from lipyomo.solvers.variables import box_of


@dataclass(frozen=True)
class SlopesOfUnits:
    """The slopes of a layer's units.

    Attributes
    ----------
    curved : dict
        Expressions of the slopes of smooth units.
    least, most : ndarray, shape (n,)
        Ranges of the slopes, which are one number for linear units.
    """

    curved: dict[int, Any]
    least: FloatArray
    most: FloatArray


def slopes_in(part: Any, base: Any, i: int) -> SlopesOfUnits:
    """Declare ``part.slope[k]``, the slopes of the smooth units of hidden layer i.

    Raises
    ------
    ProblemError
        If a unit's slope has no expression.
    """
    layer, (low, high) = base.network.hidden[i], base.ranges(i)
    kinds = activations_of(layer)
    found = declared(part, "slope", pyo.Expression, sorted(kinds)) if kinds else {}
    for k in sorted(kinds):
        z = base.layer[i].preactivation[k]
        found[k] = slope_of(kinds[k], z, (float(low[k]), float(high[k])))
    slopes = np.where(low >= 0, layer.right, layer.left)
    least, most = slopes.copy(), slopes.copy()
    for curve in layer.curves:
        units = curve.units
        least[units], most[units] = curve.activation.slope_range(low[units], high[units])
    return SlopesOfUnits(dict(found.items()), least, most)


def add_smooth_chain(
    block: Any, base: Any, functional: Any, along: Network, labels: Labels
) -> None:
    """Declare ``block.gradient``, the gradient of a functional of a smooth network.

    Parameters
    ----------
    block : BlockData
    base : SmoothNetworkBlock
    functional : ndarray or list of VarData, length m
    along : Network
        The network as a function of the coefficients of the directions.
    labels : Labels
        Keys of the gradient.

    Raises
    ------
    ProblemError
        If a unit's slope has no expression.
    """
    _check_slopes(base)
    hidden = base.network.hidden
    add_layers(block, len(hidden))
    slopes = [slopes_in(block.layer[i], base, i) for i in range(len(hidden))]
    if base.reduced_space:
        _add_expressions(block, slopes, functional, along, labels)
        return
    if isinstance(functional, np.ndarray):
        forms, ends = Forms.numbers(functional), (functional, functional)
    else:
        forms, box = Forms.of(functional), box_of(functional, finite=False)
        ends = box.lower, box.upper
    weights = [layer.dense_weight.T for layer in along.layers]
    maps = [parts_of(layer).split.transposed for layer in along.layers]
    for i in reversed(range(len(hidden))):
        forms, ends = forms.map(weights[i + 1]), maps[i + 1].range(*ends)
        forms, ends = _passed(block.layer[i], slopes[i], forms, ends)
    forms, ends = forms.map(weights[0]), maps[0].range(*ends)
    gradient = add_variables(block, "gradient", labels, *ends)
    add_equalities(block, "gradient_affine", labels, gradient, forms)


def _check_slopes(base: Any) -> None:
    """Raise `ProblemError` if a block has segments or units with kinks in their bounds."""
    if base.segments is not None:
        raise ProblemError(
            f"'{base.name}' relaxes its curves by segments, which have no derivative.  "
            "Remedy: leave segments= out, for solvers of nonlinear programs"
        )
    for i, layer in enumerate(base.network.hidden):
        why = "has no derivative there.  Remedy: narrower bounds of the inputs"
        need_no_kink(layer, base.ranges(i), i, why)


def _passed(
    block: Any, slopes: SlopesOfUnits, arriving: Forms, ends: Ranges
) -> tuple[Forms, Ranges]:
    """Return the derivatives multiplied by one layer's slopes, with rows for smooth units."""
    keys = list(slopes.curved)
    moving = [k for k in keys if not arriving.is_constant()[k]]
    t = add_variables(block, "arriving", moving, ends[0][moving], ends[1][moving])
    add_equalities(block, "arriving_affine", moving, t, arriving, moving)
    low, high = Switches(slopes.least, slopes.most).range(*ends)
    passed = add_variables(block, "passed", keys, low[keys], high[keys])
    factors: dict[int, Any] = dict(enumerate(arriving.constant.tolist()))
    factors |= dict(zip(moving, t, strict=True))
    if keys:
        rows = pyo.Constraint(keys)
        block.add_component("product", rows)
        for k, out in zip(keys, passed, strict=True):
            rows[k] = out - slopes.curved[k] * factors[k] == 0.0
    # A smooth unit has a variable for the product, a linear one multiplies by a number.
    curved = np.isin(np.arange(slopes.least.size), keys)
    straight = arriving.map(sp.diags_array(np.where(curved, 0.0, slopes.least)))
    return straight.plus(keys, passed), (low, high)


def _add_expressions(
    block: Any, slopes: list[SlopesOfUnits], functional: Any, along: Network, labels: Labels
) -> None:
    """Declare the gradient as an expression in the inputs."""
    weights = [layer.dense_weight.T.tolist() for layer in along.layers]
    now: list[Any] = functional.tolist() if isinstance(functional, np.ndarray) else list(functional)
    for i in reversed(range(len(slopes))):
        known = dict(enumerate(slopes[i].least.tolist())) | slopes[i].curved
        passed = declared(block.layer[i], "passed", pyo.Expression, range(len(known)))
        for k, column in enumerate(weights[i + 1]):
            passed[k] = known[k] * combination(column, now)
        now = list(passed.values())
    gradient = declared(block, "gradient", pyo.Expression, labels)
    for key, column in zip(labels, weights[0], strict=True):
        gradient[key] = combination(column, now)
