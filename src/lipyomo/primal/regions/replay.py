"""A point and its pattern without rounding: signs, flat units, gradients, membership."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from flint import fmpq

from lipyomo.base.arrays import BoolArray, FloatArray, Pattern
from lipyomo.base.numerics.exact import approximate, exact
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.networks.network import Network
from lipyomo.problems.affine.exact import ExactSignal, pulled_back
from lipyomo.problems.affine.signal import carry, decided
from lipyomo.problems.directions import along_columns
from lipyomo.problems.operator_norm import exact_square
from lipyomo.problems.problem import LipschitzProblem


def exact_gradients(
    network: Network, pattern: Pattern, functionals: FloatArray, moving: BoolArray
) -> list[list[fmpq]]:
    """Gradients of ``functionals @ f`` on the piece of `pattern`, in the inputs that can move."""
    rows = np.atleast_2d(functionals)
    found = pulled_back(rows, network.layers, pattern).rationals()
    keep = np.flatnonzero(moving).tolist()
    return [[row[j] for j in keep] for row in found]


def directed_gradients(
    problem: LipschitzProblem, pattern: Pattern, functionals: FloatArray
) -> list[list[fmpq]]:
    """Gradients of functionals in a problem's directions, or the inputs that can move."""
    if problem.directions is None:
        return exact_gradients(problem.network, pattern, functionals, ~problem.domain.frozen)
    every = np.ones(problem.network.input_dim, dtype=bool)
    full = exact_gradients(problem.network, pattern, functionals, every)
    return along_columns(full, problem.directions, exact)


def exact_jacobian(network: Network, pattern: Pattern) -> FloatArray:
    """The Jacobian (m, d) on the piece of `pattern`, each entry rounded once."""
    rows = pulled_back(np.eye(network.output_dim), network.layers, pattern).rationals()
    return np.array([[approximate(entry) for entry in row[:-1]] for row in rows])


def attained_square(problem: LipschitzProblem, pattern: Pattern, functional: FloatArray) -> fmpq:
    """Square of the norm of ``functional . J`` on the piece of `pattern`, without rounding.

    A Euclidean functional is scaled to length one.
    """
    gradient = directed_gradients(problem, pattern, functional)[0]
    square = exact_square(gradient, problem.norm)
    if problem.output_norm.dual_ball != "round":
        return square
    length = sum((exact(y) ** 2 for y in functional.tolist()), fmpq(0))
    return square / length if length != 0 else fmpq(0)


def exact_signs(
    network: Network, x: FloatArray, pattern: Pattern
) -> tuple[list[npt.NDArray[np.int8]], list[BoolArray]]:
    """Signs of the pre-activations at x (d,) or the sum x (2, d), and which of them vanish.

    The slopes of `pattern` are used: where it disagrees with a sign, that layer is wrong anyway.
    """
    layers = network.hidden
    unit_maps = decided(layers, pattern)
    signs, vanish = [], []
    for layer, z in zip(layers, carry(ExactSignal.at(x), layers, unit_maps), strict=True):
        entries = z.values.matrix.entries()[:-1]
        sign = np.array([(entry > 0) - (entry < 0) for entry in entries], dtype=np.int8)
        signs.append(sign)
        vanish.append(np.asarray((sign == 0) & layer.kinked))
    return signs, vanish


def flat_units(
    network: Network, pattern: Pattern, moving: BoolArray, asked: list[BoolArray]
) -> list[BoolArray]:
    """Which of the units in question have an exactly zero gradient on the piece of `pattern`."""
    found = []
    keep = np.flatnonzero(moving).tolist()
    for position, rows in enumerate(asked):
        flat = np.zeros(rows.shape, dtype=bool)
        pick = np.flatnonzero(rows)
        if pick.size:
            chosen = np.zeros((pick.size, rows.size))
            chosen[np.arange(pick.size), pick] = 1.0
            maps = pulled_back(chosen, network.hidden[: position + 1], pattern[:position])
            flat[pick] = [all(row[j] == 0 for j in keep) for row in maps.matrix.tolist()]
        found.append(flat)
    return found


def in_region(network: Network, x: FloatArray, pattern: Pattern, moving: BoolArray) -> bool:
    """Whether every kinked unit has the sign of the pattern at x, or is flat and zero there."""
    signs, vanish = exact_signs(network, x, pattern)
    flat = flat_units(network, pattern, moving, vanish)
    return all(
        bool((~layer.kinked | (sign == np.where(on, 1, -1)) | ((sign == 0) & level)).all())
        for layer, on, sign, level in zip(network.hidden, pattern, signs, flat, strict=True)
    )


def strict_pattern(network: Network, x: FloatArray, moving: BoolArray) -> Pattern | None:
    """The pattern at x, if it is the same in a whole neighbourhood (up to flat units).

    Parameters
    ----------
    network : Network
    x : ndarray, shape (d,), or (2, d) for the sum of two rows
    moving : ndarray of bool, shape (d,)
        Inputs that can move.

    Returns
    -------
    Pattern or None
        None if a unit sits on its kink with a gradient that is not zero.
    """
    h, *rest = np.atleast_2d(x)
    error = np.abs(rest[0]) if rest else np.zeros(h.size)
    pattern: list[BoolArray] = []
    doubtful: list[BoolArray] = []
    for layer in network.hidden:
        size = layer.sizes
        z = layer.preactivation(h)
        total = np.asarray(size @ np.abs(h)) + np.abs(layer.bias)
        error = np.asarray(size @ error) * (1.0 + gamma(layer.inputs))
        error = error + gamma(layer.inputs) * total
        doubtful.append(layer.kinked & (np.abs(z) <= error))
        pattern.append(z > 0)
        h = layer.activate(z)
        error = layer.steepest * error + UNIT * np.abs(h)
    result = tuple(pattern)
    if not any(layer.any() for layer in doubtful):
        return result
    return _settled(network, x, result, doubtful, moving)


def _settled(
    network: Network,
    x: FloatArray,
    pattern: Pattern,
    doubtful: list[BoolArray],
    moving: BoolArray,
) -> Pattern | None:
    """Settle doubtful units exactly, from the first layer on (later signs depend on earlier)."""
    current = [on.copy() for on in pattern]
    for _ in range(len(current) + 1):
        signs, vanish = exact_signs(network, x, tuple(current))
        changed = False
        for on, sign, doubt in zip(current, signs, doubtful, strict=True):
            wrong = doubt & (sign != 0) & ((sign > 0) != on)
            if wrong.any():
                on[wrong] = ~on[wrong]
                changed = True
                break
        if not changed:
            break
    flat = flat_units(network, tuple(current), moving, vanish)
    if any((zero & ~level).any() for zero, level in zip(vanish, flat, strict=True)):
        return None
    return tuple(current)
