"""The exact range of a network's values over a domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.api import chosen_settings
from lipyomo.arguments import instance, real_numbers
from lipyomo.domains import Domain
from lipyomo.errors import ProblemError
from lipyomo.magnitudes import check_magnitudes
from lipyomo.network import FloatArray, Network, check_network
from lipyomo.ranges import Range, tolerance_of
from lipyomo.reduce.exact import exactly
from lipyomo.reduce.reduction import Reduction
from lipyomo.regions.value import value_at
from lipyomo.result import Progress, Status
from lipyomo.run import Clock
from lipyomo.search.engine import Found
from lipyomo.search.protocol import NODES
from lipyomo.search.protocol import Pipeline as Searching
from lipyomo.search.start import searched
from lipyomo.search.values.context import Question
from lipyomo.search.values.params import PARAMS
from lipyomo.search.values.pipeline import Pipeline
from lipyomo.search.values.smooth import SmoothPipeline
from lipyomo.settings import Settings


def value_range(
    network: Network,
    domain: Domain,
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Any,
) -> Range:
    """The least and the largest value of ``c . f`` over a domain.

    Parameters
    ----------
    network : Network
        f.
    domain : Domain
        A bounded one: a box, a ball, or a polytope; inputs may be frozen.
    functional : array_like, shape (m,), optional
        c; not needed for a network with one output.
    settings : Settings, optional
        Uses time_limit (for both ends together), threads (processes), executor, dask, seed,
        progress and should_stop.
    **changes
        Fields of `Settings` to set, such as ``time_limit=60``.

    Returns
    -------
    Range
        Attained ends are values at the witnesses, in exact arithmetic on the weights as they are,
        or in balls where units are smooth.

    Raises
    ------
    ProblemError
        If the parts do not fit together, or the domain is unbounded.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[2.0, 1.0]]])
    >>> found = lipyomo.value_range(network, lipyomo.Box(-1, 3, 1))
    >>> found.low[0] <= 0.0 <= found.low[1], found.high[0], found.status.value
    (True, 6.0, 'exact')
    """
    settings = chosen_settings(settings, changes)
    row = _checked(network, domain, functional)
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    reduced = exactly(network, domain)
    if not reduced.moving.any() or not reduced.network.linked[row != 0].any():  # a constant
        value = value_at(network, row, domain.center)
        return Range(value, value, (domain.center, domain.center), Status.EXACT, clock.seconds)
    domain = domain if reduced.moving.all() else domain.restrict(reduced.moving)
    sample = domain.sample(np.random.default_rng(settings.seed), 64)
    scale = _scale(reduced.network, row, sample)
    kind = SmoothPipeline if reduced.network.smooth else Pipeline

    def pipeline(sign: float) -> Searching[Any, Any]:
        return kind(Question(reduced.network, sign * row, domain, scale), settings.seed)

    found = ends_of(pipeline, settings, clock)
    low, high = found.witnesses
    return replace(found, witnesses=(_lifted(reduced, low), _lifted(reduced, high)))


def ends_of(
    pipeline: Callable[[float], Searching[Any, Any]], settings: Settings, clock: Clock
) -> Range:
    """Both ends: the largest values that two searches find, that of minus one and that of one.

    Parameters
    ----------
    pipeline : callable
        From a sign to what searches values of that sign.
    settings : Settings
    clock : Clock
        For both together.
    """
    ends: list[Found[Any]] = []
    for sign in (-1.0, 1.0):
        part = clock.within((1.0 if ends else 0.5) * clock.left)
        heard = _heard(settings, clock, sign)
        ends.append(searched(pipeline(sign), settings, part, heard))
        if part.interrupted:
            clock.stop()
    lower, upper = ends
    low, high = (-lower.upper, -lower.best.value), (upper.best.value, upper.upper)
    return Range(
        (low[0] + 0.0, low[1] + 0.0),  # no negative zeros
        (high[0] + 0.0, high[1] + 0.0),
        (lower.best.point, upper.best.point),
        _status(low, high, clock),
        clock.seconds,
        sum(end.counters.get(NODES, 0) for end in ends),
    )


def _scale(network: Network, row: FloatArray, points: FloatArray) -> float:
    """The size of ``c . f`` at some points, and some of that of the terms that cancel in it.

    Values of a difference can be far smaller than its parts', and are not known better than these.
    """
    h = points
    for layer in network.hidden:
        h = layer.activate(layer.preactivation(h))
    values = np.abs(network.head.preactivation(h) @ row)
    terms = (np.abs(h) @ network.head.sizes.T + np.abs(network.head.bias)) @ np.abs(row)
    return float(max(values.max(), PARAMS.cancelled * terms.max()))


def _lifted(reduced: Reduction, x: FloatArray | None) -> FloatArray | None:
    return None if x is None else reduced.lift_point(x)


def _status(low: tuple[float, float], high: tuple[float, float], clock: Clock) -> Status:
    """How a search of both ends ended; it follows from the ends as they are stated."""
    if max(low[1] - low[0], high[1] - high[0]) <= tolerance_of(low[1], high[0]):
        return Status.EXACT
    if clock.interrupted:
        return Status.INTERRUPTED
    return Status.TIME_LIMIT if clock.expired else Status.PRECISION


def _checked(network: Network, domain: Domain, functional: npt.ArrayLike | None) -> FloatArray:
    """The functional, shape (m,), of a problem whose parts fit together."""
    check_network(network, ProblemError)
    instance(domain, Domain, "the domain", ProblemError, "give a Box, a ball or a Polytope")
    if domain.dimension != network.input_dim:
        raise ProblemError(
            f"the domain has {domain.dimension} inputs, the network takes {network.input_dim}"
        )
    if not domain.is_bounded:
        raise ProblemError("values have a range on bounded domains only.  Remedy: give a box")
    m = network.output_dim
    if functional is None and m > 1:
        raise ProblemError(f"the network has {m} outputs.  Remedy: give a functional of them")
    given = [1.0] if functional is None else functional
    row = real_numbers(given, "the functional", ProblemError).reshape(-1)
    if row.size != m or not np.isfinite(row).all():
        raise ProblemError(f"the functional needs {m} finite entries, one an output")
    check_magnitudes(network, domain, row[None])
    return row


def _heard(settings: Settings, clock: Clock, sign: float) -> Callable[..., object]:
    """What tells the caller how far one end is."""

    def hear(point: FloatArray | None, upper: float, nodes: int, message: str) -> None:
        if settings.progress is not None:
            end = "largest value" if sign > 0 else "least value, negated"
            settings.progress(Progress(clock.seconds, -math.inf, upper, nodes, end))

    return hear
