"""Whether the region of a full pattern has interior in the domain, decided where possible.

Floating-point arithmetic finds a deep point and exact arithmetic confirms it.  Where there is none,
the weights of a linear program or, for regions too thin for it, the simplex method in rational
numbers prove that the region is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from flint import fmpq, fmpz

from lipyomo.affine.exact import ExactSignal
from lipyomo.affine.signal import Passing, carry
from lipyomo.domains import Domain, NormBall
from lipyomo.network import BoolArray, FloatArray, Network, Pattern
from lipyomo.numerics.exact import approximate, exact
from lipyomo.numerics.lp import LinearProgram
from lipyomo.numerics.simplex import decide_strictly
from lipyomo.regions.answer import UNKNOWN, Interior
from lipyomo.regions.combination import Body, Index, Row, contradicts
from lipyomo.regions.euclidean import nearest_point
from lipyomo.regions.margin import interior_point
from lipyomo.regions.replay import in_region, strict_pattern
from lipyomo.regions.slivers import float_points, slacks, with_faces

MOST_FACES = 64
"""l1 balls with more faces than this are not written as rows."""


def examine(network: Network, domain: Domain, pattern: Pattern) -> Interior:
    """Whether the region of a full pattern has interior in the domain.

    Parameters
    ----------
    network : Network
    domain : Domain
    pattern : Pattern

    Returns
    -------
    Interior
        Its point is strictly inside in exact arithmetic, its proof likewise exact.
    """
    found = interior_point(network, domain, pattern)
    if found.margin > 0 and _holds(network, domain, pattern, found.x):
        return Interior(found.x, found.margin)
    return decided(network, domain, pattern)


def _holds(network: Network, domain: Domain, pattern: Pattern, x: FloatArray) -> bool:
    """Whether x lies strictly inside the domain, and around it the pattern's Jacobian holds."""
    moving = ~domain.frozen
    if not domain.holds_inside(x):
        return False
    found = strict_pattern(network, x, moving)
    if found is None:
        return False
    pairs = zip(network.hidden, found, pattern, strict=True)
    same = all(bool((here == on)[layer.kinked].all()) for layer, here, on in pairs)
    return same or in_region(network, x, pattern, moving)


def decided(network: Network, domain: Domain, pattern: Pattern) -> Interior:
    """The answer of exact arithmetic.

    Parameters
    ----------
    network : Network
    domain : Domain
    pattern : Pattern

    Returns
    -------
    Interior
        Unknown where the numbers are too many, or no float64 point lies in a thin region.
    """
    moving = ~domain.frozen
    own, owners = _unit_rows(network, pattern, domain)
    if own is None:
        return Interior(support=owners)
    rows = own + _face_rows(domain, moving)
    ball = domain.restrict(moving).ball if domain.ball is not None else None
    body = Body(domain.lower[moving], domain.upper[moving], ball)
    weights, inner, support = None, None, None
    if rows:
        weights, inner = _suggested(rows, body, domain.center[moving])
        support = None if weights is None else contradicts(rows, body, weights)
        if support is None and ball is not None:
            support = contradicts(rows, body, _pushed_out(rows, body, ball))
    if support is not None:
        return Interior(support=owners[support[support < len(owners)]])
    point = domain.upper.copy()
    if inner is not None:
        point[moving] = inner
        margin = min(slacks(rows, [exact(x) for x in inner.tolist()]))
        if margin > 0 and domain.holds_inside(point):
            return Interior(point, approximate(margin))
    every = with_faces(rows, body)
    if not every:
        return UNKNOWN
    guess = np.zeros(len(every))
    guess[: len(rows)] = 0.0 if weights is None else weights
    decision = decide_strictly(every, guess)
    if decision.point is not None:
        widths = body.upper - body.lower
        size = float(widths[np.isfinite(widths)].max(initial=1.0))
        for near in float_points(rows, body, decision.point, size):
            point[moving] = near
            if domain.holds_inside(point):
                margin = min(slacks(rows, [exact(x) for x in near.tolist()]))
                return Interior(point, approximate(margin))
        parts = np.array([point, np.zeros(point.size)])
        parts[:, moving] = _sum_of_two(decision.point)
        if domain.holds_inside(parts):
            return Interior(parts)
    if decision.weights is None:
        return UNKNOWN
    used = [k for k in range(len(owners)) if decision.weights[k] > 0]
    return Interior(support=owners[used])


def _sum_of_two(point: Sequence[fmpq]) -> FloatArray:
    """A point between float64 numbers as the sum of two rows, to some 30 digits."""
    first = [approximate(x) for x in point]
    rest = [approximate(x - exact(y)) for x, y in zip(point, first, strict=True)]
    return np.array([first, rest])


def _unit_rows(
    network: Network, pattern: Pattern, domain: Domain
) -> tuple[list[list[fmpq]] | None, Index]:
    """Rows (a, b) of ``a . x < b`` in the inputs that move, and their units.

    Units whose pre-activation is constant are left out; a constant of zero forbids nothing.  No
    rows, and the unit, if a constant has the wrong sign.
    """
    moving = ~domain.frozen
    d, own = network.input_dim, int(moving.sum())
    start: FloatArray = np.zeros((d, own + 1))
    start[moving, :own] = np.eye(own)
    start[:, own] = np.where(moving, 0.0, domain.upper)
    layers = network.hidden
    passing = [Passing.decided(layer, on) for layer, on in zip(layers, pattern, strict=True)]
    rows: list[list[fmpq]] = []
    owners: list[int] = []
    first = 0
    for i, z in enumerate(carry(ExactSignal.inputs(start), layers, passing)):
        table = z.values.matrix.tolist()
        for unit in np.flatnonzero(layers[i].kinked).tolist():
            row, on = table[unit], bool(pattern[i][unit])
            if any(entry != 0 for entry in row[:-1]):
                rows.append(_scaled(row, on))
                owners.append(first + unit)
            elif row[-1] != 0 and (row[-1] > 0) != on:
                return None, np.array([first + unit])
        first += layers[i].units
    return rows, np.array(owners, dtype=np.intp)


def _scaled(row: Sequence[fmpz], on: bool) -> list[fmpq]:
    """``(a, b)`` of a unit's side, divided by a power of two: |a| is about one."""
    unit = fmpz(1 << max(abs(entry).bit_length() for entry in row[:-1]))
    sign = -1 if on else 1
    return [*(fmpq(sign * entry, unit) for entry in row[:-1]), fmpq(-sign * row[-1], unit)]


def _face_rows(domain: Domain, moving: BoolArray) -> list[list[fmpq]]:
    """Rows (a, b) of the domain's faces beyond its bounding box."""
    d, ball = int(moving.sum()), domain.ball
    if ball is not None and ball.norm == "l1" and 2**d <= MOST_FACES:
        center = [exact(value) for value in ball.point[moving].tolist()]
        radius = exact(ball.radius)
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
