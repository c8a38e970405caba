"""Values of quantised networks: step functions, with rounding errors as additional inputs.

Outer ends are bounds of the network of inputs and errors, over all errors of at most half a step,
which include those of the step function.  Inner ends are values of the step function itself, at
points where every signal is proved not to lie between two steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from lipyomo.analyses.api import question_settings
from lipyomo.analyses.questions.several import LargestValue, largest_of
from lipyomo.analyses.questions.values import value_range
from lipyomo.base.arrays import FloatArray
from lipyomo.networks.quantised import QuantisedNetwork
from lipyomo.primal.regions.ball_arithmetic import PRECISION, around_ball, units_along
from lipyomo.problems.domains import Domain
from lipyomo.problems.domains.polytope import beside
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, chosen_functional
from lipyomo.problems.result import Point, Status
from lipyomo.problems.settings import Settings, SettingsKeywords, takes

SAMPLES = 1024
"""Number of points at which values are computed, to find attained ends."""
TRIES = 8
"""Number of the best of these that are evaluated in ball arithmetic."""


def domain_with_errors(quantised: QuantisedNetwork, domain: Domain) -> Domain:
    """Return the domain of a quantised network's inputs and of its errors, in units of steps.

    Raises
    ------
    DomainError
        If the domain is a ball.
    """
    half = np.full(quantised.rounded, 0.5)
    return beside(domain, -half, half) if half.size else domain


@takes(SettingsKeywords)
def quantised_range(
    quantised: QuantisedNetwork,
    domain: Domain,
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Range:
    """Bound the least and the largest value of ``c . f`` over a domain.

    Parameters
    ----------
    quantised : QuantisedNetwork
        f, a step function.
    domain : Domain
        Domain of its inputs: a bounded box or polytope.
    functional, settings, **changes
        See `lipyomo.value_range`.

    Returns
    -------
    Range
        Outer ends are proved with independent rounding errors of up to half a step; inner ends are
        attained by f.  The status is ``bounds`` if the ends differ although the search is complete.

    Raises
    ------
    DomainError
        If the domain is a ball.
    ProblemError
        If the arguments do not match, or the domain is unbounded.
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
    """Bound ``sup |f(x)|_beta`` of a step function.

    Parameters
    ----------
    quantised : QuantisedNetwork
        f.
    problems : sequence of LipschitzProblem
        Problems of the network of its inputs and errors, on domains of `domain_with_errors`.
    settings, **changes
        See `lipyomo.value_range`.

    Returns
    -------
    LargestValue
        Its `x` has the inputs only.
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
    """Bound the range over a domain of inputs and errors."""
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
    """Return the first of some points at which the value is known, and bounds of the value."""
    for point in points[:TRIES]:
        found = value_of(quantised, row, point)
        if found is not None:
            return point, found
    return None


def value_of(
    quantised: QuantisedNetwork, row: FloatArray, point: FloatArray
) -> tuple[float, float] | None:
    """Enclose ``c . f(x)`` between float64 numbers; None if a signal may lie between two steps.

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
    """Return whether a signal is proved to be rounded to this multiple of a step."""
    whole = arb(to) / arb(step)
    gap, half = signal / arb(step) - whole, arb(0.5)
    least, most = to == low * step, to == high * step
    return bool((most or gap < half) and (least or gap > -half))
