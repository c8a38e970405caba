"""Lie derivatives on a shell of V, where ``low <= V(x) <= high``, by boxes.

On a box V lies between two affine functions.  If the upper one stays below the shell, or the lower
one above it, the box contains no point of the shell.  Otherwise each end of the shell gives an
affine function c(x) that is nonnegative on the shell, so ``l c(x)`` may be added to the bound of
the derivative for every l >= 0.  Its maximum over the box is convex and piecewise linear in l, with
breaks where a coefficient vanishes; the best of these breaks is used.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.primal.regions.value import value_at
from lipyomo.search.objectives.field import Along, FieldQuestion, as_units
from lipyomo.search.objectives.smooth import context_of
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation


@dataclass(frozen=True, eq=False)
class ShellQuestion(FieldQuestion):
    """The largest value of ``c grad V . g`` at points with ``low <= level . V(x) <= high``.

    Attributes
    ----------
    level : ndarray, shape (m,)
    shell : (float, float)
        Low and high end; either may be infinite.
    """

    _: KW_ONLY
    level: FloatArray
    shell: tuple[float, float]

    def cutoff(self, value: float) -> float:
        """See `ValueQuestion.cutoff`; minus infinity while no point of the shell is known."""
        return -np.inf if value == -np.inf else super().cutoff(value)

    def values(self, points: FloatArray) -> FloatArray:
        """See `ValueQuestion.values`; minus infinity outside of the shell."""
        V = self.network.forward(points) @ self.level
        inside = (self.shell[0] <= V) & (self.shell[1] >= V)
        return np.where(inside, super().values(points), -np.inf)

    def gradients(self, points: FloatArray) -> FloatArray:
        """See `ValueQuestion.gradients`; zero where a difference leaves the shell."""
        with np.errstate(invalid="ignore"):
            found = super().gradients(points)
        return np.where(np.isfinite(found), found, 0.0)

    def attained(self, x: FloatArray) -> float:
        """See `ValueQuestion.attained`; minus infinity unless x is proved to be in the shell."""
        low, high = value_at(self.network, self.level, x)
        if not (self.shell[0] <= low and high <= self.shell[1]):
            return -np.inf
        return super().attained(x)


class Shell(Along):
    """A Lie derivative on a shell.

    Parameters
    ----------
    question : ShellQuestion
    """

    def __init__(self, question: ShellQuestion) -> None:
        super().__init__(question)
        self._shell = question.shell
        V = question.network.with_functional(question.level)
        self._level = context_of(as_units(V), question.domain)

    def narrowed(self, known: Relaxation, boxes: Boxes, above: Above) -> tuple[Above, BoolArray]:
        """See `Along`."""
        level, count = self._level, len(boxes)
        free = np.full((count, len(level.structure.breaks)), np.inf)
        inside = replace(boxes, floor=-free, ceiling=free)
        pre = relaxed(level, inside, (boxes.v_low, boxes.v_high)).layers[-1].pre
        slopes = np.broadcast_to(pre.x, (count, *pre.x.shape[1:]))[:, 0]
        middle, radius = pre.constant[:, 0], pre.radius[:, 0]
        unit = 4.0 * max(self.context.unit, level.unit)
        empty = np.zeros(count, dtype=bool)
        for sign, end in ((1.0, -self._shell[0]), (-1.0, self._shell[1])):
            if np.isfinite(end):
                c = sign * slopes, sign * middle + radius + end
                terms = np.abs(middle) + radius + abs(end)
                above, outside = _held(known, above, c, terms, unit)
                empty |= outside
        return above, empty


def _held(
    known: Relaxation,
    above: Above,
    c: tuple[FloatArray, FloatArray],
    terms: FloatArray,
    unit: float,
) -> tuple[Above, BoolArray]:
    """Add the best multiple of an affine function that is nonnegative on the shell.

    Parameters
    ----------
    known : Relaxation
    above : Above
    c : (ndarray, ndarray), shapes (N, d) and (N,)
        Its coefficients and constants.
    terms : ndarray, shape (N,)
        Sums of the absolute values of the constants' terms.
    unit : float
        Relative rounding error.

    Returns
    -------
    Above
    ndarray of bool, shape (N,)
        Boxes on which it is negative everywhere.
    """
    x, (slope, constant) = known.inputs.x, c
    size = (np.abs(slope) * x.size).sum(axis=1) + terms
    top = constant + (slope * x.middle + np.abs(slope) * x.radius).sum(axis=1) + unit * size
    outside = top < 0.0
    with np.errstate(all="ignore"):
        breaks = -above.x / slope
    breaks = np.where((breaks > 0.0) & (breaks < 1e6), breaks, 0.0)
    factors = np.concatenate([np.zeros((len(breaks), 1)), breaks], axis=1)
    tilted = above.x[:, None] + factors[:, :, None] * slope[:, None]
    tops = above.constant[:, None] + factors * constant[:, None]
    tops += (tilted * x.middle[:, None] + np.abs(tilted) * x.radius[:, None]).sum(axis=2)
    best = np.argmin(tops, axis=1)[:, None]
    factor = np.take_along_axis(factors, best, axis=1)[:, 0]
    moved = above.x + factor[:, None] * slope
    sizes = (np.abs(above.x) * x.size).sum(axis=1) + np.abs(above.constant)
    fuzz = np.where(factor > 0.0, unit * (sizes + factor * size), 0.0)
    held = above._replace(
        x=moved,
        constant=above.constant + factor * constant + fuzz,
        fuzz=above.fuzz + fuzz,
    )
    return held, outside
