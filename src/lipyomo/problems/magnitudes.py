"""Overflow and underflow: problems whose products may overflow are refused, underflow is counted.

The rest of the package neglects overflow and underflow, so both are handled here.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import UNDERFLOW
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Domain

LARGEST = 1e100
"""Numbers above this are refused: their products overflow."""

MOST_GAIN = 0.5 * math.log10(np.finfo(np.float64).max / 1e8)
"""Largest decimal exponent of a product of one row sum per layer, about 150: sums of 1e8 squares
do not overflow."""

FAINT = 60.0
"""Products of one number per layer above ten to minus this power do not underflow, nor do their
fourth powers and differences.  If products may be smaller, at least ten to minus this power is
added to upper bounds."""

THINNEST = 10.0**-FAINT
"""Smallest width of a domain in an input that is not frozen; thinner ones are refused."""

LOST = math.log10(UNDERFLOW) + FAINT
"""Decimal exponent of the gradient that may be lost by underflow of a pre-activation in the
thinnest domain.  Later layers multiply it by their gain."""

SINGLE = 0.5 * math.log10(np.finfo(np.float32).max)
"""Decimal exponent up to which squares of products, and sums of them, stay within float32."""

_REMEDY = "scale the network, or the units of its inputs and outputs"


def check_magnitudes(
    network: Network,
    domain: Domain,
    functionals: FloatArray | None,
    directions: Matrix | None = None,
) -> None:
    """Refuse a problem whose numbers, their squares or products leave the range of float64.

    Raises
    ------
    ProblemError
    """
    if functionals is not None and _ends(functionals)[0] > LARGEST:
        raise ProblemError(
            f"the functional (or the dual ball) has entries above {LARGEST:g}.  Remedy: scale it "
            "down; the constant is proportional to it"
        )
    finite = [ends[np.isfinite(ends)] for ends in (domain.lower, domain.upper)]
    if _ends(np.concatenate(finite))[0] > LARGEST:
        raise ProblemError(
            f"the domain reaches beyond {LARGEST:g}.  Remedy: {_REMEDY}, or take all of R^d"
        )
    with np.errstate(invalid="ignore"):
        if _ends(domain.upper - domain.lower)[1] < THINNEST:
            raise ProblemError(
                f"the domain is thinner than {THINNEST:g} in an input.  Remedy: {_REMEDY}, or "
                "fix the input by equal bounds"
            )
    for position, layer in enumerate(network.layers):
        if layer_ends(layer)[0] > LARGEST:
            raise ProblemError(
                f"layer {position} of the network has numbers above {LARGEST:g}.  Remedy: {_REMEDY}"
            )
    if directions is not None and _ends(_numbers(directions))[0] > LARGEST:
        raise ProblemError(
            f"the directions (or weights) have entries above {LARGEST:g}.  Remedy: scale them "
            "down; the constant is proportional to them"
        )
    if _gain(network) + (0.0 if directions is None else _row_gain(directions)) > MOST_GAIN:
        raise ProblemError(
            f"the gradients' terms may exceed 1e{MOST_GAIN:.0f}: their squares overflow.  "
            f"Remedy: {_REMEDY}"
        )


def underflow_of(
    network: Network, functionals: FloatArray | None, directions: Matrix | None = None
) -> float:
    """Return the addition to upper bounds for underflow, zero if products cannot underflow."""
    drops = [_slope_drop(layer) for layer in network.layers]
    if functionals is not None:
        drops.append(min(0.0, math.log10(_ends(functionals)[1])))
    if directions is not None:
        drops.append(min(0.0, math.log10(_ends(_numbers(directions))[1])))
    if sum(drops) >= -FAINT:
        return 0.0
    gain = _gain(network)
    if functionals is not None:
        gain += _row_gain(functionals)
    if directions is not None:
        gain += _row_gain(directions)
    return float(10.0 ** max(-FAINT, LOST + gain))


def overflow_is_meant(network: Network, domain: Domain) -> AbstractContextManager[object]:
    """Silence overflow warnings if numbers, or their inverses, may leave the range of float32.

    Some steps run in float32; only multipliers and bounds that are discarded overflow there.
    """
    finite = np.concatenate([ends[np.isfinite(ends)] for ends in (domain.lower, domain.upper)])
    reach = math.log10(max(1.0, _ends(finite)[0]))
    least = min(layer_ends(layer)[1] for layer in network.layers)
    if _gain(network) + reach < SINGLE and least > 10.0**-SINGLE:
        return nullcontext()
    return np.errstate(over="ignore", invalid="ignore")


def layer_ends(layer: Layer) -> tuple[float, float]:
    """Return the largest and the smallest nonzero absolute value of a layer's numbers."""
    numbers = (_numbers(layer.weight), layer.bias, layer.left, layer.right)
    ends = [_ends(part) for part in numbers]
    return max(high for high, _ in ends), min(low for _, low in ends)


def _numbers(matrix: Matrix) -> FloatArray:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.data)


def _row_gain(matrix: Matrix) -> float:
    """Return the decimal exponent of a matrix's largest row sum, at least 0."""
    return math.log10(max(1.0, float(abs(matrix).sum(axis=1).max())))


def _ends(values: FloatArray) -> tuple[float, float]:
    """Return the largest and the smallest nonzero absolute value; (0, 1) if all are zero."""
    sizes = np.abs(values)
    return float(sizes.max(initial=0.0)), float(sizes.min(initial=1.0, where=sizes > 0))


def _gain(network: Network) -> float:
    """Return the sum of the decimal exponents, at least 0, of the layers' row sums times slopes."""
    total = 0.0
    for layer in network.layers:
        steepest = max(_ends(layer.left)[0], _ends(layer.right)[0])
        total += math.log10(max(1.0, float(layer.row_sums.max(initial=0.0)) * steepest))
    return total


def _slope_drop(layer: Layer) -> float:
    """Return the decimal exponent, at most 0, of the smallest weight times the smallest slope.

    It is minus infinity for smooth units, whose slopes can be arbitrarily small.
    """
    if layer.curves:
        return -math.inf
    slopes = min(_ends(layer.left)[1], _ends(layer.right)[1])
    return math.log10(_ends(_numbers(layer.weight))[1]) + math.log10(slopes)
