"""Gradient ascent on a smoothed Jacobian norm, which takes large steps.

The norm of the Jacobian is constant on each region, so it has no gradient.  Replace the slope of
each unit, a step at its kink, by a logistic curve in its pre-activation z,

    s(z) = left + (right - left) / (1 + exp(-z / (tau size)))

with `size` the spread of z over the domain.  Then ``y . J(x) v`` is smooth in x, and its gradient
shows which units should flip.  A forward pass computes z and the tangents of v, a backward pass the
adjoints of both; the adjoint of the tangents is the gradient ``J^T y``, from which the next v
follows.  The temperature tau decreases during the ascent, and the best point with the true slopes
is kept.  Many ascents run together, and sparse layers stay sparse.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, Matrix
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.primal.heuristics.params import PARAMS
from lipyomo.problems.domains import Domain
from lipyomo.problems.norms import DUAL, maximiser, vector_norm
from lipyomo.problems.problem import LipschitzProblem

TEMPERATURES, STEPS = (-1.0, 1.0), (-1.7, 0.0)
"""Ranges of the initial temperatures and steps, as powers of ten."""

_MOMENTUM = 0.7
"""The weight of earlier gradients in the next step (0.5 to 0.85 perform alike; without it, a third
fewer searches at images find the best known value)."""

Digits: TypeAlias = "npt.NDArray[Any]"
"""Arrays in the precision of the ascents."""


class _Units(NamedTuple):
    """A layer in the precision of the ascents; everything except the weight is a column.

    `spread` is twice the typical variation of a pre-activation; `middle` and `half` are half the
    sum and half the difference of the slopes.
    """

    weight: Matrix
    bias: Digits
    left: Digits
    right: Digits
    middle: Digits
    half: Digits
    spread: Digits


class SmoothAscent:
    """Ascents from many points at once, on a problem without frozen inputs.

    Parameters
    ----------
    problem : LipschitzProblem
    spread : list of ndarray, shapes (n_i,)
        The typical variation of each pre-activation over the domain.
    """

    def __init__(self, problem: LipschitzProblem, spread: list[FloatArray]) -> None:
        self._problem, domain = problem, problem.domain
        width = domain.upper - domain.lower
        self._free = ~np.isfinite(width)
        self._width = np.where(self._free, 1.0, width)
        self._center = domain.center
        layers, head = problem.network.hidden, problem.network.head.weight
        z = problem.network.preactivations(self._center[None, :])
        kind = self._kind = _precision([layer.weight for layer in layers] + [head], z, spread)
        self._head, self._tiny = head.astype(kind), np.finfo(kind).tiny
        self._layers = []
        for i, (layer, size) in enumerate(zip(layers, spread, strict=True)):
            bias = layer.bias if i else z[0][0]  # inputs relative to the centre need few digits
            size = np.maximum(size, EQUAL * size.max(initial=0.0) + 1e-300)
            left, right = layer.left, layer.right
            columns = (bias, left, right, 0.5 * (left + right), 0.5 * (right - left), 2.0 * size)
            parts = (part[:, None].astype(kind) for part in columns)
            self._layers.append(_Units(layer.weight.astype(kind), *parts))
        along = [layer.weight for layer in self._layers]
        if problem.directions is not None and along:
            along[0] = problem.tangent_network.layers[0].weight.astype(kind)
        self._along = along  # the weights applied to tangents

    def ascend(
        self,
        points: FloatArray,
        functionals: FloatArray,
        loyal: BoolArray,
        temperature: FloatArray,
        reach: FloatArray,
        steps: int,
        clock: Clock | None = None,
    ) -> FloatArray:
        """Ascend from `points`, and return the best point of each ascent.

        Parameters
        ----------
        points : ndarray, shape (B, d)
        functionals : ndarray, shape (B, m)
            In the dual ball; the functionals whose gradients are to be enlarged at first.
        loyal : ndarray of bool, shape (B,)
            Which ascents keep their functional; the others follow the largest output.
        temperature, reach : ndarray, shape (B,)
            The initial tau, and the initial step in units of the domain's width; both decrease.
        steps : int
        clock : Clock, optional
            Ends the ascents early.

        Returns
        -------
        ndarray, shape (B, d)
        """
        norm = self._problem.norm
        x, y = points.copy(), functionals.T.astype(self._kind)
        v: Digits | None = None
        box = inner_box(self._problem.domain)
        best, found = np.full(len(x), -np.inf), x.copy()
        drift = np.zeros(x.shape, self._kind)
        for turn in range(steps):
            if turn and clock is not None and clock.expired:
                break
            share = turn / max(steps - 1, 1)
            with np.errstate(over="ignore", invalid="ignore"):
                fallen = PARAMS.cooling**-share
                hard, soft, steep = self._slopes(x, temperature * fallen)
                values = vector_norm(self._pulled_back(y, hard).T, DUAL[norm])
                better = values > best
                best[better], found[better] = values[better], x[better]
                if v is None:
                    v = maximiser(self._pulled_back(y, soft), norm, axis=0)
                y, v, uphill = self._uphill(y, v, loyal, hard, soft, steep)
            scale = np.where(self._free, np.maximum(1.0, np.abs(x)), self._width)
            # at kinks so steep that numbers overflow, the signs can still be used
            uphill = np.nan_to_num(uphill, nan=0.0, posinf=1.0, neginf=-1.0)
            # over the domain's widths, so that ascents do not depend on the units of inputs
            length = (scale * np.abs(uphill)).sum(axis=1, keepdims=True, dtype=self._kind)
            drift = _MOMENTUM * drift + uphill / np.maximum(length, self._tiny)
            step = (reach * fallen)[:, None] * scale * np.sign(drift)
            x = pulled_inside(self._problem.domain, x + step, x, box)
        return found

    def _pulled_back(self, y: Digits, slopes: list[Digits]) -> Digits:
        """Return the gradients of functionals (m, B) with the given slopes, shape (k, B)."""
        g = np.asarray(self._head.T @ y)
        for weight, slope in zip(reversed(self._along), reversed(slopes), strict=True):
            g = np.asarray(weight.T @ (slope * g))
        return g

    def _slopes(
        self, x: FloatArray, temperature: FloatArray
    ) -> tuple[list[Digits], list[Digits], list[Digits]]:
        """Return true slopes at points (B, d), smoothed ones, and their derivatives, (n_i, B)."""
        hard, soft, steep = [], [], []
        passed: Digits = (x - self._center).T.astype(self._kind)
        warm = temperature.astype(self._kind)
        for layer in self._layers:
            z = np.asarray(layer.weight @ passed) + layer.bias
            hard.append(np.where(z > 0, layer.right, layer.left))
            passed = hard[-1] * z
            unit = np.maximum(layer.spread * warm, self._tiny)  # constant units have no spread
            curve = np.tanh(z / unit)
            soft.append(layer.middle + layer.half * curve)
            steep.append(layer.half * ((1.0 - curve * curve) / unit))
        return hard, soft, steep

    def _uphill(
        self,
        y: Digits,
        v: Digits,
        loyal: BoolArray,
        hard: list[Digits],
        soft: list[Digits],
        steep: list[Digits],
    ) -> tuple[Digits, Digits, Digits]:
        """Return next functionals (m, B) and directions (k, B), and the gradient (B, d) in x."""
        tangents, u = [], v
        for along, slope in zip(self._along, soft, strict=True):
            t = np.asarray(along @ u)
            tangents.append(t)
            u = slope * t
        outputs = np.asarray(self._head @ u)
        y = np.where(loyal, y, self._problem.output_norm.attaining(outputs.T).T)
        y = (y * np.where((y * outputs).sum(axis=0) >= 0, 1.0, -1.0)).astype(self._kind)
        adjoint = np.asarray(self._head.T @ y)
        uphill = np.zeros_like(adjoint)
        for i in range(len(self._layers) - 1, -1, -1):
            weight, along = self._layers[i].weight, self._along[i]
            uphill = np.asarray(weight.T @ (adjoint * tangents[i] * steep[i] + hard[i] * uphill))
            adjoint = np.asarray(along.T @ (adjoint * soft[i]))
        return y, maximiser(adjoint, self._problem.norm, axis=0), uphill.T


def _precision(
    weights: list[Matrix], z: list[FloatArray], spread: list[FloatArray]
) -> type[np.float32 | np.float64]:
    """Return float32 if it is precise enough for the pre-activations, else float64.

    At least three digits must be left for their variation around the values `z` at the centre.
    """
    eps = float(np.finfo(np.float32).eps)
    tops = [float(abs(weight).max()) for weight in weights] + [float(size.max()) for size in spread]
    fine = all(
        size.max() >= 1000.0 * eps * abs(at).max() for at, size in zip(z, spread, strict=True)
    )
    return np.float32 if fine and all(eps < top < 1.0 / eps for top in tops) else np.float64


def inner_box(domain: Domain) -> tuple[FloatArray, FloatArray]:
    """Return the domain's box without its rim."""
    width = domain.upper - domain.lower
    rim = PARAMS.rim * np.where(np.isfinite(width), width, 1.0)
    return domain.lower + rim, domain.upper - rim


def pulled_inside(
    domain: Domain,
    points: FloatArray,
    parents: FloatArray,
    box: tuple[FloatArray, FloatArray] | None = None,
) -> FloatArray:
    """Move `points` inside the domain: clip them to its box, then move them towards their parents.

    `box` is the domain's `inner_box`, if it is known already.
    """
    low, high = box or inner_box(domain)
    inside = np.minimum(np.maximum(points, low), high)
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
