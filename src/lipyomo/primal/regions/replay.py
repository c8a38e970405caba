"""A point and its pattern without rounding: signs, flat units, gradients, membership.

The weights and the point are float64 numbers, hence dyadic.  Therefore the pre-activations, the
Jacobian of the pattern, and the norm of the gradient can be computed without any rounding, and
witnesses are checked in this way (`replay`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from flint import fmpq

from lipyomo.base.arrays import BoolArray, FloatArray, Pattern
from lipyomo.base.numerics.exact import approximate, exact, fraction, root_below
from lipyomo.base.numerics.rounding import UNIT, close_enough, gamma
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Network
from lipyomo.problems.affine.exact import ExactSignal, pulled_back
from lipyomo.problems.affine.signal import carry, decided
from lipyomo.problems.directions import along_columns
from lipyomo.problems.operator_norm import exact_square
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result, Status, Witness


def exact_gradients(
    network: Network, pattern: Pattern, functionals: FloatArray, moving: BoolArray
) -> list[list[fmpq]]:
    """Compute gradients of ``functionals @ f`` on the piece of `pattern`, in movable inputs."""
    rows = np.atleast_2d(functionals)
    found = pulled_back(rows, network.layers, pattern).rationals()
    keep = np.flatnonzero(moving).tolist()
    return [[row[j] for j in keep] for row in found]


def directed_gradients(
    problem: LipschitzProblem, pattern: Pattern, functionals: FloatArray
) -> list[list[fmpq]]:
    """Compute gradients of functionals in a problem's directions, or in inputs that can move."""
    if problem.directions is None:
        return exact_gradients(problem.network, pattern, functionals, ~problem.domain.frozen)
    every = np.ones(problem.network.input_dim, dtype=bool)
    full = exact_gradients(problem.network, pattern, functionals, every)
    return along_columns(full, problem.directions, exact)


def exact_jacobian(network: Network, pattern: Pattern) -> FloatArray:
    """Compute the Jacobian (m, d) on the piece of `pattern`, with each entry rounded once."""
    rows = pulled_back(np.eye(network.output_dim), network.layers, pattern).rationals()
    return np.array([[approximate(entry) for entry in row[:-1]] for row in rows])


def attained_square(problem: LipschitzProblem, pattern: Pattern, functional: FloatArray) -> fmpq:
    """Compute the squared norm of ``functional . J`` on the piece of `pattern`, exactly.

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
    """Return the signs of the pre-activations at x, and which of them vanish.

    x is (d,), or (2, d) for the sum of two rows.  The slopes are those of `pattern`; if it
    disagrees with a sign, only the signs up to this layer are valid.
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
    """Return which of the units `asked` have a zero gradient on the piece of `pattern`, exactly."""
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
    """Return whether each unit with a kink has the pattern's sign at x, or is flat and zero."""
    signs, vanish = exact_signs(network, x, pattern)
    flat = flat_units(network, pattern, moving, vanish)
    return all(
        bool((~layer.kinked | (sign == np.where(on, 1, -1)) | ((sign == 0) & level)).all())
        for layer, on, sign, level in zip(network.hidden, pattern, signs, flat, strict=True)
    )


def strict_pattern(network: Network, x: FloatArray, moving: BoolArray) -> Pattern | None:
    """Return the pattern at x if it is the same in a whole neighbourhood (up to flat units).

    Parameters
    ----------
    network : Network
    x : ndarray, shape (d,), or (2, d) for the sum of two rows
    moving : ndarray of bool, shape (d,)
        Which inputs can move.

    Returns
    -------
    Pattern or None
        None if a unit is on its kink and its gradient is not zero.
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
    return _decided(network, x, result, doubtful, moving)


def _decided(
    network: Network,
    x: FloatArray,
    pattern: Pattern,
    doubtful: list[BoolArray],
    moving: BoolArray,
) -> Pattern | None:
    """Decide doubtful units exactly, from the first layer on, as later signs depend on earlier."""
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


class ExactReplay(NamedTuple):
    """The result of exact arithmetic for a witness.

    Attributes
    ----------
    interior : bool
        Whether the point lies strictly inside the domain, in the inputs that can move.
    pattern : bool
        Whether every unit has the sign of the pattern, or no kink at the point, because its
        pre-activation and its gradient are zero.
    value : Fraction or None
        The norm of the gradient ``y . J`` in the dual of the input norm; None if it is irrational.
    square : Fraction
        The square of the norm.
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
        return self.below

    @property
    def below(self) -> float:
        """The value as a float64 number, rounded down."""
        return root_below(fmpq(self.square.numerator, self.square.denominator))


@with_one_blas_thread
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
    the built-in linear norms do so exactly; a Euclidean functional is scaled by its exact length.
    """
    moving = ~problem.domain.frozen
    network, x, pattern = problem.network, witness.point, witness.pattern
    square = attained_square(problem, pattern, witness.functional)
    rational = square.numerator.is_square() and square.denominator.is_square()
    return ExactReplay(
        problem.domain.holds_inside(x),
        in_region(network, x, pattern, moving),
        fraction(square.sqrt()) if rational else None,
        fraction(square),
    )


MOST_BITS = 4000
"""Fractions with larger numerators are not written out; the decimal number is sufficient."""


def confirmed(problem: LipschitzProblem, result: Result) -> Result:
    """Replay the witness of a result without rounding, and return the result with what was found.

    ``details['rational']`` contains ``holds``, ``interior``, ``pattern``, ``value`` (rounded down)
    and ``fraction`` (None if it is irrational or long).  A lower bound that float64 arithmetic has
    rounded up is corrected, and so is the status; one that is not confirmed at all gets a warning.

    Parameters
    ----------
    problem : LipschitzProblem
    result : Result
    """
    if result.witness is None:
        return result.noting("there is no witness to recompute in rational arithmetic")
    found = replay(problem, result.witness)
    value = found.below
    known = found.value
    written = known is not None and known.numerator.bit_length() <= MOST_BITS
    rational = {
        "holds": found.holds,
        "interior": found.interior,
        "pattern": found.pattern,
        "value": value,
        "fraction": str(known) if written else None,
    }
    result = result.noting(rational=rational)
    if not found.holds:
        place = "domain" if not found.interior else "region of its pattern"
        note = "exact arithmetic does not confirm the witness: its point is not strictly inside the"
        return result.noting(f"{note} {place}")
    lower = min(value, result.lower)
    is_wider = result.is_exact and not close_enough(lower, result.upper)
    return replace(result, lower=lower, status=Status.PRECISION if is_wider else result.status)
