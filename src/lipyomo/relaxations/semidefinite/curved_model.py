"""Quadratic programs for smooth networks on cubes, in which slopes depend on the inputs.

For a functional c and inputs ``x = m + r xi``, |xi| <= 1, the l1 norm of the gradient
``g = W_1' t_1`` is at most, for any zeta > 0,

    sum zeta / 2 + max over x of g' diag(1 / zeta) g / 2,

a quadratic function of the adjoints ``t_l = sigma'(z_l) b_l``, ``b_l = W_l+1' t_l+1``.  If only
ranges [p, q] of slopes are used, ``(t - p b)(q b - t) >= 0``, all units may have their worst
slopes at once, even if no input attains them.  Here slopes s and values y are variables too, with
``t = s b`` (b is constant in the last hidden layer).  Pre-activations z are linear forms: of y
behind the first layer, and in the first layer of the ball of `curved_ball`.  A unit is described by
its curve: ``c' Q c >= 0`` for every symmetric Q for which this holds at all points
``c = (1, z, y, s)`` of the curve (in the last hidden layer ``(1, z, s)``).  The Q are multipliers,
see `curved_system`.  Apart from that it is Shor's relaxation, as in `shor_model`, which has phases
in place of slopes.

The best zeta for given moments of the variables are the roots of the mean squares of g.  The
interior-point method provides moments at every step and updates zeta every few steps, until neither
improves the bound.

Rounding.  A form has as many rounding errors as terms (`QuadraticProgram.error`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF, gamma
from lipyomo.relaxations.semidefinite.curved_ball import PreactivationBall
from lipyomo.relaxations.semidefinite.curved_system import CurveNodes
from lipyomo.relaxations.semidefinite.curved_units import PIECES, CurvePieces, raised
from lipyomo.relaxations.semidefinite.quadratic import QuadraticProgram, proved_bound
from lipyomo.relaxations.semidefinite.quadratic_builder import ProgramBuilder
from lipyomo.relaxations.semidefinite.verify import powers

NODES = 16
"""Nodes of a unit's curve: with 64 bounds are 1 % tighter, after twice the steps."""

START = 6.0
"""First multipliers of squares, relative to those that make the matrix diagonally dominant."""

Ends = tuple[FloatArray, FloatArray]
"""Lower and upper bounds."""


class CurvedLayer(NamedTuple):
    """Weights and sound enclosures of the units of a hidden layer.

    Attributes
    ----------
    weight : ndarray, shape (n, k)
    bias : ndarray, shape (n,)
    z, y, s : pairs of ndarray
        Ranges of pre-activations, of values and of slopes.
    pieces : CurvePieces
        Enclosures of sigma and sigma' on pieces of the range of z.
    """

    weight: FloatArray
    bias: FloatArray
    z: Ends
    y: Ends
    s: Ends
    pieces: CurvePieces


def adjoint_ends(layers: Sequence[CurvedLayer], low: FloatArray, high: FloatArray) -> list[Ends]:
    """Propagate ranges of b from the last hidden layer to all hidden layers."""
    found = [(low, high)]
    for layer in reversed(layers[1:]):
        low, high = _product(*found[0], *layer.s)
        middle, radius = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        room = np.abs(layer.weight).T @ (np.abs(middle) + radius) * gamma(len(middle) + 8)
        middle, radius = layer.weight.T @ middle, np.abs(layer.weight).T @ radius
        found.insert(0, (middle - radius - room, middle + radius + room))
    return found


def _product(low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray) -> Ends:
    """Return the ranges of products, rounded outwards."""
    ends = np.stack([low * least, low * most, high * least, high * most])
    return np.nextafter(ends.min(axis=0), -np.inf), np.nextafter(ends.max(axis=0), np.inf)


class CurvedModel:
    """The quadratic program of one functional.

    Parameters
    ----------
    layers : sequence of CurvedLayer
        At least one.
    ball : PreactivationBall
    low, high : ndarray, shape (n,)
        Bounds of the functional times the last weights.

    Attributes
    ----------
    plain : QuadraticProgram
        The program without objective and without the curves of units.
    curves : list of CurveNodes
        Nodes of the units of each layer.
    """

    def __init__(
        self,
        layers: Sequence[CurvedLayer],
        ball: PreactivationBall,
        low: FloatArray,
        high: FloatArray,
    ) -> None:
        self._layers, last = layers, len(layers) - 1
        counts = [len(layer.bias) for layer in layers]
        sizes = [counts[0], *counts, *counts[:-1], *counts[:-1]]
        ends = np.cumsum([1, *sizes])
        places = [np.arange(a, b) for a, b in pairwise(ends)]
        u, s_places = places[0], places[1 : last + 2]
        y_places, t_places = places[last + 2 : 2 * last + 2], places[2 * last + 2 :]
        self._variables = int(ends[-1])
        width = self._variables + sum(counts) + sum(counts[:-1])
        self._at = self._variables
        self._made = ProgramBuilder(self._variables, width - self._variables)
        self._error = max(ball.error, gamma(max(max(layer.weight.shape) for layer in layers) + 16))
        z = ball.middle[:, None] * self._made.one + ball.turn @ self._made.unit(u)
        more, slopes = ball.magnitudes, []
        units: list[FloatArray] = []
        for k, layer in enumerate(layers):
            z = self._centred(z, more, layer.z)
            slopes.append(self._ranged(s_places[k], layer.s))
            forms = [np.broadcast_to(self._made.one, z.shape), z, slopes[k]]
            if k < last:
                y = self._ranged(y_places[k], layer.y)
                forms.insert(2, y)
                following = layers[k + 1]
                z = following.weight @ y + following.bias[:, None] * self._made.one
                more = np.abs(following.weight) @ (np.abs(y) @ self._made.columns)
                more = more + np.abs(following.bias)
            units.append(np.stack(forms, axis=1))
        adjoints = adjoint_ends(layers, low, high)
        middle, radius = 0.5 * low + 0.5 * high, high - low
        t, more = middle[:, None] * slopes[last], np.abs(slopes[last]) @ self._made.columns
        more = np.maximum(-low, high) * more + radius * more / self._error
        for k in range(last - 1, -1, -1):
            weight, s = layers[k + 1].weight.T, slopes[k]
            size = np.maximum(-adjoints[k][0], adjoints[k][1])
            b = self._named(weight @ t, np.abs(weight) @ more, size)
            t = self._ranged(t_places[k], _product(*adjoints[k], *layers[k].s))
            self._made.anchor(t_places[k])
            least, most = (end[:, None] for end in layers[k].s)
            self._made.add(*self._scaled(t - least * b, most * b - t))
            scale = np.square(powers(size))[:, None]
            one = np.repeat(self._made.one[None], len(t), axis=0)
            self._made.add_sums([(scale * t, one), (-scale * b, s)])
            more = np.abs(t) @ self._made.columns
        self._adjoint, self._adjoint_sizes = t[:, : self._variables], more
        self._ranged_t = np.concatenate([np.zeros(0, dtype=np.int64), *t_places])
        nothing = np.zeros((self._variables, self._variables))
        self.plain = self._made.program(nothing, u, 0.0, 4.0 * self._error)
        self.curves: list[CurveNodes] = []
        self._pieces: list[CurvePieces] = []
        for layer, own in zip(layers, units, strict=True):
            columns = np.abs(own[:, :, 1:]).argmax(axis=2) + 1
            columns[:, 0] = 0
            factors = np.take_along_axis(own, columns[:, :, None], axis=2)[:, :, 0]
            constants = np.where(columns > 0, own[:, :, 0], 0.0)
            pieces = layer.pieces.seen(columns.shape[1]).scaled(constants, factors)
            self.curves.append(CurveNodes(columns, pieces.nodes(NODES)))
            self._pieces.append(pieces)

    @staticmethod
    def size(units: Sequence[int]) -> tuple[int, int]:
        """Count the variables, dense forms included, and the multipliers for layers of `units`."""
        inner = sum(units[:-1])
        return 1 + units[0] + 2 * sum(units) + 3 * inner, 5 * sum(units) + 7 * inner + 1

    @classmethod
    def memory(cls, units: Sequence[int]) -> float:
        """Estimate the bytes that a descent keeps between its steps."""
        return 8.0 * (6.0 * cls.size(units)[0] ** 2 + 4.0 * 4.0 * PIECES * sum(units))

    def program(self, zeta: FloatArray) -> QuadraticProgram:
        """Return the program for given zeta (d,)."""
        weight, t = self._layers[0].weight, self._adjoint
        inner = (weight / zeta) @ weight.T
        objective = 0.5 * (t.T @ inner @ t)
        objective[0, 0] += 0.5 * float(zeta.sum())
        mass = float((np.square(np.abs(weight).T @ self._adjoint_sizes) / zeta + zeta).sum())
        symmetric = 0.5 * (objective + objective.T)
        return replace(self.plain, objective=symmetric, objective_mass=mass)

    def first(self, total: float) -> FloatArray:
        """Return zeta of sum `total`, proportional to the lengths of the columns."""
        half = np.linalg.norm(self._adjoint[:, 1:], axis=1)
        zeta = self._floored(np.linalg.norm(self._layers[0].weight * half[:, None], axis=0))
        return np.asarray(zeta * (total / zeta.sum()))

    def best(self, moments: FloatArray) -> FloatArray:
        """Return the optimal zeta for given moments: the roots of the mean squares of g."""
        weight = self._layers[0].weight
        inner = self._adjoint @ moments @ self._adjoint.T
        return self._floored(np.sqrt(np.maximum((weight * (inner @ weight)).sum(axis=0), 0.0)))

    @staticmethod
    def _floored(zeta: FloatArray) -> FloatArray:
        """Raise entries near zero, as those of inputs without influence are."""
        return np.asarray(np.maximum(zeta, max(1e-9 * float(zeta.max(initial=0.0)), 1e-300)))

    def started(self, program: QuadraticProgram) -> tuple[FloatArray, list[FloatArray]]:
        """Return multipliers y, and Q of each layer, that make the matrix diagonally dominant."""
        y = np.where(program.equality, 0.0, 1e-3)
        y = np.append(y, 1e-3)
        rest = START * np.abs(program.objective + program.combine(y)).sum(axis=1) + 1e-2
        y[-1] = rest[program.ball].max()
        y[program.anchors[self._ranged_t - 1]] = rest[self._ranged_t]
        forms = []
        for columns, nodes in self.curves:
            inner = columns < program.variables
            squares = np.where(inner, rest[np.where(inner, columns, 0)], 1e-3)
            squares[:, 0] = 0.0
            most = (np.square(nodes) @ squares[:, :, None]).max(axis=(1, 2))
            squares[:, 0] = -1.1 * most
            forms.append(-squares[:, :, None] * np.eye(columns.shape[1]))
        return y, forms

    @np.errstate(over="ignore", invalid="ignore")  # an overflow gives an infinite bound
    def proved(self, zeta: FloatArray, y: FloatArray, forms: Sequence[FloatArray]) -> float:
        """Prove a bound from any multipliers y and Q (n, k, k) of each layer; may be infinite."""
        program = self.program(zeta)
        for curves, pieces, Q in zip(self.curves, self._pieces, forms, strict=True):
            above = raised(pieces, Q)
            if above is None:
                return math.inf
            program = _with_forms(program, curves.columns, above, self._made.columns)
        units = sum(map(len, forms))
        return proved_bound(program, np.concatenate([y[:-1], np.ones(units), y[-1:]]))

    # -- forms and products ------------------------------------------------------------------------

    def _ranged(self, places: IntArray, ends: Ends) -> FloatArray:
        """Return forms with these ranges, each in one variable of its own."""
        low, high = ends
        middle = 0.5 * low + 0.5 * high
        radius = np.maximum(high - middle, middle - low) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        radius = np.maximum(radius, 1e-9 * np.abs(middle) + 1e-300)
        return np.asarray(
            middle[:, None] * self._made.one + radius[:, None] * self._made.unit(places)
        )

    def _named(self, forms: FloatArray, magnitudes: FloatArray, sizes: FloatArray) -> FloatArray:
        """Define dense forms (n, N + E) in the extension, scaled by their sizes."""
        scale = np.square(powers(sizes))
        first, self._at = self._at, self._at + len(forms)
        index = np.arange(first, self._at)
        dense = (scale[:, None] * forms)[:, : self._variables]
        return self._made.define(index, dense, scale * magnitudes) / scale[:, None]

    def _centred(self, forms: FloatArray, magnitudes: FloatArray, ends: Ends) -> FloatArray:
        """Define dense forms in the extension, centred and scaled to a size of about one."""
        middle = 0.5 * ends[0] + 0.5 * ends[1]
        magnitudes = magnitudes + np.abs(middle)
        radius = np.maximum(0.5 * (ends[1] - ends[0]), 1e-9 * magnitudes)
        constant = middle[:, None] * self._made.one
        named = self._named(forms - constant, magnitudes, radius)
        return np.asarray(constant + named)

    def _scaled(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scale both factors by powers of two to a size of about one."""
        return (
            left * np.square(powers(np.abs(left).max(axis=1)))[:, None],
            right * np.square(powers(np.abs(right).max(axis=1)))[:, None],
        )


def _with_forms(
    program: QuadraticProgram, columns: IntArray, forms: FloatArray, sizes: FloatArray
) -> QuadraticProgram:
    """Add an inequality ``w' Q w >= 0`` in some variables of each unit.

    Parameters
    ----------
    program : QuadraticProgram
    columns : ndarray of int, shape (n, k)
        The variables w.
    forms : ndarray, shape (n, k, k)
        Q.
    sizes : ndarray, shape (N + E,)
        Magnitudes of all variables.
    """
    n, k = columns.shape
    left, right = np.zeros((2, n, k, sizes.size))
    np.put_along_axis(left, columns[:, :, None], 1.0, axis=2)
    for j in range(k):
        np.put_along_axis(right, columns[:, None, j : j + 1], forms[:, :, j : j + 1], axis=2)
    magnitudes = np.stack([left @ sizes, np.abs(right) @ sizes], axis=2)
    owners = np.repeat(np.arange(n), k)
    return program.with_sums(
        left.reshape(n * k, -1), right.reshape(n * k, -1), owners, magnitudes.reshape(-1, 2)
    )
