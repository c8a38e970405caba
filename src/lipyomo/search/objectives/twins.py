"""Twins: units that are nearly equal, as in the difference of a network and its quantised version.

If two units have pre-activations z and z' with ``l <= z - z' <= u``, their outputs above the kinks
differ by less: ``y - y'`` lies between 0 and z - z', so that with u+ = max(u, 0) and l- = min(l, 0)

    y - y' <= u+ (z - z' - l-) / (u+ - l-),        y' - y <= l- (z - z' - u+) / (u+ - l-).

The triangle relaxations of the single units do not imply this.  Differences of pre-activations are
bounded layer by layer: in

    z - z' = (F - F') h - (S - S') e + b - b'

twins of the previous layer are written as one unit h, with the sum F of their weights, minus the
difference e of the two, with the second one's weights S (Paulsen, Wang, Wang: ReluDiff, 2020, for
two networks in parallel).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNDERFLOW, UNIT, gamma
from lipyomo.base.system.memory import BATCH
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.problems.domains import Domain
from lipyomo.search.objectives.params import PARAMS


class Twins(NamedTuple):
    """Pairs of units, and bounds of their differences.

    Attributes
    ----------
    first, second : ndarray of int, shape (K,)
    low, high : ndarray, shape (K,)
        Bounds of the first one's pre-activation minus the second one's, on a domain.
    largest : float
        Upper bound of the last unit's pre-activation.
    """

    first: IntArray
    second: IntArray
    low: FloatArray
    high: FloatArray
    largest: float

    @classmethod
    def of(cls, system: UnitSystem, domain: Domain, lower: FloatArray, upper: FloatArray) -> Twins:
        """Find the twins among the units of a system; none if dense layers need too much memory.

        Parameters
        ----------
        system : UnitSystem
        domain : Domain
            A bounded domain.
        lower, upper : ndarray, shape (N,)
            Bounds of all pre-activations on the domain, up to the system's errors.
        """
        none = np.zeros(0, dtype=np.intp)
        if any(8 * v.units * max(v.units, v.inputs) > BATCH for v in system.network.hidden):
            return cls(none, none, np.zeros(0), np.zeros(0), np.inf)
        before = _Pairs(domain.lower, domain.upper, none, none, np.zeros((2, 0)))
        pairs: list[IntArray] = []
        differences: list[FloatArray] = []
        for i, layer in enumerate(system.network.hidden):
            span = system.span(i)
            room = system.errors[span]
            with np.errstate(all="ignore"):  # NaN gives no twins
                found = _pairs(layer, before, lower[span] - room, upper[span] + room)
            pairs.append(np.stack([found.first, found.second]) + span.start)
            differences.append(found.difference)
            before = _passed_on(layer, found)
            largest = float(found.high[-1])
        (first, second), (low, high) = np.hstack(pairs), np.hstack(differences)
        return cls(first, second, low, high, largest)

    def rows(
        self, errors: FloatArray, form: NodeForm, phases: FlatPhases, reach: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return rows ``A w <= b`` in w = (x, y) for the twins of which at least one is open.

        Parameters
        ----------
        errors : ndarray, shape (N,)
            Bounds of the errors of pre-activations.
        form : NodeForm
        phases : ndarray of int8, shape (N,)
        reach : ndarray, shape (d + F,)
            The largest absolute values of x and y.

        Returns
        -------
        A : ndarray, shape (r, d + F)
        b : ndarray, shape (r,)
            Relaxed by twice the errors of both pre-activations, by those of the rows' entries, with
            four operations each, and by that of the slope.
        """
        some = np.flatnonzero((phases[self.first] == OPEN) | (phases[self.second] == OPEN))
        i, j = self.first[some], self.second[some]
        top, bottom = np.maximum(self.high[some], 0.0), np.minimum(self.low[some], 0.0)
        width = top - bottom
        slope = np.divide(top, width, where=width > 0.0, out=np.ones(some.size))[:, None]
        z = form.maps[i] - form.maps[j]
        y = _above(form, phases, i) - _above(form, phases, j)
        rows = np.concatenate([y - slope * z, (1.0 - slope) * z - y])
        ends = np.concatenate([-slope[:, 0] * bottom, (1.0 - slope[:, 0]) * top])
        sizes = np.abs(form.maps[i]) + np.abs(form.maps[j])
        terms = 2.0 * sizes @ np.append(reach, 1.0) + 2.0 * reach.max(initial=0.0) + width
        room = 2.0 * (errors[i] + errors[j]) + 8.0 * UNIT * terms
        return rows[:, :-1], ends - rows[:, -1] + np.tile(room, 2)


class _Pairs(NamedTuple):
    """Ranges (n,) of a layer's pre-activations or outputs, and pairs with their differences."""

    low: FloatArray
    high: FloatArray
    first: IntArray
    second: IntArray
    difference: FloatArray


def _pairs(layer: Layer, before: _Pairs, low: FloatArray, high: FloatArray) -> _Pairs:
    """Tighten given ranges of a layer's pre-activations, and find the twins among them.

    The terms of a sum are at most ``|W| size + |b|``, with twice the sizes of both twins.
    """
    size = np.maximum(np.abs(before.low), np.abs(before.high))
    i, j = before.first, before.second
    own = layer.dense_weight
    S = own[:, j]
    F = own.copy()
    F[:, i] += S
    F[:, j] = 0.0
    reach = size.copy()
    reach[i] = reach[j] = 2.0 * (size[i] + size[j])
    room = gamma(2 * layer.inputs + 8) * (np.abs(own) @ reach + np.abs(layer.bias)) + UNDERFLOW
    least, most = _range(F, S, layer.bias, before)
    low, high = np.fmax(low, least - room), np.fmin(high, most + room)
    a, b = _nearest(np.column_stack([F * size, layer.bias]), layer)
    least, most = _range(F[a] - F[b], S[a] - S[b], layer.bias[a] - layer.bias[b], before)
    lost = room[a] + room[b]
    difference = np.stack([least - lost, most + lost])
    width = difference[1] - difference[0]
    near = width < PARAMS.twins * np.minimum(high[a] - low[a], high[b] - low[b])
    return _Pairs(low, high, a[near], b[near], difference[:, near])


def _range(
    F: FloatArray, S: FloatArray, b: FloatArray, before: _Pairs
) -> tuple[FloatArray, FloatArray]:
    """Return the range of ``F h - S e + b``, up to rounding."""
    up, down = np.maximum(F, 0.0), np.minimum(F, 0.0)
    plus, minus = np.maximum(S, 0.0), np.minimum(S, 0.0)
    least, most = before.difference
    low = up @ before.low + down @ before.high - plus @ most - minus @ least + b
    high = up @ before.high + down @ before.low - plus @ least - minus @ most + b
    return low, high


def _nearest(rows: FloatArray, layer: Layer) -> tuple[IntArray, IntArray]:
    """Return pairs of units with equal slopes whose rows are mutually nearest."""
    squares = np.square(rows).sum(axis=1)
    far = squares[:, None] + squares - 2.0 * rows @ rows.T
    alike = (layer.left == layer.left[:, None]) & (layer.right == layer.right[:, None])
    far[~alike] = np.inf
    np.fill_diagonal(far, np.inf)
    units = np.arange(len(rows))
    other = far.argmin(axis=1)
    mutual = (other[other] == units) & (units < other) & alike[units, other]
    return units[mutual], other[mutual]


def _passed_on(layer: Layer, units: _Pairs) -> _Pairs:
    """Return ranges of the outputs: products with slopes, one operation each."""
    ends = np.stack([units.low, units.high])
    values = np.where(ends > 0.0, layer.right, layer.left) * ends
    crossing = (units.low < 0.0) & (units.high > 0.0)
    values = np.vstack([values, np.where(crossing, 0.0, values[0])])
    low, high = values.min(axis=0), values.max(axis=0)
    i, j = units.first, units.second
    above = (units.low[i] > 0.0) & (units.low[j] > 0.0)
    below = (units.high[i] < 0.0) & (units.high[j] < 0.0)
    least = np.where(below, layer.left[i], layer.right[i])
    most = np.where(above, layer.right[i], layer.left[i])
    products = np.concatenate([units.difference * least, units.difference * most])
    least, most = products.min(axis=0), products.max(axis=0)
    difference = np.stack([least - UNIT * np.abs(least), most + UNIT * np.abs(most)])
    return _Pairs(low - UNIT * np.abs(low), high + UNIT * np.abs(high), i, j, difference)


def _above(form: NodeForm, phases: FlatPhases, units: IntArray) -> FloatArray:
    """Return the outputs of units above their kinks, as rows in (x, y, 1)."""
    rows = np.where((phases[units] == RIGHT)[:, None], form.maps[units], 0.0)
    is_open = np.flatnonzero(phases[units] == OPEN)
    rows[is_open, form.variables + np.searchsorted(form.units, units[is_open])] = 1.0
    return rows
