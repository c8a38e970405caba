"""The interior margin of an activation region: whether its interior meets the domain's.

The margin of a point is its distance, in the linf norm, to the nearest kink of the region and to
the nearest face of the domain.  A linear program maximises it; for a Euclidean ball, tangent
planes are added until the point lies inside.  A pattern counts for the Lipschitz constant exactly
if its largest margin is positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lipyomo.certify.regions import RegionRows, region_rows
from lipyomo.domains import Domain, NormBall
from lipyomo.lp import LinearProgram
from lipyomo.network import BoolArray, FloatArray, Network, Pattern

EMPTY = 1e-9
"""Largest margin, relative to the scale of the domain, of a region that counts as empty."""

MAX_CUTS = 40
"""Most tangent planes of a Euclidean ball."""


@dataclass(frozen=True)
class InteriorPoint:
    """A point of a region with its margin.

    Attributes
    ----------
    x : ndarray, shape (d,)
    margin : float
        Of `x`, recomputed; at most zero if `x` is not interior, ``-inf`` if the pattern
        contradicts itself.
    ceiling : float
        No point of the region has a larger margin (from LP duals, not from the solver's optimum).
    """

    x: FloatArray
    margin: float
    ceiling: float

    def is_empty(self, scale: float = 1.0) -> bool:
        """Whether the region's interior misses the domain's, up to `EMPTY` times `scale`."""
        return self.ceiling <= EMPTY * scale


def interior_margin(network: Network, domain: Domain, pattern: Pattern) -> tuple[FloatArray, float]:
    """A point of the region of `pattern` with the largest margin, and that margin.

    Parameters
    ----------
    network : Network
    domain : Domain
        Inputs that cannot move are left out of the margin.
    pattern : Pattern
        A full pattern.

    Returns
    -------
    x : ndarray, shape (d,)
    margin : float
        In the linf norm; zero or negative if the region has no interior in the domain.
    """
    found = interior_point(network, domain, pattern)
    return found.x, found.margin


def interior_point(network: Network, domain: Domain, pattern: Pattern) -> InteriorPoint:
    """Like `interior_margin`, with a proved ceiling of all margins."""
    moving = ~domain.frozen
    rows = region_rows(network, pattern, moving, np.where(moving, 0.0, domain.upper))
    if rows.contradiction:
        return InteriorPoint(domain.center, -np.inf, -np.inf)
    return deepest_point(rows, domain)


def deepest_point(rows: RegionRows, domain: Domain) -> InteriorPoint:
    """The point of ``A x <= b`` in the domain that is farthest from all faces of both."""
    moving = ~domain.frozen
    polyhedron = _faces(rows, domain, moving)
    cuts: list[FloatArray] = []
    best = InteriorPoint(domain.center, -np.inf, np.inf)
    curved = isinstance(domain, NormBall) and domain.norm == "l2"
    for _ in range(MAX_CUTS if curved else 1):
        program, size, cap = _program(polyhedron, domain, moving, cuts)
        objective = np.zeros(size)
        objective[domain.dimension] = 1.0
        outcome = program.maximise(objective)
        ceiling = min(best.ceiling, outcome.bound, cap)
        if outcome.point is None:
            return InteriorPoint(best.x, best.margin, ceiling)
        x = np.where(moving, outcome.point[: domain.dimension], domain.upper)
        margin = margin_of(rows, domain, x)
        best = InteriorPoint(x, margin, ceiling) if margin >= best.margin else best
        best = InteriorPoint(best.x, best.margin, ceiling)
        if not isinstance(domain, NormBall) or not curved:
            break
        if best.margin >= 0.5 * ceiling or ceiling <= EMPTY * domain.radius:
            break
        cuts.append(_tangent(domain, x, float(outcome.point[domain.dimension])))
    return best


def margin_of(rows: RegionRows, domain: Domain, x: FloatArray) -> float:
    """Distance of `x` to the rows and to the faces of the domain (in the inputs that move)."""
    moving = ~domain.frozen
    gaps = [rows.b - rows.A @ x, (domain.upper - x)[moving], (x - domain.lower)[moving]]
    faces = domain.rows
    if faces.count:
        matrix = faces.A[:, np.flatnonzero(moving)]
        length = np.asarray(abs(matrix).sum(axis=1)).reshape(-1)
        gap = faces.b - faces.A @ x
        gaps.append(gap[length > 0] / length[length > 0])
    if isinstance(domain, NormBall):
        gaps.append(np.array([_ball_margin(domain, x, int(moving.sum()))]))
    return float(min(gap.min(initial=np.inf) for gap in gaps))


def _ball_margin(domain: NormBall, x: FloatArray, d: int) -> float:
    """Largest t such that the cube of half-width t around `x` lies in the ball."""
    away = np.abs(x - domain.point)
    if domain.norm == "l1":
        return (domain.radius - float(away.sum())) / d
    # |away + t|_2 = radius: d t^2 + 2 |away|_1 t + |away|_2^2 - radius^2 = 0
    total, size = float(away.sum()), float(np.sqrt(np.square(away).sum()))
    gap = (domain.radius - size) * (domain.radius + size)
    root = np.sqrt(max(total * total + d * gap, 0.0))
    return float(gap / (total + root) if total + root > 0 else domain.radius / np.sqrt(d))


def _faces(rows: RegionRows, domain: Domain, moving: BoolArray) -> tuple[sp.csr_array, FloatArray]:
    """Region and domain as rows of ``(x, t)``: normal . x + |normal|_1 t <= right."""
    d = domain.dimension
    eye = sp.eye_array(d, format="csr")
    high = np.flatnonzero(np.isfinite(domain.upper) & moving)
    low = np.flatnonzero(np.isfinite(domain.lower) & moving)
    faces = domain.rows
    free = abs(faces.A[:, np.flatnonzero(moving)])
    column = np.concatenate(
        [
            np.ones(len(rows.b) + high.size + low.size),
            np.asarray(free.sum(axis=1)).reshape(-1) if faces.count else np.zeros(0),
        ]
    )
    body = sp.vstack([sp.csr_array(rows.A), eye[high], -eye[low], faces.A])
    right = np.concatenate([rows.b, domain.upper[high], -domain.lower[low], faces.b])
    return sp.csr_array(sp.hstack([body, sp.csr_array(column[:, None])])), right


def _program(
    polyhedron: tuple[sp.csr_array, FloatArray],
    domain: Domain,
    moving: BoolArray,
    cuts: list[FloatArray],
) -> tuple[LinearProgram, int, float]:
    """The linear program in (x, t, further variables), its size, and the cap on t."""
    A, b = polyhedron
    d = domain.dimension
    width = np.where(moving, domain.upper - domain.lower, np.inf).min(initial=np.inf)
    cap = 0.5 * float(width) if np.isfinite(width) else 1.0
    center = domain.center
    reach = float((b - A @ np.append(center, 0.0)).min(initial=0.0))
    weights = np.asarray(A[:, [d]].todense()).reshape(-1)
    floor = 2.0 * min(reach, 0.0) / float(weights[weights > 0].min(initial=1.0)) - cap
    lower = np.append(domain.lower, floor)
    upper = np.append(domain.upper, cap)
    if isinstance(domain, NormBall) and domain.norm == "l1":
        extra, right = _cross_polytope(domain, int(moving.sum()))
        A = A.copy()
        A.resize((A.shape[0], extra.shape[1]))
        A, b = sp.csr_array(sp.vstack([A, extra])), np.concatenate([b, right])
        lower = np.concatenate([lower, np.zeros(d)])
        upper = np.concatenate([upper, np.full(d, domain.radius)])
    if cuts and isinstance(domain, NormBall):
        normals = np.array(cuts)
        block = np.hstack([normals, np.abs(normals).sum(axis=1, keepdims=True)])
        A = sp.csr_array(sp.vstack([A, sp.csr_array(block)]))
        b = np.concatenate([b, normals @ domain.point + domain.radius])
    return LinearProgram(lower, upper, A, b), lower.size, cap


def _cross_polytope(domain: NormBall, moving: int) -> tuple[sp.csr_array, FloatArray]:
    """``|x - p|_1 + moving t <= radius`` in (x, t, e) with ``e >= |x - p|``."""
    d = domain.dimension
    eye = sp.eye_array(d, format="csr")
    none = sp.csr_array((d, 1))
    total = sp.csr_array(np.concatenate([np.zeros(d), [moving], np.ones(d)])[None, :])
    rows = sp.vstack([sp.hstack([eye, none, -eye]), sp.hstack([-eye, none, -eye]), total])
    right = np.concatenate([domain.point, -domain.point, [domain.radius]])
    return sp.csr_array(rows), right


def _tangent(domain: NormBall, x: FloatArray, t: float) -> FloatArray:
    """Unit normal of the tangent plane nearest to the farthest corner of the cube around `x`."""
    away = x - domain.point
    corner = np.where(away >= 0, 1.0, -1.0) * (np.abs(away) + max(t, 0.0))
    return np.asarray(corner / np.linalg.norm(corner))
