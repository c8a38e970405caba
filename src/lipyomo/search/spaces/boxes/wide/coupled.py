"""Bounds of the root of a smooth network by slopes that depend on the inputs.

`lipyomo.relaxations.semidefinite.curved_model` has the program, one for each target.  The largest
bound is always lowered first, down to the next largest one, which then has its turn.

This is meant for many inputs.  A program takes as long as thousands of boxes, but with many inputs,
so many boxes would not lower the bound at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.system.memory import KEPT
from lipyomo.networks.network import Layer
from lipyomo.relaxations.semidefinite.curved_ball import PreactivationBall
from lipyomo.relaxations.semidefinite.curved_descent import CurvedDescent
from lipyomo.relaxations.semidefinite.curved_model import CurvedLayer, CurvedModel
from lipyomo.relaxations.semidefinite.curved_units import CurvePieces
from lipyomo.relaxations.semidefinite.interior import predicted_seconds
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed

STEPS = 10
"""About the number of steps before a program lowers a bound; without time for them it is not
started."""

LONGEST = 1.0
"""Seconds of a step, which cannot be interrupted: larger programs are not started."""

BELOW = 0.98
"""The multiple of the next largest bound down to which a bound is lowered at a time."""


def coupled_bounds(
    context: BoxContext,
    known: Sequence[Relaxed],
    bounds: FloatArray,
    cutoff: float,
    clock: Clock,
    report: Callable[[float], object],
) -> FloatArray:
    """Lower the bounds of all targets, shape (T,), for linf inputs.

    Parameters
    ----------
    context : BoxContext
        Without products.
    known : sequence of Relaxed
        The relaxed layers on the first box of the root.
    bounds : ndarray, shape (T,)
    cutoff : float
        Bounds up to this need not be lowered.
    clock : Clock
    report : callable
        Called with the largest bound whenever it may have dropped.
    """
    problem, bounds = context.question.problem, bounds.copy()
    hidden = problem.network.hidden
    smooth = all(sum(curve.units.size for curve in v.curves) == v.units for v in hidden)
    if not (hidden and problem.domain.is_box and smooth):
        return bounds
    if problem.directions is not None or not _fits(hidden, clock):
        return bounds
    layers = [_layer(layer, found) for layer, found in zip(hidden, known, strict=True)]
    first, domain = layers[0], problem.domain
    ball = PreactivationBall.of(first.weight, first.bias, domain.lower, domain.upper)
    descents: dict[int, CurvedDescent] = {}
    room = KEPT / CurvedModel.memory([layer.units for layer in hidden])
    while ball is not None and not clock.expired:
        k = int(bounds.argmax())
        if bounds[k] <= cutoff:
            break
        if k in descents:
            if descents[k].done or descents[k].seconds > clock.left:
                break
        elif not _fits(hidden, clock):
            break
        else:
            if len(descents) >= max(room, 1.0):  # the one whose turn is furthest away
                del descents[min(descents, key=lambda j: float(bounds[j]))]
            off = context.row_errors[k]
            low, high = context.rows[k] - off, context.rows[k] + off
            low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
            descents[k] = CurvedDescent(CurvedModel(layers, ball, low, high), float(bounds[k]))
        others = float(np.delete(bounds, k).max(initial=0.0))
        aim = max(cutoff, BELOW * others)
        bounds[k] = min(bounds[k], descents[k].lowered(aim, lambda seconds: seconds > clock.left))
        report(float(bounds.max()))
    return bounds


def _fits(hidden: Sequence[Layer], clock: Clock) -> bool:
    """Return whether there is time for a program; with a step of a second it takes < 100 MB."""
    step = predicted_seconds(*CurvedModel.size([layer.units for layer in hidden]))
    return step <= LONGEST and clock.fits(STEPS * step)


def _layer(layer: Layer, known: Relaxed) -> CurvedLayer:
    """Return the data of a layer for the program, given its ranges."""
    n, low, high = layer.units, known.low[0, : layer.units], known.high[0, : layer.units]
    found, parts = np.zeros((4, n)), []
    for curve in layer.curves:
        of, ends = curve.activation, (low[curve.units], high[curve.units])
        found[:, curve.units] = *of.enclose(*ends), *of.slope_range(*ends)
        parts.append(CurvePieces.of(of, *ends))
    order = np.argsort(np.concatenate([curve.units for curve in layer.curves]))
    pieces = (np.concatenate(part)[order] for part in zip(*parts, strict=True))
    return CurvedLayer(
        layer.dense_weight,
        layer.bias,
        (low, high),
        (found[0], found[1]),
        (found[2], found[3]),
        CurvePieces(*pieces),
    )
