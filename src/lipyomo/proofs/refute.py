"""Weights by which a case contradicts itself, in the form that the checker takes.

A linear program over the triangle relaxation of the case asks for a point with positive margin; if
there is none, its duals are the weights.  The checker's arithmetic has the last word.
"""

from __future__ import annotations

import math
from dataclasses import replace
from math import gcd, lcm
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

from lipyomo.affine.rows import ExactForm
from lipyomo.affine.system import NodeForm, UnitSystem
from lipyomo.domains import Domain
from lipyomo.network import FloatArray
from lipyomo.phases import RIGHT
from lipyomo.regions.euclidean import nearest_point
from lipyomo.regions.partial import TOLERANCE, NodeRows, Optimum, RegionProgram
from lipyomo.search.relu.node import Node
from lipyomo_check import linear as checked

NEGLIGIBLE = 1e-12
"""Weights below this share of the largest are left out."""


BITS = 60
"""Of the largest weight."""

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
    program : RegionProgram
    """

    def __init__(
        self,
        system: UnitSystem,
        domain: Domain,
        linear: checked.Linear,
        program: RegionProgram,
    ) -> None:
        self._system, self._domain, self._linear = system, domain, linear
        self._program = program

    def refute(
        self, node: checked.Node, form: NodeForm, ours: Node
    ) -> tuple[list[Any] | None, Optimum | None]:
        """Weights that contradict the case, as they are written, if some do; else what was found.

        Its point has a positive margin: the case is not empty.
        """
        if not form.units.size:  # bounds may rest on each other: all signs take part
            free = np.full(ours.lower.size, np.inf)
            ours = replace(ours, lower=-free, upper=free)
        suggestions, optimum = self._suggested(form, ours)
        for suggestion in suggestions:
            weights = _whole(*suggestion)
            if self._linear.is_empty(node, weights):
                return written(weights), None
            if form.units.size:
                continue
            found = self._exactly(suggestion, node, ours)
            if found is not None:
                return found, None
        if form.units.size and optimum is None:
            # what is rounded does not cancel: forms of decided units may contradict themselves
            found = self._exactly(self._of_decided(form, ours), node, ours)
            if found is not None:
                return found, None
        return None, optimum

    def _exactly(
        self, suggestion: Suggestion | None, node: checked.Node, ours: Node
    ) -> list[Any] | None:
        """Weights of suggested units that cancel exactly, as they are written."""
        if suggestion is None:
            return None
        exact = self._cancelling([int(k) for k, _ in suggestion[0]], ours)
        if exact is None or not self._linear.is_empty(node, checked.Weights(0, exact)):
            return None
        return written(checked.Weights(0, exact))

    def _of_decided(self, form: NodeForm, ours: Node) -> Suggestion | None:
        """Weights of those decided units whose forms depend on no open ones."""
        rows, d = self._program.rows(form, ours), form.inputs
        own = np.flatnonzero(~rows.rows[: rows.counts[0], d:-2].any(axis=1))
        if not own.size:
            return None
        rows = replace(
            rows,
            rows=rows.rows[own],
            right=rows.right[own],
            owners=rows.owners[own],
            counts=(own.size, 0, 0),
            size=rows.size[own],
        )
        found = self._program.optimum(form, rows)
        if found is None or found.margin > TOLERANCE:
            return None
        return _kept(rows.owners, found.weights[: own.size] / rows.size), [], []

    def _cancelling(self, units: list[int], ours: Node) -> dict[int, int] | None:
        """Weights of decided units whose forms cancel exactly, up to the box's finite sides.

        Parameters
        ----------
        units : list of int
            Those with a weight in floating point; no open unit has a part in their forms.
        ours : Node
        """
        form, d = ExactForm(self._system, ours.phases), ours.low.size
        rows = [form.sign_row(k, bool(ours.phases[k] == RIGHT))[:d] for k in units]
        for j in range(d if units else 0):
            for sign, side in ((1, ours.high[j]), (-1, ours.low[j])):
                if np.isfinite(side):
                    rows.append([fmpq(sign if i == j else 0) for i in range(d)])
        for weights in _kernel(fmpq_mat(rows).transpose()) if rows else []:
            for sign in (1, -1):
                if all(sign * w >= 0 for w in weights) and any(
                    w != 0 for w in weights[: len(units)]
                ):
                    pairs = zip(units, weights, strict=False)
                    scale = fmpq(
                        lcm(*(int(w.q) for w in weights)), gcd(*(int(w.p) for w in weights))
                    )
                    return {k: int(sign * w * scale) for k, w in pairs if w != 0}
        return None

    def _suggested(self, form: NodeForm, ours: Node) -> tuple[list[Suggestion], Optimum | None]:
        """Weights from the duals of the margin program, or its point where there is one."""
        rows = self._program.rows(form, ours)
        d, (count, inner, _) = form.inputs, rows.counts
        most = rows.most.copy()
        most[d:] = np.inf  # the checker knows open units by their chords
        rows = replace(rows, most=most)
        units, size = rows.owners[:count], rows.size
        if not count:
            return [], None
        pushed = self._pushed_out(form, rows, ours)
        found = self._program.optimum(form, rows)
        if found is None or found.margin > TOLERANCE:
            return pushed, found
        duals = found.weights[: len(rows.owners)]
        beta = duals[:count] / size
        above = duals[count : count + inner]
        reduced = duals @ rows.rows[:, d : d + inner]
        share = above + np.maximum(reduced, 0.0)
        alpha = np.where(share > 0, above / np.where(share > 0, share, 1.0), 0.0)
        faces = found.weights[len(rows.owners) :][: self._domain.rows.count]
        between = zip(form.units[:inner].tolist(), alpha, share, strict=True)
        lines = [[k, float(a)] for k, a, s in between if s > 0]
        first = _kept(units, beta), lines, _kept(np.arange(faces.size), faces)
        return [first, *pushed], None

    def _pushed_out(self, form: NodeForm, rows: NodeRows, ours: Node) -> list[Suggestion]:
        """Weights that hold a full pattern's region away from the centre of a Euclidean ball."""
        ball = self._domain.ball
        if form.units.size or ball is None or ball.norm != "l2":
            return []
        own = rows.rows[:, : form.inputs]
        dual = nearest_point(own, rows.right, ours.low, ours.high, ball.point).dual
        return [(_kept(rows.owners, dual / rows.size), [], [])]


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


def _whole(beta: list[Any], alpha: list[Any], rho: list[Any]) -> checked.Weights:
    """Weights as whole multiples of one unit."""
    top = max([w for _, w in beta + rho], default=0.0)
    bits = max(BITS - math.frexp(top)[1], 0)
    first, last = ({k: round(math.ldexp(w, bits)) for k, w in part} for part in (beta, rho))
    return checked.Weights(bits, first, {k: round(256 * a) for k, a in alpha}, last)


def written(weights: checked.Weights) -> list[Any]:
    """Weights as they stand in a file."""
    parts = weights.beta, weights.alpha, weights.rho
    return [weights.bits, *([list(part), list(part.values())] for part in parts)]


def _kept(index: Any, values: FloatArray) -> list[list[float]]:
    """(index, weight) of what matters."""
    bar = NEGLIGIBLE * values.max(initial=0.0)
    return [[int(k), float(v)] for k, v in zip(index, values, strict=True) if v > bar]
