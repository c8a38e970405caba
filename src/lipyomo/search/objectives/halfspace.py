"""Distances from a point to half-spaces within boxes, by weak duality, for many boxes together.

In steps u = (x - p) / w from the point, every u of the box with ``g . u + h >= 0`` satisfies, for
any m >= 0,

    |u|  >=  min over the box of |u| - m (g . u + h),

and for the Euclidean norm the same with ``|u|^2 / 2``.  The minimum is over d separate numbers (l1,
l2), or over a radius (linf); m is (nearly) optimal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import gamma


class Steps(NamedTuple):
    """N boxes and half-spaces ``g . u + h >= 0`` in terms of steps from a point.

    Attributes
    ----------
    low, high, g : ndarray, shape (N, d)
    h, error : ndarray, shape (N,)
        `error` bounds the rounding error of h.
    """

    low: FloatArray
    high: FloatArray
    g: FloatArray
    h: FloatArray
    error: FloatArray


def steps_of(
    box: tuple[FloatArray, FloatArray],
    affine: tuple[FloatArray, FloatArray],
    point: FloatArray,
    weights: FloatArray | None,
) -> Steps:
    """Express boxes ``low <= x <= high``, (N, d), and half-spaces ``a . x + c >= 0`` in steps.

    Parameters
    ----------
    box : (ndarray, ndarray), shape (N, d) each
    affine : (ndarray, ndarray), shapes (N, d) and (N,)
    point : ndarray, shape (d,)
    weights : ndarray, shape (d,), or None
    """
    w = np.ones_like(point) if weights is None else weights
    (low, high), (a, c) = box, affine
    error = gamma(point.size + 4) * (np.abs(c) + np.abs(a) @ np.abs(point))
    return Steps((low - point) / w, (high - point) / w, a * w, c + a @ point, error)


def shortest_steps(steps: Steps, norm: str) -> tuple[FloatArray, FloatArray]:
    """Bound norms of steps from below, (N,), and return steps (N, d) that are about the shortest.

    Parameters
    ----------
    steps : Steps
        Bounds are meaningless if a half-space does not meet its box.
    norm : {'linf', 'l1', 'l2'}

    Rounding: entries of a step and of g have errors of two units each, a sum over d of them one of
    ``gamma(d + 8)`` times its absolute terms; twice that covers their products.
    """
    low, high = steps.low, steps.high
    first = np.clip(0.0, low, high)
    alone = _size(first, norm) * (1.0 - gamma(low.shape[1] + 4))
    how = {"linf": _in_cube, "l1": _in_cross, "l2": _in_ball}[norm]
    with np.errstate(all="ignore"):  # NaN gives no bound
        bounds, u = how(steps)
    there = (steps.g * first).sum(axis=1) + steps.h >= 0.0
    bounds = np.where(there | ~(bounds > alone), alone, bounds)
    u = np.where((there | ~np.isfinite(u).all(axis=1))[:, None], first, u)
    return bounds, np.clip(u, low, high)


def _size(u: FloatArray, norm: str) -> FloatArray:
    """Norms (N,) of steps (N, d)."""
    if norm == "l2":
        return np.asarray(np.sqrt(np.square(u).sum(axis=1)))
    sizes = np.abs(u)
    return np.asarray(sizes.sum(axis=1) if norm == "l1" else sizes.max(axis=1))


def _in_ball(steps: Steps) -> tuple[FloatArray, FloatArray]:
    """For l2: the minimiser is ``clip(m g, low, high)``, whose product with g grows with m."""
    low, high, g, h, error = steps
    squares = np.where(g != 0.0, g * g, 0.0)
    first, last = (np.where(g != 0.0, end / g, 0.0) for end in (low, high))
    first, last = np.minimum(first, last), np.maximum(first, last)  # where each one moves
    kinks = np.maximum(np.concatenate([first, last], axis=1), 0.0)
    order = np.argsort(kinks, axis=1)
    kinks = np.take_along_axis(kinks, order, axis=1)
    slopes = np.take_along_axis(np.concatenate([squares, -squares], axis=1), order, axis=1)
    gaps = np.diff(kinks, axis=1, prepend=0.0)
    slopes = np.cumsum(slopes, axis=1)  # after each kink
    gains = np.cumsum(np.append(0.0 * h[:, None], slopes[:, :-1], axis=1) * gaps, axis=1)
    values = ((g * np.clip(0.0, low, high)).sum(axis=1) + h)[:, None] + gains
    met = values >= 0.0
    place, number = (
        np.where(met.any(axis=1), met.argmax(axis=1), values.shape[1] - 1),
        np.arange(len(g)),
    )
    slope = slopes[number, np.maximum(place - 1, 0)]
    back = np.where(slope > 0.0, values[number, place] / slope, 0.0)
    m = np.maximum(kinks[number, place] - np.maximum(back, 0.0), 0.0)
    u = np.clip(m[:, None] * g, low, high)
    half, product = 0.5 * np.square(u).sum(axis=1), (g * u).sum(axis=1) + h
    terms = half + m * ((np.abs(g * u)).sum(axis=1) + np.abs(h))
    bound = half - m * (product + error) - 2.0 * gamma(g.shape[1] + 8) * terms
    return np.sqrt(np.maximum(2.0 * bound, 0.0)) * (1.0 - gamma(4)), u


def _in_cross(steps: Steps) -> tuple[FloatArray, FloatArray]:
    """For l1: inputs with ``m |g_j| > 1`` are at their far ends, others as small as possible."""
    low, high, g, h, error = steps
    d, near, far = g.shape[1], np.clip(0.0, low, high), np.where(g > 0.0, high, low)
    order = np.argsort(-np.abs(g), axis=1)
    sorted_ = [np.take_along_axis(part, order, axis=1) for part in (near, far, g)]
    near, far, g = sorted_
    gains = np.cumsum(g * (far - near), axis=1)
    value = (g * near).sum(axis=1) + h
    place = np.argmax(value[:, None] + gains >= 0.0, axis=1)
    place = np.where((value[:, None] + gains >= 0.0).any(axis=1), place, d - 1)
    number = np.arange(len(g))
    m = 1.0 / np.abs(g[number, place])
    moved = np.arange(d) < place[:, None]
    u = np.where(moved, far, near)
    product = (g * u).sum(axis=1) + h
    terms = np.abs(u).sum(axis=1) + m * (np.abs(g * u).sum(axis=1) + np.abs(h))
    bound = np.abs(u).sum(axis=1) - m * (product + error) - 2.0 * gamma(d + 8) * terms
    u[number, place] -= product / g[number, place]
    back = np.empty_like(u)
    np.put_along_axis(back, order, u, axis=1)
    return bound, back


def _in_cube(steps: Steps) -> tuple[FloatArray, FloatArray]:
    """For linf: the best step of radius t moves each input as far as t or its end allows.

    The gain, a sum of ``|g_j| min(t, end_j)``, is concave in t, with kinks at the ends; the best m
    is the inverse of its slope where the half-space is reached.
    """
    low, high, g, h, error = steps
    d, number = g.shape[1], np.arange(len(g))
    least = np.abs(np.clip(0.0, low, high)).max(axis=1)[:, None]
    ends, sizes = np.where(g > 0.0, high, -low), np.abs(g)
    order = np.argsort(ends, axis=1)
    sorted_, weights = (np.take_along_axis(part, order, axis=1) for part in (ends, sizes))
    slopes = sizes.sum(axis=1)[:, None] - np.cumsum(weights, axis=1)
    gains = np.cumsum(weights * sorted_, axis=1) + slopes * sorted_
    first = (sizes * np.minimum(ends, least)).sum(axis=1)[:, None]
    kinks = np.append(least, np.maximum(sorted_, least), axis=1)
    values = h[:, None] + np.append(first, np.where(sorted_ < least, first, gains), axis=1)
    terms = np.abs(h)[:, None] + (sizes * np.abs(ends)).sum(axis=1)[:, None]
    terms = terms + 2.0 * kinks * sizes.sum(axis=1)[:, None]
    met = values >= 0.0
    place = np.where(met.any(axis=1), met.argmax(axis=1), d)
    before = np.maximum(place - 1, 0)
    rise = values[number, place] - values[number, before]
    m = np.where(rise > 0.0, (kinks[number, place] - kinks[number, before]) / rise, 0.0)[:, None]
    each = kinks - m * (values + error[:, None]) - 4.0 * gamma(d + 8) * (kinks + m * terms)
    t = kinks[number, before] - values[number, before] * m[:, 0]
    u = np.sign(g) * np.minimum(t[:, None], np.where(g >= 0.0, high, -low))
    return each.min(axis=1), np.clip(u, low, high)
