"""Products in the relaxation of a layer: their ranges, and planes around them and their tangents.

With m the middles of the ranges of z, h = z_i z_j and t = u_i z_j + z_i u_j are

    h = m_j z_i + m_i z_j - m_i m_j + e_0,
    t = m_j u_i + n_i z_j - n_i m_j + e_1  +  m_i u_j + n_j z_i - m_i n_j + e_2

with n the middles of the ranges of u, and errors e from `errors.py`.  The ranges of all
outputs of a layer are here as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends, range_product
from lipyomo.search.spaces.boxes.relaxing.errors import Form, Planes, errors_of
from lipyomo.search.spaces.boxes.relaxing.inputs import Inputs, Signal
from lipyomo.search.spaces.boxes.relaxing.normalised import Normalised
from lipyomo.search.spaces.boxes.relaxing.relaxation import Change, Lines, Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Stage


def output_signals(
    stage: Stage, layer: Relaxed, rooted: Normalised | None, unit: float
) -> tuple[Signal, Signal]:
    """Compute ranges of h and t of all outputs.

    Parameters
    ----------
    stage : Stage
    layer : Relaxed
    rooted : Normalised, optional
        Bounds for the inverse roots of the layer.
    unit : float
    """
    tangents = _tangents(stage, layer, unit)
    if stage.roots is not None and rooted is not None:
        tangents = _within(tangents, stage.roots.units, rooted.roots, unit)
    units = _values(stage, layer), tangents
    return units if stage.products is None else with_products(stage, layer, unit, units)


def _values(stage: Stage, layer: Relaxed) -> Signal:
    """Compute ranges of the units' h."""
    low, high = stage.each("enclose", np.minimum(layer.low, layer.high), layer.high)
    middle = 0.5 * (low + high)
    radius = np.maximum(high - middle, middle - low)
    return Signal(middle, radius, np.maximum(np.abs(low), np.abs(high)))


def _tangents(stage: Stage, layer: Relaxed, unit: float) -> Signal:
    """Compute ranges of the units' t = sigma'(z) u."""
    some = layer if stage.products is None else layer.units(stage.products.units)
    u, ur, rate, rr = some.tangent, some.tangent_radius, some.rate, some.rate_radius
    middle = rate * u
    radius = np.abs(rate) * ur + rr * (np.abs(u) + ur) + unit * np.abs(middle)
    return Signal(middle, radius, (np.abs(middle) + radius) * (1.0 + unit))


def _within(signal: Signal, some: IntArray, ends: Ends, unit: float) -> Signal:
    """Intersect some of the ranges with others."""
    low, high = signal.middle - signal.radius, signal.middle + signal.radius
    low[:, some] = np.fmax(low[:, some], ends[0])
    high[:, some] = np.fmin(high[:, some], ends[1])
    return Signal.between(low, np.maximum(low, high), unit)


def with_planes(
    stage: Stage,
    layer: Relaxed,
    inputs: Inputs,
    whole: tuple[Ends, Ends] | None,
    unit: float,
) -> Relaxed:
    """Add the errors of products around their planes, and the slopes of their branches, to a layer.

    `whole` has ranges of products and of their tangents, if these are known directly.
    """
    products = stage.products
    assert products is not None
    n, count = products.units, products.left.size
    middles, radii = layer.rate[:, n:], layer.rate_radius[:, n:]
    z = [
        Form.of(layer.pre.take(rows), middles[:, own], radii[:, own])
        for rows, own in (
            (products.left, slice(count, None)),
            (products.right, slice(count)),
        )
    ]
    u = [
        Form.of(layer.pre_tangent.take(rows), layer.tangent[:, rows], layer.tangent_radius[:, rows])
        for rows in (products.left, products.right)
    ]
    planes = Planes(
        errors_of(z[0], z[1], inputs, unit),
        errors_of(u[0], z[1], inputs, unit),
        errors_of(z[0], u[1], inputs, unit),
        whole,
    )
    ones, zeros = np.ones_like(middles), np.zeros_like(middles)
    return layer._replace(planes=planes, bend=_behind(layer.bend, (ones, zeros, zeros)))


def with_product_lines(stage: Stage, layer: Relaxed, unit: float) -> Relaxed:
    """Add the planes of products to a layer that has the lines of its units."""
    products, planes = stage.products, layer.planes
    assert products is not None
    assert planes is not None
    assert layer.value is not None
    assert layer.change is not None
    n, count = products.units, products.left.size
    i, j = products.left, products.right
    m_j, m_i = layer.rate[:, n : n + count], layer.rate[:, n + count :]
    n_i, n_j = layer.tangent[:, i], layer.tangent[:, j]
    reach, pace, bias = layer.reach, layer.pace, stage.bias
    away, error = planes.values.radius, planes.values.middle
    middle = error - m_i * m_j + m_j * bias[i] + m_i * bias[j]
    rounding = np.abs(error) + away + np.abs(m_i * m_j)
    rounding += np.abs(m_j) * reach[:, i] + np.abs(m_i) * reach[:, j]
    added = layer.rate[:, n:], middle, away + unit * rounding
    value = _behind(layer.value, added)
    error = planes.left.middle + planes.right.middle
    away = planes.left.radius + planes.right.radius
    drift = error - n_i * m_j - m_i * n_j + n_j * bias[i] + n_i * bias[j]
    rounding = np.abs(planes.left.middle) + np.abs(planes.right.middle) + away
    rounding = rounding + np.abs(n_i * m_j) + np.abs(m_i * n_j)
    rounding += np.abs(n_j) * reach[:, i] + np.abs(n_i) * reach[:, j]
    rounding += np.abs(m_j) * pace[:, i] + np.abs(m_i) * pace[:, j]
    tilt = layer.tangent[:, products.other[n:]]
    own = Change(layer.rate[:, n:], tilt, drift, away + unit * rounding)
    change = Change(*map(_after, layer.change, own))
    return layer._replace(value=value, change=change)


def _behind(units: Lines, products: Lines) -> Lines:
    """Concatenate lines of units and of products."""
    slope, middle, radius = map(_after, units, products)
    return slope, middle, radius


def _after(units: FloatArray, products: FloatArray) -> FloatArray:
    return np.concatenate([units, products], axis=1)


def with_products(
    stage: Stage, layer: Relaxed, unit: float, units: tuple[Signal, Signal]
) -> tuple[Signal, Signal]:
    """Compute ranges of h and t of all outputs, from those of the units."""
    products = stage.products
    assert products is not None
    i, j = products.left, products.right
    z = np.minimum(layer.low, layer.high), layer.high
    u = layer.tangent - layer.tangent_radius, layer.tangent + layer.tangent_radius
    z_i, z_j, u_i, u_j = (
        (ends[0][:, rows], ends[1][:, rows]) for ends, rows in ((z, i), (z, j), (u, i), (u, j))
    )
    one, other = range_product(u_i, z_j), range_product(z_i, u_j)
    whole: Sequence[Ends | None] = (None, None)
    if layer.planes is not None and layer.planes.whole is not None:
        whole = layer.planes.whole
    found = []
    for (low, high), signal, narrower in zip(
        (range_product(z_i, z_j), (one[0] + other[0], one[1] + other[1])), units, whole, strict=True
    ):
        if narrower is not None:
            low = np.fmax(low, narrower[0])
            high = np.maximum(np.fmin(high, narrower[1]), low)
        middle = 0.5 * (low + high)
        radius = np.maximum(high - middle, middle - low)
        size = (np.abs(middle) + radius) * (1.0 + unit)
        radius = radius + 4.0 * unit * size
        more = middle, radius, size
        parts = zip((signal.middle, signal.radius, signal.size), more, strict=True)
        found.append(Signal(*(np.concatenate(both, axis=1) for both in parts)))
    return found[0], found[1]
