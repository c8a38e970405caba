"""A bound of the gradient's l1 norm that needs no branching on open signs: chords of |g_j|.

On a box the entry g_j of ``y . J(x)`` lies in [l, u].  If its sign is open, |g_j| lies below the
chord ``alpha g_j + beta``, |alpha| <= 1; otherwise alpha is the sign and beta zero.  So

    sum_j |g_j| <= max over x of y . J(x) alpha + sum_j beta_j,

with a single direction, whose affine bound has an error of second order in the box's width; the
chords' error is of first order in the ranges of the open entries.  (Shi et al., Efficiently
computing local Lipschitz constants, 2022, treat the norm as one more layer behind the gradient.)
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.gradient import gradient_ranges
from lipyomo.relaxations.linear.layers import with_slopes
from lipyomo.search.spaces.boxes.bound import (
    bounded,
    framed,
    framed_jacobian,
    with_decided_signs,
)
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.inputs import highest
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed

OUT_OF_REACH = 1.5
"""If the bound by chords is this many times a known one, `_narrowed` is not tried: it takes seconds
and gains a quarter at best, and only a few percent on such wide domains."""

NARROWER = 0.9
"""Narrowing the domain is repeated if it left at most this share of the bound's gap: time against
the bound."""


def with_chords(context: BoxContext, boxes: Boxes, clock: Clock, cutoff: float = math.inf) -> Boxes:
    """Improve the bounds of boxes of the whole domain by chords, for linf inputs.

    In networks with products each entry is first bounded along its own direction, since relaxation
    errors of products add up in a Jacobian that is computed backwards; signs that follow are fixed.
    Boxes above the cutoff are then narrowed to where they can exceed it, the largest bound first,
    except those whose known bound is far below that by chords (`OUT_OF_REACH`).
    """
    low, high = _entries(context, boxes, clock)
    if clock.expired:
        return boxes
    parts = [boxes.take(slice(k, k + 1)) for k in range(len(boxes))]
    if context.structure.multiplies:
        for k, part in enumerate(parts):
            low[k], high[k] = _refined(context, part, low[k], high[k], clock)
        boxes = with_decided_signs(boxes, low, high)
        parts = [boxes.take(slice(k, k + 1)) for k in range(len(boxes))]
    pairs = zip(parts, low, high, strict=True)
    tops = np.array([_above_norm(context, part, *ends).top for part, *ends in pairs])
    bounds = np.minimum(boxes.bounds, tops)
    for k in np.argsort(-bounds).tolist():
        if bounds[k] > cutoff and tops[k] < OUT_OF_REACH * bounds[k]:
            found = _narrowed(context, parts[k], low[k], high[k], cutoff, clock)
            bounds[k] = min(bounds[k], found)
    return replace(boxes, bounds=bounds)


class AboveNorm(NamedTuple):
    """Affine upper bound ``x . X + rest`` of a gradient's norm on one box, within its half-space.

    Attributes
    ----------
    x : ndarray, shape (d,)
    rest : float
    top : float
        Its maximum there; minus infinity if that is empty.
    """

    x: FloatArray
    rest: float
    top: float


def _above_norm(context: BoxContext, box: Boxes, low: FloatArray, high: FloatArray) -> AboveNorm:
    """Bound the norm by chords of the entries, which lie in [low, high], shape (d,)."""
    alpha, beta = chords(low[None], high[None])
    added = float(beta.sum()) * (1.0 + gamma(context.directions))
    x, rest, tops = _along(context, box, alpha, 1.0)
    rest = rest + added
    top = tops + added + 2.0 * UNIT * (np.abs(tops) + added)
    return AboveNorm(x[0], float(rest[0] + UNIT * abs(rest[0])), float(top[0]))


def _along(
    context: BoxContext, box: Boxes, v: FloatArray, sign: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Affine upper bounds of ``sign y . J(x) v`` on one box, within its half-space.

    For directions v (N, d), return coefficients x, constants and maxima.
    """
    unit, known = context.unit, relaxed(context, box, (v, v))
    frame = framed(context, replace(box, v_low=v, v_high=v))
    above = collapsed(known, np.repeat(sign * frame.rows, len(v), axis=0), frame.errors)
    sizes = (np.abs(above.v) * np.abs(v)).sum(axis=1) + np.abs(above.constant)
    rest = (above.v * v).sum(axis=1) + above.constant + 2.0 * unit * sizes
    tops = highest(above.x, known.inputs, unit)
    tops = tops + rest + UNIT * (np.abs(tops) + np.abs(rest))
    if known.empty.any():
        tops = np.full(len(v), -np.inf)
    return above.x, rest, np.where(np.isnan(tops), np.inf, tops)


def _narrowed(
    context: BoxContext, box: Boxes, low: FloatArray, high: FloatArray, cutoff: float, clock: Clock
) -> float:
    """Improve the bound of a box by restricting it to where the norm can exceed the cutoff.

    That is where its affine bound does, a half-space.  There the ranges of units and of the
    gradient's entries, [low, high] (d,), are smaller, and so is the next affine bound.  If the
    maximum is in a corner of the domain, repeating this may leave nothing.  Otherwise the same is
    tried with values between the cutoff and the bound in the cutoff's place, by bisection.
    """
    less, aim = NARROWER, cutoff
    start = box, low, high, _above_norm(context, box, low, high)
    bound, missed = start[3].top, cutoff
    while bound - missed > (1.0 - less) * (bound - cutoff) and not clock.expired:
        part, low, high, found = start
        top = math.inf
        while aim < found.top < aim + less * (top - aim) and not clock.expired:
            top, gap = found.top, found.rest - aim
            room = np.array([gap + UNIT * abs(gap)])
            part = replace(box, half=-found.x[None], room=room)
            low, high = _refined(context, part, low, high, clock)
            found = _above_norm(context, part, low, high)
        bound = min(bound, max(aim, found.top))
        if found.top > aim:
            missed = aim
            if aim == cutoff:
                if not bound - cutoff < less * (start[3].top - cutoff):
                    break
                start = part, low, high, found
        aim = 0.5 * (missed + bound)
    return bound


def _refined(
    context: BoxContext, box: Boxes, low: FloatArray, high: FloatArray, clock: Clock
) -> tuple[FloatArray, FloatArray]:
    """Tighten the ranges of entries with open signs on one box, the most costly ones first.

    It stops when they no longer become much smaller.
    """
    low, high = low.copy(), high.copy()
    cost = np.minimum(-low, high)
    order = np.argsort(-cost)[: np.count_nonzero(cost > 0)]
    together = 4 * context.batches.chunk
    for start in range(0, len(order), together):
        if clock.expired:
            break
        which = order[start : start + together]
        v = np.zeros((len(which), context.directions))
        v[np.arange(len(which)), which] = 1.0
        high[which] = np.minimum(high[which], _along(context, box, v, 1.0)[2])
        low[which] = np.maximum(low[which], -_along(context, box, v, -1.0)[2])
        now = np.maximum(np.minimum(-low[which], high[which]), 0.0)
        if not now.sum() < NARROWER * cost[which].sum():
            break
    return low, high


def whole_bound(problem: LipschitzProblem, clock: Clock) -> float:
    """Bound a smooth network's Lipschitz constant on a bounded domain without any split.

    The bound is affine in the inputs; for linf inputs it uses chords.

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
    context = BoxContext.of(BoxQuestion(problem))
    whole = Boxes.whole(context)
    if context.targets.norm == "linf" and not context.targets.euclidean:
        return max(0.0, with_chords(context, whole, clock).bound)
    return max(0.0, bounded(context, whole, -math.inf).boxes.bound)


def chords(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return alpha in [-1, 1] and beta with ``|g| <= alpha g + beta`` for g in [low, high].

    ``|g| - alpha g`` is convex, so it is largest at an end; beta is valid for the rounded alpha.
    """
    open_ = (low < 0) & (high > 0)
    slope = np.clip((high + low) / np.where(open_, high - low, 1.0), -1.0, 1.0)
    alpha = np.where(open_, slope, np.where(low >= 0, 1.0, -1.0))
    above = np.maximum(high * (1.0 - alpha), -low * (1.0 + alpha)) * (1.0 + 4.0 * UNIT)
    return alpha, np.where(open_, above, 0.0)


def _entries(context: BoxContext, boxes: Boxes, clock: Clock) -> tuple[FloatArray, FloatArray]:
    """Bound the gradient's entries (N, d) from below and above for the boxes' functionals.

    They combine interval bounds from ranges of slopes with affine bounds, which are tighter on
    small domains and are left out if there is no time for them.
    """
    problem = context.question.problem
    known = preactivation_bounds(problem.network, problem.domain)
    switched = with_slopes(problem.network, known)
    if problem.directions is not None:
        switched = switched.with_directions(problem.directions)
    low, high = gradient_ranges(switched, known.phases, context.targets.functionals)
    low, high = low[boxes.rows], high[boxes.rows]
    longest, before = 0.0, clock.seconds
    for k in range(len(boxes)):  # one by one, as each needs a matrix over all inputs
        longest, before = max(longest, clock.seconds - before), clock.seconds
        if clock.expired or 2.0 * longest > clock.left:
            break
        box = boxes.take(slice(k, k + 1))
        frame = framed(context, box)
        found = framed_jacobian(relaxed(context, box, (frame.v_low, frame.v_high)), frame)
        middle, radius = found.middle[0, 0], found.radius[0, 0]
        room = (np.abs(middle) + radius) * gamma(context.inputs + 2)
        low[k] = np.maximum(low[k], middle - radius - room)
        high[k] = np.minimum(high[k], middle + radius + room)
    return low, high
