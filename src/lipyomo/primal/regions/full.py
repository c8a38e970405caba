"""Whether the region of a full pattern has interior in the domain, decided where possible.

Floating-point arithmetic finds a deep point and exact arithmetic confirms it.  If there is none,
the weights of a linear program or, for regions too thin for it, the simplex method in rational
numbers prove that the region is empty.

Whether a thin polyhedron meets the interior of a Euclidean ball is decided in rational numbers.
The point of the polyhedron that is nearest to the ball's centre c is the projection of c onto some
of its faces: with their rows ``N x = b`` it is ``c - N^T y`` for ``(N N^T) y = N c - b``, and it is
the nearest one if and only if it satisfies all rows and ``y >= 0``.  If it lies inside the ball, so
do points near it in the direction of any interior point of the polyhedron.  If not, the rows with
their weights y prove that all points that satisfy them are at least as far away as the radius, so
that the intersection is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpq_mat, fmpz

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, Pattern
from lipyomo.base.numerics.exact import approximate, exact
from lipyomo.base.numerics.simplex import decide_strictly
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Network
from lipyomo.primal.regions.combination import Body, Row, contradicts, slacks
from lipyomo.primal.regions.margin import UNKNOWN, Deepest, Interior, deepest
from lipyomo.primal.regions.params import PARAMS
from lipyomo.primal.regions.replay import in_region, strict_pattern
from lipyomo.problems.affine.exact import ExactSignal
from lipyomo.problems.affine.signal import carry, decided
from lipyomo.problems.domains import Domain
from lipyomo.problems.domains.base import RoundPart, box_sides
from lipyomo.problems.norms import ONE_BY_ONE


@with_one_blas_thread
def examine(network: Network, domain: Domain, pattern: Pattern) -> Interior:
    """Decide whether the region of a full pattern has interior in the domain.

    Parameters
    ----------
    network : Network
    domain : Domain
    pattern : Pattern

    Returns
    -------
    Interior
        Its point is strictly inside in exact arithmetic; its proof is exact as well.
    """
    found = deepest(network, domain, pattern)
    point = found.point
    if point.margin > 0 and _holds(network, domain, pattern, point.x):
        return Interior(point.x, point.margin)
    return _decided(network, domain, pattern, found)


def _holds(network: Network, domain: Domain, pattern: Pattern, x: FloatArray) -> bool:
    """Return whether x is strictly inside the domain, with the pattern's Jacobian around it."""
    moving = ~domain.frozen
    if not domain.holds_inside(x):
        return False
    found = strict_pattern(network, x, moving)
    if found is None:
        return False
    pairs = zip(network.hidden, found, pattern, strict=True)
    same = all(bool((here == on)[layer.kinked].all()) for layer, here, on in pairs)
    return same or in_region(network, x, pattern, moving)


def _decided(network: Network, domain: Domain, pattern: Pattern, deep: Deepest) -> Interior:
    """Decide by exact arithmetic, with weights suggested by floating point.

    The result is unknown if there are too many numbers, or no float64 point in a thin region.
    """
    moving = ~domain.frozen
    own, owners = _unit_rows(network, pattern, domain)
    if own is None:
        return Interior(support=owners)
    faces, places = _face_rows(domain, moving)
    rows = own + faces
    ball = domain.restrict(moving).ball if domain.ball is not None else None
    body = Body(domain.lower[moving], domain.upper[moving], ball)
    weight = np.zeros(len(rows))
    for guess in deep.guesses:
        weight = _translated(guess, deep.rows.owners, rows, owners, places)
        support = contradicts(rows, body, weight)
        if support is not None:
            return Interior(support=owners[support[support < len(owners)]])
    every = [*rows, *box_sides(body.lower, body.upper)]
    if not every:
        return UNKNOWN
    guess = np.zeros(len(every))
    guess[: len(rows)] = weight
    decision = decide_strictly(every, guess)
    if decision.point is not None:
        return _inside(domain, body, rows, owners, decision.point)
    if decision.weights is None:
        return UNKNOWN
    used = [k for k in range(len(owners)) if decision.weights[k] > 0]
    return Interior(support=owners[used])


def _inside(
    domain: Domain, body: Body, rows: Sequence[Row], owners: IntArray, x: list[fmpq]
) -> Interior:
    """Return the result if x satisfies all rows and is in the box, but perhaps not in a ball.

    Parameters
    ----------
    domain : Domain
    body : Body
        The box and the ball, in the inputs that can move.
    rows : sequence of sequences of fmpq
        ``(a, b)`` of ``a . x < b``, of units and faces.
    owners : ndarray of int
        The units of the first rows.
    x : list of fmpq
        In the inputs that can move.
    """
    if body.ball is not None and body.ball.norm == "l2":
        least = nearest([*rows, *box_sides(body.lower, body.upper)], body.ball)
        if least is not None and not least.inside:
            return Interior(support=owners[[k for k in least.faces if k < len(owners)]])
        x = x if least is None else between(least.point, x, body.ball)
    moving = ~domain.frozen
    parts = np.array([domain.upper, np.zeros(domain.dimension)])
    pair = parts[:, moving] = _sum_of_two(x)
    for point in (parts[0], parts):  # a sliver may lie between two float64 points
        at = [sum(map(exact, entries), fmpq(0)) for entries in pair[: point.ndim].T.tolist()]
        least_slack = min(slacks(rows, at), default=None)
        if domain.holds_inside(point) and (least_slack is None or least_slack > 0):
            return Interior(point, approximate(least_slack or fmpq(0)))
    return UNKNOWN


def _sum_of_two(point: Sequence[fmpq]) -> FloatArray:
    """Return a rational point as the sum of two rows of float64 numbers, to about 30 digits."""
    first = [approximate(x) for x in point]
    rest = [approximate(x - exact(y)) for x, y in zip(point, first, strict=True)]
    return np.array([first, rest])


def _unit_rows(
    network: Network, pattern: Pattern, domain: Domain
) -> tuple[list[list[fmpq]] | None, IntArray]:
    """Return rows (a, b) of ``a . x < b`` in the inputs that can move, and their units.

    Units with a constant pre-activation are left out; a constant of zero excludes nothing.  If a
    constant has the wrong sign, return None and this unit.
    """
    moving = ~domain.frozen
    d, own = network.input_dim, int(moving.sum())
    start: FloatArray = np.zeros((d, own + 1))
    start[moving, :own] = np.eye(own)
    start[:, own] = np.where(moving, 0.0, domain.upper)
    layers = network.hidden
    unit_maps = decided(layers, pattern)
    rows: list[list[fmpq]] = []
    owners: list[int] = []
    first = 0
    for i, z in enumerate(carry(ExactSignal.of(start), layers, unit_maps)):
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
    """Return ``(a, b)`` of a unit's side, divided by a power of two so that |a| is about one."""
    unit = fmpz(1 << max(abs(entry).bit_length() for entry in row[:-1]))
    sign = -1 if on else 1
    return [*(fmpq(sign * entry, unit) for entry in row[:-1]), fmpq(-sign * row[-1], unit)]


def _face_rows(domain: Domain, moving: BoolArray) -> tuple[list[list[fmpq]], list[int]]:
    """Return rows (a, b) of the domain's faces beyond its bounding box, and their indices in it.

    Those of an l1 ball have no indices.
    """
    d, ball = int(moving.sum()), domain.ball
    if ball is not None and ball.norm == "l1" and 2**d <= ONE_BY_ONE:
        center = [exact(value) for value in ball.point[moving].tolist()]
        radius = exact(ball.radius)
        sides = [
            [*map(fmpq, signs), sum((s * c for s, c in zip(signs, center, strict=True)), radius)]
            for signs in product((-1, 1), repeat=d)
        ]
        return sides, []
    every = domain.rows.exactly(moving, domain.upper)
    places = [k for k, row in enumerate(every) if any(value != 0 for value in row[:-1])]
    return [every[k] for k in places], places


def _translated(
    guess: FloatArray, known: IntArray, rows: Sequence[Row], owners: IntArray, places: list[int]
) -> FloatArray:
    """Convert weights of rows of length one, and of the domain's, to weights of exact rows."""
    of_unit = np.zeros(max(known.max(initial=-1), owners.max(initial=-1)) + 1)
    of_unit[known] = guess[: known.size]
    lengths = [sum(abs(approximate(a)) for a in row[:-1]) for row in rows[: owners.size]]
    found = np.zeros(len(rows))
    found[: owners.size] = of_unit[owners] / np.array(lengths)
    for k, place in enumerate(places):
        found[owners.size + k] = guess[known.size + place]
    return found


class Nearest(NamedTuple):
    """The nearest point of a polyhedron to a ball's centre.

    Attributes
    ----------
    point : list of fmpq
    faces : list of int
        The rows on whose faces it lies, and which prove that no point is nearer.
    inside : bool
        Whether it lies strictly inside the ball.
    """

    point: list[fmpq]
    faces: list[int]
    inside: bool


def nearest(rows: Sequence[Sequence[fmpq]], ball: RoundPart) -> Nearest | None:
    """Find the point of ``{x : a . x <= b for all rows (a, b)}`` nearest to the centre of a ball.

    Return None if there are too many rows to try; the polyhedron must not be empty.
    """
    center = [exact(value) for value in ball.point.tolist()]
    d, limit = len(center), exact(ball.radius) ** 2
    used = [k for k, row in enumerate(rows) if any(a != 0 for a in row[:-1])]
    if sum(comb(len(used), size) for size in range(d + 1)) > PARAMS.choices:
        return None
    gaps = [-slack for slack in slacks(rows, center)]
    for size in range(d + 1):
        for chosen in combinations(used, size):
            point = _projected(center, [rows[k] for k in chosen], [gaps[k] for k in chosen])
            if point is not None and min(slacks(rows, point)) >= 0:
                return Nearest(point, list(chosen), _square(point, center) < limit)
    return None


def between(near: Sequence[fmpq], inner: Sequence[fmpq], ball: RoundPart) -> list[fmpq]:
    """Return a point inside the ball on the way from `near`, which is inside it, to `inner`."""
    center = [exact(value) for value in ball.point.tolist()]
    limit, step = exact(ball.radius) ** 2, fmpq(1)
    while True:  # terminates, as `near` is strictly inside
        point = [a + step * (b - a) for a, b in zip(near, inner, strict=True)]
        if _square(point, center) < limit:
            return point
        step /= 2


def _projected(
    center: list[fmpq], rows: list[Sequence[fmpq]], gaps: list[fmpq]
) -> list[fmpq] | None:
    """Project onto ``a . x = b``; return None if rows are dependent or a weight is negative."""
    if not rows:
        return center
    normals = fmpq_mat([list(row[:-1]) for row in rows])
    gram = normals * normals.transpose()
    if gram.det() == 0:
        return None
    weights = gram.solve(fmpq_mat([[gap] for gap in gaps]))
    if any(weight < 0 for weight in weights.entries()):
        return None
    step = (normals.transpose() * weights).entries()
    return [c - s for c, s in zip(center, step, strict=True)]


def _square(a: Sequence[fmpq], b: Sequence[fmpq]) -> fmpq:
    return sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), fmpq(0))
