"""Activations as Pyomo expressions, in forms that do not overflow.

``exp`` of float64 overflows above 709, so the plain forms are used where the certified range of a
pre-activation excludes that, and forms with ``tanh`` or ``abs`` elsewhere.  A unit whose range lies
on one side of its breakpoints gets the formula of that side.  Otherwise

    max(z, 0) = (z + |z|) / 2,    min(z, 0) = (z - |z|) / 2.

Neither Pyomo nor the files that solvers read support the error function.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyomo.environ as pyo

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.networks import activations as units
from lipyomo.networks.activations import Activation
from lipyomo.networks.layer import Layer

Range = tuple[float, float]
"""Certified bounds of a pre-activation."""

Make: TypeAlias = Callable[[Any, Any, Range], Any]
"""Maps an activation, a variable and its bounds to an expression."""

_STEEP = math.sqrt(2.0 / math.pi)

OVERFLOW = math.log(sys.float_info.max) - 1.0
"""Largest argument for which ``exp`` is used."""


def expression_of(activation: Activation, z: Any, ends: Range) -> Any:
    """Return the activation of a variable as an expression.

    Parameters
    ----------
    activation : Activation
    z : VarData
    ends : (float, float)
        Certified bounds of `z`, which may be infinite.

    Raises
    ------
    ProblemError
        If it has no such expression.
    """
    found = _made(0, activation, z, ends)
    if found is None:
        raise ProblemError(
            f"{activation.name} is no expression that Pyomo has.  Remedy: segments=8, say, for a "
            "piecewise-linear relaxation"
        )
    return found


def slope_of(activation: Activation, z: Any, ends: Range) -> Any:
    """Return the derivative of an activation as an expression.

    Parameters
    ----------
    activation : Activation
    z : VarData or expression
    ends : (float, float)
        Certified bounds of `z`, which may be infinite.

    Raises
    ------
    ProblemError
        If it has no such expression, or jumps within the bounds.
    """
    found = _made(1, activation, z, ends)
    if found is None:
        raise ProblemError(
            f"the derivative of {activation.name} on [{ends[0]:g}, {ends[1]:g}] is no expression: "
            "it jumps there, or Pyomo has no such function.  Remedy: narrower bounds of the "
            "inputs, or a NetworkGreyBox"
        )
    return found


def _made(part: int, unit: Activation, z: Any, ends: Range) -> Any:
    """Return the value (0) or slope (1); for confined units, that of the underlying function."""
    known = _TABLE.get(type(unit.true))
    exact_gelu = isinstance(unit.true, units.Gelu) and unit.true.approximate != "tanh"
    return None if known is None or exact_gelu else known[part](unit.true, z, ends)


def activations_of(layer: Layer) -> dict[int, Activation]:
    """Return the activations of a layer's smooth units."""
    return {k: curve.activation for curve in layer.curves for k in curve.units.tolist()}


def need_no_kink(layer: Layer, ranges: tuple[FloatArray, FloatArray], i: int, why: str) -> None:
    """Raise `ProblemError` if a two-slope unit of hidden layer `i` is unstable."""
    low, high = ranges
    bent = np.flatnonzero(layer.kinked & (low < 0) & (high > 0))
    if bent.size:
        raise ProblemError(
            f"unit {int(bent[0])} of hidden layer {i} has a kink within its bounds, and {why}"
        )


def _positive(z: Any, ends: Range) -> Any:
    """``max(z, 0)``."""
    low, high = ends
    return z if low >= 0 else 0.0 if high <= 0 else 0.5 * (z + abs(z))


def _negative(z: Any, ends: Range) -> Any:
    """``min(z, 0)``."""
    low, high = ends
    return 0.0 if low >= 0 else z if high <= 0 else 0.5 * (z - abs(z))


def _logistic(z: Any, ends: Range, factor: float = 1.0) -> Any:
    """``1 / (1 + exp(-factor z))`` for a positive factor."""
    if factor * ends[0] >= -OVERFLOW:
        return 1.0 / (1.0 + pyo.exp(-factor * z))
    return 0.5 + 0.5 * pyo.tanh((0.5 * factor) * z)


def _log_exp(z: Any, ends: Range, factor: float = 1.0) -> Any:
    """``log(1 + exp(factor z)) / factor`` for a positive factor."""
    if factor * ends[1] <= OVERFLOW:
        return pyo.log(1.0 + pyo.exp(factor * z)) / factor
    return 0.5 * (z + abs(z)) + pyo.log(1.0 + pyo.exp(-factor * abs(z))) / factor


def _bent(z: Any, ends: Range, height: float, width: float) -> Any:
    """``z`` above zero, ``height (exp(z / width) - 1)`` below."""
    below = height * (pyo.exp(_negative(z, ends) / width) - 1.0) if ends[0] < 0 else 0.0
    return _positive(z, ends) + below


def _one_and_size(z: Any, ends: Range) -> Any:
    """``1 + |z|``."""
    low, high = ends
    return 1.0 + (z if low >= 0 else -z if high <= 0 else abs(z))


def _hard_swish(_: Any, z: Any, ends: Range) -> Any:
    low, high = ends
    if low >= 3.0 or high <= -3.0:
        return z if low >= 3.0 else 0.0
    if low >= -3.0 and high <= 3.0:
        return z * (z + 3.0) / 6.0
    return z * (abs(z + 3.0) - abs(z - 3.0) + 6.0) / 12.0


def _power(z: Any, exponent: float) -> Any:
    """``z**exponent`` for a multiple of 1/2; whole exponents become integers for Pyomo."""
    return z ** (int(exponent) if exponent == int(exponent) else exponent)


def _bell(z: Any, ends: Range, factor: float = 1.0) -> Any:
    """Return the derivative of ``1 / (1 + exp(-factor z))``, divided by the factor."""
    s = _logistic(z, ends, factor)
    return s * (1.0 - s)


def _mish_slope(_: Any, z: Any, ends: Range) -> Any:
    t = pyo.tanh(_log_exp(z, ends))
    return t + z * (1.0 - t**2) * _logistic(z, ends)


def _gelu_tanh(z: Any) -> Any:
    return pyo.tanh(_STEEP * (z + 0.044715 * z**3))


def _gelu_slope(_: Any, z: Any, ends: Range) -> Any:
    t = _gelu_tanh(z)
    return 0.5 * (1.0 + t) + 0.5 * _STEEP * z * (1.0 - t**2) * (1.0 + 0.134145 * z**2)


def _bent_slope(z: Any, ends: Range, height: float, width: float) -> Any:
    """Derive ``_bent``; None if it jumps in the range, unless height equals width."""
    if ends[0] >= 0:
        return 1.0
    if ends[1] > 0 and height != width:
        return None
    return (height / width) * pyo.exp(_negative(z, ends) / width)


def _selu_slope(unit: units.Selu, z: Any, ends: Range) -> Any:
    found = _bent_slope(z, ends, unit.alpha, 1.0)
    return None if found is None else unit.gamma * found


def _hard_swish_slope(_: Any, z: Any, ends: Range) -> Any:
    low, high = ends
    if low >= 3.0 or high <= -3.0:
        return 1.0 if low >= 3.0 else 0.0
    return (2.0 * z + 3.0) / 6.0 if low >= -3.0 and high <= 3.0 else None


def _exp(_: Any, z: Any, ends: Range) -> Any:
    return pyo.exp(z) if ends[1] <= OVERFLOW else None


_TABLE: Mapping[type[Activation], tuple[Make, Make]] = {
    units.Tanh: (lambda _, z, ends: pyo.tanh(z), lambda _, z, ends: 1.0 - pyo.tanh(z) ** 2),
    units.Sigmoid: (lambda _, z, ends: _logistic(z, ends), lambda _, z, ends: _bell(z, ends)),
    units.Softplus: (
        lambda unit, z, ends: _log_exp(z, ends, unit.beta),
        lambda unit, z, ends: _logistic(z, ends, unit.beta),
    ),
    units.Swish: (
        lambda unit, z, ends: z * _logistic(z, ends, unit.beta),
        lambda unit, z, ends: (
            _logistic(z, ends, unit.beta) + unit.beta * z * _bell(z, ends, unit.beta)
        ),
    ),
    units.Mish: (lambda _, z, ends: z * pyo.tanh(_log_exp(z, ends)), _mish_slope),
    units.Gelu: (lambda _, z, ends: 0.5 * z * (1.0 + _gelu_tanh(z)), _gelu_slope),
    units.Sin: (lambda _, z, ends: pyo.sin(z), lambda _, z, ends: pyo.cos(z)),
    units.Cos: (lambda _, z, ends: pyo.cos(z), lambda _, z, ends: -pyo.sin(z)),
    units.Elu: (
        lambda unit, z, ends: _bent(z, ends, unit.alpha, 1.0),
        lambda unit, z, ends: _bent_slope(z, ends, unit.alpha, 1.0),
    ),
    units.Celu: (
        lambda unit, z, ends: _bent(z, ends, unit.alpha, unit.alpha),
        lambda unit, z, ends: _bent_slope(z, ends, unit.alpha, unit.alpha),
    ),
    units.Selu: (lambda unit, z, ends: unit.gamma * _bent(z, ends, unit.alpha, 1.0), _selu_slope),
    units.Softsign: (
        lambda _, z, ends: z / _one_and_size(z, ends),
        lambda _, z, ends: _one_and_size(z, ends) ** -2,
    ),
    units.HardSwish: (_hard_swish, _hard_swish_slope),
    units.Power: (
        lambda unit, z, ends: _power(z, unit.exponent),
        lambda unit, z, ends: unit.exponent * _power(z, unit.exponent - 1.0),
    ),
    units.Half: (lambda unit, z, ends: _power(z, unit.exponent), lambda _, z, ends: 2.0 * z),
    units.Exp: (_exp, _exp),
    units.Log: (lambda _, z, ends: pyo.log(z), lambda _, z, ends: 1.0 / z),
}
"""Value and slope of the supported activations."""
