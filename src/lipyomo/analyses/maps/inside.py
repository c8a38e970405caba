"""Decide for many small systems of linear inequalities whether they have an interior in a box.

For rows ``a_i . y + c_i``, y in [-1, 1]^d, an interior-point method (`base/numerics/interior.py`)
steps towards the deepest point.  Two tests after each step do not depend on its correctness:
whether all rows are positive at y, and whether the weights m prove that no y has all rows at or
above zero, since ``m . c + |m . a|_1 < 0``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.interior import MarginPrograms
from lipyomo.base.numerics.params import PARAMS


class Interiors(NamedTuple):
    """The answers for N systems.

    Attributes
    ----------
    found : ndarray of bool, shape (N,)
        Whether a point is known at which all rows are positive by more than their errors.
    empty : ndarray of bool, shape (N,)
        Whether it is proved that no point has all rows at or above zero.
    points : ndarray, shape (N, d)
        The points, for systems in `found`.
    """

    found: BoolArray
    empty: BoolArray
    points: FloatArray


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def inside(rows: FloatArray, right: FloatArray, errors: FloatArray) -> Interiors:
    """Look for points of [-1, 1]^d at which all rows are positive.

    Parameters
    ----------
    rows : ndarray, shape (N, k, d)
    right : ndarray, shape (N, k)
        The rows are ``rows . y + right``.
    errors : ndarray, shape (N, k)
        Bounds of the rows' errors on the box, rounding of the sums here included; positive, so that
        there is no division by zero.
    """
    count, _, d = rows.shape
    scale = np.maximum(np.abs(rows).sum(axis=2) + np.abs(right), errors)
    room, ones = errors / scale, np.ones(d)
    found, empty = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    points = np.zeros((count, d))
    left, a, c = np.arange(count), -rows / scale[:, :, None], right / scale
    programs = MarginPrograms.begun(a, c, -ones, ones, points, c.min(axis=1))
    for _ in range(PARAMS.interior_steps):
        gaps, within = programs.gaps()
        some = within & (gaps > room).all(axis=1)
        most = programs.most(-ones, ones, room)
        none = most < 0
        found[left[some]], empty[left[none]] = True, True
        points[left[some]] = programs.points[some]
        # with the errors subtracted, this proves that no point has all rows above their errors
        weights = programs.of_rows
        flat = most <= 2.0 * (weights * room).sum(axis=1) / weights.sum(axis=1)
        go = ~(some | none | flat) & np.isfinite(most)
        if not go.any():
            break
        left, room, programs = left[go], room[go], programs.take(go)
        try:
            programs = programs.stepped()
        except np.linalg.LinAlgError:
            break
    return Interiors(found, empty, points)
