"""Euclidean norms of Jacobians over many boxes: along a pair of directions, and across them.

With unit vectors y of the outputs and v of the inputs, the Jacobian in orthonormal bases that begin
with them has four blocks, and

    |J|_2 <= | [ M  a ] |      M >= |y . J v|,       a >= |(I - v v^T) J^T y|,
             | [ b  c ] |_2    b >= |(I - y y^T) J v|,    c >= |(I - y y^T) J (I - v v^T)|.

M is the bound of `bound`; a, b and c come from the Jacobian as an affine function of x, and are
small where y and v are those of the Jacobian in the middle of a small box.  Where the output is one
functional b and c are 0, where the input norm is not Euclidean (v is then any direction of its box)
a and c are.  So a case may end where M is at most its *goal*: the largest M for which the norm of
the four bounds is at most the upper end.

The Jacobian goes backwards through the layers: with x = centre + reach delta,

    y in F_0 + F delta +- e,    sigma'(z) in p + q delta +- r,    sigma'(z) in d +- d_reach,
    y sigma'(z)  in  F_0 p + (F_0 q + d F) delta +- (|d| e + |F_0| r + d_reach (|F| + e)).

Each layer's enclosure is made of the one before it as it stands in float64, with gamma times the
sum of the absolute values of its terms for rounding (`bound`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.balls import alike, plain
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.bounded import Bounded
from lipyomo_check.smooth.boxes import Boxes, middles
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.halfspaces import UNDERFLOW
from lipyomo_check.smooth.kind import Bools, Kind

NOISE = 1e-9
"""Share of its terms below which a gradient has no direction: rounding would choose it."""

ROOM = 2.0**-40
"""Relative room that goals leave for their own rounding, and for that of unit vectors."""


class Frame(NamedTuple):
    """Directions of N boxes: y (N, m) or None for one functional, and whether v is a point."""

    y: Array | None
    single: bool


class Jacobian(NamedTuple):
    """``parts[:, 0] + sum_i delta_i parts[:, 1 + i] +- rest`` holds k rows of J on N boxes.

    `parts` has the shape (N, 1 + d, k, D), `rest` (N, k, D), for D directions.
    """

    parts: Array
    rest: Array


class Across(NamedTuple):
    """Bounds a, b and c (N,), one of ``-y . J v``, by inputs (and directions), and the rest."""

    a: Array
    b: Array
    c: Array
    minus: Array
    shares: Array
    left: Array

    def hold(self, along: Array, upper: float) -> Bools:
        """Return whether norms are at most `upper` where ``y . J v <= along``."""
        m = np.maximum(np.maximum(along, self.minus), 0.0)
        square = alike(np.full(len(self.a), upper), self.a) ** 2
        one, other = square - m * m - self.b**2, square - self.a**2 - self.c**2
        both = (m * self.a + self.b * self.c) ** 2
        holds: Bools = (one >= 0.0) & (other >= 0.0) & (one * other >= both)
        return holds


class Goals(NamedTuple):
    """The largest M allowed (N,), bounds across by inputs (and directions), and the rest."""

    most: Array
    shares: Array
    left: Array


def jacobian_at(chain: Chain, rows: Array, boxes: Boxes) -> tuple[Array, Array]:
    """Return rows (N, k, n) of the last layer times the Jacobian, about, in the middles of boxes.

    The second array has the sums of the terms' absolute values.
    """
    slopes, h, first = [], middles(boxes.low, boxes.high)[0], 0
    for level in chain.levels:
        z = h @ level.weight.T + level.bias
        h, slope = np.empty_like(z), np.empty_like(z)
        for units, kind in level.groups:
            at = z[:, units]
            right: tuple[Bools, ...] = ()
            if kind.breaks:
                places = slice(first, first + units.size)
                first += units.size
                at, right = _in_phase(kind, at, boxes.z_low[:, places], boxes.z_high[:, places])
            h[:, units], slope[:, units] = kind.derivatives(at, right)[:2]
        if level.products is not None:
            n, left, right_ = level.products.units, level.products.left, level.products.right
            h = np.concatenate([h[:, :n], z[:, left] * z[:, right_]], axis=1)
            slope = np.concatenate([slope[:, :n], z[:, level.others]], axis=1)
        slopes.append(slope)
    sizes = np.abs(rows)
    for level, slope in zip(reversed(chain.levels), reversed(slopes), strict=True):
        rows = (level.spread(rows) * slope[:, None]) @ level.branch_tangents
        sizes = (level.spread(sizes) * np.abs(slope)[:, None]) @ level.branch_sizes
    return rows, sizes


def _in_phase(kind: Kind, z: Array, low: Array, high: Array) -> tuple[Array, tuple[Bools, ...]]:
    """Return pre-activations moved into phases, and whether they are right of each break."""
    at = np.clip(z, low, high)
    return at, tuple((at > b) | ((at == b) & (low >= b)) for b in kind.breaks)


def framed(
    chain: Chain, functionals: Array | None, boxes: Boxes, moving: Array, single: bool
) -> tuple[Array, Boxes, Frame]:
    """Return directions of boxes, chosen by the Jacobian in their middles: any would do.

    Parameters
    ----------
    chain : Chain
    functionals : ndarray, shape (N, m), or None
        None if the output's norm is Euclidean.
    boxes : Boxes
        With directions unless `single`.
    moving : ndarray, shape (D,)
        1 for the directions that count, else 0.
    single : bool
        Whether the input's norm is Euclidean.

    Returns
    -------
    functionals : ndarray, shape (N, m)
    boxes : Boxes
    frame : Frame
    """
    rows = _rows(chain, functionals, len(boxes.low))
    jacobian, sizes = jacobian_at(chain, rows, boxes)
    jacobian, noise = jacobian * moving, NOISE * lengths(lengths(sizes * moving))
    if functionals is not None:
        length = lengths(jacobian[:, 0])
        v = _units(jacobian[:, 0], length, noise)
        return functionals, boxes._replace(v_low=v, v_high=v), Frame(None, single)
    left, values, right = np.linalg.svd(np.nan_to_num(jacobian), full_matrices=False)
    y, v = left[:, :, 0], right[:, 0]
    if single:
        clear = (values[:, 0] > noise)[:, None]
        y, v = np.where(clear, y, 0.0), np.where(clear, v, 0.0)
        return y, boxes._replace(v_low=v, v_high=v), Frame(y, single)
    towards = np.matmul(y[:, None], jacobian)[:, 0]
    v = np.where(boxes.v_low < boxes.v_high, np.where(towards < 0, -1.0, 1.0), boxes.v_low)
    outputs = np.matmul(jacobian, v[:, :, None])[:, :, 0]
    y = _units(outputs, lengths(outputs), noise)
    return y, boxes, Frame(y, single)


def _units(vectors: Array, length: Array, noise: Array) -> Array:
    """Return vectors of length one, or zero where they are rounding errors only."""
    clear = (length > noise)[:, None]
    return np.where(clear, vectors / np.where(clear, length[:, None], 1.0), 0.0)


def _rows(chain: Chain, functionals: Array | None, count: int) -> Array:
    """Return the Jacobian's rows in the last hidden layer's outputs, (N, k, n)."""
    if functionals is None:
        return np.broadcast_to(chain.head, (count, *chain.head.shape))
    return (functionals @ chain.head)[:, None]


def goals(found: Across, upper: float, gamma: float) -> Goals:
    """Return the largest bounds of boxes for which the norm is at most `upper`."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        most = _most(found.a, found.b, found.c, found.minus, upper, gamma)
    return Goals(most, found.shares, found.left)


def across(
    chain: Chain,
    functionals: Array,
    boxes: Boxes,
    frame: Frame,
    bounded: Bounded,
    moving: Array,
) -> Across:
    """Return bounds across the directions of boxes."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        y = frame.y
        rows = _rows(chain, functionals if y is None else None, len(boxes.low))
        errors = np.zeros_like(rows)
        if y is None:
            errors = chain.gamma * (np.abs(functionals) @ np.abs(chain.head))[:, None]
        found = _enclosed(chain, rows, errors, boxes, bounded)
        parts, rest = found.parts * moving, found.rest * moving
        if y is None:
            y = np.ones((len(rows), 1))
        reach = np.maximum(np.abs(boxes.v_low), np.abs(boxes.v_high))
        size = lengths(lengths(np.abs(parts).sum(axis=1) + rest)) * np.maximum(lengths(reach), 1.0)
        more = (8.0 + rest.shape[1]) * chain.gamma * size + np.sqrt(UNDERFLOW)
        if frame.single:
            return _across_both(parts, rest, y, boxes.v_low, more, chain.gamma)
        return _across_outputs(parts, rest, y, boxes, more)


def _across_both(
    parts: Array, rest: Array, y: Array, v: Array, more: Array, gamma: float
) -> Across:
    """Return bounds where the input's norm is Euclidean."""
    away = lengths(lengths(rest)) + more
    gradients = np.matmul(y[:, None, None], parts)[:, :, 0]
    along = np.matmul(gradients, v[:, :, None])[..., 0]
    beside = gradients - along[:, :, None] * v[:, None]
    a = _largest(beside) + away
    b = c = np.zeros_like(a)
    shares = lengths(beside[:, 1:])
    if parts.shape[2] > 1:
        outputs = np.matmul(parts, v[:, None, :, None])[..., 0]
        across = outputs - along[:, :, None] * y[:, None]
        b = _largest(across) + away
        shares = shares + lengths(across[:, 1:])
        middle = parts[:, 0] - y[:, :, None] * gradients[:, :1] - across[:, 0, :, None] * v[:, None]
        slopes = parts[:, 1:].reshape(len(parts), -1, rest.shape[1] * rest.shape[2])
        c = _spectral(middle, gamma) + lengths(np.abs(slopes).sum(axis=1)) + away
    minus = np.abs(along[:, 1:]).sum(axis=1) - along[:, 0] + away
    return Across(a, b, c, minus, shares, away)


def _across_outputs(parts: Array, rest: Array, y: Array, boxes: Boxes, more: Array) -> Across:
    """Return bounds where only the output's norm is Euclidean."""
    v, open_v = 0.5 * (boxes.v_low + boxes.v_high), 0.5 * (boxes.v_high - boxes.v_low)
    away = lengths(np.matmul(rest, (np.abs(v) + open_v)[:, :, None])[..., 0]) + more
    gradients = np.matmul(y[:, None, None], parts)[:, :, 0]
    along = np.matmul(gradients, v[:, :, None])[..., 0]
    across = parts - y[:, None, :, None] * gradients[:, :, None]
    outputs = np.matmul(across, v[:, None, :, None])[..., 0]
    opened = np.matmul(np.abs(across), open_v[:, None, :, None])[..., 0].sum(axis=1)
    b = _largest(outputs) + lengths(opened) + away
    minus = np.abs(along[:, 1:]).sum(axis=1) - along[:, 0] + away
    minus = minus + np.matmul(np.abs(gradients), open_v[:, :, None])[..., 0].sum(axis=1)
    zero = np.zeros_like(b)
    of_v = lengths(np.swapaxes(np.abs(across).sum(axis=1), 1, 2)) * open_v
    shares = np.concatenate([lengths(outputs[:, 1:]), of_v], axis=1)
    return Across(zero, b, zero, minus, shares, away)


def _most(a: Array, b: Array, c: Array, minus: Array, upper: float, gamma: float) -> Array:
    """Return the largest M with a norm of at most `upper`; minus infinity if there is none.

    The norm is at most U if ``(U^2 - M^2 - b^2)(U^2 - a^2 - c^2) >= (M a + b c)^2``, with neither
    factor negative.  The root of this is taken, then the inequality is checked with room.
    """
    square = upper * upper
    left, first = square - c * c, square - a * a - c * c
    middle = a * b * c
    root = middle * middle - left * (b * b * c * c - (square - b * b) * first)
    found = (np.sqrt(np.maximum(root, 0.0)) - middle) / left * (1.0 - ROOM)
    room = 16.0 * ULP * square
    one, other = square - found * found - b * b - room, first - room
    fits = (one > 0) & (other > 0) & (found >= 0)
    fits &= one * other >= (found * a + b * c) ** 2 * (1.0 + 16.0 * ULP)
    found = found * (1.0 - 8.0 * gamma)
    return np.where(fits & (minus <= found), found, -np.inf)


def _enclosed(chain: Chain, rows: Array, errors: Array, boxes: Boxes, bounded: Bounded) -> Jacobian:
    """Return rows (N, k, n) of the last layer, off by `errors`, times the Jacobian on boxes."""
    gamma, (_, reach) = chain.gamma, middles(boxes.low, boxes.high)
    F = alike(np.zeros((*rows.shape[:2], 1 + reach.shape[1], rows.shape[2])), rows)
    F[:, :, 0] = rows
    layers = zip(chain.levels, bounded.layers, bounded.rows, strict=True)
    for level, layer, (z, _) in reversed(list(layers)):
        assert layer.slope_line is not None
        s, line, spread = layer.slope_line
        half = z.high / 2.0 - z.low / 2.0
        centre = z.low + half
        turn = z.x * reach[:, None]
        span = np.abs(turn).sum(axis=2)
        if level.products is not None:
            own = level.slope_rows
            half, centre, span, turn = half[:, own], centre[:, own], span[:, own], turn[:, own]
            F, errors = level.spread(F), level.spread(errors)
        size = np.abs(centre) + half + span
        p, q = s * centre + line, np.swapaxes(s[:, :, None] * turn, 1, 2)[:, None]
        r = spread + np.abs(s) * np.maximum(half - span, 0.0)
        r = r + gamma * (np.abs(s) * size + np.abs(line) + spread)
        p, r = p[:, None], r[:, None]
        rate, rate_reach = layer.d[:, None], layer.d_reach[:, None]
        start, linear = np.abs(F[:, :, 0]), np.abs(F[:, :, 1:]).sum(axis=2)
        new = F * rate[:, :, None]
        new[:, :, 0] = F[:, :, 0] * p
        new[:, :, 1:] += F[:, :, :1] * q
        rest = np.abs(rate) * errors + start * r + rate_reach * (linear + errors)
        sizes = start * (np.abs(p) + np.abs(q).sum(axis=2)) + np.abs(rate) * linear + rest
        errors = (rest + gamma * sizes) @ level.branch_sizes * (1.0 + gamma) + UNDERFLOW
        F = new @ level.branch_tangents
    return Jacobian(np.swapaxes(F, 1, 2), errors)


def _largest(parts: Array) -> Array:
    """Bound ``|p_0 + sum_i delta_i p_i|`` over delta in [-1, 1]^d, for p (N, 1 + d, k)."""
    whole = np.abs(parts[:, 0]) + np.abs(parts[:, 1:]).sum(axis=1)
    least: Array = np.minimum(lengths(whole), lengths(parts).sum(axis=1))
    return least


def _spectral(matrices: Array, gamma: float) -> Array:
    """Return bounds of the largest singular values of matrices (N, k, D).

    ``x^T G x = z^T B z`` for ``x = Q z`` and ``B = Q^T G Q``; Q has about the eigenvectors of G.
    """
    count = min(matrices.shape[1:])
    other = np.swapaxes(matrices, 1, 2)
    G = matrices @ other if count == matrices.shape[1] else other @ matrices
    Q = alike(np.linalg.eigh(np.nan_to_num(plain(G)))[1], G)
    B, unit = np.swapaxes(Q, 1, 2) @ G @ Q, np.swapaxes(Q, 1, 2) @ Q - np.eye(count)
    room = (8.0 + count) ** 2 * gamma * (matrices * matrices).sum(axis=(1, 2))
    defect = np.abs(unit).sum(axis=2).max(axis=1) + (8.0 + count) ** 2 * gamma
    top = (np.abs(B).sum(axis=2).max(axis=1) + room) / np.maximum(1.0 - defect, 0.0)
    sizes: Array = np.sqrt(top) * (1.0 + gamma)
    return sizes


def lengths(vectors: Array) -> Array:
    """Return Euclidean lengths along the last axis."""
    found: Array = np.sqrt((vectors * vectors).sum(axis=-1))
    return found
