"""Whether the region of a full pattern misses the domain's interior, proved in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from lipyomo.domains import Domain, NormBall
from lipyomo.network import BoolArray, FloatArray, Matrix, Network, Pattern
from lipyomo.numerics.dyadic import Dyadic, ObjectArray
from lipyomo.regions.combination import Body, Row, contradicts, scaled_rows
from lipyomo.regions.euclidean import nearest_point

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
    digits = _unit_rows(network, pattern, domain, units)
    if digits is None:
        return Verdict(True)
    rows = scaled_rows(digits) + scaled_rows(_face_rows(domain, moving))
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
    if inner is None:
        return Verdict(False)
    point = domain.upper.copy()
    point[moving] = inner
    return Verdict(False, point)


def is_proved_empty(
    network: Network, domain: Domain, pattern: Pattern, units: list[BoolArray] | None = None
) -> bool:
    """Whether exact arithmetic proves that a region has no interior in the domain."""
    return examined(network, domain, pattern, units).empty


def dense(matrix: Matrix) -> FloatArray:
    """`matrix` as a dense array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def _unit_rows(
    network: Network, pattern: Pattern, domain: Domain, units: list[BoolArray] | None
) -> ObjectArray | None:
    """Integer rows (a, b) of ``a . x < b`` in the inputs that move; None for a contradiction.

    Units whose pre-activation is constant are left out; a constant of zero forbids nothing.
    """
    moving = ~domain.frozen
    d = network.input_dim
    start: FloatArray = np.zeros((d, d + 1))
    start[:, :d] = np.diag(np.where(moving, 1.0, 0.0))
    start[:, d] = np.where(moving, 0.0, domain.upper)
    signal = Dyadic.of(start[:, np.append(moving, True)])
    rows: list[npt.NDArray[np.object_]] = []
    for i, (layer, on) in enumerate(zip(network.hidden, pattern, strict=True)):
        bias: FloatArray = np.zeros((layer.units, signal.digits.shape[1]))
        bias[:, -1] = layer.bias
        z = Dyadic.of(dense(layer.weight)) @ signal + Dyadic.of(bias)
        asked = layer.kinked if units is None else layer.kinked & units[i]
        flat = np.asarray((z.digits[:, :-1] == 0).all(axis=1))
        if (asked & flat & (z.sign()[:, -1] == np.where(on, -1, 1))).any():
            return None
        keep = asked & ~flat
        block = z.digits[keep] * np.where(on, 1, -1)[keep].astype(object)[:, None]
        block[:, :-1] *= -1
        rows.append(block)
        signal = z * Dyadic.of(np.asarray(layer.slopes(on))[:, None])
    width = int(moving.sum()) + 1
    return np.vstack([np.zeros((0, width), dtype=object), *rows])


def _face_rows(domain: Domain, moving: BoolArray) -> ObjectArray:
    """Integer rows (a, b) of the domain's faces beyond its bounding box."""
    d = int(moving.sum())
    faces = domain.rows
    A, b = dense(faces.A), faces.b
    if isinstance(domain, NormBall) and domain.norm == "l1" and 2**d <= MOST_FACES:
        signs = np.array(list(product((-1.0, 1.0), repeat=d)))
        A = np.zeros((len(signs), moving.size))
        A[:, moving] = signs
        b = np.full(len(signs), domain.radius)
        right = Dyadic.of(b[:, None]) + Dyadic.of(signs) @ Dyadic.of(domain.point[moving][:, None])
    else:
        matter = (A[:, moving] != 0).any(axis=1)
        A, b = A[matter], b[matter]
        right = Dyadic.of(b[:, None])
        if not moving.all():
            right = right - Dyadic.of(A[:, ~moving]) @ Dyadic.of(domain.upper[~moving][:, None])
    left = Dyadic.of(A[:, moving])
    low = min(left.exponent, right.exponent)
    return np.hstack([left.aligned(low), right.aligned(low)])


def _pushed_out(rows: Sequence[Row], body: Body, ball: NormBall) -> FloatArray:
    """Weights of the rows that hold the region's nearest point away from the ball's centre."""
    d = ball.dimension
    A = np.array([[float(a) for a in row[:d]] for row in rows])
    b = np.array([float(row[d]) for row in rows])
    return nearest_point(A, b, body.lower, body.upper, ball.point).dual


def _suggested(
    rows: Sequence[Row], body: Body, center: FloatArray
) -> tuple[FloatArray | None, FloatArray | None]:
    """Weights of `rows` that nearly prove a contradiction, and an inner point, if any.

    In coordinates (x, s) around `center` the rows ``A x - b s + t <= 0`` describe a cone, so that
    bounded and unbounded bodies of any size are alike.
    """
    from scipy.optimize import linprog

    d = center.size
    exact = Dyadic.of(center).fractions()
    A = np.array([[float(a) for a in row[:d]] for row in rows]).reshape(-1, d)
    gaps = [row[d] - sum(a * x for a, x in zip(row[:d], exact, strict=True)) for row in rows]
    right = np.array([float(gap) for gap in gaps])
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
    bounds = [(-1.0, 1.0)] * d + [(0.0, 1.0), (-1.0, 1.0)]
    cost = np.append(np.zeros(d + 1), -1.0)
    found = linprog(cost, matrix, np.zeros(len(matrix)), bounds=bounds)
    if found.status != 0:
        return None, None
    inner = center + size * found.x[:d] / found.x[d] if found.x[d] > 0 else None
    return np.maximum(-found.ineqlin.marginals[: len(rows)], 0.0) / length, inner
