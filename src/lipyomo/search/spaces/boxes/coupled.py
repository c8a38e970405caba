"""Bounds of a smooth network's root by slopes that depend on the inputs.

`lipyomo.relaxations.semidefinite.curved_model` has the program, one for each target; the largest
bound is lowered first, and as far as the next ones need.  Its moments say which inequalities of
units are missing (`lipyomo.relaxations.semidefinite.curved_cuts`): these are true for all targets.
It is for many inputs: a program takes as long as thousands of boxes, which lower nothing where it
takes many splits to see anything of the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Layer
from lipyomo.relaxations.semidefinite.curved_ball import PreactivationBall
from lipyomo.relaxations.semidefinite.curved_cuts import (
    CurveCuts,
    CurvePieces,
    joined_cuts,
    violated,
)
from lipyomo.relaxations.semidefinite.curved_model import CurvedLayer, CurvedModel
from lipyomo.relaxations.semidefinite.interior import predicted_seconds
from lipyomo.search.spaces.boxes.context import Context
from lipyomo.search.spaces.boxes.relaxation import Relaxed

STEPS = 20
"""Steps that a program takes, about; it is not begun where there is no time for them."""

LONGEST = 1.0
"""Seconds of a step, which nothing interrupts: larger programs are not begun."""

GAIN = 0.005
"""Share of a bound that further inequalities have to gain, or there are no more."""

AHEAD = 1.1
"""Seconds of the last program that each other target may take, where the first one is solved again
with further inequalities before the others are solved with fewer."""


def coupled_bounds(
    context: Context,
    known: Sequence[Relaxed],
    bounds: FloatArray,
    cutoff: float,
    clock: Clock,
    report: Callable[[float], object],
) -> FloatArray:
    """Bounds of all targets, shape (T,), for linf inputs: these or less.

    Parameters
    ----------
    context : Context
        Without products.
    known : sequence of Relaxed
        Of the root's first box.
    bounds : ndarray, shape (T,)
    cutoff : float
        Bounds up to it need not be lowered.
    clock : Clock
    report : callable
        Hears of the largest bound whenever it has dropped.
    """
    problem, bounds = context.question.problem, bounds.copy()
    hidden = problem.network.hidden
    if not (hidden and problem.domain.is_box and all(map(_curved, hidden))):
        return bounds
    if problem.directions is not None or not _fits(hidden, clock):
        return bounds
    layers = [_layer(layer, found) for layer, found in zip(hidden, known, strict=True)]
    first, domain = layers[0], problem.domain
    ball = PreactivationBall.of(first.weight, first.bias, domain.lower, domain.upper)
    seen, moments = np.full(len(bounds), -1), dict[int, tuple[FloatArray, ...]]()
    cuts: tuple[CurveCuts, ...] = ()
    rounds, settled, k = 0, False, int(bounds.argmax())
    while ball is not None and bounds[k] > cutoff and _fits(hidden, clock, cuts):
        again = seen[k] == rounds  # nothing but more inequalities lowers it
        if again:
            more = tuple(map(violated, (layer.pieces for layer in layers), moments[k]))
            if settled or not any(part.units.size for part in more):
                break
            cuts, rounds = joined_cuts(cuts, more), rounds + 1
        off = context.row_errors[k]
        low, high = context.rows[k] - off, context.rows[k] + off
        low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
        model = CurvedModel(layers, ball, low, high, cuts)
        aim = max(cutoff, float(bounds[seen == rounds].max(initial=-np.inf)))
        before, began = float(bounds[k]), clock.seconds
        found = model.bound(before, aim, lambda: clock.left)
        bounds[k], moments[k], seen[k] = min(before, found.bound), found.moments, rounds
        report(float(bounds.max()))
        settled |= again and not bounds[k] < (1.0 - GAIN) * before
        others = np.count_nonzero(bounds > cutoff) - 1
        ahead = clock.left >= AHEAD * others * (clock.seconds - began)
        if settled or not ahead or bounds[k] <= aim:
            k = int(bounds.argmax())
    return bounds


def _fits(hidden: Sequence[Layer], clock: Clock, cuts: Sequence[CurveCuts] = ()) -> bool:
    """Whether there is time for a program; what takes a second has less than 100 MB."""
    variables, multipliers = CurvedModel.size([layer.units for layer in hidden])
    multipliers += 2 * sum(part.units.size for part in cuts)
    step = predicted_seconds(variables, multipliers)
    return step <= LONGEST and clock.fits(STEPS * step)


def _curved(layer: Layer) -> bool:
    """Whether all units are smooth ones."""
    return sum(curve.units.size for curve in layer.curves) == layer.units


def _layer(layer: Layer, known: Relaxed) -> CurvedLayer:
    """What is known of a layer's units."""
    n, low, high = layer.units, known.low[0, : layer.units], known.high[0, : layer.units]
    found, parts = np.zeros((10, n)), []
    for curve in layer.curves:
        of, ends = curve.activation, (low[curve.units], high[curve.units])
        one, none = np.ones(curve.units.size), np.zeros(curve.units.size)
        found[:, curve.units] = (
            *of.enclose(*ends),
            *of.slope_range(*ends),
            *of.lines(one, none, *ends),
            *of.lines(none, one, *ends),
        )
        parts.append(CurvePieces.of(of, *ends))
    order = np.argsort(np.concatenate([curve.units for curve in layer.curves]))
    pieces = (np.concatenate(part)[order] for part in zip(*parts, strict=True))
    y, s, value, slope = found[:2], found[2:4], found[4:7], found[7:]
    return CurvedLayer(
        layer.dense_weight,
        layer.bias,
        (low, high),
        (y[0], y[1]),
        (s[0], s[1]),
        (value[0], value[1], value[2]),
        (slope[0], slope[1], slope[2]),
        CurvePieces(*pieces),
    )
