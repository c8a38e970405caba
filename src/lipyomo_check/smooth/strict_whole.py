"""Sums of squares and products, and ratios, once more in Arb: `whole`, `squares` and `ratios`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from lipyomo_check.smooth.balls import Numbers, Range, Ranges, overlap
from lipyomo_check.smooth.levels import Level
from lipyomo_check.smooth.ratios import ROUNDS
from lipyomo_check.smooth.squares import anchors
from lipyomo_check.smooth.strict_factors import Form, around, times
from lipyomo_check.smooth.whole import Sum

Forms = tuple[list[Form], list[Form]]
"""z and u of all rows of a layer."""


class Slopes(NamedTuple):
    """Slopes of a layer's branches: of outputs in z, and of tangents in z and in u."""

    line: Numbers
    tilt: Numbers
    rate: Numbers


Term = tuple[arb, Form, Form, arb, arb]
"""``c ((p - f)(q - g) - f g)``."""


def terms_of(
    level: Level, own: Sum, row: Numbers, forms: Forms, slopes: Slopes, tangents: bool
) -> list[Term]:
    """Return the terms of a row's squares and products, or their tangents, beside their planes."""
    (z, u), (line, tilt, rate) = forms, slopes
    found: list[Term] = []
    for k in own.squares.tolist():
        if tangents:
            found.append((2 * row[k], z[k], u[k], rate[k] / 2, tilt[k] / 2))
        else:
            found.append((row[k], z[k], z[k], line[k] / 2, line[k] / 2))
    if level.products is None:
        return found
    n, count = level.products.units, level.products.left.size
    for place in own.products.tolist():
        c, left, right = row[n + place], n + place, n + count + place
        i, j = int(level.products.left[place]), int(level.products.right[place])
        if tangents:
            found.append((c, u[i], z[j], tilt[right], rate[left]))
            found.append((c, z[i], u[j], rate[right], tilt[left]))
        else:
            found.append((c, z[i], z[j], line[right], line[left]))
    return found


def range_of(terms: list[Term]) -> Range:
    """Return the range of a sum of terms, as a function of one delta."""
    size = len(terms[0][1].turn)
    middle, radius = arb(0), arb(0)
    linear: Numbers = [arb(0)] * size
    M = arb_mat(size, size)
    for c, p, q, f, g in terms:
        o, other = p.centre - f, q.centre - g
        middle += c * (o * other - f * g)
        linear = [
            a + c * (o * b + other * t) for a, t, b in zip(linear, p.turn, q.turn, strict=True)
        ]
        M += c * arb_mat([[t] for t in p.turn]) * arb_mat([q.turn])
        reach, others = (sum(map(abs, s.turn), abs(d)) for s, d in ((p, o), (q, other)))
        radius += abs(c) * (reach * q.away + others * p.away + p.away * q.away)
    radius += sum(map(abs, linear), arb(0))
    for a in range(size):
        for b in range(a):
            radius += abs(M[a, b] + M[b, a])
        middle += M[a, a] / 2
        radius += abs(M[a, a]) / 2
    return middle, radius


def least_square(own: Sum, row: Numbers, bias: arb, z: list[Form]) -> arb:
    """Bound a sum of squares from below as in `squares`; floats choose the tangents' points."""
    forms, c = [z[k] for k in own.squares.tolist()], [row[k] for k in own.squares.tolist()]
    parts = [form.centre for form in forms], [form.away for form in forms], c
    offset, away, factors = (np.array(list(map(float, part))) for part in parts)
    turn = np.array([list(map(float, form.turn)) for form in forms])
    chosen = anchors(offset[None], turn[None], away[None], factors)[0]
    span: Numbers = [arb(0)] * len(forms[0].turn)
    for factor, form, s in zip(c, forms, map(arb, chosen.tolist()), strict=True):
        bias += factor * (s * (2 * form.centre - s) - 2 * abs(s) * form.away)
        span = [a + 2 * factor * s * t for a, t in zip(span, form.turn, strict=True)]
    return bias - sum(map(abs, span), arb(0))


def with_sums(
    level: Level,
    sums: tuple[Sum, ...],
    weight: arb_mat,
    forms: Forms,
    slopes: Slopes,
    rests: Ranges,
    tangents: bool,
) -> dict[int, Range]:
    """Return middles and radii to be added to rows whose squares and products count as wholes."""
    found = {}
    for own in sums:
        row = [weight[own.row, k] for k in range(weight.ncols())]
        outputs = own.outputs(level).tolist()
        middle = sum((row[k] * rests[0][k] for k in outputs), arb(0))
        radius = sum((abs(row[k]) * rests[1][k] for k in outputs), arb(0))
        whole = range_of(terms_of(level, own, row, forms, slopes, tangents))
        centre, reach = overlap((middle, radius), whole)
        found[own.row] = centre - middle, reach - radius
    return found


def tangent_range(p: float, value: Range, z: Form, u: Form) -> Range | None:
    """Return the range of ``p z^p (u / z)``; None where z may not be positive."""
    if not z.ends[0] > 0:
        return None
    upper, lower = (_largest_ratio(z, u, sign) for sign in (1, -1))
    values = value[0] - value[1], value[0] + value[1]
    return around(times((arb(p), arb(p)), times(values, (-lower, upper))))


def _largest_ratio(z: Form, u: Form, sign: int) -> arb:
    low, high = z.ends
    top = u.ends[1] if sign > 0 else -u.ends[0]
    best = (top / low).max(top / high)
    k = _float(sign * (u.ends[0] + u.ends[1]) / (low + high))
    for _ in range(ROUNDS):
        pairs = zip(z.turn, u.turn, strict=True)
        above = sum((abs(sign * b - k * a) for a, b in pairs), arb(0))
        above += sign * u.centre - k * z.centre + u.away + abs(k) * z.away
        best = best.min(k + (above / low).max(above / high))
        k = _float(best)
    return best


def _float(value: arb) -> arb:
    found = float(value)
    return arb(found if math.isfinite(found) else 0.0)
