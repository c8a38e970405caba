"""Values of quantised networks: step functions, bounded with the errors of rounding as inputs.

Outer ends are those of the network of inputs and errors, over all errors of at most half a step:
the step function is one of what these can make of it.  Inner ends are values of the step function
itself, at points where every signal is proved not to lie between two steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from lipyomo.analyses.api import question_settings
from lipyomo.analyses.questions.largest import LargestValue, largest_of
from lipyomo.analyses.questions.values import value_range
from lipyomo.base.arrays import FloatArray
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.quantised import QuantisedNetwork
from lipyomo.primal.regions.ball_arithmetic import PRECISION, around_ball, units_along
from lipyomo.problems.domains import Domain
from lipyomo.problems.domains.beside import beside
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, chosen_functional
from lipyomo.problems.result import Point, Status
from lipyomo.problems.settings import Settings, SettingsKeywords, takes

SAMPLES = 1024
"""Points at which values are computed, to find attained ends."""
TRIES = 8
"""Of these, how many of the best are looked at in ball arithmetic."""


def domain_with_errors(quantised: QuantisedNetwork, domain: Domain) -> Domain:
    """The domain of a quantised network's inputs and errors, in steps.

    Raises
    ------
    DomainError
        If the domain is round.
    """
    half = np.full(quantised.rounded, 0.5)
    return beside(domain, -half, half) if half.size else domain


@takes(SettingsKeywords)
@with_one_blas_thread
def quantised_range(
    quantised: QuantisedNetwork,
    domain: Domain,
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Range:
    """Bounds of the least and the largest value of ``c . f`` over a domain.

    Parameters
    ----------
    quantised : QuantisedNetwork
        f, a step function.
    domain : Domain
        Of its inputs: a bounded box or polytope.
    functional, settings, **changes
        As of `lipyomo.value_range`.

    Returns
    -------
    Range
        Outer ends are proved with every error of rounding up to half a step on its own; inner ends
        are attained by f.  The status is ``bounds`` where they are apart though the search is over.

    Raises
    ------
    DomainError
        If the domain is round.
    ProblemError
        If the parts do not fit together, or the domain is unbounded.
    """
    chosen = question_settings(settings, changes)
    return _range(quantised, domain_with_errors(quantised, domain), functional, chosen)


@takes(SettingsKeywords)
def quantised_largest(
    quantised: QuantisedNetwork,
    problems: Sequence[LipschitzProblem],
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> LargestValue:
    """Bounds of ``sup |f(x)|_beta`` of a step function.

    Parameters
    ----------
    quantised : QuantisedNetwork
        f.
    problems : sequence of LipschitzProblem
        Of the network of its inputs and errors, on domains as of `domain_with_errors`.
    settings, **changes
        As of `lipyomo.value_range`.

    Returns
    -------
    LargestValue
        `x` is a point of the inputs.
    """

    def ranged(problem: LipschitzProblem, row: FloatArray, own: Settings) -> Range:
        return _range(quantised, problem.domain, row, own)

    return largest_of(problems, ranged, question_settings(settings, changes))


def _range(
    quantised: QuantisedNetwork,
    domain: Domain,
    functional: npt.ArrayLike | None,
    settings: Settings,
) -> Range:
    """The range over a domain of inputs and errors."""
    outer = value_range(quantised.network, domain, functional, settings)
    if not quantised.rounded:
        return outer
    row = chosen_functional(quantised.network, functional)
    d = quantised.input_dim
    points = domain.sample(np.random.default_rng(settings.seed), SAMPLES)[:, :d]
    seen = [at.x[None, :d] for at in outer.witnesses if at is not None]
    points = np.vstack([*seen, domain.center[None, :d], points])
    values = quantised.forward(points) @ row
    orders = values.argsort(), (-values).argsort()
    ends = [_attained(quantised, row, points[order]) for order in orders]
    (low, below), (high, above) = (
        (None, sign * np.inf) if end is None else (Point(end[0]), end[1][side])
        for end, sign, side in zip(ends, (1.0, -1.0), (1, 0), strict=True)
    )
    found = replace(
        outer, low=(outer.low[0], below), high=(above, outer.high[1]), witnesses=(low, high)
    )
    if found.contradicts:
        return replace(found, status=Status.CONTRADICTION)
    if found.is_exact:
        return replace(found, status=Status.EXACT)
    limited = outer.status in (Status.TIME_LIMIT, Status.INTERRUPTED)
    return replace(found, status=outer.status if limited else Status.BOUNDS)


def _attained(
    quantised: QuantisedNetwork, row: FloatArray, points: FloatArray
) -> tuple[FloatArray, tuple[float, float]] | None:
    """The first of some points at which the value is known, with numbers around it."""
    for point in points[:TRIES]:
        found = value_of(quantised, row, point)
        if found is not None:
            return point, found
    return None


def value_of(
    quantised: QuantisedNetwork, row: FloatArray, point: FloatArray
) -> tuple[float, float] | None:
    """Float64 numbers around ``c . f(x)``; None if a signal may lie between two steps.

    Parameters
    ----------
    quantised : QuantisedNetwork
    row : ndarray, shape (m,)
        c.
    point : ndarray, shape (d,)
    """
    held = quantised.settled(point[None])[0]
    m = quantised.output_dim
    with ctx.workprec(PRECISION):
        *_, units = units_along(quantised.held.layers, np.append(point, held))
        signals = [unit.at for unit in units[m:]]
        columns = (signals, held, quantised.step, quantised.low, quantised.high)
        if not all(_rounds_to(*one) for one in zip(*columns, strict=True)):
            return None
        terms = zip(row.tolist(), units[:m], strict=True)
        return around_ball(sum((arb(c) * unit.at for c, unit in terms), arb(0)))


def _rounds_to(signal: arb, to: float, step: float, low: float, high: float) -> bool:
    """Whether a signal is proved to be rounded to a multiple of a step, and to no other."""
    whole = arb(to) / arb(step)
    gap, half = signal / arb(step) - whole, arb(0.5)
    least, most = to == low * step, to == high * step
    return bool((most or gap < half) and (least or gap > -half))
