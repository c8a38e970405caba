r"""The gradient of a smooth network, propagated backwards, as a Pyomo block holds it.

For a functional c on the outputs, with D_i the diagonal of ``sigma'(z)`` of hidden layer i,

    t_L = W_{L+1}^T c,   s_i = D_i t_i,   t_{i-1} = W_i^T s_i,   gradient = t_0.

Beside the variables of a network's values there is one for each t and each s.  The rows of t are
affine, those of s hold three variables each, so that the Jacobian of the model stays sparse.  In
the reduced space all of it is one expression in the inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.assemble import add_equalities, add_layers, add_variables, declared
from lipyomo.blocks.curves import combination, kinds_of, need_no_kink, slope_of
from lipyomo.blocks.labels import Labels
from lipyomo.blocks.ranges import box_of
from lipyomo.blocks.switch import Triplets
from lipyomo.networks.network import Layer, Network
from lipyomo.relaxations.linear.interval import Switches
from lipyomo.relaxations.linear.parts import parts_of
from lipyomo.solvers.rows import Forms

Ends = tuple[FloatArray, FloatArray]


def add_smooth_chain(
    block: Any, base: Any, functional: Any, along: Network, labels: Labels
) -> None:
    """Declare ``block.gradient``, that of a functional of a smooth network.

    Parameters
    ----------
    block : BlockData
    base : SmoothNetworkBlock
    functional : ndarray or list of VarData, length m
    along : Network
        The network as a function of the directions that are asked for.
    labels : Labels
        Keys of the gradient.

    Raises
    ------
    ProblemError
        If a unit has no slope that can be written.
    """
    _check_slopes(base)
    add_layers(block, len(base.network.hidden))
    if base.reduced_space:
        _add_expressions(block, base, functional, along, labels)
        return
    if isinstance(functional, np.ndarray):
        forms, ends = Forms.numbers(functional), (functional, functional)
    else:
        forms, box = Forms.of(functional), box_of(functional, finite=False)
        ends = box.lower, box.upper
    weights = [layer.dense_weight.T for layer in along.layers]
    maps = [parts_of(layer).split.transposed for layer in along.layers]
    for i in reversed(range(len(base.network.hidden))):
        forms, ends = forms.map(weights[i + 1]), maps[i + 1].range(*ends)
        layer, given = base.network.hidden[i], base.layer[i].preactivation
        forms, ends = _passed(block.layer[i], layer, base.ranges(i), given, forms, ends)
    forms, ends = forms.map(weights[0]), maps[0].range(*ends)
    gradient = add_variables(block, "gradient", labels, *ends)
    add_equalities(block, "gradient_affine", labels, gradient, forms)


def _check_slopes(base: Any) -> None:
    """Raise `ProblemError` if the slopes of a block's units are no expressions."""
    if base.segments is not None:
        raise ProblemError(
            f"'{base.name}' relaxes its curves by segments, which have no derivative.  "
            "Remedy: leave segments= out, for solvers of nonlinear programs"
        )
    for i, layer in enumerate(base.network.hidden):
        why = "has no derivative there.  Remedy: narrower bounds of the inputs"
        need_no_kink(layer, base.ranges(i), i, why)


def _passed(
    block: Any, layer: Layer, ranges: Ends, z: Any, arriving: Forms, ends: Ends
) -> tuple[Forms, Ends]:
    """What leaves the units of one layer, with rows for those that are curved."""
    slopes, least, most = _slopes_of(layer, ranges)
    curved = np.flatnonzero(layer.curved)
    number = arriving.is_constant()
    moving = curved[~number[curved]].tolist()
    t = add_variables(block, "arriving", moving, ends[0][moving], ends[1][moving])
    add_equalities(block, "arriving_affine", moving, t, arriving, moving)
    factors: dict[int, Any] = dict(zip(moving, t, strict=True))
    low, high = Switches(least, most).range(*ends)
    keys = curved.tolist()
    s = add_variables(block, "passed", keys, low[keys], high[keys])
    kinds = kinds_of(layer)
    if keys:
        slope = declared(block, "slope", pyo.Expression, keys)
        rows = pyo.Constraint(keys)
        block.add_component("product", rows)
        constants = arriving.constant.tolist()
        for k, out in zip(keys, s, strict=True):
            slope[k] = slope_of(kinds[k], z[k], (float(ranges[0][k]), float(ranges[1][k])))
            rows[k] = out - slope[k] * factors.get(k, constants[k]) == 0.0
    found, constant = Triplets(), np.zeros(layer.units)
    made = dict(zip(keys, s, strict=True))
    for k, factor in enumerate(slopes.tolist()):
        if k in made:
            found.add(k, 1.0, made[k])
        elif factor != 0.0:
            coefs, columns = arriving.row(k)
            constant[k] = factor * float(arriving.constant[k])
            for c, column in zip(coefs, columns, strict=True):
                found.add(k, factor * c, column)
    return Forms(found.matrix(layer.units), constant, found.columns), (low, high)


def _slopes_of(layer: Layer, ranges: Ends) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Slopes of the straight units, and ranges of all slopes."""
    low, high = ranges
    slopes = np.where(low >= 0, layer.right, layer.left)
    least, most = slopes.copy(), slopes.copy()
    for curve in layer.curves:
        units = curve.units
        least[units], most[units] = curve.activation.slope_range(low[units], high[units])
    return slopes, least, most


def _add_expressions(
    block: Any, base: Any, functional: Any, along: Network, labels: Labels
) -> None:
    """The gradient as an expression in the inputs."""
    weights = [layer.dense_weight.T.tolist() for layer in along.layers]
    now: list[Any] = functional.tolist() if isinstance(functional, np.ndarray) else list(functional)
    for i in reversed(range(len(base.network.hidden))):
        layer, part, ranges = base.network.hidden[i], block.layer[i], base.ranges(i)
        slopes, _, _ = _slopes_of(layer, ranges)
        z = base.layer[i].preactivation
        kinds = kinds_of(layer)
        passed = declared(part, "passed", pyo.Expression, range(layer.units))
        for k, column in enumerate(weights[i + 1]):
            arrives = combination(column, now)
            ends = float(ranges[0][k]), float(ranges[1][k])
            slope = slope_of(kinds[k], z[k], ends) if k in kinds else float(slopes[k])
            passed[k] = slope * arrives
        now = list(passed.values())
    gradient = declared(block, "gradient", pyo.Expression, labels)
    for key, column in zip(labels, weights[0], strict=True):
        gradient[key] = combination(column, now)
