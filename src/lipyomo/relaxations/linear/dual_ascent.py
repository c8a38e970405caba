r"""Bounds of pre-activations under partial patterns, by dual ascent on the LP of the whole node.

Back-substitution (CROWN; Zhang et al., 2018) bounds ``+-z_r`` of a unit r by replacing each unit
before it with a line, down to the inputs.  Here every *decided* unit of any layer, later ones too,
and every row of the domain has a multiplier, as in beta-CROWN (Wang et al., 2021), and the free
slopes are optimised as in alpha-CROWN (Xu et al., 2021).  The optimum is that of the linear
program over the whole node in which unstable units are relaxed to triangles.

The bound.  Let ``z_i = W_i h_{i-1} + b_i``, ``h_i = sigma(z_i)``, ``h_0 = x``, and let unit k have
slopes a_k (left) and b_k (right).  On a node, with ``l_k <= z_k <= u_k``,

- an unstable unit with ``b_k >= a_k`` obeys ``alpha z_k <= h_k <= c_k z_k + o_k`` for any alpha
  between its slopes; c_k is the slope of its chord and ``o_k = max((a_k - c_k) l_k, (b_k - c_k)
  u_k)``; with ``b_k < a_k`` both inequalities are reversed, and o_k is the minimum;
- a stable unit has ``h_k = c_k z_k``, c_k its slope, and ``s_k z_k >= 0``, s_k = 1 right, -1 left;
- the domain has rows ``A x <= b``, a box, perhaps a ball.

For functionals going down from the last layer, ``lambda_L = 0`` and ``kappa = 0``, let

    mu_k     =  e_k + lambda_k c_k                    decided, or open where the chord is above
             =  e_k + lambda_k alpha_k                open where the line through zero is above
    mu_k    +=  beta_k s_k                            decided, beta_k >= 0
    kappa   +=  mu . b_i + sum of lambda_k o_k over the chords,      lambda_{i-1} = mu W_i

with ``e = +-1`` at unit r.  At the inputs, with gamma >= 0, ``kappa += gamma . b`` and
``lambda_0 -= gamma A``.  Then ``+-z_r <= lambda_0 . x + kappa <= support(lambda_0) + kappa`` on the
node, *whatever* alpha, beta, gamma are within their ranges.  The derivative of the bound in
``alpha_k`` is ``lambda_k z_k``, in beta_k ``s_k z_k``, in gamma ``b - A x``, at the point x that
attains the support and its pre-activations along the lines in use.  A step therefore costs two
products with each weight matrix for all bounds of all nodes of a batch.

Steps run in single precision; the returned bounds are evaluated in double precision and widened by
their rounding errors (see `DualAscent.bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix, keep_memory, lengths
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.base.system.memory import CACHED
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import term_sizes
from lipyomo.problems.domains import Domain
from lipyomo.relaxations.linear.dual_steps import (
    DualSteps,
    Gathered,
    GatheredNodes,
    NodeTriangles,
    SingleArray,
    WantedBounds,
)
from lipyomo.relaxations.linear.params import PARAMS
from lipyomo.relaxations.linear.relax import Triangle

_LARGE = np.sqrt(np.finfo(np.float32).max)
"""Largest natural size of a multiplier: its square does not overflow in single precision."""


class DualAscent:
    """Dual-ascent bounds of one network on parts of one bounded domain.

    Parameters
    ----------
    layers : sequence of Layer
        The hidden layers; sparse weights stay sparse.
    domain : Domain
    errors : ndarray, shape (N,), optional
        Error bounds of the pre-activations if the weights are not exact.

    Attributes
    ----------
    columns : int
        Number of multipliers of one bound: one for each unit, then one for each row of the domain.
    first : int
        Number of units of the first layer.
    work : int
        Multiplications of one step of one bound.
    sizes : ndarray, shape (N,)
        Upper bounds of the sums of absolute terms of the pre-activations.
    """

    def __init__(
        self, layers: Sequence[Layer], domain: Domain, errors: FloatArray | None = None
    ) -> None:
        keep_memory()
        weights = [layer.weight for layer in layers]
        self._maps = [_with_bias(layer) for layer in layers]
        empty: FloatArray = np.zeros(0)
        left = self._left = np.concatenate([empty, *(layer.left for layer in layers)])
        right = self._right = np.concatenate([empty, *(layer.right for layer in layers)])
        self._small, self._large = np.minimum(left, right), np.maximum(left, right)
        starts = np.cumsum([0, *(layer.units for layer in layers)]).tolist()
        self._spans = [slice(a, b) for a, b in pairwise(starts)]
        self._count, self.first = int(starts[-1]), int(starts[:2][-1])
        self._ball = domain.ball
        self._facets = domain.rows.dense
        self._limits = domain.rows.b
        self._steps = DualSteps(
            [both.astype(np.float32) for both in self._maps],
            self._spans,
            self._facets.astype(np.float32),
            self._limits.astype(np.float32),
            domain.ball,
        )
        reach = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
        self._facet_sizes = np.abs(self._facets) @ reach + np.abs(self._limits)
        self.sizes = np.concatenate([empty, *term_sizes(layers, reach)])
        self._terms = max([reach.size, *(layer.units for layer in layers)])
        self.columns = self._count + int(self._limits.size)
        self.work = 2 * sum(weight.size for weight in weights) + 16 * self.columns
        self._terms += self._limits.size + 4 * len(self._spans) + 32
        if errors is not None:  # counted as rounding errors
            self.sizes = self.sizes + errors / (3.0 * self._terms * UNIT)

    def relax(
        self,
        phases: npt.NDArray[np.int8],
        lower: FloatArray,
        upper: FloatArray,
        low: FloatArray,
        high: FloatArray,
    ) -> NodeTriangles:
        """Relax the units of a batch of nodes with phases and bounds (B, N) and boxes (B, d)."""
        left, right = self._left, self._right
        slope = np.where(phases == RIGHT, right, left)
        still = phases == OPEN
        triangle = Triangle.of(  # ranges of stable units may be infinite
            np.where(still, lower, 0.0),
            np.where(still, upper, 0.0),
            np.where(still, left, slope),
            np.where(still, right, slope),
        )
        kinked = left != right
        useful_right = kinked & (phases == RIGHT) & (lower <= 0)
        useful_left = kinked & (phases == LEFT) & (upper >= 0)
        return NodeTriangles(
            *triangle,
            np.where(useful_right, 1.0, np.where(useful_left, -1.0, 0.0)),
            np.maximum(upper - lower, 1e-12 * self.sizes + 1e-300),
            low,
            high,
        )

    def start(self, relaxation: NodeTriangles, rows: WantedBounds) -> SingleArray:
        """Return CROWN's slopes and zero multipliers of constraints, shape (R, columns)."""
        line = np.where(
            (relaxation.chord - self._small) > 0.5 * (self._large - self._small),
            self._large,
            self._small,
        )
        line = np.where(relaxation.bend != 0, line, 0.0).astype(np.float32)
        multipliers = np.zeros((rows.count, self.columns), dtype=np.float32)
        multipliers[:, : self._count] = line[rows.node]
        return multipliers

    def ascend(
        self,
        relaxation: NodeTriangles,
        rows: WantedBounds,
        multipliers: SingleArray,
        steps: int,
        stop: Callable[[], bool] = lambda: False,
    ) -> SingleArray:
        """Improve `multipliers` by `steps` steps; rows whose bound gets no better are kept.

        Parameters
        ----------
        relaxation : NodeTriangles
        rows : WantedBounds
        multipliers : ndarray, shape (R, columns)
            Clipped to their allowed ranges.
        steps : int
        stop : callable, optional
            Polled between parts; once True, the remaining rows are kept.
        """
        rate = PARAMS.rate
        slopes, weights = (part.astype(np.float32) for part in self._scales(relaxation))
        slopes *= np.float32(rate)
        limits = (*self._ranges(relaxation), slopes, weights)
        nodes = GatheredNodes(relaxation, self._spans, np.float32, *limits)
        own = np.float32(rate) * relaxation.size[rows.node, rows.unit].astype(np.float32)
        found = multipliers.copy()
        for part in self._parts(rows):
            if stop():
                break
            data, (least, most, scale, weight) = nodes.gather(rows[part])
            weight *= own[part]
            scale += weight
            current = np.minimum(np.maximum(multipliers[part].T, least), most, order="C")
            with np.errstate(over="ignore", invalid="ignore"):
                found[part] = self._steps.ascended(data, current, (least, most, scale), steps).T
        return found

    def _parts(self, rows: WantedBounds) -> Iterator[slice]:
        """Split the bounds into equal parts whose arrays fit into the processor's cache."""
        most = CACHED // (24 * max(self.columns, 1))  # six arrays of single precision
        count = -(-rows.count // max(most, 1)) or 1
        ends = np.linspace(0, rows.count, count + 1).astype(int).tolist()
        return (slice(a, b) for a, b in pairwise(ends))

    def _ranges(self, relaxation: NodeTriangles) -> tuple[FloatArray, FloatArray]:
        """Return the allowed ranges of the multipliers on each node, shapes (B, columns)."""
        still = relaxation.bend != 0
        least = np.zeros((len(still), self.columns))
        most = np.full((len(still), self.columns), np.inf)
        least[:, : self._count] = np.where(still, self._small, 0.0)
        limit = np.where(relaxation.sign != 0, np.inf, 0.0)
        most[:, : self._count] = np.where(still, self._large, limit)
        return least, most

    def _scales(self, relaxation: NodeTriangles) -> tuple[FloatArray, FloatArray]:
        """Return natural sizes of alpha, and of beta and gamma per width of the unit's range.

        Shapes (B, columns); the unit is the one that is bounded.
        """
        still = relaxation.bend != 0
        slope = np.zeros((len(still), self.columns))
        weight = np.zeros((len(still), self.columns))
        slope[:, : self._count] = np.where(still, self._large - self._small, 0.0)
        weight[:, : self._count] = np.where(still, 0.0, np.minimum(1.0 / relaxation.size, _LARGE))
        weight[:, self._count :] = np.minimum(1.0 / np.maximum(self._facet_sizes, 1e-300), _LARGE)
        return slope, weight

    def bounds(
        self,
        relaxation: NodeTriangles,
        rows: WantedBounds,
        multipliers: SingleArray,
        stop: Callable[[], bool] = lambda: False,
    ) -> FloatArray:
        """Return upper bounds of ``sign * z_unit`` that are safe against rounding, shape (R,).

        They are valid for any multipliers, which are clipped to their allowed ranges.  Once `stop`,
        which is polled between parts, is True, the remaining bounds are infinite.

        Notes
        -----
        The evaluation substitutes the rounded numbers of each layer as they are, so rounding errors
        do not accumulate from layer to layer: each only adds its own share.  With Z_k at least
        ``|W_k| |h| + |b_k|``, over the whole domain and with every unit at its steeper slope, a
        layer adds at most ``gamma (|e| + |lambda c| + |lambda alpha| + |beta|)_k Z_k`` and the
        same share of its offsets, where gamma covers a sum over a layer's units and a few more
        operations.  The domain's rows and the support add theirs.  Chords may have any slope, as
        their offsets are computed for the slope that is used.
        """
        result = np.full(rows.count, np.inf)
        nodes = GatheredNodes(relaxation, self._spans, np.float64, *self._ranges(relaxation))
        for part in self._parts(rows):
            if stop():
                break
            data, limits = nodes.gather(rows[part])
            coefficients, constant, amount = self._linear(data, limits, multipliers[part])
            sizes = np.abs(coefficients)
            value = _products(coefficients, data.middle) + _products(sizes, data.radius)
            amount += _products(sizes, np.abs(data.middle) + data.radius)
            if self._ball is not None:
                if self._ball.norm == "l2":
                    norm = lengths(coefficients, axis=0)
                else:
                    norm = sizes.max(axis=0, initial=0.0)
                in_ball = self._ball.point @ coefficients + self._ball.radius * norm
                amount += self._ball.radius * norm + np.abs(self._ball.point) @ sizes
                value = np.minimum(value, in_ball)
            result[part] = value + constant + 3.0 * self._terms * UNIT * amount
        return np.where(np.isfinite(result), result, np.inf)

    def functions(
        self, relaxation: NodeTriangles, rows: WantedBounds, multipliers: SingleArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return linear functions that bound ``sign * z_unit`` from above, safe against rounding.

        Returns
        -------
        slopes : ndarray, shape (R, d)
        constants : ndarray, shape (R,)
        """
        nodes = GatheredNodes(relaxation, self._spans, np.float64, *self._ranges(relaxation))
        coefficients, constant, amount = self._linear(*nodes.gather(rows), multipliers)
        slopes = np.nan_to_num(np.ascontiguousarray(coefficients.T))
        reach = np.maximum(np.abs(relaxation.low), np.abs(relaxation.high))
        amount += (np.abs(slopes) * reach[rows.node]).sum(axis=1)
        result = constant + 3.0 * self._terms * UNIT * amount
        return slopes, np.where(np.isfinite(result), result, np.inf)

    def _linear(
        self, data: Gathered, limits: list[FloatArray], multipliers: SingleArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return slopes (d, R), constants (R,) and sums of absolute terms (R,).

        Rounding is not yet allowed for; its error is proportional to the sums.  Multipliers are
        clipped to their allowed ranges.
        """
        least, most = limits
        exact = np.asarray(multipliers.T, dtype=np.float64, order="C")
        np.maximum(exact, least, out=exact)
        np.minimum(exact, most, out=exact)
        constant, amount = np.zeros(len(multipliers)), np.zeros(len(multipliers))
        coefficients: FloatArray | None = None
        for i in range(len(self._spans) - 1, -1, -1):
            span = self._spans[i]
            total = exact[span] * data.sign[span]
            size = np.abs(total)
            if coefficients is not None:
                line = coefficients
                coefficients = data.beyond(coefficients, span)  # one of the two is zero
                line -= coefficients
                shift = coefficients * data.offset[span]
                lines = exact[span] * line + data.chord[span] * coefficients
                total += lines
                size += np.abs(lines)
                constant += shift.sum(axis=0)
                amount += np.abs(shift).sum(axis=0)
            seed = data.seeds[i]
            if seed is not None:
                total += seed
                size += np.abs(seed)
            amount += self.sizes[span] @ size
            below = np.asarray(self._maps[i].T @ total)
            coefficients = below[:-1]
            constant += below[-1]
        assert coefficients is not None
        if self._limits.size:
            gamma = exact[self._count :]
            constant += self._limits @ gamma
            amount += self._facet_sizes @ gamma
            coefficients = coefficients - self._facets.T @ gamma
        return coefficients, constant, amount


def _with_bias(layer: Layer) -> Matrix:
    """Return the weights (n, m) with the biases as last column, shape (n, m + 1)."""
    column = layer.bias[:, None]
    if isinstance(layer.weight, np.ndarray):
        return np.hstack([layer.weight, column])
    return sp.csr_array(sp.hstack([layer.weight, sp.csr_array(column)]))


def _products(
    values: npt.NDArray[np.floating], weights: npt.NDArray[np.floating]
) -> npt.NDArray[np.floating]:
    """Return the inner products (R,) of the columns of (d, R) with those of (d, R) or (d, 1)."""
    if weights.shape[1] == 1:
        return np.asarray(weights[:, 0] @ values)
    return np.asarray(np.einsum("nr,nr->r", values, weights))
