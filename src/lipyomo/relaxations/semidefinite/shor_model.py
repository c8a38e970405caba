"""Lipschitz constants as quadratic programs: Shor's relaxation, HR-1 and HR-2.

Chen, Lasserre, Magron and Pauwels (NeurIPS 2020) write the constant as a polynomial program in
the input x, the direction t and the derivatives y in {0, 1} of the units.  In their form for one
hidden layer,

    max  t^T A^T diag(y) c,    y (y - 1) = 0,   (y - 1/2)(A x + b) >= 0,   t^2 <= 1,   x in the box.

For more layers the products ``s = y u`` (u the tangent) and the units' outputs are additional
variables, so that everything stays quadratic:  s (1 - y) = y (u - s) = s (u - s) = 0.  Units that
the domain decides are eliminated.

The second order of the hierarchy ("HR-2") adds order-2 moment matrices on the pairs {y_k, z_k}
and {x_j, t_j} (z_k = a_k x + b_k).  The convex hulls of the quadratic monomials on these
two-dimensional cells are known: a box needs its four products of bounds (Anstreicher and Burer,
2010), the cell of a unit with z in [l, u] needs

    y z >= 0,   (1 - y)(-z) >= 0,   y (u - z) >= 0,   (1 - y)(z - l) >= 0,
    z (u y + l (1 - y) - z) >= 0.

These products are added instead of moment matrices: moment matrices of any order on the same cells
cannot give tighter bounds, and the matrix does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray, dense
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.signal import FloatSignal, UnitMap
from lipyomo.problems.affine.system import switched_sizes
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear import LayerBounds, tangent_limits
from lipyomo.relaxations.semidefinite.quadratic import QuadraticProgram
from lipyomo.relaxations.semidefinite.quadratic_builder import ProgramBuilder


@dataclass(frozen=True)
class _Places:
    """Positions of the variables: 0 is the constant, followed by t, y, s, x and h.

    After these `total` variables come the forms z / size of the unstable units, `width` columns
    in total.
    """

    total: int
    width: int
    t: IntArray
    y: list[IntArray]
    s: list[IntArray]
    x: IntArray
    h: list[IntArray]
    z: list[IntArray]


def _places(d: int, directions: int, unstable_units: list[int], forward: bool) -> _Places:
    """Number the variables; s and h are needed below the last layer only."""
    position = 1

    def take(count: int) -> IntArray:
        nonlocal position
        taken = np.arange(position, position + count, dtype=np.int64)
        position += count
        return taken

    inner = unstable_units[:-1]
    t, y = take(directions), [take(k) for k in unstable_units]
    s = [take(k) for k in inner]
    x = take(d if forward else 0)
    h = [take(k if forward else 0) for k in inner]
    total = position
    z = [take(k if forward else 0) for k in unstable_units]
    return _Places(total, position, t, y, s, x, h, z)


def program_size(problem: LipschitzProblem, bounds: LayerBounds, cells: bool) -> tuple[int, int]:
    """Return the number of variables and dense forms of a `ShorModel`, and estimated products."""
    d, local = problem.network.input_dim, problem.domain.is_bounded
    directions = problem.tangent_network.input_dim
    counts = [int(np.count_nonzero(phase == OPEN)) for phase in bounds.phases]
    inner, last = sum(counts[:-1]), sum(counts[-1:])
    inputs = directions + (d if local else 0)
    if cells and local and problem.norm == "linf":
        inputs += 4 * directions
    unit, passed = (6 if cells else 2) if local else 1, (16 if cells else 8) if local else 4
    products = inputs + unit * (inner + last) + passed * inner
    return _places(d, directions, counts, local).width, products


class ShorModel:
    """The quadratic program of one functional of a network.

    Parameters
    ----------
    problem : LipschitzProblem
        A reduced problem; its output norm is not used.
    bounds : LayerBounds
        Bounds of its pre-activations.
    functional : ndarray, shape (m,)
    cells : bool
        Whether to add the products of HR-2.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        bounds: LayerBounds,
        functional: FloatArray,
        cells: bool,
    ) -> None:
        network, domain = problem.network, problem.domain
        self._problem, self._bounds, self._cells = problem, bounds, cells
        self._open = [np.flatnonzero(phase == OPEN) for phase in bounds.phases]
        self._local = domain.is_bounded
        along = problem.tangent_network
        counts = [len(k) for k in self._open]
        self._places = _places(network.input_dim, along.input_dim, counts, self._local)
        total, width = self._places.total, self._places.width
        self._made = ProgramBuilder(total, width - total)
        self._objective_mass = 0.0
        self._objective = np.zeros((total, total))
        self._tangents = tangent_limits(along, bounds, problem.norm, relaxation="linear")
        self._inputs()
        self._layers(functional)

    def program(self) -> QuadraticProgram:
        """Return the program, in variables scaled to [-1, 1]."""
        ball = self._places.t if self._problem.norm == "l2" else np.zeros(0, dtype=np.int64)
        pairs = zip(self._problem.network.layers, self._problem.tangent_network.layers, strict=True)
        steps = sum(max(layer.inputs, along.inputs) + 8 for layer, along in pairs)
        objective = 0.5 * (self._objective + self._objective.T)
        error = 4.0 * steps * UNIT_ROUNDOFF
        return self._made.program(objective, ball, self._objective_mass, error)

    def _inputs(self) -> None:
        """Add the boxes of directions and inputs, and their products for HR-2."""
        places = self._places
        self._made.anchor(places.t)
        self._made.anchor(places.x)
        if self._cells and self._local and self._problem.norm == "linf":
            t, x = self._made.unit(places.t), self._made.unit(places.x)
            if self._problem.directions is not None:  # pair each with the input it changes most
                x = x[dense(abs(self._problem.directions)).argmax(axis=0)]
            for sign in (1.0, -1.0):
                self._made.add(self._made.one + sign * t, self._made.one + x)
                self._made.add(self._made.one + sign * t, self._made.one - x)

    def _layers(self, functional: FloatArray) -> None:
        """Carry tangents and pre-activations forward as linear forms."""
        network, domain, places = self._problem.network, self._problem.domain, self._places
        tangent = FloatSignal(self._made.unit(places.t), places.width, None)
        along = self._problem.tangent_network
        u_magnitudes = switched_sizes(along, np.ones(along.input_dim), False)
        value: FloatSignal | None = None
        z_magnitudes = u_magnitudes
        if self._local:
            start = (0.5 * (domain.upper - domain.lower))[:, None] * self._made.unit(places.x)
            start[:, 0] += 0.5 * (domain.upper + domain.lower)
            value = FloatSignal(start, places.width, 0)
            z_magnitudes = switched_sizes(
                network, np.abs(domain.upper) + np.abs(domain.lower), True
            )
        weights = np.asarray(functional @ along.head.weight)
        self._objective_mass = float(np.abs(functional) @ u_magnitudes[-1])
        last = len(network.hidden) - 1
        for position, layer in enumerate(network.hidden):
            tangent = tangent.through(along.layers[position])
            value = None if value is None else value.through(layer)
            u_magnitude, z_magnitude = u_magnitudes[position], z_magnitudes[position]
            self._units(position, value, z_magnitude)
            unit_map = UnitMap.of(layer, self._bounds.phases[position])
            if position == last:
                self._finish(unit_map, np.asarray(tangent.matrix), weights)
            else:
                tangent, value = self._pass_on(
                    position, unit_map, tangent, value, u_magnitude, z_magnitude
                )
        if not network.hidden:
            self._objective[0] += (weights @ np.asarray(tangent.matrix))[: places.total]

    def _units(self, position: int, value: FloatSignal | None, z_magnitude: FloatArray) -> None:
        """Add the derivatives y of unstable units and their products with pre-activations."""
        units, places = self._open[position], self._places.y[position]
        if units.size == 0:
            return
        y = self._made.unit(places)
        off = self._made.one - y
        # y (1 - y) = 0: the sign is free, chosen such that the anchor adds to the diagonal of C
        self._made.add(y, off, equal=True, anchors=places)
        if value is None:
            return
        z = np.asarray(value.matrix)
        low, high = self._bounds.lower[position][units], self._bounds.upper[position][units]
        size = np.maximum(-low, high)
        virtual = self._places.z[position]
        rows = (z[units] / size[:, None])[:, : self._places.total]
        form = self._made.define(virtual, rows, z_magnitude[units] / size)
        if not self._cells:
            self._made.add(y - 0.5 * self._made.one, form)
            return
        low, high = (low / size)[:, None], (high / size)[:, None]
        self._made.add(y, form)
        self._made.add(off, -form)
        self._made.add(y, high * self._made.one - form)
        self._made.add(off, form - low * self._made.one)
        self._made.add(form, high * y + low * off - form)

    def _finish(self, unit_map: UnitMap, u: FloatArray, weights: FloatArray) -> None:
        """Set the objective ``sum_k c_k (left_k + (right_k - left_k) y_k) u_k``."""
        u = u[:, : self._places.total]
        self._objective[0] += (weights * unit_map.slope) @ u
        change = unit_map.change * weights[unit_map.units]
        self._objective[self._places.y[-1]] += change[:, None] * u[unit_map.units]

    def _pass_on(
        self,
        position: int,
        unit_map: UnitMap,
        tangent: FloatSignal,
        value: FloatSignal | None,
        u_magnitude: FloatArray,
        z_magnitude: FloatArray,
    ) -> tuple[FloatSignal, FloatSignal | None]:
        """Pass a layer before the last one, with ``s = y u`` and ``h = y z`` as variables."""
        units, y = unit_map.units, self._made.unit(self._places.y[position])

        def switched(
            signal: FloatSignal,
            places: IntArray,
            low: FloatArray,
            high: FloatArray,
            magnitude: FloatArray,
        ) -> tuple[FloatSignal, FloatArray, FloatArray]:
            size = np.maximum(-low, high)[units]
            size = np.where(size > 0, size, 1.0)
            form = np.asarray(signal.matrix)[units] / size[:, None]
            self._switch(y, places, form, magnitude[units] / size)
            own = unit_map._replace(columns=places, change=unit_map.change * size)
            return signal.past(own), form, size

        known, own = self._tangents, self._places
        tangent, _, _ = switched(
            tangent, own.s[position], known.lower[position], known.upper[position], u_magnitude
        )
        if value is None:
            return tangent, None
        low, high = self._bounds.lower[position], self._bounds.upper[position]
        value, form, size = switched(value, own.h[position], low, high, z_magnitude)
        relu, one = (
            self._made.unit(own.h[position]),
            self._made.one[None, :].repeat(units.size, axis=0),
        )
        self._made.add(relu, one)
        self._made.add(relu - form, one, magnitudes=(1.0 + z_magnitude[units] / size, None))
        return tangent, value

    def _switch(
        self, y: FloatArray, places: IntArray, form: FloatArray, magnitude: FloatArray
    ) -> None:
        """Add variables for ``y * form``, for forms bounded by one, with their magnitudes."""
        self._made.anchor(places)
        switched = self._made.unit(places)
        rest, rest_magnitude = form - switched, 1.0 + magnitude
        off = self._made.one - y
        self._made.add(switched, off, equal=True)
        self._made.add(y, rest, equal=True, magnitudes=(None, rest_magnitude))
        self._made.add(switched, rest, equal=True, magnitudes=(None, rest_magnitude))
        if self._cells:
            for sign in (1.0, -1.0):
                one = self._made.one + sign * form
                self._made.add(y, one, magnitudes=(None, rest_magnitude))
                self._made.add(off, one, magnitudes=(None, rest_magnitude))
