"""Bounds of all pre-activations and gradients of a batch of nodes, by linear relaxation.

The bounds are those of CROWN (Zhang et al., 2018) under partial patterns: a decided unit passes its
line on exactly, an open one lies between its chord and one of its two lines.  Bounds are widened by
the rounding errors of the whole computation.  Everything runs on stacks of nodes, because at these
sizes the calls cost more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipyomo.affine.system import FlatPhases, UnitSystem
from lipyomo.bounds.relax import Lines, unit_lines
from lipyomo.domains import Domain
from lipyomo.network import BoolArray, FloatArray
from lipyomo.phases import LEFT, OPEN, RIGHT

_ROUNDING = 2.0**-52

Support = Callable[[FloatArray], FloatArray]


@dataclass
class Stack:
    """A batch of B nodes under examination.

    Attributes
    ----------
    phases : ndarray of int8, shape (B, N)
    lower, upper : ndarray, shape (B, N)
        Bounds of the pre-activations; infinite when unknown.
    low, high : ndarray, shape (B, d)
        Input boxes.
    alive : ndarray of bool, shape (B,)
        False once a node is known to be empty.
    """

    phases: FlatPhases
    lower: FloatArray
    upper: FloatArray
    low: FloatArray
    high: FloatArray
    alive: BoolArray


def support_of(domain: Domain, low: FloatArray, high: FloatArray) -> Support:
    """Maxima of rows (B, r, d) over boxes (B, d) within `domain`, shape (B, r).

    Rows of a polytope are left to the linear programs; a ball's curved part is used here.
    """
    middle, radius = (0.5 * (low + high))[:, :, None], (0.5 * (high - low))[:, :, None]

    def over_box(rows: FloatArray) -> FloatArray:
        return np.asarray((rows @ middle + np.abs(rows) @ radius)[:, :, 0])

    ball = domain.ball
    if ball is None:
        return over_box
    return lambda rows: np.asarray(np.minimum(ball.curve(rows), over_box(rows)))


def _lines(system: UnitSystem, layer: int, stack: Stack) -> Lines:
    """Lines around each unit of a layer, each (B, n)."""
    span = system.span(layer)
    left, right = system.left[span], system.right[span]
    phases, low, high = stack.phases[:, span], stack.lower[:, span], stack.upper[:, span]
    fixed = np.where(phases == RIGHT, right, left)
    still = phases == OPEN
    return unit_lines(low, high, np.where(still, left, fixed), np.where(still, right, fixed))


def propagate(system: UnitSystem, support: Support, stack: Stack, first: int = 0) -> None:
    """Tighten `stack` in place, from layer `first` on: bounds, phases that follow, emptiness."""
    lines: list[Lines] = []
    count = len(stack.phases)
    for i, weight in enumerate(system.weights):
        span = system.span(i)
        if i >= first:
            units = len(weight)
            both = np.concatenate([weight, -weight])
            rows: FloatArray = np.broadcast_to(both, (count, *both.shape))
            constant = np.broadcast_to(
                np.concatenate([system.biases[i], -system.biases[i]]), (count, 2 * units)
            )
            for j in range(i - 1, -1, -1):
                line = lines[j]
                positive = np.maximum(rows, 0.0)
                negative = rows - positive
                shift = positive @ line.upper_offset[:, :, None]
                shift = shift + negative @ line.lower_offset[:, :, None]
                rows = positive * line.upper_slope[:, None, :]
                rows = rows + negative * line.lower_slope[:, None, :]
                constant = constant + shift[:, :, 0] + rows @ system.biases[j]
                rows = rows @ system.weights[j]
            errors = system.errors[span]
            found = constant + support(rows) + np.concatenate([errors, errors])
            np.minimum(stack.upper[:, span], found[:, :units], out=stack.upper[:, span])
            np.maximum(stack.lower[:, span], -found[:, units:], out=stack.lower[:, span])
            _decide(stack, span)
        lines.append(_lines(system, i, stack))
    _clip_decided(system, stack)


def settle(system: UnitSystem, stack: Stack) -> None:
    """Let the bounds of `stack` decide units and close nodes, without tightening them further."""
    stack.alive &= ~(stack.lower > stack.upper).any(axis=1)
    _decide(stack, slice(None))
    _clip_decided(system, stack)


def _decide(stack: Stack, span: slice) -> None:
    """Decide the units whose bounds leave one side."""
    phases, low, high = stack.phases[:, span], stack.lower[:, span], stack.upper[:, span]
    still = phases == OPEN
    phases[still & (low >= 0)] = RIGHT
    phases[still & (low < 0) & (high <= 0)] = LEFT


def _clip_decided(system: UnitSystem, stack: Stack) -> None:
    """Let decided units bound their pre-activations; flag nodes where that is impossible."""
    right = (stack.phases == RIGHT) & system.kinked
    left = (stack.phases == LEFT) & system.kinked
    scale = 1e-9 * (1.0 + np.abs(stack.lower))
    wrong = (right & (stack.upper < -scale)) | (left & (stack.lower > scale))
    stack.alive &= ~wrong.any(axis=1)
    np.maximum(stack.lower, 0.0, out=stack.lower, where=right)
    np.minimum(stack.upper, 0.0, out=stack.upper, where=left)
    np.maximum(stack.upper, stack.lower, out=stack.upper)


def gradient_bounds(system: UnitSystem, phases: FlatPhases) -> FloatArray:
    """Largest |entries| of the functionals' gradients, by intervals; shape (B, k, d).

    This is the bound of FastLip (Weng et al., 2018) for any two slopes.
    """
    shape = (len(phases), *system.head.shape)
    low: FloatArray = np.broadcast_to(system.head - system.head_errors, shape)
    high: FloatArray = np.broadcast_to(system.head + system.head_errors, shape)
    small = np.minimum(system.left, system.right)
    large = np.maximum(system.left, system.right)
    for i in range(system.depth - 1, -1, -1):
        span = system.span(i)
        here = phases[:, None, span]
        still = here == OPEN
        fixed = np.where(here == RIGHT, system.right[span], system.left[span])
        first = np.where(still, small[span], fixed)
        second = np.where(still, large[span], fixed)
        corners = (low * first, low * second, high * first, high * second)
        bottom = np.minimum(np.minimum(*corners[:2]), np.minimum(*corners[2:]))
        top = np.maximum(np.maximum(*corners[:2]), np.maximum(*corners[2:]))
        center, spread = 0.5 * (bottom + top), 0.5 * (top - bottom)
        spread += _ROUNDING * (len(system.weights[i]) + 4) * (np.abs(center) + spread)
        middle = center @ system.weights[i]
        radius = spread @ np.abs(system.weights[i])
        if system.rough is not None:
            radius += (np.abs(center) + spread) @ system.rough[i]
        low, high = middle - radius, middle + radius
    return np.maximum(np.abs(low), np.abs(high))
