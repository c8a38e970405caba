"""Features: fewer coordinates than inputs, if a network depends on fewer.

Suppose that all nonlinear functions depend only on ``M x``, where M has rank r < d.
With orthonormal rows B of the row space of M, boxes need ends for r features ``y = B (x - c)``
instead of d inputs.  The directions that the Jacobian is applied to stay the same.  B treats groups
of inputs that share no row of M separately, and where a group has as many features as inputs, the
features are the inputs.

The features of a box are a zonotope ``{B t : |t| <= radius}``, whose facets are orthogonal to r - 1
of its generators.  It fits best into boxes with sides along facets, so that features are along
their normals, as far as these are orthogonal.  The features of a Euclidean ball are a ball.

Layers may pass inputs on, like residual connections around attention.  Inputs that reach the
outputs only in this way do not affect where the Jacobian is large.  A row is C x plus terms of
nonlinear functions, where C is known if layers pass values on.  M consists of C for all rows that
are arguments of nonlinear functions.

As functions of features ``y = B (x - c)``, the first rows are ``A y + (W c + b)``, with A = W B^T.
A row of a later layer then differs from the true one by ``C' (W - A B) (x - c)``, with C' its
coefficients of the first rows, and by rounding.  This error is `Stage.off`; it is tiny if C is a
sum of rows of B.  Rows that are not arguments may differ from those of the network, but are not
used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.params import PARAMS as NUMERICS
from lipyomo.base.numerics.rounding import EQUAL, UNIT, gamma
from lipyomo.problems.domains import Box, Domain, NormBall, Polytope
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.structure.closed_forms import passed_outputs
from lipyomo.search.spaces.boxes.structure.stage import Stage


def rows_seen(stages: Sequence[Stage]) -> FloatArray:
    """Return M, the linear parts of the arguments of nonlinear functions, shape (n, d)."""
    rows = stages[0].weight
    found = [rows[_arguments(stages[0])]]
    for before, stage in pairwise(stages):
        passed = np.flatnonzero(passed_outputs(before))
        if not passed.size:
            break
        rows = stage.weight[:, passed] @ rows[passed]
        found.append(rows[_arguments(stage)])
    whole = np.concatenate(found)
    return whole[whole.any(axis=1)]


def of_features(stages: Sequence[Stage], features: Features, unit: float) -> tuple[Stage, ...]:
    """Return the layers as functions of features instead of the inputs.

    Parameters
    ----------
    stages : sequence of Stage
    features : Features
    unit : float
        The factor that `Stage.off` is multiplied by.
    """
    first, basis, away = stages[0], features.basis, features.away
    A = first.weight @ basis.T
    size = np.abs(A) @ np.abs(basis)
    rest, error = first.weight - A @ basis, gamma(len(basis) + 2) * (first.sizes + size)
    d = len(away)
    lost = gamma(d + 2) * (first.sizes @ np.abs(features.center) + np.abs(first.bias))
    offs = [(np.abs(rest) + error) @ away + lost]
    for before, stage in pairwise(stages):
        passed = np.flatnonzero(passed_outputs(before))
        weight, sizes = stage.weight[:, passed], stage.sizes[:, passed]
        error = sizes @ (error[passed] + gamma(passed.size + 2) * np.abs(rest[passed]))
        rest, lost = weight @ rest[passed], sizes @ lost[passed]
        offs.append((np.abs(rest) + error) @ away + lost)
    found = [first.with_inputs(A, first.weight @ features.center + first.bias, first.off)]
    found += stages[1:]
    grown = (1.0 + gamma(d + len(stages) * max(stage.weight.shape[1] for stage in stages))) / unit
    for k, (which, off) in enumerate(zip(_needed(stages), offs, strict=True)):
        found[k] = replace(found[k], off=found[k].off + np.where(which, off, 0.0) * grown)
    return tuple(found)


def _arguments(stage: Stage) -> BoolArray:
    """Return which rows of a stage are arguments of units that are not passed on, or factors."""
    units = stage.units_of(stage.bias).size
    found = np.ones(stage.bias.size, dtype=bool)
    found[:units] = ~passed_outputs(stage)[:units]
    if stage.products is not None:
        found[stage.products.left] = found[stage.products.right] = True
    return found


def _needed(stages: Sequence[Stage]) -> list[BoolArray]:
    """Return which rows are arguments, or rows that arguments are computed from as multiples."""
    found = [_arguments(stage) for stage in stages]
    for k in range(len(stages) - 1, 0, -1):
        copies = stages[k].copies
        if copies is not None:
            source, count = copies.source[found[k]], copies.fresh.size
            found[k][copies.fresh[source[source < count]]] = True
            found[k - 1][source[source >= count] - count] = True
    return found


NEARLY = 1e-6
"""Normals with a smaller component orthogonal to others count as their linear combinations."""


class Features(NamedTuple):
    """The features of a domain.

    Attributes
    ----------
    given : Domain
        X.
    center : ndarray, shape (d,)
        c.
    away : ndarray, shape (d,)
        The largest distance of X from c, for each input.
    basis : ndarray, shape (r, d)
        B.
    domain : Domain
        Contains the features of all points of X.
    """

    given: Domain
    center: FloatArray
    away: FloatArray
    basis: FloatArray
    domain: Domain

    def of(self, points: FloatArray) -> FloatArray:
        """Return the features (N, r) of points (N, d), in floating point."""
        return np.asarray((points - self.center) @ self.basis.T)

    def near(self, features: FloatArray) -> FloatArray:
        """Return points (N, d) with features near (N, r); the caller moves them into X."""
        t = features @ self.basis
        if self.given.is_box:
            low, high = self.given.lower - self.center, self.given.upper - self.center
            for _ in range(NUMERICS.iterations):  # alternating projections; ascents follow
                t = np.clip(t, low, high)
                t = t + (features - t @ self.basis.T) @ self.basis
        return np.asarray(self.center + t)


def features_of(rows: FloatArray, domain: Domain, params: Params) -> Features | None:
    """Return the features of a domain, or None if they do not help.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
        M.
    domain : Domain
        X.
    params : Params
    """
    ball = domain.ball
    round_ = ball is not None and ball.norm == "l2" and bool(np.isinf(ball.clip).all())
    if not (domain.is_box or round_) or not domain.is_bounded or not rows.any():
        return None
    if round_:
        assert ball is not None
        center, away = ball.point, np.full(rows.shape[1], ball.radius)
    else:
        center = domain.center
        away = np.maximum(domain.upper - center, center - domain.lower) * (1.0 + 2.0 * UNIT)
    parts, normals = [], []
    for inputs in _apart(rows):
        own = rows[:, inputs]
        _, sizes, right = np.linalg.svd(own / np.abs(own).max(), full_matrices=False)
        # singular values due to the rounding of weights count as zero
        r = int(np.count_nonzero(sizes > EQUAL * sizes[0]))
        basis, facets = right[:r], np.zeros((0, inputs.size))
        if domain.is_box and 1 < r < inputs.size:
            moving = int(np.count_nonzero(away[inputs]))
            few = r < moving and comb(moving, r - 1) <= params.facets
            if few:
                facets = _facets(basis, away[inputs])
                basis = _along(facets, basis, away[inputs])
            if not few or not _narrow(basis, away[inputs]):
                r = inputs.size
        if r == inputs.size:
            basis, facets = np.eye(r), facets[:0]
        parts.append(_among(basis, inputs, rows))
        normals.append(_among(facets, inputs, rows))
    whole, sides = np.concatenate(parts), np.concatenate(normals)
    if len(whole) == rows.shape[1] or len(sides) > params.facets:
        return None
    if round_:
        assert ball is not None
        return Features(domain, center, away, whole, _ball(whole, ball.radius))
    return Features(domain, center, away, whole, _zonotope(whole, sides @ whole.T, away))


def _apart(rows: FloatArray) -> list[IntArray]:
    """Group inputs that share rows, directly or through others; leave out those in no row."""
    filled = (rows != 0.0).astype(np.float64)
    count, which = connected_components(filled.T @ filled, directed=False)
    found = [np.flatnonzero(which == k) for k in range(count)]
    return [inputs for inputs in found if filled[:, inputs].any()]


def _generators(basis: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the generators of a zonotope (r, d), without those of inputs of zero width."""
    return np.asarray((basis * radius)[:, radius > 0.0])


def _narrow(basis: FloatArray, radius: FloatArray) -> bool:
    """Return whether bisecting features instead of inputs saves more than their boxes lose.

    A box of features is larger than the zonotope inside; this must be less than a factor of two for
    each input that is saved.  The volume of a zonotope is the sum of the volumes of all cells
    spanned by r of its generators.  Inputs of zero width are not bisected.
    """
    generators = _generators(basis, radius)
    r, d = generators.shape
    cells = generators.T[np.array(list(combinations(range(d), r)))]
    whole = float(np.abs(generators).sum(axis=1).prod())
    return bool(whole < 2.0 ** (d - r) * (1.0 - EQUAL) * np.abs(np.linalg.det(cells)).sum())


def _among(some: FloatArray, inputs: IntArray, rows: FloatArray) -> FloatArray:
    """Extend vectors of some inputs to all inputs, by zeros."""
    found = np.zeros((len(some), rows.shape[1]))
    found[:, inputs] = some
    return found


def _facets(basis: FloatArray, radius: FloatArray) -> FloatArray:
    """Return unit normals (K, d) of the facets of a zonotope, in its span."""
    generators = _generators(basis, radius)
    r, d = generators.shape
    among = np.array(list(combinations(range(d), r - 1)))
    sides = generators.T[among]  # (facets, r - 1, r)
    return np.asarray(np.linalg.svd(sides, full_matrices=True)[2][:, -1] @ basis)


def _along(normals: FloatArray, basis: FloatArray, radius: FloatArray) -> FloatArray:
    """Return orthonormal vectors (r, d) of the same span, along the normals of nearest facets."""
    found: list[FloatArray] = []
    left = normals
    for _ in basis:
        size = np.sqrt((left * left).sum(axis=1, keepdims=True))
        left = left[size[:, 0] > NEARLY]
        left = left / size[size[:, 0] > NEARLY]
        if not len(left):  # the zonotope is flat
            return basis
        reach = np.abs(left) @ radius
        found.append(left[reach.argmin()])
        left = left - np.outer(left @ found[-1], found[-1])
    return np.array(found)


def _ball(basis: FloatArray, radius: float) -> Domain:
    """Return the features of a ball: ``|B t| <= |B B^T|^(1/2) |t|``, by the largest row sum."""
    d = basis.shape[1]
    gram = np.abs(basis @ basis.T) + gamma(d) * (np.abs(basis) @ np.abs(basis).T)
    grown = float(np.sqrt(gram.sum(axis=1).max())) * (1.0 + gamma(d + 4))
    return NormBall(np.zeros(len(basis)), radius * grown, "l2")


def _zonotope(basis: FloatArray, normals: FloatArray, radius: FloatArray) -> Domain:
    """Return the features of a box; facets are as far out as generators reach along normals."""
    r, d = basis.shape
    generators = basis * radius
    reach = np.abs(generators).sum(axis=1) * (1.0 + gamma(d + 2))
    if not len(normals):
        return Box(-reach, reach)
    out = np.abs(normals @ generators).sum(axis=1)
    out += gamma(d + r + 2) * (np.abs(normals) @ np.abs(generators)).sum(axis=1)
    both = np.concatenate([normals, -normals])
    return Polytope(both, np.tile(out * (1.0 + gamma(d)), 2), -reach, reach)
