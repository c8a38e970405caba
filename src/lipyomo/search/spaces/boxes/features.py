"""What the first layer sees of the inputs, where that has fewer dimensions than they have.

With weights W of rank r < d, orthonormal rows B of their row space and A = W B^T,

    W x + b = A y + (W c + b) +- off,    y = B (x - c),    off >= |W - A B| |x - c|

so that boxes need ends for r features y, not for d inputs.  What the Jacobian is applied to is as
before: its first factor is W itself.  Rounding of B, A and of the rank is in `off`, computed with
the weights as they are; nothing else rests on them.

The features of a box are a zonotope ``{B t : |t| <= radius}``: its facets are orthogonal to r - 1
of its generators.  Those of a Euclidean ball are a ball.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.params import PARAMS as NUMERICS
from lipyomo.base.numerics.rounding import EQUAL, UNIT, gamma
from lipyomo.problems.domains import Box, Domain, NormBall, Polytope
from lipyomo.search.spaces.boxes.params import Params


@dataclass(frozen=True, eq=False)
class Features:
    """What the first layer sees of a domain.

    Attributes
    ----------
    given : Domain
        X.
    center : ndarray, shape (d,)
        c.
    basis : ndarray, shape (r, d)
        B.
    weight : ndarray, shape (n, r)
        A.
    bias, off : ndarray, shape (n,)
    domain : Domain
        Holds the features of all points of X.
    """

    given: Domain
    center: FloatArray
    basis: FloatArray
    weight: FloatArray
    bias: FloatArray
    off: FloatArray
    domain: Domain

    def of(self, points: FloatArray) -> FloatArray:
        """Features (N, r) of points (N, d), in floating point."""
        return np.asarray((points - self.center) @ self.basis.T)

    def near(self, features: FloatArray) -> FloatArray:
        """Points (N, d) whose features are near given ones (N, r); drawn into X by the caller."""
        t = features @ self.basis
        if self.given.is_box:
            low, high = self.given.lower - self.center, self.given.upper - self.center
            for _ in range(NUMERICS.iterations):  # projections in turn; ascents go on from there
                t = np.clip(t, low, high)
                t = t + (features - t @ self.basis.T) @ self.basis
        return np.asarray(self.center + t)


def features_of(
    weight: FloatArray, bias: FloatArray, domain: Domain, params: Params
) -> Features | None:
    """The features of a first layer, or None where they are no help.

    Parameters
    ----------
    weight : ndarray, shape (n, d)
    bias : ndarray, shape (n,)
    domain : Domain
        X.
    params : Params
    """
    d = weight.shape[1]
    ball = domain.ball
    round_ = ball is not None and ball.norm == "l2" and bool(np.isinf(ball.clip).all())
    if not (domain.is_box or round_) or not domain.is_bounded or not weight.any():
        return None
    scale = np.abs(weight).max()
    _, sizes, right = np.linalg.svd(weight / scale, full_matrices=False)
    # those that are the rounding of weights go into `off`
    r = int(np.count_nonzero(sizes > EQUAL * sizes[0]))
    if r >= d or (domain.is_box and comb(d, r - 1) > params.facets):
        return None
    basis = np.ascontiguousarray(right[:r])
    A = weight @ basis.T
    size = np.abs(A) @ np.abs(basis)
    missed = np.abs(weight - A @ basis) + gamma(r + 2) * (np.abs(weight) + size)
    if ball is not None and round_:
        center, found = ball.point, _ball(basis, ball.radius)
        away = np.full(d, ball.radius)
    else:
        center = domain.center
        away = np.maximum(domain.upper - center, center - domain.lower) * (1.0 + 2.0 * UNIT)
        found = _zonotope(basis, away)
    shifted = weight @ center + bias
    off = missed @ away + gamma(d + 2) * (np.abs(weight) @ np.abs(center) + np.abs(bias))
    return Features(domain, center, basis, A, shifted, off * (1.0 + gamma(d + 2)), found)


def _ball(basis: FloatArray, radius: float) -> Domain:
    """Features of a Euclidean ball: ``|B t| <= |B B^T|^(1/2) |t|``, by the largest row sum."""
    d = basis.shape[1]
    gram = np.abs(basis @ basis.T) + gamma(d) * (np.abs(basis) @ np.abs(basis).T)
    grown = float(np.sqrt(gram.sum(axis=1).max())) * (1.0 + gamma(d + 4))
    return NormBall(np.zeros(len(basis)), radius * grown, "l2")


def _zonotope(basis: FloatArray, radius: FloatArray) -> Domain:
    """Features of a box: its facets are as far out as its generators reach along their normals."""
    r, d = basis.shape
    generators = basis * radius
    reach = np.abs(generators).sum(axis=1) * (1.0 + gamma(d + 2))
    if r == 1:
        return Box(-reach, reach)
    among = np.array(list(combinations(range(d), r - 1)))
    sides = generators.T[among]  # (facets, r - 1, r)
    normals = np.linalg.svd(sides, full_matrices=True)[2][:, -1]
    out = np.abs(normals @ generators).sum(axis=1)
    out += gamma(d + r + 2) * (np.abs(normals) @ np.abs(generators)).sum(axis=1)
    both = np.concatenate([normals, -normals])
    return Polytope(both, np.tile(out * (1.0 + gamma(d)), 2), -reach, reach)
