"""Bounds of adjoints and tangents: interval (FastLip, Weng et al., 2018) and linear.

The adjoint of layer i is the derivative of y . f with respect to that layer's outputs h_i; the
tangent is the derivative of its pre-activations z_i in a direction v:

    t_L = W_{L+1}^T y,   t_{i-1} = W_i^T (D_i t_i),   gradient = t_0     (seed paper LipMIP, eq. 13)
    u_1 = W_1 v,         u_{i+1} = W_{i+1} (D_i u_i)

D_i holds the slopes of the units.  An open unit turns t into left t or right t; decided units
stay linear, so that the linear rung multiplies the exact matrices through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from lipyomo.bounds.interval import PhaseBatch
from lipyomo.bounds.linear import Link, back_substitute
from lipyomo.bounds.parts import SplitMatrix, parts_of
from lipyomo.bounds.preactivation import LayerBounds
from lipyomo.bounds.relax import switch_lines
from lipyomo.errors import NetworkError
from lipyomo.network import FloatArray, Layer, Network
from lipyomo.norms import DUAL, InputNorm, OutputNorm, vector_norm
from lipyomo.numerics.rounding import UNIT, gamma
from lipyomo.phases import LEFT, RIGHT, Phases, decide

Rung = Literal["interval", "linear", "lp"]


@dataclass(frozen=True)
class DerivativeBounds:
    """Bounds of adjoints or tangents.

    Attributes
    ----------
    lower, upper : list of ndarray, shapes (n_i,)
        One pair a hidden layer: the adjoint of its outputs h_i, or the tangent of its
        pre-activations z_i; what enters the units' switches.
    switched_lower, switched_upper : list of ndarray, shapes (n_i,)
        What leaves the switches: the adjoint of z_i, or the tangent of h_i.
    end_lower, end_upper : ndarray
        The gradient (d,) for adjoints, the derivative of the outputs (m,) for tangents.
    rung : str
        interval, linear or lp.
    """

    lower: list[FloatArray]
    upper: list[FloatArray]
    switched_lower: list[FloatArray]
    switched_upper: list[FloatArray]
    end_lower: FloatArray
    end_upper: FloatArray
    rung: Rung


class Ball(Protocol):
    """A set of vectors known by its support function."""

    def support(self, rows: FloatArray) -> FloatArray:
        """Safe upper bounds of functionals (..., n) over the set, shape (...)."""

    def reach(self, rows: FloatArray) -> FloatArray:
        """Upper bounds of the sum of the absolute terms of these products, shape (...)."""


@dataclass(frozen=True)
class InputBall:
    """Directions v with ``|v|_alpha <= 1``."""

    norm: InputNorm

    def support(self, rows: FloatArray) -> FloatArray:
        """Dual norms of the rows."""
        return np.asarray(vector_norm(rows, DUAL[self.norm]) * (1.0 + gamma(rows.shape[-1])))

    def reach(self, rows: FloatArray) -> FloatArray:
        """The same: the ball does not care for signs."""
        return self.support(rows)


@dataclass(frozen=True)
class DualBall:
    """Functionals y in the dual ball of an output norm."""

    norm: OutputNorm

    def support(self, rows: FloatArray) -> FloatArray:
        """Output norms of the rows."""
        return np.asarray(self.norm.value(rows) + gamma(rows.shape[-1]) * self.reach(rows))

    def reach(self, rows: FloatArray) -> FloatArray:
        """Products with the largest value of each entry of y, which is the norm of e_j."""
        return np.asarray(np.abs(rows) @ self.norm.value(np.eye(rows.shape[-1])))


@dataclass(frozen=True, eq=False)
class Hull:
    """The convex hull of functionals, rows of shape (k, m)."""

    points: FloatArray

    def support(self, rows: FloatArray) -> FloatArray:
        """Largest product with one of the points."""
        error = gamma(rows.shape[-1]) * (np.abs(rows) @ np.abs(self.points).T)
        return np.asarray((rows @ self.points.T + error).max(axis=-1))

    def reach(self, rows: FloatArray) -> FloatArray:
        """Largest sum of absolute terms."""
        return np.asarray((np.abs(rows) @ np.abs(self.points).T).max(axis=-1))


def functional_set(functionals: FloatArray | OutputNorm, m: int) -> Ball:
    """The set of functionals y that is meant: the hull of rows (k, m), or a dual ball."""
    if isinstance(functionals, OutputNorm):
        return DualBall(functionals)
    points = np.atleast_2d(np.asarray(functionals, dtype=np.float64))
    if points.shape[1] != m:
        raise NetworkError(
            f"the functional has {points.shape[1]} entries, the network has {m} outputs"
        )
    return Hull(points)


@dataclass(frozen=True, eq=False)
class Switches:
    """Slopes of one layer's units; equal where the unit is decided, shapes (B, n)."""

    left: FloatArray
    right: FloatArray

    @classmethod
    def of(cls, layer: Layer, phases: PhaseBatch) -> Switches:
        """Slopes that are possible under `phases` (B, n)."""
        left = np.where(phases == RIGHT, layer.right, layer.left)
        return cls(left, np.where(phases == LEFT, layer.left, layer.right))


@dataclass(frozen=True)
class ChainBounds:
    """Bounds along a chain of matrices with switches in between, shapes (B, n_i)."""

    lower: list[FloatArray]
    upper: list[FloatArray]
    switched_lower: list[FloatArray]
    switched_upper: list[FloatArray]


def chain_bounds(
    matrices: Sequence[SplitMatrix], switches: Sequence[Switches], ball: Ball, rung: Rung
) -> ChainBounds:
    """Bound ``M_0 a``, ``M_1 S_1 M_0 a``, ... for a in a ball and any switch positions.

    Parameters
    ----------
    matrices : sequence of SplitMatrix
        M_0, ..., M_K.
    switches : sequence of Switches
        K of them; S_i acts between M_{i-1} and M_i.
    ball : Ball
        Where a lives.
    rung : {'interval', 'linear', 'lp'}
        ``lp`` counts as ``linear`` here.
    """
    found = ChainBounds([], [], [], [])
    links: list[Link] = []
    batch = len(switches[0].left) if switches else 1
    for position, matrix in enumerate(matrices):
        if position == 0:
            low, high, reach = _first(matrix, ball, batch)
        else:
            stage = matrix.range(found.switched_lower[-1], found.switched_upper[-1])
            low, high, reach = stage.lower, stage.upper, stage.reach
            if rung != "interval":
                low, high = _substituted(matrix, links, ball, low, high)
        found.lower.append(low)
        found.upper.append(high)
        if position == len(switches):
            break
        pair = switches[position]
        products = (pair.left * low, pair.left * high, pair.right * low, pair.right * high)
        down, up = np.minimum.reduce(products), np.maximum.reduce(products)
        found.switched_lower.append(down - UNIT * np.abs(down))
        found.switched_upper.append(up + UNIT * np.abs(up))
        if rung != "interval":
            lines = switch_lines(low, high, pair.left, pair.right)
            links.append(Link(matrix, None, lines, reach))
    return found


def _dense(matrix: SplitMatrix) -> FloatArray:
    full = matrix.full
    return full if isinstance(full, np.ndarray) else np.asarray(full.toarray())


def _first(
    matrix: SplitMatrix, ball: Ball, batch: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Range of the first matrix over the ball, and the reach of its terms."""
    rows = _dense(matrix)
    high, low = ball.support(np.vstack([rows, -rows])).reshape(2, -1)
    shape = (batch, len(rows))
    reach = np.broadcast_to(ball.reach(rows), shape)
    return np.broadcast_to(-low, shape), np.broadcast_to(high, shape), reach


def _substituted(
    matrix: SplitMatrix, links: Sequence[Link], ball: Ball, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Intersect interval bounds with those of back-substitution."""
    rows = _dense(matrix)
    both = np.broadcast_to(np.vstack([rows, -rows]), (len(low), 2 * len(rows), rows.shape[1]))
    left_over, offset = back_substitute(both, links)
    ends = ball.support(left_over) + offset
    ends = ends + gamma(2) * np.abs(ends)
    return np.maximum(low, -ends[:, len(rows) :]), np.minimum(high, ends[:, : len(rows)])


def adjoint_bounds(
    network: Network,
    phases: Phases | None,
    bounds: LayerBounds,
    functionals: FloatArray | OutputNorm,
    rung: Rung = "linear",
) -> DerivativeBounds:
    """Bounds of the adjoints of every hidden layer and of the gradient.

    Parameters
    ----------
    network : Network
    phases : Phases, optional
        Partial pattern beyond what `bounds` decided.
    bounds : LayerBounds
        Of the pre-activations.
    functionals : ndarray, shape (k, m) or (m,), or OutputNorm
        y runs over the hull of these rows, or over the dual ball of that norm.
    rung : {'linear', 'interval'}, optional

    Returns
    -------
    DerivativeBounds
    """
    closed = _closed(phases, bounds)
    matrices = [parts_of(layer).split.transposed for layer in reversed(network.layers)]
    switches = [
        Switches.of(layer, phase[None, :])
        for layer, phase in zip(reversed(network.hidden), reversed(closed), strict=True)
    ]
    ball = functional_set(functionals, network.output_dim)
    return _unbatched(chain_bounds(matrices, switches, ball, rung), rung, backwards=True)


def tangent_bounds(
    network: Network,
    phases: Phases | None,
    bounds: LayerBounds,
    input_norm: InputNorm,
    rung: Rung = "linear",
) -> DerivativeBounds:
    """Bounds of the directional derivatives of every hidden layer and of the outputs.

    Parameters
    ----------
    network : Network
    phases : Phases, optional
        Partial pattern beyond what `bounds` decided.
    bounds : LayerBounds
        Of the pre-activations.
    input_norm : {'l1', 'l2', 'linf'}
        The direction v runs over ``|v|_alpha <= 1``.
    rung : {'linear', 'interval'}, optional

    Returns
    -------
    DerivativeBounds
    """
    closed = _closed(phases, bounds)
    matrices = [parts_of(layer).split for layer in network.layers]
    switches = [
        Switches.of(layer, phase[None, :])
        for layer, phase in zip(network.hidden, closed, strict=True)
    ]
    found = chain_bounds(matrices, switches, InputBall(input_norm), rung)
    return _unbatched(found, rung, backwards=False)


def _closed(phases: Phases | None, bounds: LayerBounds) -> Phases:
    return bounds.phases if phases is None else decide(phases, bounds.lower, bounds.upper)


def _unbatched(found: ChainBounds, rung: Rung, backwards: bool) -> DerivativeBounds:
    """Drop the batch axis and put the layers in forward order."""

    def plain(arrays: list[FloatArray]) -> list[FloatArray]:
        layers = [array[0] for array in arrays]
        return layers[::-1] if backwards else layers

    return DerivativeBounds(
        plain(found.lower[:-1]),
        plain(found.upper[:-1]),
        plain(found.switched_lower),
        plain(found.switched_upper),
        found.lower[-1][0],
        found.upper[-1][0],
        rung,
    )
