"""Replay of a witness in exact rational arithmetic, and what it makes of a result.

The weights are float64 numbers, hence dyadic; so is the witness point.  Its pre-activations, the
Jacobian of its pattern, and the norm of the gradient are therefore computed without any rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from flint import fmpq

from lipyomo.base.numerics.exact import fraction, root_below
from lipyomo.base.numerics.rounding import close_enough
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.primal.regions.replay import attained_square, in_region
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result, Status, Witness


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
        The norm of the gradient ``y . J`` in the dual of the input norm; None where it is a root.
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
    the built-in linear norms do exactly; a Euclidean functional is scaled by its exact length.
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
"""Larger numerators are not written out: the decimal number says enough."""


def confirmed(problem: LipschitzProblem, result: Result) -> Result:
    """The result with its witness replayed without rounding, and what was found.

    ``details['rational']`` holds ``holds``, ``interior``, ``pattern``, ``value`` (rounded down) and
    ``fraction`` (None where it is irrational or long).  A lower end that float64 arithmetic had
    rounded up is corrected, and the status with it; one that is not confirmed at all gets a
    warning.

    Parameters
    ----------
    problem : LipschitzProblem
    result : Result
    """
    if result.witness is None:
        return result.noting("there is no witness to recompute in rational arithmetic")
    found = replay(problem, result.witness)
    value = found.below
    fraction = None
    if found.value is not None and found.value.numerator.bit_length() <= MOST_BITS:
        fraction = str(found.value)
    rational = {
        "holds": found.holds,
        "interior": found.interior,
        "pattern": found.pattern,
        "value": value,
        "fraction": fraction,
    }
    result = result.noting(rational=rational)
    if not found.holds:
        place = "domain" if not found.interior else "region of its pattern"
        note = "exact arithmetic does not confirm the witness: its point is not strictly inside the"
        return result.noting(f"{note} {place}")
    lower = min(value, result.lower)
    is_wider = result.is_exact and not close_enough(lower, result.upper)
    return replace(result, lower=lower, status=Status.PRECISION if is_wider else result.status)
