"""Replay of a witness in exact rational arithmetic.

The weights are float64 numbers, hence dyadic; so is the witness point.  Its pre-activations, the
Jacobian of its pattern, and the norm of the gradient are therefore computed without any rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
import numpy.typing as npt

from lipyomo.domains import Domain, NormBall
from lipyomo.network import BoolArray, FloatArray, Matrix, Network, Pattern
from lipyomo.norms import L2Output
from lipyomo.numerics.dyadic import Dyadic
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Witness


@dataclass(frozen=True)
class ExactReplay:
    """What exact arithmetic says about a witness.

    Attributes
    ----------
    interior : bool
        The point lies strictly inside the domain, in the inputs that can move.
    pattern : bool
        Every unit has the sign of the pattern, or no kink at the point: its pre-activation is
        zero with a zero gradient.
    value : Fraction or None
        The norm of the gradient ``y . J`` in the dual of the input norm; None for l2.
    square : Fraction
        Its square.
    """

    interior: bool
    pattern: bool
    value: Fraction | None
    square: Fraction

    @property
    def holds(self) -> bool:
        """Whether the lower bound is proved."""
        return self.interior and self.pattern

    def __float__(self) -> float:
        return float(self.value) if self.value is not None else _root(self.square)


def _root(square: Fraction) -> float:
    """Square root, rounded to the nearest float64 up to one unit in the last place."""
    if square == 0:
        return 0.0
    shift = max(0, 120 - (square.numerator.bit_length() - square.denominator.bit_length()))
    shift += shift % 2
    whole = isqrt((square.numerator << shift) // square.denominator)
    return float(Fraction(whole, 1 << (shift // 2)))


def _dense(matrix: Matrix) -> FloatArray:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def replay(problem: LipschitzProblem, witness: Witness) -> ExactReplay:
    """Check a witness without rounding.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem, not a reduced one.
    witness : Witness

    Returns
    -------
    ExactReplay

    Notes
    -----
    The functional of the witness must lie in the dual ball of the output norm.  The vertices of
    the built-in linear norms do exactly; a Euclidean functional is scaled by its exact length.
    """
    moving = ~problem.domain.frozen
    gradient, strict = replay_pattern(
        problem.network, witness.x, witness.pattern, witness.functional, moving
    )
    absolute = [abs(entry) for entry in gradient]
    value: Fraction | None = None
    if problem.input_norm == "linf":
        value = sum(absolute, Fraction(0))
    elif problem.input_norm == "l1":
        value = max(absolute, default=Fraction(0))
    square = sum((entry * entry for entry in absolute), Fraction(0))
    square = value * value if value is not None else square
    if isinstance(problem.output_norm, L2Output) and problem.network.output_dim > 1:
        length = sum((Fraction(float(y)) ** 2 for y in witness.functional), Fraction(0))
        square, value = (square / length, None) if length else (Fraction(0), Fraction(0))
    return ExactReplay(is_interior(problem.domain, witness.x), strict, value, square)


def replay_pattern(
    network: Network, x: FloatArray, pattern: Pattern, functional: FloatArray, moving: BoolArray
) -> tuple[list[Fraction], bool]:
    """The exact gradient of ``functional . f`` on the piece of `pattern`, and whether x is in it.

    Returns
    -------
    gradient : list of Fraction
        In the inputs that can move.
    strict : bool
        Whether every kinked unit has the sign of the pattern at x, or is flat and zero there.
    """
    signs, rows = exact_signs(network, x, pattern)
    strict = True
    for layer, on, sign, flat in zip(
        network.hidden, pattern, signs, flat_units(network, pattern, moving, rows), strict=True
    ):
        right = np.where(on, 1, -1)
        strict &= bool((~layer.kinked | (sign == right) | ((sign == 0) & flat)).all())
    g = Dyadic.of(functional) @ Dyadic.of(_dense(network.head.weight))
    for layer, on in zip(reversed(network.hidden), reversed(pattern), strict=True):
        g = (g * Dyadic.of(layer.slopes(on))) @ Dyadic.of(_dense(layer.weight))
    return Dyadic(g.digits[moving], g.exponent).fractions(), strict


def exact_signs(
    network: Network, x: FloatArray, pattern: Pattern
) -> tuple[list[npt.NDArray[np.int8]], list[BoolArray]]:
    """Signs of the pre-activations at x, and which of them vanish.

    The slopes of `pattern` are used: where it disagrees with a sign, that layer is wrong anyway.
    """
    h = Dyadic.of(x)
    signs, vanish = [], []
    for layer, on in zip(network.hidden, pattern, strict=True):
        z = Dyadic.of(_dense(layer.weight)) @ h + Dyadic.of(layer.bias)
        sign = z.sign()
        signs.append(sign)
        vanish.append(np.asarray((sign == 0) & layer.kinked))
        h = z * Dyadic.of(layer.slopes(on))
    return signs, vanish


def flat_units(
    network: Network, pattern: Pattern, moving: BoolArray, asked: list[BoolArray]
) -> list[BoolArray]:
    """Which of the units in question have an exactly zero gradient on the piece of `pattern`."""
    found = []
    for position, rows in enumerate(asked):
        flat = np.zeros(rows.shape, dtype=bool)
        pick = np.flatnonzero(rows)
        if pick.size:
            g = Dyadic.of(_dense(network.hidden[position].weight[pick]))
            for before in range(position - 1, -1, -1):
                layer = network.hidden[before]
                g = (g * Dyadic.of(layer.slopes(pattern[before]))) @ Dyadic.of(_dense(layer.weight))
            flat[pick] = (g.digits[:, moving] == 0).all(axis=1)
        found.append(flat)
    return found


def is_interior(domain: Domain, x: FloatArray) -> bool:
    """Whether x lies strictly inside the domain, without rounding."""
    moving = ~domain.frozen
    inside = bool(((x > domain.lower) & (x < domain.upper))[moving].all())
    inside &= bool((x == domain.upper)[~moving].all())
    rows = domain.rows
    if rows.count:
        gap = Dyadic.of(rows.b) - Dyadic.of(_dense(rows.A)) @ Dyadic.of(x)
        matters = np.asarray((_dense(rows.A)[:, moving] != 0).any(axis=1))
        sign = gap.sign()
        inside &= bool((sign[matters] > 0).all() and (sign[~matters] >= 0).all())
    if isinstance(domain, NormBall):
        away = (Dyadic.of(x) - Dyadic.of(domain.point)).fractions()
        radius = Fraction(domain.radius)
        if domain.norm == "l1":
            inside &= sum((abs(a) for a in away), Fraction(0)) < radius
        else:
            inside &= sum((a * a for a in away), Fraction(0)) < radius * radius
    return inside
