"""Weights by which a case contradicts itself, in the form that the checker takes.

A linear program over the triangle relaxation of the case asks for a point with positive margin; if
there is none, its duals are the weights.  The checker's arithmetic has the last word.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpq, fmpq_mat
from scipy.optimize import linprog

from lipyomo.affine.rows import ExactForm
from lipyomo.affine.system import NodeForm, UnitSystem
from lipyomo.bnb.node import Node
from lipyomo.domains import Domain, NormBall
from lipyomo.network import FloatArray
from lipyomo.phases import OPEN, RIGHT
from lipyomo.regions.euclidean import nearest_point
from lipyomo_check import linear as checked

MOST_SIDED = 8
"""Most inputs for which the sides of an l1 ball are written out."""

NEGLIGIBLE = 1e-12
"""Weights below this share of the largest are left out."""


Index = npt.NDArray[np.intp]
Suggestion = tuple[list[Any], list[Any], list[Any]]
"""Pairs of beta, alpha and rho."""


class Refuter:
    """Refutes the cases of one proof.

    Parameters
    ----------
    system : UnitSystem
    domain : Domain
        In the inputs that move.
    linear : lipyomo_check.linear.Linear
    """

    def __init__(self, system: UnitSystem, domain: Domain, linear: checked.Linear) -> None:
        self._system, self._domain, self._linear = system, domain, linear
        rows = domain.rows
        self._faces = np.asarray(rows.A.toarray()), rows.b
        self._sides = _cross_polytope(domain)

    def refute(self, node: checked.Node, form: NodeForm, ours: Node) -> list[Any] | None:
        """Weights that contradict the case, as they are written; None if none were found."""
        for beta, alpha, rho in self._suggested(form, ours):
            weights = checked.Weights(dict(beta), dict(alpha), dict(rho))
            if self._linear.is_empty(node, weights):
                return [[list(p) for p in part] for part in (beta, alpha, rho)]
            if form.units.size:
                continue
            exact = self._cancelling([int(k) for k, _ in beta], ours)
            if exact is not None and self._linear.is_empty(node, checked.Weights(exact)):
                written = [[k, f"{v.p}/{v.q}"] for k, v in exact.items()]
                return [written, [], []]
        return None

    def _cancelling(self, units: list[int], ours: Node) -> dict[int, fmpq] | None:
        """Weights of decided units whose forms cancel exactly, up to the box's finite sides.

        Parameters
        ----------
        units : list of int
            Those with a weight in floating point.
        ours : Node
            Without open units.
        """
        form = ExactForm(self._system, ours.phases)
        rows = []
        for k in units:
            *normal, _ = form.sign_row(k, bool(ours.phases[k] == RIGHT))
            rows.append([fmpq(a.numerator, a.denominator) for a in normal])
        d = len(rows[0]) if rows else 0
        for j in range(d):
            for sign, side in ((1, ours.high[j]), (-1, ours.low[j])):
                if np.isfinite(side):
                    rows.append([fmpq(sign if i == j else 0) for i in range(d)])
        for weights in _kernel(fmpq_mat(rows).transpose()) if rows else []:
            for sign in (1, -1):
                if all(sign * w >= 0 for w in weights) and any(
                    w != 0 for w in weights[: len(units)]
                ):
                    pairs = zip(units, weights, strict=False)
                    return {k: sign * w for k, w in pairs if w != 0}
        return None

    def _suggested(self, form: NodeForm, ours: Node) -> list[Suggestion]:
        """Weights from the duals of the margin program."""
        system, d = self._system, form.inputs
        F = form.units.size
        decided = np.flatnonzero(system.kinked & (ours.phases != OPEN))
        maps = form.maps
        sign = np.where(ours.phases[decided] == RIGHT, 1.0, -1.0)
        G = -sign[:, None] * maps[decided, :-1]
        right = sign * maps[decided, -1]
        size = np.abs(G).sum(axis=1)
        use = size > 0
        decided, G, right, size = decided[use], G[use], right[use], size[use]
        if not decided.size:
            return []
        margin = np.ones(len(decided))
        blocks = [np.column_stack([G / size[:, None], margin])]
        rights = [right / size]
        eye = np.zeros((F, d + F + 1))
        eye[np.arange(F), d + np.arange(F)] = 1.0
        z = np.zeros((F, d + F + 1))
        z[:, :-1] = maps[form.units, :-1]
        offset = maps[form.units, -1]
        blocks.append(z - eye)  # z <= y
        rights.append(-offset)
        low, high = ours.lower[form.units], ours.upper[form.units]
        finite = np.isfinite(low) & np.isfinite(high)
        slope = np.where(finite, high / np.where(finite, high - low, 1.0), 0.0)
        blocks.append((eye - slope[:, None] * z)[finite])  # y <= slope (z - low)
        rights.append((slope * (offset - np.where(finite, low, 0.0)))[finite])
        b = self._faces[1]
        for rows, sides in (self._sides, self._faces):
            face = np.zeros((len(sides), d + F + 1))
            face[:, :d] = rows
            face[:, -1] = np.abs(rows).sum(axis=1)
            blocks.append(face)
            rights.append(sides)
        bounds = [
            (lo if np.isfinite(lo) else None, hi if np.isfinite(hi) else None)
            for lo, hi in zip(ours.low, ours.high, strict=True)
        ]
        bounds += [(0.0, None)] * F + [(None, 1.0)]
        cost = np.zeros(d + F + 1)
        cost[-1] = -1.0
        found = linprog(cost, np.vstack(blocks), np.concatenate(rights), bounds=bounds)
        if found.status != 0 or found.x[-1] > 1e-7:
            return self._pushed_out(decided, G / size[:, None], right / size, size, ours, F)
        duals = np.maximum(-found.ineqlin.marginals, 0.0)
        count = len(decided)
        beta = duals[:count] / size
        above = duals[count : count + F]
        still = np.maximum(found.lower.marginals[d : d + F], 0.0)
        share = above + still
        alpha = np.where(share > 0, above / np.where(share > 0, share, 1.0), 0.0)
        rho = duals[len(duals) - len(b) :]
        open_units = form.units.tolist()
        lines = [[k, float(a)] for k, a, s in zip(open_units, alpha, share, strict=True) if s > 0]
        return [(_kept(decided, beta), lines, _kept(np.arange(len(b)), rho))]

    def _pushed_out(
        self,
        decided: Index,
        G: FloatArray,
        right: FloatArray,
        size: FloatArray,
        ours: Node,
        count: int,
    ) -> list[Suggestion]:
        """Weights that hold a full pattern's region away from the centre of a Euclidean ball."""
        domain = self._domain
        if count or not (isinstance(domain, NormBall) and domain.norm == "l2"):
            return []
        dual = nearest_point(G, right, ours.low, ours.high, domain.point).dual
        return [(_kept(decided, dual / size), [], [])]


def _cross_polytope(domain: Domain) -> tuple[FloatArray, FloatArray]:
    """Rows of an l1 ball's sides, where they are few (the checker needs none of them)."""
    d = domain.dimension
    if not (isinstance(domain, NormBall) and domain.norm == "l1" and d <= MOST_SIDED):
        return np.zeros((0, d)), np.zeros(0)
    signs = np.array(list(product((-1.0, 1.0), repeat=d)))
    return signs, signs @ domain.point + domain.radius


def _kernel(matrix: fmpq_mat) -> list[list[fmpq]]:
    """A basis of the vectors that `matrix` maps to zero."""
    reduced, rank = matrix.rref()
    n = matrix.ncols()
    pivots = []
    for i in range(rank):
        pivots.append(next(j for j in range(n) if reduced[i, j] != 0))
    basis = []
    for free in sorted(set(range(n)) - set(pivots)):
        vector = [fmpq(0)] * n
        vector[free] = fmpq(1)
        for i, pivot in enumerate(pivots):
            vector[pivot] = -reduced[i, free]
        basis.append(vector)
    return basis


def _kept(index: Any, values: FloatArray) -> list[list[float]]:
    """(index, weight) of what matters."""
    bar = NEGLIGIBLE * values.max(initial=0.0)
    return [[int(k), float(v)] for k, v in zip(index, values, strict=True) if v > bar]
