"""The parts of quotients by roots, as functions of the inputs.

In a tail (`structure/tails.py`) the signals s are rows of one layer of units, or else affine
functions with errors, as the relaxation of the layers before gives them.  Units of a first layer
are parabolas of affine functions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.quadratics.product_sums import SumsOfSignals
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics, products_of
from lipyomo.search.spaces.boxes.relaxing.inputs import centred
from lipyomo.search.spaces.boxes.relaxing.quotients import RootFunctions, quadratic_of
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation
from lipyomo.search.spaces.boxes.structure.tails import Tail


@np.errstate(all="ignore")  # an overflow gives no bound
def root_functions(
    context: BoxContext, tail: Tail, known: Relaxation
) -> tuple[RootFunctions, tuple[SumsOfSignals, SumsOfSignals]]:
    """Compute s, s', v and v' of a tail on boxes, and s and s' as sums of signals.

    Parameters
    ----------
    context : BoxContext
        The context of the whole network.
    tail : Tail
    known : Relaxation
        The relaxation of the layers up to the squares, or of the first one.
    """
    unit, roots, inputs = context.unit, tail.roots, known.inputs
    if tail.first is not None:
        (h, t), first = _parabolas(known, unit), tail.first
        rows, signals = first.whole, (h.error, t.error)
        s, turn = first.sums(h).shifted(first.bias), first.sums(t)
        s = replace(s, size=s.size + first.reach)
    else:
        moving = bool(inputs.v.radius.any())
        s, turn = (
            quadratic_of(affine.take(roots.squares), inputs, moving)
            for affine in (known.layers[-1].pre, known.layers[-1].pre_tangent)
        )
        rows, signals = np.eye(roots.squares.size), (s.error, turn.error)
    both = SumsOfSignals.of(s, rows, signals[0]), SumsOfSignals.of(turn, rows, signals[1])
    return RootFunctions.of_signals(*both, roots, unit), both


def _parabolas(known: Relaxation, unit: float) -> tuple[Quadratics, Quadratics]:
    """Return the outputs of a first layer of units, and their tangents."""
    layer, inputs, stage = known.layers[0], known.inputs, known.context.stages[0]
    moving = bool(inputs.v.radius.any())
    z, u = (quadratic_of(affine, inputs, moving) for affine in (layer.pre, layer.pre_tangent))
    low, high = np.minimum(layer.low, layer.high), layer.high
    middle, one = np.broadcast_to(z.constant, low.shape), np.ones_like(low)
    h, rate = (
        _parabola(z, *stage.each("parabolas", *shares, low, high, middle), unit=unit)
        for shares in ((one, 0.0 * one), (0.0 * one, one))
    )
    if moving:
        return h, rate.multiplied(u, unit)
    t = rate.times(u.constant)  # directions are fixed, so that these are numbers
    error = t.error + (rate.size + rate.error) * u.error
    return h, replace(t, error=error, size=rate.size * u.size)


def _parabola(
    z: Quadratics,
    slope: FloatArray,
    k: FloatArray,
    under: FloatArray,
    over: FloatArray,
    *,
    unit: float,
) -> Quadratics:
    """Return units as parabolas around the middles of their affine z."""
    middle, radius = centred(under, over, unit)
    bend = np.abs(z.linear).sum(axis=0)
    away, steep = bend + z.error, np.abs(slope)
    return Quadratics(
        slope * z.constant + middle,
        slope * z.linear,
        0.5 * k * products_of(z.linear, z.linear),
        (radius + (steep + np.abs(k) * away) * z.error) * (1.0 + 8.0 * unit),
        steep * z.size + np.abs(middle) + radius + np.abs(k) * away * (away + z.size),
    )
