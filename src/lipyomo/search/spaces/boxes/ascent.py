"""Primal heuristic: batched projected gradient ascent on the Jacobian's norm or on values.

It is part of a search, or a method by itself (`smooth_incumbent`).

Step sizes are those of Barzilai and Borwein (Two-point step size gradient methods, 1988).  A step
that does not improve is rejected, and the next one has a quarter of its length.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from lipyomo.base.arrays import FloatArray, ranges
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.primal.heuristics.evaluate import sampled_norms
from lipyomo.primal.regions.witness import unbeaten, witness_near
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.values import growth, slopes_at

AHEAD = 10.0
"""Estimate of a point's total further rise, as a multiple of its next step's first-order rise."""

SHORTER = 0.25
"""Factor by which a rejected step is cut; also the first step's share of the domain's width."""


Slopes = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Maps points (N, d) to values (N,) and their gradients (N, d)."""


def ascended(
    context: BoxContext, points: FloatArray, clock: Clock, worth: float = -np.inf
) -> tuple[FloatArray, FloatArray]:
    """Ascend the Jacobian's norm from points (N, d); return the final points and values (N,)."""

    def slopes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        at = slopes_at(context, x)
        return at.values, growth(context, at)

    return projected_ascents(context.domain, points, slopes, context.params.steps, clock, worth)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def projected_ascents(
    domain: Domain,
    points: FloatArray,
    slopes: Slopes,
    steps: int,
    clock: Clock,
    worth: float = -np.inf,
) -> tuple[FloatArray, FloatArray]:
    """Ascend from points (N, d) by at most `steps` steps; return the final points and values (N,).

    It stops early once no point is expected to exceed the value `worth`.  A step that overflows is
    not taken.
    """
    width = domain.upper - domain.lower
    scale = np.where(np.isfinite(width), width, 1.0)
    unit = ranges(domain.lower, domain.upper)  # also for frozen inputs, whose width is zero
    x = domain.drawn_in(points)
    values, g = slopes(x)
    g = g * scale  # in units of the domain's width
    top = np.abs(g).max(axis=1, initial=0.0)
    step = SHORTER / np.where(top > 0, top, 1.0)
    for _ in range(steps):
        if clock.expired:
            break
        aim = x + scale * step[:, None] * g
        new = domain.drawn_in(np.where(np.isfinite(aim), aim, x))
        moved = (new - x) / unit
        rises = (g * moved).sum(axis=1)
        if not ((rises > EQUAL * np.abs(values)) & (values + AHEAD * rises > worth)).any():
            break
        new_values, new_g = slopes(new)
        new_g = new_g * scale
        change = ((new_g - g) * moved).sum(axis=1)
        size = (moved * moved).sum(axis=1)
        lost = ~(new_values >= values)
        longer = np.where(change != 0, size / np.abs(change), 2.0 * step)
        step = np.where(lost, SHORTER * step, longer)
        x, g = np.where(lost[:, None], x, new), np.where(lost[:, None], g, new_g)
        values = np.fmax(values, new_values)
    return x, values


FEW = 4
"""Points whose norms are computed between two looks at the clock."""


def smooth_incumbent(
    problem: LipschitzProblem,
    rng: np.random.Generator,
    evaluations: int | None = None,
    clock: Clock | None = None,
) -> Witness | None:
    """Search for a point with a large Jacobian norm.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem, of a smooth network; the search works on the reduced one.
    rng : numpy.random.Generator
    evaluations : int, optional
        Points to evaluate; by default those of the ascents from a few starts.
    clock : Clock, optional

    Returns
    -------
    Witness or None
        Of the original problem; None if no point could be certified.
    """
    small, clock = problem.reduced.problem, clock or Clock()
    try:
        context = BoxContext.of(BoxQuestion(small))
    except MethodError:  # too many vertices for ascents
        points = small.domain.sample(rng, evaluations or Params().samples)
        values = np.zeros(0)
        for at in range(0, len(points), FEW):
            if at and clock.expired:  # there is some point in any case
                break
            values = np.append(values, sampled_norms(small, points[at : at + FEW]))
        return _best(problem, points[: len(values)], values, clock)
    params = context.params
    starts = params.starts if evaluations is None else max(1, evaluations // params.steps)
    points, values = ascended(context, small.domain.sample(rng, starts), clock)
    return _best(problem, points, values, clock)


def _best(
    problem: LipschitzProblem, points: FloatArray, values: FloatArray, clock: Clock
) -> Witness | None:
    """Return a verified witness at the best possible of some points of the reduced problem."""
    order = np.argsort(-values, kind="stable")
    return unbeaten(points[order], values[order], partial(witness_near, problem), clock)
