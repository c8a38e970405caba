"""A bound of the gradient's l1 norm in which open signs need no branching: chords of |g_j|.

On a box the entry g_j of ``y . J(x)`` lies in [l, u].  Where its sign is open, |g_j| lies below a
line ``alpha g_j + beta``, |alpha| <= 1; of the others alpha is the sign and beta zero.  So

    sum_j |g_j| <= max over x of y . J(x) alpha + sum_j beta_j,

one direction for all of them, whose affine bound has an error of second order in the box's width,
while the chords' is of the first order in the ranges of the open entries.  (The norm as one more
layer behind the gradient: Shi et al., Efficiently computing local Lipschitz constants, 2022.)
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipyomo.arrays import FloatArray
from lipyomo.bounds import preactivation_bounds
from lipyomo.bounds.gradient import gradient_ranges
from lipyomo.bounds.slopes import with_slopes
from lipyomo.numerics.rounding import UNIT, gamma
from lipyomo.problem import LipschitzProblem
from lipyomo.run import Clock
from lipyomo.search.smooth.bound import bounded
from lipyomo.search.smooth.boxes import Boxes
from lipyomo.search.smooth.context import Context, Question
from lipyomo.search.smooth.euclid import framed
from lipyomo.search.smooth.gradient import enclosed
from lipyomo.search.smooth.relax import relaxed


def with_chords(context: Context, boxes: Boxes, clock: Clock) -> Boxes:
    """Boxes of the whole domain, for linf inputs, with bounds by chords where these are less."""
    low, high = _entries(context, boxes, clock)
    if clock.expired:
        return boxes
    alpha, beta = chords(low, high)
    room = np.full(len(boxes), np.inf)
    found = bounded(context, replace(boxes, v_low=alpha, v_high=alpha, bounds=room), -math.inf)
    added = beta.sum(axis=1) * (1.0 + gamma(context.inputs))
    bounds = (found.boxes.bounds + added) + 2.0 * UNIT * (np.abs(found.boxes.bounds) + added)
    return replace(boxes, bounds=np.minimum(boxes.bounds, bounds))


def whole_bound(problem: LipschitzProblem, clock: Clock) -> float:
    """A bound of a smooth network's constant on a bounded domain, without any split.

    Affine in the inputs; for linf inputs with chords.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    clock : Clock

    Raises
    ------
    MethodError
        If the dual ball has too many vertices.
    """
    context = Context.of(Question(problem))
    whole = Boxes.whole(context)
    if context.targets.input_norm == "linf" and not context.euclidean:
        return max(0.0, with_chords(context, whole, clock).bound)
    return max(0.0, bounded(context, whole, -math.inf).boxes.bound)


def chords(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Alpha in [-1, 1] and beta with ``|g| <= alpha g + beta`` for g in [low, high].

    ``|g| - alpha g`` is convex, hence largest at an end: beta is right for whatever alpha rounding
    makes.
    """
    open_ = (low < 0) & (high > 0)
    slope = np.clip((high + low) / np.where(open_, high - low, 1.0), -1.0, 1.0)
    alpha = np.where(open_, slope, np.where(low >= 0, 1.0, -1.0))
    above = np.maximum(high * (1.0 - alpha), -low * (1.0 + alpha)) * (1.0 + 4.0 * UNIT)
    return alpha, np.where(open_, above, 0.0)


def _entries(context: Context, boxes: Boxes, clock: Clock) -> tuple[FloatArray, FloatArray]:
    """Least and largest entries (N, d) of the gradients of the boxes' functionals.

    Both affine bounds and those by ranges of slopes hold: the former are less on small domains, and
    are left out where the clock has no time for them.
    """
    problem = context.question.problem
    known = preactivation_bounds(problem.network, problem.domain)
    switched = with_slopes(problem.network, known)
    low, high = gradient_ranges(switched, known.phases, context.targets.functionals)
    low, high = low[boxes.rows], high[boxes.rows]
    longest, before = 0.0, clock.seconds
    for k in range(len(boxes)):  # one by one: there is a matrix of all inputs for each
        longest, before = max(longest, clock.seconds - before), clock.seconds
        if clock.expired or 2.0 * longest > clock.left:
            break
        box = boxes.take(slice(k, k + 1))
        frame = framed(context, box)
        layers = relaxed(context, box, frame.v_low, frame.v_high)
        errors = None if frame.errors is None else frame.errors[:, None]
        found = enclosed(context, box, layers, frame.rows[:, None], errors)
        middle, radius = found.middle[0, 0], found.radius[0, 0]
        room = (np.abs(middle) + radius) * gamma(context.inputs + 2)
        low[k] = np.maximum(low[k], middle - radius - room)
        high[k] = np.minimum(high[k], middle + radius + room)
    return low, high
