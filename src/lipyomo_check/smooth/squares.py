"""Sums of squares on boxes from below, by tangents where they are about least.

A row ``z = b + sum_j c_j y_j^2``, c_j > 0, is convex in the y_j; so for any numbers s_j

    z >= b + sum_j c_j (2 s_j y_j - s_j^2).

With affine functions ``y_j = o_j + t_j . delta +- e_j``, delta in a cube, the right-hand side is at
least

    b + sum_j c_j (2 s_j o_j - s_j^2 - 2 |s_j| e_j) - |sum_j 2 c_j s_j t_j|_1.

The s_j are the values of the y_j, by e_j nearer to zero, at a point of the cube where z is about
least.  Going backwards takes tangents in the middles of the ranges of the y_j: on wide boxes these
leave a variance no positive lower end where it has one.

Rounding adds the layer's share of ``6 c_j r_j^2``, r_j being the size of what y_j is made of, and
so of s_j: y_j errs by the share of r_j, and the absolute values of all terms add up to 3 c_j r_j^2.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lipyomo_check.smooth.balls import alike, plain
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.factors import Form
from lipyomo_check.smooth.whole import Sum

SWEEPS = 2
"""Number of sweeps over the entries of delta."""


def convex(sums: Iterable[Sum], weight: Array) -> tuple[Sum, ...]:
    """Return the sums that consist of positive multiples of squares only."""
    return tuple(
        own
        for own in sums
        if np.count_nonzero(weight[own.row]) == own.squares.size
        and (weight[own.row, own.squares] > 0.0).all()
    )


@np.errstate(all="ignore")  # any numbers will do, and what is not finite says nothing
def anchors(offset: Array, turn: Array, away: Array, c: Array) -> Array:
    """Return the s_j (N, J), from ``o`` (N, J), ``t`` (N, J, d), ``e`` (N, J) and c (J,)."""
    turn = turn[:, :, turn.any(axis=(0, 1))]
    H = np.matmul((c[:, None] * turn).transpose(0, 2, 1), turn)
    g = np.matmul((c * offset)[:, None], turn)[:, 0]
    delta = np.zeros_like(g)
    for i in (*range(g.shape[1]),) * SWEEPS:
        bend = H[:, i, i]
        slope = g[:, i] + (H[:, i] * delta).sum(axis=1) - bend * delta[:, i]
        step = np.divide(-slope, bend, out=np.zeros_like(bend), where=bend > 0.0)
        delta[:, i] = np.clip(step, -1.0, 1.0)
    s = offset + (turn * delta[:, None]).sum(axis=2)
    return np.asarray(np.sign(s) * np.maximum(np.abs(s) - away, 0.0))


def least(form: Form, own: Sum, weight: Array, bias: Array, gamma: float) -> Array:
    """Return lower bounds (N,) of a row of the next layer's pre-activations, from forms of rows."""
    k = own.squares
    c, b = weight[own.row, k], bias[own.row]
    offset, away, size = form.middle[:, k] + form.offset[:, k], form.away[:, k], form.size[:, k]
    turn = form.turn[:, k]
    parts = (plain(part) for part in (offset, turn, away, c))
    s = alike(anchors(*parts), offset)
    height = s * (2.0 * offset - s) - 2.0 * np.abs(s) * away
    span = 2.0 * np.abs(np.matmul((c * s)[:, None], turn)).sum(axis=(1, 2))
    found = b + height @ c - span - gamma * (abs(b) + 6.0 * (size * size) @ c)
    return np.where(np.isnan(found), -np.inf, found)
