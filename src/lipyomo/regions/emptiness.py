"""Whether the region of a full pattern misses the domain's interior, proved in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from flint import fmpq, fmpz

from lipyomo.affine.exact import ExactSignal
from lipyomo.affine.signal import Passing, carry
from lipyomo.domains import Domain, NormBall
from lipyomo.network import BoolArray, FloatArray, Network, Pattern
from lipyomo.numerics.exact import approximate, exact
from lipyomo.numerics.lp import LinearProgram
from lipyomo.regions.combination import Body, Row, contradicts
from lipyomo.regions.euclidean import nearest_point
from lipyomo.regions.simplex import decide_strictly
from lipyomo.regions.slivers import float_points, slacks, with_faces

MOST_FACES = 64
"""l1 balls with more faces than this are not written as rows."""


@dataclass(frozen=True)
class Verdict:
    """What is known of a region.

    Attributes
    ----------
    empty : bool
        Proved to have no interior in the domain.
    point : ndarray, shape (d,), or None
        If not: where the interior should be, to be checked.
    """

    empty: bool
    point: FloatArray | None = None


def examined(
    network: Network, domain: Domain, pattern: Pattern, units: list[BoolArray] | None = None
) -> Verdict:
    """Prove in exact arithmetic that a region has no interior in the domain, or suggest a point.

    Parameters
    ----------
    network : Network
    domain : Domain
    pattern : Pattern
        A full pattern.
    units : list of bool arrays, optional
        Units whose signs the proof may use; all by default.

    Returns
    -------
    Verdict
    """
    moving = ~domain.frozen
    own = _unit_rows(network, pattern, domain, units)
    if own is None:
        return Verdict(True)
    rows = own + _face_rows(domain, moving)
    if not rows:
        return Verdict(False)
    ball = domain.restrict(moving) if isinstance(domain, NormBall) else None
    assert ball is None or isinstance(ball, NormBall)
    body = Body(domain.lower[moving], domain.upper[moving], ball)
    weights, inner = _suggested(rows, body, domain.center[moving])
    if weights is not None and contradicts(rows, body, weights):
        return Verdict(True)
    if ball is not None and contradicts(rows, body, _pushed_out(rows, body, ball)):
        return Verdict(True)
    point = domain.upper.copy()
    if inner is not None:
        point[moving] = inner
        if domain.holds_inside(point) and min(slacks(rows, [exact(x) for x in inner.tolist()])) > 0:
            return Verdict(False, point)
    every = with_faces(rows, body)
    guess = np.zeros(len(every))
    guess[: len(rows)] = 0.0 if weights is None else weights
    decision = decide_strictly(every, guess)
    if decision.point is not None:
        widths = body.upper - body.lower
        size = float(widths[np.isfinite(widths)].max(initial=1.0))
        for found in float_points(rows, body, decision.point, size):
            point[moving] = found
            if domain.holds_inside(point):
                return Verdict(False, point)
    return Verdict(decision.weights is not None)


def is_proved_empty(
    network: Network, domain: Domain, pattern: Pattern, units: list[BoolArray] | None = None
) -> bool:
    """Whether exact arithmetic proves that a region has no interior in the domain."""
    return examined(network, domain, pattern, units).empty


def _unit_rows(
    network: Network, pattern: Pattern, domain: Domain, units: list[BoolArray] | None
) -> list[list[fmpq]] | None:
    """Rows (a, b) of ``a . x < b`` in the inputs that move; None for a contradiction.

    Units whose pre-activation is constant are left out; a constant of zero forbids nothing.
    """
    moving = ~domain.frozen
    d, own = network.input_dim, int(moving.sum())
    start: FloatArray = np.zeros((d, own + 1))
    start[moving, :own] = np.eye(own)
    start[:, own] = np.where(moving, 0.0, domain.upper)
    layers = network.hidden
    passing = [Passing.decided(layer, on) for layer, on in zip(layers, pattern, strict=True)]
    rows: list[list[fmpq]] = []
    for i, z in enumerate(carry(ExactSignal.inputs(start), layers, passing)):
        asked = layers[i].kinked if units is None else layers[i].kinked & units[i]
        table = z.values.matrix.tolist()
        for unit in np.flatnonzero(asked).tolist():
            row, on = table[unit], bool(pattern[i][unit])
            if any(entry != 0 for entry in row[:-1]):
                rows.append(_scaled(row, on))
            elif row[-1] != 0 and (row[-1] > 0) != on:
                return None
    return rows


def _scaled(row: Sequence[fmpz], on: bool) -> list[fmpq]:
    """``(a, b)`` of a unit's side, divided by a power of two: |a| is about one."""
    unit = fmpz(1 << max(abs(entry).bit_length() for entry in row[:-1]))
    sign = -1 if on else 1
    return [*(fmpq(sign * entry, unit) for entry in row[:-1]), fmpq(-sign * row[-1], unit)]


def _face_rows(domain: Domain, moving: BoolArray) -> list[list[fmpq]]:
    """Rows (a, b) of the domain's faces beyond its bounding box."""
    d = int(moving.sum())
    if isinstance(domain, NormBall) and domain.norm == "l1" and 2**d <= MOST_FACES:
        center = [exact(value) for value in domain.point[moving].tolist()]
        radius = exact(domain.radius)
        return [
            [*map(fmpq, signs), sum((s * c for s, c in zip(signs, center, strict=True)), radius)]
            for signs in product((-1, 1), repeat=d)
        ]
    faces = domain.rows
    A = faces.A.toarray()
    rows = []
    for normal, limit in zip(A, faces.b.tolist(), strict=True):
        if (normal[moving] != 0).any():
            held = zip(normal[~moving].tolist(), domain.upper[~moving].tolist(), strict=True)
            right = exact(limit) - sum((exact(a) * exact(x) for a, x in held), fmpq(0))
            row = [exact(value) for value in normal[moving].tolist()] + [right]
            size = max(abs(value) for value in row[:-1])
            rows.append([value / size for value in row])
    return rows


def _pushed_out(rows: Sequence[Row], body: Body, ball: NormBall) -> FloatArray:
    """Weights of the rows that hold the region's nearest point away from the ball's centre."""
    d = ball.dimension
    A = np.array([[approximate(a) for a in row[:d]] for row in rows])
    b = np.array([approximate(row[d]) for row in rows])
    return nearest_point(A, b, body.lower, body.upper, ball.point).dual


def _suggested(
    rows: Sequence[Row], body: Body, center: FloatArray
) -> tuple[FloatArray | None, FloatArray | None]:
    """Weights of `rows` that nearly prove a contradiction, and an inner point, if any.

    In coordinates (x, s) around `center` the rows ``A x - b s + t <= 0`` describe a cone, so that
    bounded and unbounded bodies of any size are alike.
    """
    d = center.size
    at = [exact(value) for value in center.tolist()]
    A = np.array([[approximate(a) for a in row[:d]] for row in rows]).reshape(-1, d)
    gaps = [
        row[d] - sum((a * x for a, x in zip(row[:d], at, strict=True)), fmpq(0)) for row in rows
    ]
    right = np.array([approximate(gap) for gap in gaps])
    up, down = body.upper - center, center - body.lower
    bounded = np.isfinite(up) & np.isfinite(down)
    width = np.where(bounded, np.maximum(up, down), np.inf).min(initial=np.inf)
    size = float(width) if np.isfinite(width) and width > 0 else 1.0
    A = A * size
    length = np.abs(A).sum(axis=1) + np.abs(right)
    length[length == 0] = 1.0
    eye, faces = np.eye(d), []
    for sign, room in ((1.0, up / size), (-1.0, down / size)):
        pick = np.isfinite(room)
        scale = 1.0 + room[pick]
        block = np.hstack([sign * eye[pick], -room[pick][:, None], np.ones((int(pick.sum()), 1))])
        faces.append(block / scale[:, None])
    own = np.hstack([A / length[:, None], -(right / length)[:, None], np.ones((len(rows), 1))])
    matrix = np.vstack([own, *faces])
    lower, upper = np.append(np.full(d, -1.0), [0.0, -1.0]), np.ones(d + 2)
    program = LinearProgram(lower, upper, matrix, np.zeros(len(matrix)))
    found = program.maximise(np.append(np.zeros(d + 1), 1.0)).point
    if found is None:
        return None, None
    inner = center + size * found[:d] / found[d] if found[d] > 0 else None
    return program.duals[: len(rows)] / length, inner
