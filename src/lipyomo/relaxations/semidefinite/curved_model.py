"""Smooth networks on cubes as quadratic programs in which slopes depend on inputs.

For a functional c and inputs ``x = m + r xi``, |xi| <= 1, the l1 norm of the gradient
``g = W_1' t_1`` is at most, for any zeta > 0,

    sum zeta / 2 + max over x of g' diag(1 / zeta) g / 2,

a quadratic function of the adjoints ``t_l = sigma'(z_l) b_l``, ``b_l = W_l+1' t_l+1``.  Where only
ranges [p, q] of slopes are known, ``(t - p b)(q b - t) >= 0``, all units may have their worst
slopes together, though no input is there.  Here slopes s and values y are variables between two
lines over z, with ``t = s b`` (b is constant in the last hidden layer),

    (s - p z - low)(high + p z - s) >= 0,    (y - q z - low')(high' + q z - y) >= 0,

and pre-activations are linear forms: of y behind the first layer, and there of the ball of
`curved_ball`.  (Shor's relaxation, as in `shor_model`, which has phases in place of slopes.)
Between these lines z, y and s of one unit may still be where none is: `curved_cuts` has further
inequalities, for the moments of a solution.

The best zeta for given moments of the variables are roots of the mean squares of g.  An
interior-point method has such moments at every step, and goes on with these zeta now and then: it
ends where neither can gain anything.

Rounding.  Forms are off by as many roundings as they have terms (`QuadraticProgram.error`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF, gamma
from lipyomo.relaxations.semidefinite.curved_ball import PreactivationBall
from lipyomo.relaxations.semidefinite.curved_cuts import CurveCuts, CurvePieces
from lipyomo.relaxations.semidefinite.interior import minimise_gamma
from lipyomo.relaxations.semidefinite.quadratic import QuadraticProgram
from lipyomo.relaxations.semidefinite.quadratic_builder import ProgramBuilder
from lipyomo.relaxations.semidefinite.verify import powers

TOLERANCE = 5e-3
"""Relative distance from the optimum at which to stop: the last steps gain ever less."""

LEAST_SHARE = 0.02
"""Zeta that have to be mixed with less of the best ones to be feasible stay as they are."""

Ends = tuple[FloatArray, FloatArray]
"""Least and greatest values."""

Lines = tuple[FloatArray, FloatArray, FloatArray]
"""Slopes, lower and upper offsets of lines over z."""


class CurvedLayer(NamedTuple):
    """What is known of the units of a hidden layer, all of it sound.

    Attributes
    ----------
    weight : ndarray, shape (n, k)
    bias : ndarray, shape (n,)
    z, y, s : pairs of ndarray
        Ranges of pre-activations, of values and of slopes.
    value, slope : Lines
        Lines around sigma and sigma' over the range of z.
    pieces : CurvePieces
        Sigma and sigma' on pieces of it.
    """

    weight: FloatArray
    bias: FloatArray
    z: Ends
    y: Ends
    s: Ends
    value: Lines
    slope: Lines
    pieces: CurvePieces


class CurvedBound(NamedTuple):
    """What a program gave.

    Attributes
    ----------
    bound : float
        Proved; infinite where there was no time for any.
    moments : tuple of ndarray, shape (n, k, k)
        Of (1, z, y, s) of the units of each layer, in the last one of (1, z, s); none where there
        was no time.
    """

    bound: float
    moments: tuple[FloatArray, ...]


def adjoint_ends(layers: Sequence[CurvedLayer], low: FloatArray, high: FloatArray) -> list[Ends]:
    """Ranges of b of all hidden layers, from those of the last one."""
    found = [(low, high)]
    for layer in reversed(layers[1:]):
        low, high = _product(*found[0], *layer.s)
        middle, radius = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        room = np.abs(layer.weight).T @ (np.abs(middle) + radius) * gamma(len(middle) + 8)
        middle, radius = layer.weight.T @ middle, np.abs(layer.weight).T @ radius
        found.insert(0, (middle - radius - room, middle + radius + room))
    return found


def _product(low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray) -> Ends:
    """Ranges of products, rounded outwards."""
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
        The functional times the last weights: what it is between.
    cuts : sequence of CurveCuts, optional
        Further inequalities of units, by layer.
    """

    def __init__(
        self,
        layers: Sequence[CurvedLayer],
        ball: PreactivationBall,
        low: FloatArray,
        high: FloatArray,
        cuts: Sequence[CurveCuts] = (),
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
        self._error = max(ball.error, gamma(max(layer.weight.shape[1] for layer in layers) + 16))
        self._made.anchor(u)
        z = ball.middle[:, None] * self._made.one + ball.turn @ self._made.unit(u)
        more, slopes = ball.magnitudes, []
        self._units: list[FloatArray] = []
        for k, layer in enumerate(layers):
            z = self._named(z, more, np.maximum(-layer.z[0], layer.z[1]))
            slopes.append(self._ranged(s_places[k], layer.s))
            self._on_lines(slopes[k], z, layer.slope)
            forms = [np.broadcast_to(self._made.one, z.shape), z, slopes[k]]
            if k < last:
                y = self._ranged(y_places[k], layer.y)
                self._on_lines(y, z, layer.value)
                forms.insert(2, y)
                following = layers[k + 1]
                z = following.weight @ y + following.bias[:, None] * self._made.one
                more = np.abs(following.weight) @ (np.abs(y) @ self._made.columns)
                more = more + np.abs(following.bias)
            self._units.append(np.stack(forms, axis=1))
        adjoints = adjoint_ends(layers, low, high)
        middle, radius = 0.5 * low + 0.5 * high, high - low
        t, more = middle[:, None] * slopes[last], np.abs(slopes[last]) @ self._made.columns
        more = np.maximum(-low, high) * more + radius * more / self._error
        for k in range(last - 1, -1, -1):
            weight, s = layers[k + 1].weight.T, slopes[k]
            size = np.maximum(-adjoints[k][0], adjoints[k][1])
            b = self._named(weight @ t, np.abs(weight) @ more, size)
            t = self._ranged(t_places[k], _product(*adjoints[k], *layers[k].s))
            least, most = (end[:, None] for end in layers[k].s)
            self._made.add(*self._scaled(t - least * b, most * b - t))
            scale = np.square(powers(size))[:, None]
            one = np.repeat(self._made.one[None], len(t), axis=0)
            self._made.add_sums([(scale * t, one), (-scale * b, s)], equal=True)
            more = np.abs(t) @ self._made.columns
        self._adjoint, self._adjoint_sizes = t[:, : self._variables], more
        nothing = np.zeros((self._variables, self._variables))
        self._program = self._made.program(nothing, u, 0.0, 4.0 * self._error)
        for known, own in zip(self._units, cuts, strict=False):
            self._program = self._with_cuts(known, own)

    @staticmethod
    def size(units: Sequence[int]) -> tuple[int, int]:
        """Variables, dense forms included, and multipliers of a program for such layers."""
        inner = sum(units[:-1])
        return 1 + units[0] + 2 * sum(units) + 3 * inner, units[0] + 2 * sum(units) + 5 * inner + 1

    def program(self, zeta: FloatArray) -> QuadraticProgram:
        """The program for given zeta (d,)."""
        weight, t = self._layers[0].weight, self._adjoint
        inner = (weight / zeta) @ weight.T
        objective = 0.5 * (t.T @ inner @ t)
        objective[0, 0] += 0.5 * float(zeta.sum())
        mass = float((np.square(np.abs(weight).T @ self._adjoint_sizes) / zeta + zeta).sum())
        symmetric = 0.5 * (objective + objective.T)
        return replace(self._program, objective=symmetric, objective_mass=mass)

    def first(self, total: float) -> FloatArray:
        """Some zeta with this sum, in proportion to lengths of columns."""
        half = np.linalg.norm(self._adjoint[:, 1:], axis=1)
        zeta = self._floored(np.linalg.norm(self._layers[0].weight * half[:, None], axis=0))
        return np.asarray(zeta * (total / zeta.sum()))

    def best(self, moments: FloatArray) -> FloatArray:
        """The zeta that is best for these moments: roots of mean squares of g."""
        weight = self._layers[0].weight
        inner = self._adjoint @ moments @ self._adjoint.T
        return self._floored(np.sqrt(np.maximum((weight * (inner @ weight)).sum(axis=0), 0.0)))

    @staticmethod
    def _floored(zeta: FloatArray) -> FloatArray:
        """Away from zero, which entries have whose inputs do not count."""
        return np.asarray(np.maximum(zeta, max(1e-9 * float(zeta.max(initial=0.0)), 1e-300)))

    def bound(self, known: float, aim: float, left: Callable[[], float]) -> CurvedBound:
        """A proved bound of the gradient's l1 norm.

        Parameters
        ----------
        known : float
            A bound of it.
        aim : float
            A bound that is good enough.
        left : callable
            Seconds that may still be used.
        """
        zeta, last = self.first(known), np.zeros((0, 0))

        def renew(
            moments: FloatArray, feasible: Callable[[QuadraticProgram], bool]
        ) -> tuple[QuadraticProgram, bool]:
            nonlocal zeta, last
            last, best, share = moments, self.best(moments), 1.0
            while share > LEAST_SHARE:
                mixed = 1.0 / ((1.0 - share) / zeta + share / best)
                program = self.program(mixed)
                if feasible(program):
                    zeta = mixed
                    return program, share == 1.0
                share *= 0.5
            return self.program(zeta), False

        start = self.program(zeta)
        bound = minimise_gamma(start, TOLERANCE, left, renew=renew, enough=aim).bound
        if not last.size:
            return CurvedBound(bound, ())
        wide = self._program.lift(last)
        return CurvedBound(
            bound, tuple(part @ wide @ part.transpose(0, 2, 1) for part in self._units)
        )

    def _with_cuts(self, forms: FloatArray, cuts: CurveCuts) -> QuadraticProgram:
        """The program with further inequalities of the units of one layer."""
        owners, places = np.nonzero(cuts.left.any(axis=2) | cuts.right.any(axis=2))
        own = forms[cuts.units[owners]]
        sizes = np.abs(own) @ self._made.columns
        left, right = cuts.left[owners, places], cuts.right[owners, places]
        return self._program.with_sums(
            np.einsum("pk,pkn->pn", left, own),
            np.einsum("pk,pkn->pn", right, own),
            owners,
            np.stack([(np.abs(part) * sizes).sum(axis=1) for part in (left, right)], axis=1),
        )

    # -- forms and products ------------------------------------------------------------------------

    def _ranged(self, places: IntArray, ends: Ends) -> FloatArray:
        """Forms with these ranges, in a variable each."""
        self._made.anchor(places)
        low, high = ends
        middle = 0.5 * low + 0.5 * high
        radius = np.maximum(high - middle, middle - low) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        radius = np.maximum(radius, 1e-9 * np.abs(middle) + 1e-300)
        return np.asarray(
            middle[:, None] * self._made.one + radius[:, None] * self._made.unit(places)
        )

    def _named(self, forms: FloatArray, magnitudes: FloatArray, sizes: FloatArray) -> FloatArray:
        """Dense forms (n, N + E) as those of the extension, times their sizes."""
        scale = np.square(powers(sizes))
        first, self._at = self._at, self._at + len(forms)
        index = np.arange(first, self._at)
        dense = (scale[:, None] * forms)[:, : self._variables]
        return self._made.define(index, dense, scale * magnitudes) / scale[:, None]

    def _scaled(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both factors times powers of two that make them about one."""
        return (
            left * np.square(powers(np.abs(left).max(axis=1)))[:, None],
            right * np.square(powers(np.abs(right).max(axis=1)))[:, None],
        )

    def _on_lines(self, forms: FloatArray, z: FloatArray, lines: Lines) -> None:
        """The same between two lines over z."""
        slope, low, high = (part[:, None] for part in lines)
        rest = forms - slope * z
        self._made.add(*self._scaled(rest - low * self._made.one, high * self._made.one - rest))
