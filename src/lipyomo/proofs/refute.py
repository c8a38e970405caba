"""Refuting empty cases: weights that prove a contradiction, in the form that the checker takes.

A linear program over the triangle relaxation of the case looks for a point with positive margin; if
there is none, its duals are the weights.  They are verified in the checker's arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import replace
from math import gcd, lcm
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import row_reduced
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.networks.phases import RIGHT
from lipyomo.primal.regions.euclidean import nearest_point
from lipyomo.primal.regions.partial import NodeRows, Optimum
from lipyomo.problems.affine.exact import ExactForm
from lipyomo.problems.affine.system import NodeForm
from lipyomo.proofs.case import Case
from lipyomo.proofs.context import Recording
from lipyomo.search.spaces.phases.examine import asks_program
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.statistics import Statistics
from lipyomo_check import linear as checked

Suggestion = tuple[list[Any], list[Any], list[Any]]
"""Lists of (index, weight) for beta, alpha and rho."""


def refuted(recording: Recording, case: Case, statistics: Statistics) -> tuple[Case, Statistics]:
    """Try to refute a case in which no point is known, and close it if weights are found.

    Otherwise this may find a point in it.
    """
    points, form = recording.points, case.known_form
    if case.ours.points.size:
        return case, statistics
    asks, statistics = asks_program(recording.search, statistics)
    if form.units.size and not asks:
        return case, statistics
    weights, found = _refute(recording, case.node, form, case.ours)
    if found is not None:
        (near,) = points.visit(found.point[None], np.array([found.margin]))
        kinked = np.flatnonzero(recording.search.system.kinked)
        inside = points.pool.within(near, case.ours.phases, kinked)
        case = replace(case, ours=case.ours._replace(points=inside))
    statistics = statistics.counting(programs=1, empty_by_program=int(weights is not None))
    return case if weights is None else case.end(["empty", weights]), statistics


def _refute(
    recording: Recording, node: checked.Node, form: NodeForm, ours: PhaseNode
) -> tuple[list[Any] | None, Optimum | None]:
    """Return weights that refute the case, as written to the file; otherwise the optimum, if any.

    The optimum's point has a positive margin: the case is not empty.
    """
    if not form.units.size:  # bounds may depend on each other, so signs of all units are used
        free = np.full(ours.lower.size, np.inf)
        ours = ours._replace(lower=-free, upper=free)
    suggestions, optimum = _suggested(recording, form, ours)
    for suggestion in suggestions:
        weights = _whole(*suggestion, 2 * recording.params.multiplier_bits)
        if recording.linear.is_empty(node, weights):
            return _written(weights), None
        if form.units.size:
            continue
        found = _exactly(recording, suggestion, node, ours)
        if found is not None:
            return found, None
    if form.units.size and optimum is None:
        # rounded weights do not cancel exactly; forms of stable units alone may be contradictory
        found = _exactly(recording, _of_decided(recording, form, ours), node, ours)
        if found is not None:
            return found, None
    return None, optimum


def _exactly(
    recording: Recording, suggestion: Suggestion | None, node: checked.Node, ours: PhaseNode
) -> list[Any] | None:
    """Return weights of the suggested units that cancel exactly, as written to the file."""
    if suggestion is None:
        return None
    exact = _cancelling(recording, [int(k) for k, _ in suggestion[0]], ours)
    if exact is None or not recording.linear.is_empty(node, checked.Weights(0, exact)):
        return None
    return _written(checked.Weights(0, exact))


def _of_decided(recording: Recording, form: NodeForm, ours: PhaseNode) -> Suggestion | None:
    """Suggest weights of those stable units whose forms do not depend on open ones."""
    rows, d = recording.region.rows(form, ours), form.variables
    own = np.flatnonzero(~rows.rows[: rows.counts[0], d:-2].any(axis=1))
    if not own.size:
        return None
    rows = rows._replace(
        rows=rows.rows[own],
        right=rows.right[own],
        owners=rows.owners[own],
        counts=(own.size, 0, 0),
        size=rows.size[own],
    )
    found = recording.region.optimum(form, rows)
    if found is None or found.margin > EQUAL:
        return None
    return _kept(recording, rows.owners, found.weights[: own.size] / rows.size), [], []


def _cancelling(recording: Recording, units: list[int], ours: PhaseNode) -> dict[int, int] | None:
    """Find integer weights of stable units with which their forms cancel, up to the box's sides.

    Parameters
    ----------
    units : list of int
        Units with a weight in floating point, whose forms do not depend on unstable units.
    ours : PhaseNode
    """
    form, d = ExactForm(recording.search.system, ours.phases), ours.low.size
    rows = [form.sign_row(k, bool(ours.phases[k] == RIGHT))[:d] for k in units]
    for j in range(d if units else 0):
        for sign, side in ((1, ours.high[j]), (-1, ours.low[j])):
            if np.isfinite(side):
                rows.append([fmpq(sign if i == j else 0) for i in range(d)])
    for weights in _kernel(fmpq_mat(rows).transpose()) if rows else []:
        for sign in (1, -1):
            if all(sign * w >= 0 for w in weights) and any(w != 0 for w in weights[: len(units)]):
                pairs = zip(units, weights, strict=False)
                scale = fmpq(lcm(*(int(w.q) for w in weights)), gcd(*(int(w.p) for w in weights)))
                return {k: int(sign * w * scale) for k, w in pairs if w != 0}
    return None


def _suggested(
    recording: Recording, form: NodeForm, ours: PhaseNode
) -> tuple[list[Suggestion], Optimum | None]:
    """Suggest weights from the duals of the margin program, or return its point if it has one."""
    rows = recording.region.rows(form, ours)
    d, (count, inner, _) = form.variables, rows.counts
    most = rows.most.copy()
    most[d:] = np.inf  # the checker bounds unstable units by their chords
    rows = rows._replace(most=most)
    units, size = rows.owners[:count], rows.size
    if not count:
        return [], None
    pushed = _pushed_out(recording, form, rows, ours)
    found = recording.region.optimum(form, rows)
    if found is None or found.margin > EQUAL:
        return pushed, found
    duals = found.weights[: len(rows.owners)]
    beta = duals[:count] / size
    above = duals[count : count + inner]
    reduced = duals @ rows.rows[:, d : d + inner]
    share = above + np.maximum(reduced, 0.0)
    alpha = np.where(share > 0, above / np.where(share > 0, share, 1.0), 0.0)
    faces = found.weights[len(rows.owners) :][: recording.search.domain.rows.count]
    between = zip(form.units[:inner].tolist(), alpha, share, strict=True)
    lines = [[k, float(a)] for k, a, s in between if s > 0]
    first = _kept(recording, units, beta), lines, _kept(recording, np.arange(faces.size), faces)
    return [first, *pushed], None


def _pushed_out(
    recording: Recording, form: NodeForm, rows: NodeRows, ours: PhaseNode
) -> list[Suggestion]:
    """Suggest weights that separate a full pattern's region from a Euclidean ball."""
    ball = recording.search.domain.ball
    if form.units.size or ball is None or ball.norm != "l2":
        return []
    own = rows.rows[:, : form.variables]
    dual = nearest_point(own, rows.right, ours.low, ours.high, ball.point).dual
    return [(_kept(recording, rows.owners, dual / rows.size), [], [])]


def _kernel(matrix: fmpq_mat) -> list[list[fmpq]]:
    """Return a basis of the kernel of a matrix."""
    n, (table, pivots) = matrix.ncols(), row_reduced(matrix)
    basis = []
    for free in sorted(set(range(n)) - set(pivots)):
        vector = [fmpq(0)] * n
        vector[free] = fmpq(1)
        for row, pivot in zip(table, pivots, strict=True):
            vector[pivot] = -row[free]
        basis.append(vector)
    return basis


def _whole(beta: list[Any], alpha: list[Any], rho: list[Any], bits: int) -> checked.Weights:
    """Round weights to integer multiples of one unit."""
    top = max([w for _, w in beta + rho], default=0.0)
    bits = max(bits - math.frexp(top)[1], 0)
    first, last = ({k: round(math.ldexp(w, bits)) for k, w in part} for part in (beta, rho))
    return checked.Weights(bits, first, {k: round(256 * a) for k, a in alpha}, last)


def _written(weights: checked.Weights) -> list[Any]:
    """Encode weights for the file."""
    parts = weights.beta, weights.alpha, weights.rho
    return [weights.bits, *([list(part), list(part.values())] for part in parts)]


def _kept(recording: Recording, index: Any, values: FloatArray) -> list[list[float]]:
    """Return (index, weight) of the weights that are not negligible."""
    bar = recording.params.negligible * values.max(initial=0.0)
    return [[int(k), float(v)] for k, v in zip(index, values, strict=True) if v > bar]
