"""Replay of a witness in exact rational arithmetic.

The weights are float64 numbers, hence dyadic; so is the witness point.  Its pre-activations, the
Jacobian of its pattern, and the norm of the gradient are therefore computed without any rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import fmpq

from lipyomo.base.numerics.exact import fraction, root_below
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.primal.regions.replay import attained_square, in_region
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness


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
