"""Norms of perturbations: a named norm, a weighted one, or that of a dual ball.

A weighted norm is ``|s / w|``.  Its ball of radius r around x consists of the points ``x + r w u``
with u in a unit ball.

A fair metric that is a norm, ``|s| = max_k |y_k . s|``, is given by the vertices y_k of its dual
ball.  Its ball around x is a polytope.  Constants with respect to it are those of the network after
a chart ``u -> x + Z u`` whose unit ball (of linf or l1) covers the metric's:

- as many y_k as inputs: Z is the inverse of the matrix of their rows, and the chart's norm is linf;
- more: the columns of Z are the vertices of the metric's unit ball, and the chart's norm is l1.

Z is computed in floating point and enlarged by `STRETCH`, so that upper bounds stay valid.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import real_numbers
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import NormError
from lipyomo.base.numerics.rounding import EQUAL, close_enough, gamma
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import AllSpace, Box, Domain, Polytope, ball
from lipyomo.problems.domains.norm_ball import rounded_out
from lipyomo.problems.norms import (
    InputNorm,
    LinearOutput,
    OutputNorm,
    check_input_norm,
    vector_norm,
)
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result, Status
from lipyomo.search.objectives.reach import Reach

STRETCH = EQUAL
"""By how much a chart's unit ball is larger than the metric's; half of it covers rounding."""


def metric_of(norm: str | OutputNorm, d: int, weights: npt.ArrayLike | None = None) -> Metric:
    """Return the metric given by the name of a norm, weighted or not, or by a linear norm.

    Parameters
    ----------
    norm : {'linf', 'l2', 'l1'} or OutputNorm
    d : int
        The number of inputs.
    weights : array_like, shape (d,), or float, optional
        Positive weights, for named norms only.

    Raises
    ------
    NormError
    """
    if weights is not None:
        if isinstance(norm, OutputNorm):
            raise NormError("weights go with linf, l2 and l1.  Remedy: put them into the dual ball")
        found = real_numbers(weights, "the weights", NormError).reshape(-1)
        if found.size not in (1, d):
            raise NormError(f"{found.size} weights for {d} inputs.  Remedy: give one an input")
        if not (np.isfinite(found) & (found > 0)).all():
            raise NormError("the weights of a metric must be positive and finite")
        return NamedMetric(check_input_norm(norm), np.broadcast_to(found, d))
    if isinstance(norm, OutputNorm):
        return Polyhedral(norm, d)
    return NamedMetric(check_input_norm(norm))


class NamedMetric:
    """``|s / w|`` in linf, l2 or l1.

    Parameters
    ----------
    name : {'linf', 'l2', 'l1'}
    weights : ndarray, shape (d,), or None
        w, the units of the inputs, unless these are all one.
    """

    def __init__(self, name: InputNorm, weights: FloatArray | None = None) -> None:
        self.name: InputNorm = name
        self._weights = weights
        self._units: float | FloatArray = 1.0 if weights is None else weights

    def distance(self, steps: FloatArray) -> FloatArray:
        """Return the norms of steps (n, d), rounded up, shape (n,)."""
        room = 1.0 + gamma(steps.shape[-1] + 4)
        return np.asarray(vector_norm(steps / self._units, self.name) * room)

    def ball(self, x: FloatArray, radius: float, clip: Box) -> Domain:
        """Return the ball, a box for linf; a weighted ball of l2 or l1 is in a larger box."""
        if self._weights is None:
            return ball(x, radius, self.name, (clip.lower, clip.upper))
        return Box(*self._sides(x, radius, clip))

    def _sides(self, x: FloatArray, radius: float, clip: Box) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends (d,) of a box around the ball intersected with `clip`."""
        weighted = self._weights is not None
        reach = radius * self._units * (1.0 + gamma(2)) if weighted else radius
        low, high = rounded_out(x, -reach), rounded_out(x, reach)
        return np.maximum(low, clip.lower), np.minimum(high, clip.upper)

    def reach(self, x: FloatArray, radius: float, clip: Box) -> Reach:
        """Return the ball in the box as rows, a box and a ball; the radius may be zero."""
        box = *self._sides(x, radius, clip), np.zeros((0, x.size)), np.zeros(0)
        if self.name == "linf":
            return Reach(*box, weights=self._weights)
        return Reach(*box, self.name, x, radius, self._weights)

    def within(self, x: FloatArray, points: FloatArray, radius: float, clip: Box) -> FloatArray:
        """Return the nearest points of the ball, then of the box."""
        steps = (points - x) / self._units
        if self.name == "linf":
            steps = np.clip(steps, -radius, radius)
        elif self.name == "l2":
            steps = _shortened(steps, vector_norm(steps, "l2"), radius)
        else:
            steps = _onto_cross_polytope(steps, radius)
        return np.clip(x + steps * self._units, clip.lower, clip.upper)

    def ascent(self, gradients: FloatArray, size: float) -> FloatArray:
        """Return the steepest steps; for l1, spread over the steepest tenth of the inputs."""
        gradients = gradients * self._units
        if self.name == "linf":
            steps = size * np.sign(gradients)
        elif self.name == "l2":
            length = vector_norm(gradients, "l2")[:, None]
            steps = size * gradients / np.where(length > 0, length, 1.0)
        else:
            count = max(1, gradients.shape[1] // 10)
            bar = -np.partition(-np.abs(gradients), count - 1, axis=1)[:, [count - 1]]
            steep = np.where(np.abs(gradients) >= bar, np.sign(gradients), 0.0)
            steps = size * steep / np.maximum(np.abs(steep).sum(1, keepdims=True), 1.0)
        return np.asarray(steps * self._units)

    def problem(
        self, network: Network, x: FloatArray | None, radius: float, clip: Box, norm: OutputNorm
    ) -> LipschitzProblem:
        """Use weighted directions; for weighted balls of l2 or l1, coordinates ``(x' - x) / w``."""
        weights = self._weights
        if x is None or weights is None or self.name == "linf":
            domain = clip if x is None else self.ball(x, radius, clip)
            return LipschitzProblem(network, domain, self.name, norm, weights=weights)
        outer = _charted(clip.lower - x, weights), _charted(clip.upper - x, weights)
        domain = ball(np.zeros(x.size), radius, self.name, outer)
        charted = Network([Layer(np.diag(weights), x), *network.layers], network.name)
        return LipschitzProblem(charted, domain, self.name, norm)

    def attained(self, found: Result, radius: float) -> Result:
        """Convert the result of a `problem` over a ball to the metric and its ball."""
        return found


def _charted(steps: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``steps / w`` (d,), rounded away from zero; covers a difference and a quotient."""
    sides = steps / weights
    away = np.nextafter(sides + gamma(2) * sides, np.copysign(np.inf, steps))
    return np.where(steps == 0.0, 0.0, away)  # an input that cannot move remains fixed


class Polyhedral:
    """``|s| = max_k |y_k . s|`` for the vertices y_k of a dual ball.

    Parameters
    ----------
    norm : OutputNorm
        A linear norm on d numbers.
    d : int
        The number of inputs.

    Raises
    ------
    NormError
        If the norm has another dimension, is not polyhedral, or is zero in some direction.
    """

    def __init__(self, norm: OutputNorm, d: int) -> None:
        rows = norm.vertices(d)
        if rows is None:
            raise NormError(f"{norm.name} is no metric of a dual ball with few vertices")
        if rows.shape[1] != d:
            raise NormError(
                f"the metric {norm.name} is of {rows.shape[1]} inputs, the network takes {d}"
            )
        if np.linalg.matrix_rank(rows) < d:
            raise NormError(
                f"the metric {norm.name} does not see some direction of the inputs, along which "
                "distances vanish.  Remedy: add a row for it, with small entries"
            )
        self.rows, self.name = _one_of_each_pair(rows), norm.name

    def distance(self, steps: FloatArray) -> FloatArray:
        """See `NamedMetric.distance`."""
        error = gamma(steps.shape[-1] + 2) * (np.abs(steps) @ np.abs(self.rows).T)
        return np.asarray((np.abs(steps @ self.rows.T) + error).max(axis=-1))

    def ball(self, x: FloatArray, radius: float, clip: Box) -> Domain:
        """Return a polytope intersected with the box."""
        found = self.reach(x, radius, clip)
        return Polytope(found.A, found.b, found.low, found.high)

    def reach(self, x: FloatArray, radius: float, clip: Box) -> Reach:
        """See `NamedMetric.reach`."""
        rows = np.vstack([self.rows, -self.rows])
        error = gamma(x.size + 3) * (np.abs(rows) @ np.abs(x) + radius)
        return Reach(clip.lower, clip.upper, rows, rows @ x + radius + error)

    def within(self, x: FloatArray, points: FloatArray, radius: float, clip: Box) -> FloatArray:
        """Return points of the box, moved towards x."""
        steps = np.clip(points, clip.lower, clip.upper) - x
        return x + _shortened(steps, self.distance(steps), radius)

    def ascent(self, gradients: FloatArray, size: float) -> FloatArray:
        """Return the steps of the chart."""
        Z, norm = self.chart
        return np.asarray(NamedMetric(norm).ascent(gradients @ Z, size) @ Z.T)

    def problem(
        self, network: Network, x: FloatArray | None, radius: float, clip: Box, norm: OutputNorm
    ) -> LipschitzProblem:
        """Use the coordinates of the chart, without the box, so that the domain is larger."""
        Z, name = self.chart
        start = np.zeros(len(Z)) if x is None else x
        count = Z.shape[1]
        domain: Domain = AllSpace(count)
        if x is not None:
            outer = Box(-np.inf, np.inf, count)
            domain = NamedMetric(name).ball(np.zeros(count), radius, outer)
        charted = Network([Layer(Z, start), *network.layers], network.name)
        return LipschitzProblem(charted, domain, name, norm)

    def attained(self, found: Result, radius: float) -> Result:
        """Correct the lower bound for the stretch of the ball and of the directions."""
        room = 1.0 + 2.0 * STRETCH  # the stretch of the chart's ball, and rounding
        inside = False
        if found.witness is not None:
            reach = np.abs(np.atleast_2d(found.witness.point)).sum(axis=0)
            inside = bool(vector_norm(reach, self.chart[1]) * room < radius)
        lower = found.lower / room if inside else 0.0
        close = found.status is not Status.EXACT or close_enough(lower, found.upper)
        return replace(found, lower=lower, status=found.status if close else Status.PRECISION)

    @cached_property
    def chart(self) -> tuple[FloatArray, InputNorm]:
        """The matrix Z, shape (d, k), and the norm of its coordinates.

        Raises
        ------
        NormError
            If the rows are so nearly dependent that the inverse is too inaccurate.
        """
        rows, d = self.rows, self.rows.shape[1]
        if len(rows) == d:
            Z = np.asarray(np.linalg.inv(rows) * (1.0 + STRETCH), dtype=np.float64)
            # |Y s| <= 1 and Z u = s give u = (Y Z)^-1 Y s, and Y Z = (1 + stretch) I + rest
            rest = np.abs(rows @ Z - (1.0 + STRETCH) * np.eye(d))
            rest += gamma(d + 2) * (np.abs(rows) @ np.abs(Z))
            if rest.sum(axis=1).max() <= 0.5 * STRETCH:
                return Z, "linf"
            raise NormError(f"the rows of the metric {self.name} are nearly dependent")
        unit = LinearOutput(A=np.vstack([rows, -rows]), b=np.ones(2 * len(rows))).vertices(d)
        return (1.0 + STRETCH) * _one_of_each_pair(unit).T, "l1"


Metric = NamedMetric | Polyhedral
"""A norm in which perturbations of inputs are measured."""


def _one_of_each_pair(points: FloatArray) -> FloatArray:
    """Return one of every pair +-y, without repetitions and zeros."""
    kept = points[np.any(points != 0, axis=1)]
    first = np.take_along_axis(kept, np.argmax(kept != 0, axis=1)[:, None], axis=1)
    return np.unique(np.sign(first) * kept, axis=0)


def _shortened(steps: FloatArray, sizes: FloatArray, radius: float) -> FloatArray:
    factor = np.minimum(1.0, radius / np.where(sizes > 0, sizes, 1.0))
    return np.asarray(steps * factor[:, None])


def _onto_cross_polytope(steps: FloatArray, radius: float) -> FloatArray:
    """Return the nearest points of the l1 ball around zero (soft thresholding)."""
    sizes = -np.sort(-np.abs(steps), axis=1)
    counts = np.arange(1, steps.shape[1] + 1)
    cut = (np.cumsum(sizes, axis=1) - radius) / counts
    last = np.maximum((sizes > cut).sum(axis=1) - 1, 0)
    bar = np.maximum(np.take_along_axis(cut, last[:, None], axis=1), 0.0)
    return np.asarray(np.sign(steps) * np.maximum(np.abs(steps) - bar, 0.0))
