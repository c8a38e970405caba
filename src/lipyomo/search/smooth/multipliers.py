"""Multipliers of many small linear programs at a time, by a primal-dual interior-point method.

For ``max a . x`` over ``|x_i| <= 1`` and rows ``G x <= h`` any y >= 0 gives the bound

    sum_i |a - y G|_i + y . h,

and the least one is the maximum.  With C x <= e for ends of x and rows together, their slacks t and
multipliers w, Newton's method solves

    C^T w = a,      C x + t = e,      w t = what falls to zero,

with the predictor and the corrector of Mehrotra (On the implementation of a primal-dual interior
point method, 1992).  Each step takes one matrix of the size of x, or of the rows if these are
fewer.  Where no x fits all rows, y grows along a ray on which the bound falls without end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lipyomo.arrays import BoolArray, FloatArray
from lipyomo.numerics.rounding import EQUAL

STEPS = int(np.ceil(-np.log10(EQUAL)))
"""Most steps: each wins about a digit."""


class Programs(NamedTuple):
    """N programs ``max a . x`` over ``|x_i| <= 1`` and ``G x <= h``; numbers are about one.

    Shapes (N, d), (N, K, d) and (N, K).
    """

    a: FloatArray
    G: FloatArray
    h: FloatArray


class State(NamedTuple):
    """Points x (N, d), slacks t and multipliers w (N, 2 d + K): of upper ends, lower ends, rows."""

    x: FloatArray
    t: FloatArray
    w: FloatArray


def best_multipliers(
    programs: Programs, aims: FloatArray, steps: int = STEPS
) -> tuple[FloatArray, FloatArray]:
    """Multipliers whose bounds are near the least ones, or at most `aims` (N,).

    Returns
    -------
    multipliers : ndarray, shape (N, K)
    points : ndarray, shape (N, d)
        Near the maximisers, where any x fits all rows.
    """
    count, rows, d = programs.G.shape
    found, points = np.zeros((count, rows)), np.zeros((count, d))
    least, place = np.abs(programs.a).sum(axis=1), np.arange(count)
    now = _start(programs)
    with np.errstate(all="ignore"):  # a bound that overflows is none
        for step in range(steps + 1):
            y = now.w[:, 2 * d :]
            bounds = np.abs(programs.a - _combined(y, programs.G)).sum(axis=1)
            bounds += (y * programs.h).sum(axis=1)
            better = bounds < least[place]
            least[place[better]], found[place[better]] = bounds[better], y[better]
            points[place] = now.x
            more = (bounds > aims[place]) & np.isfinite(bounds)
            if step == steps or not more.any():
                break
            if not more.all():
                place = place[more]
                programs, now = Programs(*_some(programs, more)), State(*_some(now, more))
            now = _stepped(programs, now)
    return found, points


def _some(arrays: tuple[FloatArray, ...], which: BoolArray) -> list[FloatArray]:
    return [array[which] for array in arrays]


def _start(programs: Programs) -> State:
    """The middle, with multipliers of the size of the mean of a."""
    count, rows, d = programs.G.shape
    y = np.full((count, rows), 1.0 / (d * rows))
    rest = programs.a - _combined(y, programs.G)
    ends = np.maximum(np.concatenate([rest, -rest], axis=1), 0.0) + 1.0 / d
    t = np.concatenate([np.ones_like(ends), np.maximum(programs.h, 1.0)], axis=1)
    return State(np.zeros((count, d)), t, np.concatenate([ends, y], axis=1))


def _stepped(programs: Programs, now: State) -> State:
    """A predictor that aims at zero; what it does not reach is where the corrector aims."""
    (a, G, h), (x, t, w) = programs, now
    d = x.shape[1]

    def upon(dx: FloatArray) -> FloatArray:
        return np.concatenate([dx, -dx, _times(G, dx)], axis=1)

    def back(dw: FloatArray) -> FloatArray:
        return dw[:, :d] - dw[:, d : 2 * d] + _combined(dw[:, 2 * d :], G)

    ends = np.concatenate([np.ones((len(x), 2 * d)), h], axis=1)
    dual, primal, ratio = a - back(w), ends - upon(x) - t, w / t
    solve = _solver(G, ratio, d)

    def newton(products: FloatArray) -> State:
        """The step after which ``w t`` is that, but for terms of second order."""
        free = products / t - w
        dx = solve(dual - back(free - ratio * primal))
        dt = primal - upon(dx)
        return State(dx, dt, free - ratio * dt)

    size = (t * w).mean(axis=1, keepdims=True)
    ahead = newton(np.zeros_like(t))
    left = (t + _share(t, ahead.t) * ahead.t) * (w + _share(w, ahead.w) * ahead.w)
    left = (left.mean(axis=1, keepdims=True) / size) ** 3 * size
    ahead = newton(left - ahead.t * ahead.w)
    # never all the way to where something is zero
    by_t, by_w = 0.95 * _share(t, ahead.t), 0.95 * _share(w, ahead.w)
    return State(x + by_t * ahead.x, t + by_t * ahead.t, w + by_w * ahead.w)


def _solver(G: FloatArray, ratio: FloatArray, d: int) -> Callable[[FloatArray], FloatArray]:
    """Solves ``(D + G^T W G) dx = r``, D and W diagonal: by itself, or by Woodbury's formula."""
    diagonal, weight = ratio[:, :d] + ratio[:, d : 2 * d], ratio[:, 2 * d :]
    rows = G.shape[1]
    if d <= rows:
        whole = np.matmul(np.swapaxes(G * weight[:, :, None], 1, 2), G)
        whole[:, range(d), range(d)] += diagonal
        inverse = _inverse(whole)
        return lambda r: _times(inverse, r)
    small = np.matmul(G / diagonal[:, None], np.swapaxes(G, 1, 2))
    small[:, range(rows), range(rows)] += 1.0 / weight
    inverse = _inverse(small)
    return lambda r: (r - _combined(_times(inverse, _times(G, r / diagonal)), G)) / diagonal


def _inverse(matrices: FloatArray) -> FloatArray:
    """Inverses, or NaN for all where one of them is singular."""
    try:
        return np.asarray(np.linalg.inv(matrices))
    except np.linalg.LinAlgError:
        return np.full_like(matrices, np.nan)


def _share(values: FloatArray, steps: FloatArray) -> FloatArray:
    """How much of the steps leaves positive values (N, n) positive, at most one; shape (N, 1)."""
    return np.asarray(1.0 / np.maximum(-steps / values, 1.0).max(axis=1, keepdims=True))


def _times(rows: FloatArray, x: FloatArray) -> FloatArray:
    return np.asarray(np.matmul(rows, x[:, :, None])[:, :, 0])


def _combined(y: FloatArray, rows: FloatArray) -> FloatArray:
    return np.asarray(np.matmul(y[:, None], rows)[:, 0])
