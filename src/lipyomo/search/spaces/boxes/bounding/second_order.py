"""Bounding the objective by a quadratic function, and this by an affine one.

As in `collapse.py`, sums ``a . h + b . t`` are taken back from layer to layer, but terms of second
order in the deviations ``p = z - f`` and ``q = u - n`` from the middles of a box are kept.  With
lines ``r + s p +- d`` around sigma', and a parabola above the expression in brackets
(`lipyomo.networks.activations.parabolas`), a unit has

    a sigma + b u sigma' = (a sigma + b n sigma') + b q sigma'
                        <= over + c z + k p**2 / 2 + b r q + b s q p + |b q| d,

and a product has

    z_i z_j           = f_j z_i + f_i z_j - f_i f_j + p_i p_j,
    u_i z_j + z_i u_j = f_j u_i + n_i z_j - n_i f_j + q_i p_j
                      + f_i u_j + n_j z_i - n_j f_i + q_j p_i.

The affine terms are taken back to the layer before.  Products of deviations are written as a
quadratic form in (x, v) directly, by the affine functions known for z and u; the errors of these
are multiplied by the size of the other deviation.  So the error is O(h**3) for a box of width h
with one direction, and terms of different units cancel before they are bounded.  On wide boxes this
is worse than planes.

Rounding is covered as in `collapse.py`: the absolute terms of a sum are counted a few times more
than it has operations that `BoxContext.unit` does not cover.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.bounding.collapse import rounding_of
from lipyomo.search.spaces.boxes.bounding.majorants import tangents
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs, turned
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation, Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Stage


class _Terms(NamedTuple):
    """The terms of a layer's units, or products, outside the quadratic form.

    Attributes
    ----------
    slopes, rates : ndarray, shape (N, n)
        Coefficients of z and u of each branch.
    constant, sizes : ndarray, shape (N,)
        The constants, and the sums of absolute terms.
    error : ndarray, shape (N,)
    """

    slopes: FloatArray
    rates: FloatArray
    constant: FloatArray
    sizes: FloatArray
    error: FloatArray

    def plus(self, other: _Terms) -> _Terms:
        """Combine the terms of units with those of the products of the same layer."""
        return _Terms(
            np.concatenate([self.slopes, other.slopes], axis=1),
            np.concatenate([self.rates, other.rates], axis=1),
            self.constant + other.constant,
            self.sizes + other.sizes,
            self.error + other.error,
        )


@np.errstate(over="ignore", invalid="ignore")  # an overflow gives no bound
def second_order(known: Relaxation, rows: FloatArray, errors: FloatArray | None) -> Above:
    """Do the same as `collapsed` (`collapse.py`), by quadratic functions.

    Gaps are not computed.

    Parameters
    ----------
    known : Relaxation
    rows : ndarray, shape (N, n_L)
    errors : ndarray, shape (N, n_L), optional
        Bounds of the errors of the rows.
    """
    context, (x, v, _) = known.context, known.inputs
    unit, moving, count = context.unit, bool(v.radius.any()), len(rows)
    middle, radius = x.middle, x.radius
    if moving:
        middle = np.concatenate([middle, v.middle], axis=1)
        radius = np.concatenate([radius, v.radius], axis=1)
    form = DeviationProducts(count, middle.shape[1])
    a, b = np.zeros_like(rows), rows
    constant, sizes, error = (np.zeros(count) for _ in range(3))
    for stage, layer in zip(reversed(context.stages), reversed(known.layers), strict=True):
        ends = np.minimum(layer.low, layer.high), layer.high
        z = Away.of(layer.pre, ends, known.inputs, moving, unit)
        ends = layer.tangent - layer.tangent_radius, layer.tangent + layer.tangent_radius
        u = Away.of(layer.pre_tangent, ends, known.inputs, moving, unit)
        n = stage.units_of(stage.bias).size
        some, others = z.take(slice(n)), u.take(slice(n))
        factors, middles = (a[:, :n], b[:, :n]), (some.middle, others.middle)
        terms, weights = units_to_second_order(stage, layer, factors, middles, others.reach)
        form.add(weights[0], others, some)
        form.add(weights[1], some, some)
        if stage.products is not None:
            terms = terms.plus(_of_products(stage, layer, (a[:, n:], b[:, n:]), (z, u), form))
        constant, sizes = constant + terms.constant, sizes + terms.sizes
        error = error + terms.error
        a, b = terms.slopes @ stage.branch_weight, terms.rates @ stage.branch_along
    linear = np.concatenate([a, b], axis=1)[:, : middle.shape[1]]
    above = tangents(form.matrix, linear * radius)
    slope = np.divide(above.slope, radius, out=np.zeros_like(middle), where=radius > 0.0)
    error = error + form.error
    constant = constant + above.constant + error - (slope * middle).sum(axis=1)
    sizes = sizes + form.size + above.size + error
    sizes = sizes + (np.abs(slope) * (np.abs(middle) + radius)).sum(axis=1)
    fuzz = rounding_of(context.stages[-1], known.layers[-1], errors) + 8.0 * unit * (
        sizes + np.abs(constant)
    )
    fuzz = fuzz * (1.0 + unit)
    slope = np.where(np.isfinite(slope), slope, 0.0)
    constant = np.where(np.isnan(constant + fuzz), np.inf, constant + fuzz)
    d = x.middle.shape[1]
    return Above(a + slope[:, :d], b + slope[:, d:] if moving else b, constant, fuzz)


Pair = tuple[FloatArray, FloatArray]


def units_to_second_order(
    stage: Stage, layer: Relaxed, factors: Pair, middles: Pair, reach: FloatArray
) -> tuple[_Terms, Pair]:
    """Compute the terms of units outside products of deviations, and the weights of q p and p p.

    Parameters
    ----------
    stage : Stage
    layer : Relaxed
    factors : (ndarray, ndarray), shape (N, n)
        The factors of outputs and tangents.
    middles : (ndarray, ndarray), shape (N, n)
        f and n, for z and u.
    reach : ndarray, shape (N, n)
        Upper bounds of |q|.
    """
    (a, b), (f, n) = factors, middles
    units = slice(a.shape[1])
    low, high = np.minimum(layer.low, layer.high)[:, units], layer.high[:, units]
    slopes, k, _, over = stage.each("parabolas", a, b * n, low, high, f)
    bend, centre, away = (part[:, units] for part in layer.bend)
    rate, size = centre + bend * f, np.abs(b)
    rates, left = b * rate, size * reach * away
    constant = over + slopes * stage.units_of(stage.bias) - rates * n
    steepest = np.abs(centre) + np.abs(bend * f) + away
    steepest = steepest + np.abs(layer.rate[:, units]) + layer.rate_radius[:, units]
    sizes = np.abs(over) + np.abs(slopes) * layer.reach[:, units]
    sizes += size * steepest * (layer.pace[:, units] + np.abs(n) + reach)
    terms = _Terms(slopes, rates, *(part.sum(axis=1) for part in (constant, sizes, left)))
    return terms, (b * bend, 0.5 * k)


def _of_products(
    stage: Stage, layer: Relaxed, factors: Pair, both: tuple[Away, Away], form: DeviationProducts
) -> _Terms:
    """Compute the terms of products, and add their deviations to the form."""
    assert stage.products is not None
    i, j = stage.products.left, stage.products.right
    (a, b), (z, u) = factors, both
    z_i, z_j, u_i, u_j = z.take(i), z.take(j), u.take(i), u.take(j)
    form.add(a, z_i, z_j)
    form.add(b, u_i, z_j)
    form.add(b, u_j, z_i)
    f_i, f_j, n_i, n_j = z_i.middle, z_j.middle, u_i.middle, u_j.middle
    slopes = np.concatenate([a * f_j + b * n_j, a * f_i + b * n_i], axis=1)
    rates = np.concatenate([b * f_j, b * f_i], axis=1)
    biases = (slopes * np.concatenate([stage.bias[i], stage.bias[j]])).sum(axis=1)
    constant = biases - (a * (f_i * f_j) + b * (n_i * f_j + n_j * f_i)).sum(axis=1)
    reach, pace = layer.reach, layer.pace
    f_i, f_j, n_i, n_j = (np.abs(part) for part in (f_i, f_j, n_i, n_j))
    sizes = np.abs(a) * (f_i * f_j + f_j * reach[:, i] + f_i * reach[:, j])
    sizes += np.abs(b) * (n_i * f_j + n_j * f_i + n_j * reach[:, i] + n_i * reach[:, j])
    sizes += np.abs(b) * (f_j * pace[:, i] + f_i * pace[:, j])
    return _Terms(slopes, rates, constant, sizes.sum(axis=1), np.zeros(len(a)))


class Away(NamedTuple):
    """Signals minus numbers near their middles: ``turn . e +- error`` for e in [-1, 1]^D.

    Attributes
    ----------
    middle : ndarray, shape (N, n)
        These numbers.
    turn : ndarray, shape (N, n, D)
    size : ndarray, shape (N, n)
        Sums of the absolute values of `turn`.
    error : ndarray, shape (N, n)
    reach : ndarray, shape (N, n)
        Upper bounds of the absolute values, by the known ranges.
    """

    middle: FloatArray
    turn: FloatArray
    size: FloatArray
    error: FloatArray
    reach: FloatArray

    @classmethod
    def of(cls, affine: Affine, ends: Ends, inputs: Inputs, moving: bool, unit: float) -> Away:
        """Combine affine functions of x, and of v if it is `moving`, with ranges of the same."""
        turn, middle = turned(affine, inputs, moving)
        middle = np.broadcast_to(middle, ends[0].shape)
        turn = np.broadcast_to(turn, (*middle.shape, turn.shape[2]))
        size = np.abs(turn).sum(axis=2)
        error = affine.radius + unit * (np.abs(middle) + affine.radius + size)
        reach = np.maximum(np.maximum(ends[1] - middle, middle - ends[0]), 0.0) * (1.0 + unit)
        return cls(middle, turn, size, np.fmin(error, (reach + size) * (1.0 + unit)), reach)

    def take(self, which: IntArray | slice) -> Away:
        """Select some of the signals."""
        return Away(*(array[:, which] for array in self))

    def error_with(self, other: Away) -> FloatArray:
        """Bound the errors of products of ``turn . e``, one by one."""
        one = self.size * other.error + self.error * other.reach
        return np.fmin(one, self.reach * other.error + self.error * other.size)


class DeviationProducts:
    """Sums of products of deviations: ``e' matrix e +- error`` for each of N boxes.

    Attributes
    ----------
    matrix : ndarray, shape (N, D, D)
    error : ndarray, shape (N,)
    size : ndarray, shape (N,)
        Sums of the absolute values of all terms of the matrix.
    """

    def __init__(self, count: int, dimension: int) -> None:
        self.matrix = np.zeros((count, dimension, dimension))
        self.error, self.size = np.zeros(count), np.zeros(count)

    def add(self, weights: FloatArray, one: Away, other: Away) -> FloatArray:
        """Add products with weights (N, n), one by one; return their errors (N, n)."""
        sizes = np.abs(weights)
        turned = np.swapaxes(one.turn * weights[:, :, None], 1, 2)
        self.matrix = self.matrix + np.matmul(turned, other.turn)
        error = sizes * one.error_with(other)
        self.error = self.error + error.sum(axis=1)
        self.size = self.size + (sizes * one.size * other.size).sum(axis=1)
        return error
