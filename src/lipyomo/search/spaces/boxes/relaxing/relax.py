"""Linear relaxation of all hidden layers on boxes: affine bounds of values and tangents.

With z the pre-activations of a layer, h = sigma(z), u the derivatives of z along the direction v
and t = sigma'(z) u, on a box

    h = slope z + middle +- radius,
    t = rate u + tilt z + drift +- spread.

The first is a pair of parallel lines around sigma.  The second follows from
``t = (sigma' - rate)(u - u0) + rate u + u0 sigma' - u0 rate`` with u in u0 +- ur, sigma' in
rate +- rr, and lines around sigma'.  By back-substitution, rows of later layers become affine
functions of x and v, whose ranges contain those layers' z and u; in networks with products, these
functions are propagated forwards instead (`forms.py`).

Rounding.  A row X of a later layer becomes ``fl(fl(X slope) W)``.  On points of the box its error
is at most ``unit |X| |slope| reach``, where reach >= |W| |h| + |b| bounds the sizes of the terms of
z, and unit covers the lengths of all sums of the whole chain (`BoxContext.unit`).  The same holds
for tangents with pace >= |W| |t|.  Constants are sums of ``X middle`` and ``|X| radius``, with
errors of unit times the sums of absolute values.  All these errors are |X| times a number for each
unit: adding it once to `radius` and `spread` makes every row sound.  The last step is a sum over x
and v, whose error is added there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.relaxing.curves import Curves, curves_of
from lipyomo.search.spaces.boxes.relaxing.forms import ErrorForms, affine, first_forms, next_forms
from lipyomo.search.spaces.boxes.relaxing.forwards import carried
from lipyomo.search.spaces.boxes.relaxing.inputs import (
    Affine,
    Inputs,
    Signal,
    centred,
    inputs_of,
    scaled_sums,
    spans,
    times,
)
from lipyomo.search.spaces.boxes.relaxing.normalised import Normalised, normalised, ranges_of
from lipyomo.search.spaces.boxes.relaxing.planes import (
    output_signals,
    with_planes,
    with_product_lines,
)
from lipyomo.search.spaces.boxes.relaxing.relaxation import Change, Relaxation, Relaxed
from lipyomo.search.spaces.boxes.relaxing.roots_on_boxes import RootsOnBoxes, roots_on_boxes
from lipyomo.search.spaces.boxes.structure.stage import Stage


def relaxed(
    context: BoxContext,
    boxes: Boxes,
    directions: tuple[FloatArray, FloatArray],
    forwards: bool = False,
    lines: bool = True,
) -> Relaxation:
    """Relax all hidden layers on boxes, for ranges of directions (N, d).

    Parameters
    ----------
    context : BoxContext
    boxes : Boxes
    directions : (ndarray, ndarray)
        Lower and upper ends of v; if both are zero, tangents are left out.
    forwards : bool, optional
        Whether affine bounds are propagated from layer to layer (`forwards.py`), which costs as
        much as a few points, instead of substituting every layer's rows back to the inputs.
    lines : bool, optional
        Whether the lines of the last layer are needed.
    """
    unit, inputs = context.unit, inputs_of(context, boxes, *directions)
    found: list[Relaxed] = []
    signals = inputs.x, inputs.v
    still = not (inputs.v.middle.any() or inputs.v.radius.any())
    rooted: Normalised | None = None
    curves: Curves | None = None
    local: RootsOnBoxes | None = None
    forms: ErrorForms | None = None
    for number, stage in enumerate(context.stages):
        last = number == len(context.stages) - 1
        if forms is not None:
            forms = next_forms(stage, (context.stages[number - 1], found[-1]), forms, inputs, unit)
        before = Before(found, curves, local, forms)
        layer = _layer(context, before, boxes, inputs, signals, (still, forwards))
        whole: tuple[Ends, Ends] | None = None
        if stage.quotients is not None and stage.products is not None and rooted is not None:
            whole = rooted.products(stage.quotients, stage.products.left.size)
        rooted = None
        if stage.roots is not None:
            ends = layer.low[:, stage.roots.units], layer.high[:, stage.roots.units]
            functions = local.functions if local is not None and number == 1 else None
            squares = ranges_of(stage.roots, found[-1])
            rooted = normalised(stage.roots, squares, ends, unit, functions)
            layer = rooted.narrowing(stage.roots, layer, unit)
        if lines or not last:
            layer = _with_lines(context, stage, layer, inputs, last, whole)
        found.append(layer)
        if number == 0 and context.structure.carries and not forwards:
            forms = first_forms(stage, layer, inputs, still)
        if number == 0 and not forwards:
            curves = curves_of(context, found[0], inputs) if context.curved else None
            if context.structure.local_roots is not None:
                local = roots_on_boxes(context.structure.local_roots, found[0], inputs, unit)
        if not last:
            signals = output_signals(stage, found[-1], rooted, unit)
    return Relaxation(context, boxes, directions, inputs, found)


class Before(NamedTuple):
    """Data of the layers before the one that is relaxed.

    Attributes
    ----------
    layers : sequence of Relaxed
    curves : Curves, optional
        Parabolas of the first layer's units.
    local : RootsOnBoxes, optional
        Inverse roots of sums of the first layer's squares.
    forms : ErrorForms, optional
        z and u of this layer as affine forms, if these are propagated.
    """

    layers: Sequence[Relaxed]
    curves: Curves | None = None
    local: RootsOnBoxes | None = None
    forms: ErrorForms | None = None


def _layer(
    context: BoxContext,
    known: Before,
    boxes: Boxes,
    inputs: Inputs,
    signals: tuple[Signal, Signal],
    course: tuple[bool, bool],
) -> Relaxed:
    """Bound z and u of a layer: by intervals from the previous one, and as affine functions.

    `signals` are the ranges of h and t of the previous layer's outputs.
    """
    stage, unit, (still, forwards) = context.stages[len(known.layers)], context.unit, course
    h, t = signals
    reach = h.size @ stage.sizes.T + np.abs(stage.bias) + stage.off
    pace = t.size @ stage.along_sizes.T
    pre, ends = _preactivations(context, known, inputs, h, reach, forwards)
    pre_tangent, tangents = _tangents(context, known, inputs, t, pace, still)
    if known.local is not None:
        ends, tangents = known.local.narrowed(len(known.layers), ends, tangents)
    (low, high), (u, u_radius) = ends, tangents
    if stage.broken.size:
        low, high = low.copy(), high.copy()
        low[:, stage.broken] = np.maximum(low[:, stage.broken], boxes.floor[:, stage.phases])
        high[:, stage.broken] = np.minimum(high[:, stage.broken], boxes.ceiling[:, stage.phases])
    none = low > high
    some_low = np.where(none, high, low)
    least, largest = stage.each("slope_range", some_low, high)
    if stage.products is not None:
        least, largest = stage.with_others(least, some_low), stage.with_others(largest, high)
    rate, rate_radius = centred(least, largest, unit)
    lines = np.zeros_like(rate), rate, rate_radius  # replaced by better ones later
    return Relaxed(low, high, u, u_radius, rate, rate_radius, reach, pace, pre, pre_tangent, lines)


def _preactivations(
    context: BoxContext, known: Before, inputs: Inputs, h: Signal, reach: FloatArray, forwards: bool
) -> tuple[Affine, Ends]:
    """Return the z of a layer as affine functions of the inputs, and their ranges."""
    before, unit = known.layers, context.unit
    stage = context.stages[len(before)]
    z = h.middle @ stage.weight.T + stage.bias
    z_radius = h.radius @ stage.sizes.T + unit * reach
    low, high = z - z_radius, z + z_radius
    if not before:
        pre = Affine(stage.weight[None], None, np.broadcast_to(stage.bias, z.shape), unit * reach)
        if inputs.row is None:
            return pre, (low, high)
    elif forwards:
        number = len(before) - 1
        pre = carried(stage, (context.stages[number], before[number]), inputs, unit)
    elif known.forms is not None:
        pre = affine(known.forms.z, inputs, unit)
    else:
        pre, curved = _substituted(context, stage, known, inputs, False)
        if curved is not None:
            low, high = np.fmax(low, curved[0]), np.fmin(high, curved[1])
    z, z_radius = _range(pre, inputs, unit)
    ends = np.maximum(low, z - z_radius), np.minimum(high, z + z_radius)
    return pre, ends


def _tangents(
    context: BoxContext, known: Before, inputs: Inputs, t: Signal, pace: FloatArray, still: bool
) -> tuple[Affine, Ends]:
    """Return the u of a layer as affine functions, and their middles and radii."""
    unit, stage = context.unit, context.stages[len(known.layers)]
    u, u_radius = t.middle @ stage.along.T, t.radius @ stage.along_sizes.T + unit * pace
    curved: Ends | None = None
    if not known.layers:
        flat = np.zeros((1, *stage.weight.shape))
        return Affine(flat, stage.along[None], 0.0 * u, unit * pace), (u, u_radius)
    if still:
        none: FloatArray = np.zeros((1, stage.bias.size, inputs.x.middle.shape[1]))
        return Affine(none, None, none[..., 0], none[..., 0]), (u, u_radius)
    if known.forms is not None:
        pre = affine(known.forms.u, inputs, unit)
    else:
        pre, curved = _substituted(context, stage, known, inputs, True)
    alone = len(inputs.x.middle) == 1  # for many boxes, half-spaces cost more than they gain
    within = inputs if alone else inputs._replace(row=None)
    other, other_radius = _range(pre, within, unit)
    low = np.maximum(u - u_radius, other - other_radius)
    high = np.minimum(u + u_radius, other + other_radius)
    if curved is not None:
        low, high = np.fmax(low, curved[0]), np.fmin(high, curved[1])
    return pre, centred(low, high, unit)


def _with_lines(
    context: BoxContext,
    stage: Stage,
    layer: Relaxed,
    inputs: Inputs,
    last: bool,
    whole: tuple[Ends, Ends] | None,
) -> Relaxed:
    """Add lines around sigma and sigma', widened for rounding, and planes of products.

    `whole` has ranges of products and of their tangents, if these are known directly.
    """
    unit, low = context.unit, np.minimum(layer.low, layer.high)
    one, zero = np.ones_like(layer.low), np.zeros_like(layer.low)
    bend, under, over = stage.each("lines", zero, one, low, layer.high)
    centre, away = centred(under, over, unit)
    layer = layer._replace(bend=(bend, centre, away))
    if stage.products is not None:
        layer = with_planes(stage, layer, inputs, whole, unit)
    if last:
        return layer
    slope, under, over = stage.each("lines", one, zero, low, layer.high)
    some = layer if stage.products is None else layer.units(stage.products.units)
    middle, radius = centred(under, over, unit)
    bias = stage.units_of(stage.bias)
    shift = slope * bias
    radius = radius + unit * (np.abs(middle) + radius + np.abs(slope) * some.reach)
    u, ur, rate, rr = some.tangent, some.tangent_radius, some.rate, some.rate_radius
    tilt, size = u * bend, np.abs(u)
    drift = u * (centre - rate) + tilt * bias
    rounding = size * (np.abs(bend) * some.reach + np.abs(centre) + away + np.abs(rate) + rr)
    rounding += np.abs(rate) * some.pace + rr * ur
    change = Change(rate, tilt, drift, size * away + rr * ur + unit * rounding)
    layer = layer._replace(value=(slope, middle + shift, radius), change=change)
    return layer if stage.products is None else with_product_lines(stage, layer, unit)


def _range(affine: Affine, inputs: Inputs, unit: float) -> tuple[FloatArray, FloatArray]:
    """Return middles and radii of affine functions on boxes, including rounding errors."""
    x, v, row = inputs
    middle = affine.constant + times(affine.x, x.middle)
    down, up = spans(affine.x, inputs, unit)
    radius = up
    if row is not None:
        middle, radius = centred(middle - down, middle + up, unit)
    radius = affine.radius + radius
    if affine.v is not None:
        middle = middle + times(affine.v, v.middle)
        radius = radius + times(np.abs(affine.v), v.radius)
    return middle, radius


def _substituted(
    context: BoxContext,
    stage: Stage,
    before: Before,
    inputs: Inputs,
    tangent: bool,
) -> tuple[Affine, Ends | None]:
    """Substitute z, or u, of a layer back to functions of (x, v); also bound them by parabolas."""
    unit, (x, v, _) = context.unit, inputs
    rows, bias, off = stage.weight[None], stage.bias, stage.off
    if stage.copies is not None:
        fresh = stage.copies.fresh
        rows, bias, off = rows[:, fresh], bias[fresh], off[fresh]
    X: FloatArray | None = None if tangent else rows  # coefficients of h and of t
    Y: FloatArray | None = rows if tangent else None
    start = np.zeros_like(bias) if tangent else bias
    constant, radius = start, 0.0 * off if tangent else unit * off
    curved: Ends | None = None
    for place in range(len(before.layers) - 1, -1, -1):
        layer, own = before.layers[place], context.stages[place]
        assert layer.value is not None
        assert layer.change is not None
        (slope, middle, away), (rate, tilt, drift, spread) = layer.value, layer.change
        if place == 0 and before.curves is not None:
            curved = before.curves.ends(X, Y, constant, radius)
        parts: list[tuple[FloatArray, FloatArray]] = []
        if X is not None:
            constant = constant + times(X, middle)
            radius = radius + times(np.abs(X), away)
            parts.append((own.spread(X), slope))
        if Y is not None:
            constant = constant + times(Y, drift)
            radius = radius + times(np.abs(Y), spread)
            Y = own.spread(Y)
            parts.append((Y, tilt))
            Y = scaled_sums([(Y, rate)], own.branch_along)
        X = scaled_sums(parts, own.branch_weight)
    assert X is not None
    size = unit * (times(np.abs(X), x.size) + np.abs(start) + np.abs(constant) + radius)
    if Y is not None:
        size += unit * times(np.abs(Y), v.size)
    found = Affine(X, Y, np.asarray(constant), radius + size)
    if stage.copies is None:
        return found, curved
    last = before.layers[-1]
    return found.copied(last.pre_tangent if tangent else last.pre, stage.copies), curved
