"""Gradient ascent on a smoothed Jacobian norm: large steps that know where to go.

The norm of the Jacobian is constant on each region, so it has no gradient.  Replace the slope of
each unit, a step at its kink, by a logistic curve in its pre-activation z,

    s(z) = left + (right - left) / (1 + exp(-z / (tau size)))

with `size` the spread of z over the domain.  Then ``y . J(x) v`` is smooth in x, and its gradient
says which units should flip: a pass forwards carries z and the tangents of v, a pass backwards the
adjoints of both, and the adjoint of the tangents is the gradient ``J^T y`` from which the next v
follows.  The temperature tau falls on the way; the best point in terms of the true slopes is kept.
Many starts climb together, and sparse layers stay sparse.
"""

from __future__ import annotations

import numpy as np

from lipyomo.arrays import lengths
from lipyomo.domains import Domain
from lipyomo.network import BoolArray, FloatArray
from lipyomo.norms import DUAL, InputNorm, vector_norm
from lipyomo.problem import LipschitzProblem
from lipyomo.run import Clock

INTERIOR = 1e-6
"""Points stay this share of the domain's width away from its faces: they must be interior."""

_MOMENTUM = 0.7
_STEEPEST = 30.0
_NO_SPREAD = 1e-200


class SmoothAscent:
    """Climbs from many points at once, on a problem without frozen inputs.

    Parameters
    ----------
    problem : LipschitzProblem
    spread : list of ndarray, shapes (n_i,)
        Typical size of each pre-activation's variation over the domain.
    """

    def __init__(self, problem: LipschitzProblem, spread: list[FloatArray]) -> None:
        self._problem = problem
        network, domain = problem.network, problem.domain
        self._layers, self._head = network.hidden, network.head.weight
        self._spread = [np.maximum(size, 1e-9 * size.max(initial=0.0) + 1e-300) for size in spread]
        width = domain.upper - domain.lower
        self._free = ~np.isfinite(width)
        self._width = np.where(self._free, 1.0, width)

    def climb(
        self,
        points: FloatArray,
        functionals: FloatArray,
        loyal: BoolArray,
        temperature: FloatArray,
        reach: FloatArray,
        steps: int,
        clock: Clock | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Climb from `points`; the best point of each climb and its value.

        Parameters
        ----------
        points : ndarray, shape (B, d)
        functionals : ndarray, shape (B, m)
            In the dual ball: whose gradients to enlarge at first.
        loyal : ndarray of bool, shape (B,)
            Climbs that keep their functional; the others follow the largest output.
        temperature, reach : ndarray, shape (B,)
            First tau, and first step in units of the domain's width; both fall by a factor of 20.
        steps : int
        clock : Clock, optional
            Ends the climbs early.

        Returns
        -------
        points : ndarray, shape (B, d)
        values : ndarray, shape (B,)
            Attained at them by some functional in the dual ball.
        """
        problem, domain = self._problem, self._problem.domain
        x, y = points.copy(), functionals
        v: FloatArray | None = None
        best, found = np.full(len(x), -np.inf), x.copy()
        drift = np.zeros_like(x)
        for turn in range(steps):
            if turn and clock is not None and clock.expired:
                break
            cooling = 20.0 ** -(turn / max(steps - 1, 1))
            z = problem.network.preactivations(x)
            hard = [layer.slopes(here > 0).T for layer, here in zip(self._layers, z, strict=True)]
            values = vector_norm(self._pulled_back(y, hard).T, DUAL[problem.input_norm])
            better = values > best
            best[better], found[better] = values[better], x[better]
            soft, steep = self._smoothed(z, temperature * cooling)
            if v is None:
                v = directions(self._pulled_back(y, soft), problem.input_norm)
            with np.errstate(over="ignore", invalid="ignore"):
                y, v, uphill = self._uphill(y, v, loyal, hard, soft, steep)
            # where kinks are so steep that numbers overflow, only signs are left to follow
            uphill = np.nan_to_num(uphill, nan=0.0, posinf=1.0, neginf=-1.0)
            size = np.abs(uphill).sum(axis=1, keepdims=True)
            drift = _MOMENTUM * drift + (1.0 - _MOMENTUM) * uphill / np.maximum(size, 1e-300)
            scale = np.where(self._free, np.maximum(1.0, np.abs(x)), self._width)
            step = (reach * cooling)[:, None] * scale * np.sign(drift)
            x = pulled_inside(domain, x + step, x)
        return found, best

    def _pulled_back(self, y: FloatArray, slopes: list[FloatArray]) -> FloatArray:
        """Gradients of the functionals under the given slopes, shape (d, B)."""
        g = np.asarray(self._head.T @ y.T)
        for layer, slope in zip(reversed(self._layers), reversed(slopes), strict=True):
            g = np.asarray(layer.weight.T @ (slope * g))
        return g

    def _smoothed(
        self, z: list[FloatArray], temperature: FloatArray
    ) -> tuple[list[FloatArray], list[FloatArray]]:
        """Smoothed slopes and their derivatives in z, each (n_i, B)."""
        soft, steep = [], []
        for layer, here, size in zip(self._layers, z, self._spread, strict=True):
            unit = size[:, None] * temperature
            unit = np.where(unit > _NO_SPREAD, unit, 1.0)  # constant units have none
            with np.errstate(over="ignore"):  # far from the kink is far enough
                away = np.clip(here.T / unit, -_STEEPEST, _STEEPEST)
            curve = 1.0 / (1.0 + np.exp(-away))
            jump = (layer.right - layer.left)[:, None]
            soft.append(layer.left[:, None] + jump * curve)
            steep.append(jump * curve * (1.0 - curve) / unit)
        return soft, steep

    def _uphill(
        self,
        y: FloatArray,
        v: FloatArray,
        loyal: BoolArray,
        hard: list[FloatArray],
        soft: list[FloatArray],
        steep: list[FloatArray],
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The next functionals (B, m) and directions (d, B), and the gradient in x (B, d)."""
        tangents, u = [], v
        for layer, slope in zip(self._layers, soft, strict=True):
            t = np.asarray(layer.weight @ u)
            tangents.append(t)
            u = slope * t
        outputs = np.asarray(self._head @ u).T
        y = np.where(loyal[:, None], y, self._functionals(outputs))
        y = y * np.where((y * outputs).sum(axis=1) >= 0, 1.0, -1.0)[:, None]
        adjoint = np.asarray(self._head.T @ y.T)
        uphill = np.zeros_like(adjoint)
        for i in range(len(self._layers) - 1, -1, -1):
            weight = self._layers[i].weight
            uphill = np.asarray(weight.T @ (adjoint * tangents[i] * steep[i] + hard[i] * uphill))
            adjoint = np.asarray(weight.T @ (adjoint * soft[i]))
        return y, directions(adjoint, self._problem.input_norm), uphill.T

    def _functionals(self, outputs: FloatArray) -> FloatArray:
        """Functionals in the dual ball that find the outputs (B, m) largest."""
        return self._problem.output_norm.attaining(outputs)


def directions(gradients: FloatArray, norm: InputNorm) -> FloatArray:
    """Unit directions that the gradients (d, B) find steepest, shape (d, B)."""
    if norm == "linf":
        return np.where(gradients >= 0, 1.0, -1.0)
    if norm == "l1":
        v = np.zeros_like(gradients)
        k = np.abs(gradients).argmax(axis=0)
        columns = np.arange(gradients.shape[1])
        v[k, columns] = np.where(gradients[k, columns] >= 0, 1.0, -1.0)
        return v
    size = lengths(gradients, axis=0)
    return np.asarray(gradients / np.maximum(size, 1e-300))


def pulled_inside(domain: Domain, points: FloatArray, parents: FloatArray) -> FloatArray:
    """`points` moved inside the domain: clipped to its box, then halved towards their parents."""
    width = domain.upper - domain.lower
    rim = INTERIOR * np.where(np.isfinite(width), width, 1.0)
    inside = np.clip(points, domain.lower + rim, domain.upper - rim)
    if domain.is_box:
        return np.asarray(inside)
    for _ in range(8):
        out = ~domain.contains(inside)
        if not out.any():
            return np.asarray(inside)
        inside[out] = 0.5 * (inside[out] + parents[out])
    out = ~domain.contains(inside)
    inside[out] = parents[out]
    return np.asarray(inside)
