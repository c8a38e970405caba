"""Values and tangents of all units of boxes to second order, from layer to layer.

Units lie about parabolas (`lipyomo.networks.activations.parabolas`), products of expansions are
expansions.  Errors of a layer's products are common to the rows behind: in the state of a recurrent
layer, and in its derivative, they go on as what the state does with them, and are not added up
anew in each row and step.  What is left of a box's width h with one direction is O(h**3), and the
objective needs no planes of the layers between.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.collapse import Above, rounding_of
from lipyomo.search.spaces.boxes.common_errors import ExpandedLayer, Expansion, apart
from lipyomo.search.spaces.boxes.inputs import Inputs, Signal
from lipyomo.search.spaces.boxes.majorants import tangents
from lipyomo.search.spaces.boxes.passed import Passed
from lipyomo.search.spaces.boxes.relaxation import Relaxation, Relaxed
from lipyomo.search.spaces.boxes.stage import Stage


def inputs_expanded(inputs: Inputs) -> ExpandedLayer:
    """The inputs and their directions, which are single."""
    x, v, _ = inputs
    count, d = x.middle.shape
    order, index = 1 + d + d * (d + 1) // 2, np.arange(d)
    values, along = np.zeros((order, d, count)), np.zeros((order, v.middle.shape[1], count))
    values[0], values[1 + index, index], along[0] = x.middle.T, x.radius.T, v.middle.T
    one, other = (
        Expansion(terms, np.zeros((0, *terms.shape[1:])), np.zeros((d, *terms.shape[1:])))
        for terms in (values, along)
    )
    none = np.zeros((d, 0, count))
    return ExpandedLayer(one, other, (none, none))


def rows_expanded(stage: Stage, before: ExpandedLayer, unit: float) -> ExpandedLayer:
    """The rows of a layer, of the outputs of the layer before."""
    values = before.values.sums(stage.weight, stage.bias, unit).paid(unit * stage.off[:, None])
    turned = before.tangents.sums(stage.along, np.zeros_like(stage.bias), unit)
    return ExpandedLayer(values, turned, before.shares)


def ends_expanded(stage: Stage, rows: Expansion, unit: float) -> Ends:
    """Ranges (N, n) of a layer's rows; of copies of earlier ones nothing anew."""
    if stage.copies is None:
        low, high = rows.ends(unit)
        return low.T, high.T
    fresh, source, scale = stage.copies.fresh, stage.copies.source, stage.copies.scale
    found = rows.take(fresh).ends(unit)
    here, (n, count) = np.flatnonzero(source < fresh.size), rows.constant.shape
    low, high = np.full((n, count), -np.inf), np.full((n, count), np.inf)
    one, other = (end[source[here]] * scale[here, None] for end in found)
    low[here], high[here] = np.minimum(one, other), np.maximum(one, other)
    return low.T, high.T


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what overflows says nothing
def outputs_expanded(
    rows: ExpandedLayer, stage: Stage, layer: Relaxed, known: tuple[Signal, Signal], unit: float
) -> ExpandedLayer:
    """The outputs of a layer.

    Parameters
    ----------
    rows : ExpandedLayer
        Of the layer.
    stage : Stage
    layer : Relaxed
        Ranges of the rows.
    known : (Signal, Signal)
        Ranges of values and tangents of the outputs.
    unit : float
    """
    low, high = np.minimum(layer.low, layer.high), layer.high
    least, most = layer.tangent - layer.tangent_radius, layer.tangent + layer.tangent_radius
    flat, steep = layer.rate - layer.rate_radius, layer.rate + layer.rate_radius
    of_z, of_u, of_slopes = (low.T, high.T), (least.T, most.T), (flat.T, steep.T)
    z, u, numbers = rows.values, rows.tangents, np.arange(stage.units_of(stage.bias).size)
    places, values, along = [], [], []
    for activation, units in stage.kinds:
        own = numbers[units]
        places.append(own)
        p, q = z.take(own), u.take(own)
        if not isinstance(activation, Passed):
            f = p.constant + p.bend[0]
            away, ends = p.shifted(-f).paid(unit * p.size), _some(of_z, own)
            square = away.times(away, ((ends[0] - f, ends[1] - f),) * 2, unit)
            one, none = np.ones_like(f), np.zeros_like(f)
            curve = p.bent(square, activation.parabolas(none, one, *ends, f), unit)
            p = p.bent(square, activation.parabolas(one, none, *ends, f), unit)
            q = curve.times(q, (_some(of_slopes, own), _some(of_u, own)), unit)
        values.append(p)
        along.append(q)
    some = np.zeros(0, dtype=np.intp)
    if stage.products is not None:
        i, j = stage.products.left, stage.products.right
        some = numbers.size + np.arange(i.size)
        places.append(some)
        first, second, turn, other = z.take(i), z.take(j), u.take(i), u.take(j)
        ends, others = _some(of_z, i), _some(of_z, j)
        values.append(first.times(second, (ends, others), unit))
        one_turn = turn.times(second, (_some(of_u, i), others), unit)
        along.append(one_turn.plus(first.times(other, (ends, _some(of_u, j)), unit), unit))
    order = np.argsort(np.concatenate(places))
    h, t = (
        _levelled(_joined(parts).take(order), ranges, unit)
        for parts, ranges in zip((values, along), known, strict=True)
    )
    if not some.size:
        return ExpandedLayer(h, t, rows.shares)
    h, t, new = apart(h, t, some)
    first_shares, last_shares = (
        np.concatenate(pair, axis=1) for pair in zip(rows.shares, new, strict=True)
    )
    return ExpandedLayer(h, t, (first_shares, last_shares))


@np.errstate(over="ignore", invalid="ignore")  # what overflows says nothing
def above_rows(
    known: Relaxation, rows: FloatArray, errors: FloatArray | None
) -> tuple[Above, FloatArray, FloatArray]:
    """The objective ``rows . t`` of the last layer's outputs.

    Parameters
    ----------
    known : Relaxation
        With outputs to second order.
    rows, errors : ndarray, shape (N, n_L)
        The latter are what the former may be off by.

    Returns
    -------
    Above
    ndarray, shape (N,)
        Upper ends.
    ndarray, shape (N, d)
        How much of them comes from each input.
    """
    assert known.outputs is not None
    (_, turn, shares), x, unit = known.outputs, known.inputs.x, known.context.unit
    whole = turn.weighted(rows.T, unit)
    top = whole.ends(unit)[1][0]
    d, index, (i, j) = whole.inputs, np.arange(whole.inputs), np.triu_indices(whole.inputs, 1)
    matrix = np.zeros((len(rows), d, d))
    matrix[:, index, index], matrix[:, i, j] = whole.squares[:, 0].T, whole.mixed[:, 0].T
    linear = whole.linear[:, 0].T
    above = tangents(matrix, linear)
    turned = linear + above.slope
    slope = np.divide(turned, x.radius, out=np.zeros_like(turned), where=x.radius > 0.0)
    rest = whole.error[0] + whole.shared[0]
    constant = whole.constant[0] + above.constant + rest - (slope * x.middle).sum(axis=1)
    size = above.size + whole.size[0] + np.abs(constant)
    size = size + (np.abs(slope) * (np.abs(x.middle) + x.radius)).sum(axis=1)
    off = rounding_of(known.context.stages[-1], known.layers[-1], errors)
    fuzz = (16.0 * unit * size + off) * (1.0 + unit)
    constant = np.where(np.isnan(constant + fuzz), np.inf, constant + fuzz)
    slope = np.where(np.isfinite(slope), slope, 0.0)
    parts = whole.errors[:, 0]
    for share, common in zip(shares, (whole.terms[whole.order :], whole.own), strict=True):
        parts = parts + (share * np.abs(common[:, 0])).sum(axis=1)
    found = Above(slope, np.zeros_like(known.inputs.v.middle), constant, fuzz, [])
    return found, top + off * (1.0 + unit), np.where(np.isfinite(parts), parts, 0.0).T


def _some(ends: Ends, which: IntArray) -> Ends:
    """The ranges of some rows."""
    return ends[0][which], ends[1][which]


def _joined(parts: list[Expansion]) -> Expansion:
    """Functions behind one another."""
    arrays = zip(*((part.terms, part.own, part.errors) for part in parts), strict=True)
    return Expansion(*(np.concatenate(own, axis=1) for own in arrays))


def _levelled(whole: Expansion, known: Signal, unit: float) -> Expansion:
    """The functions, but ranges where these are no wider than what functions are off by."""
    level = ~(whole.error < known.radius.T)
    if not level.any():
        return whole
    away = (known.radius + unit * known.size).T / whole.inputs
    terms, own = (np.where(level, 0.0, part) for part in (whole.terms, whole.own))
    terms[0] = np.where(level, known.middle.T, terms[0])
    return Expansion(terms, own, np.where(level, away, whole.errors))
