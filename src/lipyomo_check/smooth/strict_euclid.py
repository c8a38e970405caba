"""Bounds across a pair of directions in ball arithmetic: the formulas of `euclid`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx

from lipyomo_check.parts import BITS
from lipyomo_check.smooth.balls import Numbers, absolute, columns_times
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.euclid import Frame
from lipyomo_check.smooth.strict import StrictChain, spread_out
from lipyomo_check.smooth.strict_layers import Known

Rows = list[Numbers]


class Across(NamedTuple):
    """Bounds of the blocks of a Jacobian, of ``-y . J v``, and the product of |y| and |v|."""

    a: arb
    b: arb
    c: arb
    minus: arb
    scale: arb

    def hold(self, along: arb, upper: float) -> bool:
        """Return whether the norm is at most `upper` where ``y . J v <= along``."""
        with ctx.workprec(BITS):
            nothing = self.scale == 0
            m = (arb(0) if nothing else along / self.scale).max(self.minus).max(arb(0))
            square = arb(upper) ** 2
            one, other = square - m * m - self.b**2, square - self.a**2 - self.c**2
            both = (m * self.a + self.b * self.c) ** 2
            return bool(one >= 0 and other >= 0 and one * other >= both)


def across(
    chain: StrictChain,
    functional: Array,
    box: Boxes,
    frame: Frame,
    layers: list[Known],
    moving: Array,
) -> Across:
    """Return the bounds across the directions of one box."""
    with ctx.workprec(BITS):
        rows = chain.head
        given = [arb(1)]
        if frame.y is None:
            rows = arb_mat([functional.tolist()]) * chain.head
        else:
            given = [arb(v) for v in frame.y[0].tolist()]
        parts, rest = _enclosed(chain, rows, box, layers)
        keep = [j for j, moves in enumerate(moving.tolist()) if moves]
        parts = [[[row[j] for j in keep] for row in part] for part in parts]
        rest = [[row[j] for j in keep] for row in rest]
        y, y_size = _unit(given)
        low, high = ([arb(v) for v in side[0, keep].tolist()] for side in (box.v_low, box.v_high))
        gradients = [_combined(y, part) for part in parts]
        if frame.single:
            v, v_size = _unit(low)
            return _both(parts, rest, gradients, (y, v), y_size * v_size)
        v = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        open_v = [(b - a) / 2 for a, b in zip(low, high, strict=True)]
        return _outputs(parts, rest, gradients, y, (v, open_v), y_size)


def _both(
    parts: list[Rows],
    rest: Rows,
    gradients: Rows,
    units: tuple[Numbers, Numbers],
    scale: arb,
) -> Across:
    y, v = units
    away = _length([_length(row) for row in rest])
    along = [_dot(g, v) for g in gradients]
    beside = [_less(g, v, t) for g, t in zip(gradients, along, strict=True)]
    a = _largest(beside) + away
    b = c = arb(0)
    if len(y) > 1:
        outputs = [[_dot(row, v) for row in part] for part in parts]
        others = [_less(out, y, t) for out, t in zip(outputs, along, strict=True)]
        b = _largest(others) + away
        first = [
            [w - yi * g - out * vj for w, g, vj in zip(row, gradients[0], v, strict=True)]
            for row, yi, out in zip(parts[0], y, others[0], strict=True)
        ]
        sizes = [_length(_sums([part[i] for part in parts[1:]])) for i in range(len(y))]
        c = _spectral(first) + _length(sizes) + away
    minus = sum(map(abs, along[1:]), arb(0)) - along[0] + away
    return Across(a, b, c, minus, scale)


def _outputs(
    parts: list[Rows],
    rest: Rows,
    gradients: Rows,
    y: Numbers,
    directions: tuple[Numbers, Numbers],
    scale: arb,
) -> Across:
    v, open_v = directions
    reach = [abs(a) + b for a, b in zip(v, open_v, strict=True)]
    away = _length([_dot(row, reach) for row in rest])
    along = [_dot(g, v) for g in gradients]
    others = [
        [_less(row, g, yi) for row, yi in zip(part, y, strict=True)]
        for part, g in zip(parts, gradients, strict=True)
    ]
    opened = [
        sum((_dot(list(map(abs, part[i])), open_v) for part in others), arb(0))
        for i in range(len(y))
    ]
    b = _largest([[_dot(row, v) for row in part] for part in others]) + _length(opened) + away
    minus = sum(map(abs, along[1:]), arb(0)) - along[0] + away
    minus += sum((_dot(list(map(abs, g)), open_v) for g in gradients), arb(0))
    return Across(arb(0), b, arb(0), minus, scale)


def _enclosed(
    chain: StrictChain, rows: arb_mat, box: Boxes, layers: list[Known]
) -> tuple[list[Rows], Rows]:
    """Return rows of the last layer times the Jacobian: constant, slopes in delta, and error."""
    pairs = [
        (arb(a), arb(b)) for a, b in zip(box.low[0].tolist(), box.high[0].tolist(), strict=True)
    ]
    reach = [(b - a) / 2 for a, b in pairs]
    F = [rows, *(arb_mat(rows.nrows(), rows.ncols()) for _ in reach)]
    errors = arb_mat(rows.nrows(), rows.ncols())
    for i in range(len(layers) - 1, -1, -1):
        layer, level = layers[i], chain.chain.levels[i]
        own = level.slope_rows.tolist()
        s, (line, spread) = layer.slopes[1], layer.rests[1]
        n = range(len(s))
        turns = [[layer.rows[k, j] * r for j, r in enumerate(reach)] for k in own]
        span = [sum(map(abs, row), arb(0)) for row in turns]
        p = [s[k] * layer.z[0][own[k]] + line[k] for k in n]
        r = [spread[k] + abs(s[k]) * (layer.z[1][own[k]] - span[k]).max(arb(0)) for k in n]
        rate, rate_reach = layer.d
        F, old = [spread_out(level, part) for part in F], spread_out(level, errors)
        linear = arb_mat(rows.nrows(), len(s))
        for part in F[1:]:
            linear += absolute(part)
        errors = columns_times(old, list(map(abs, rate))) + columns_times(absolute(F[0]), r)
        errors += columns_times(linear + old, rate_reach)
        q = [[s[k] * turns[k][j] for k in n] for j in range(len(reach))]
        others = [
            columns_times(F[0], q[j]) + columns_times(F[j + 1], rate) for j in range(len(reach))
        ]
        F = [part * chain.branch_tangents[i] for part in (columns_times(F[0], p), *others)]
        errors = errors * absolute(chain.branch_tangents[i])
    return [part.tolist() for part in F], errors.tolist()


def _unit(vector: Numbers) -> tuple[Numbers, arb]:
    """Return a vector over its length, and that; zero stays zero."""
    size = _dot(vector, vector).sqrt()  # of floats: zero or positive
    return (vector if size == 0 else [v / size for v in vector]), size


def _spectral(rows: Rows) -> arb:
    """Return a bound of the largest singular value, as in `euclid`."""
    A = arb_mat(rows)
    G = A * A.transpose()
    Q = arb_mat(
        np.linalg.eigh(np.array([[float(v) for v in row] for row in G.tolist()]))[1].tolist()
    )
    B, unit = Q.transpose() * G * Q, Q.transpose() * Q
    near = [[w - (i == j) for j, w in enumerate(row)] for i, row in enumerate(unit.tolist())]
    top, defect = (_most(map(_total, part)) for part in (B.tolist(), near))
    return _root(top / (1 - defect))


def _total(row: Numbers) -> arb:
    return sum(map(abs, row), arb(0))


def _most(values: Iterable[arb]) -> arb:
    most = arb(0)
    for value in values:
        most = most.max(value)
    return most


def _largest(parts: Rows) -> arb:
    """Return a bound of ``|p_0 + sum_i delta_i p_i|`` over delta in [-1, 1]^d."""
    return _length(_sums(parts)).min(sum(map(_length, parts), arb(0)))


def _sums(parts: Rows) -> Numbers:
    """Return sums of absolute values, entry by entry."""
    return [sum(map(abs, entries), arb(0)) for entries in zip(*parts, strict=True)]


def _dot(one: Numbers, other: Numbers) -> arb:
    return sum((a * b for a, b in zip(one, other, strict=True)), arb(0))


def _combined(y: Numbers, part: Rows) -> Numbers:
    return [_dot(y, list(column)) for column in zip(*part, strict=True)]


def _less(row: Numbers, other: Numbers, factor: arb) -> Numbers:
    return [a - factor * b for a, b in zip(row, other, strict=True)]


def _length(vector: Numbers) -> arb:
    """Return a length, rounded up."""
    return _root(_dot(vector, vector))


def _root(value: arb) -> arb:
    """Return the root of the upper end: of what may be zero there is no ball."""
    return arb(value.upper()).max(arb(0)).sqrt()
