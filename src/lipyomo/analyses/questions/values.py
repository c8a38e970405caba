"""The exact range of a network's values over a domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.api import digests, question_settings
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.kept import Kept
from lipyomo.base.numerics.rounding import gamma
from lipyomo.networks.network import Layer, Network
from lipyomo.primal.regions.value import value_at
from lipyomo.problems.domains import Domain
from lipyomo.problems.magnitudes import check_magnitudes
from lipyomo.problems.ranges import Range, check_parts, chosen_functional
from lipyomo.problems.reductions.confine import confined
from lipyomo.problems.reductions.merge import exactly
from lipyomo.problems.reductions.reduction import Reduction
from lipyomo.problems.result import Point, Progress, Status
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.search.engine.checkpoint import checkpoint_of
from lipyomo.search.engine.engine import Engine, Found
from lipyomo.search.engine.protocol import NODES, Pipeline
from lipyomo.search.kinds import kind_of, value_in_boxes
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.objectives.params import PARAMS


@takes(SettingsKeywords)
def value_range(
    network: Network,
    domain: Domain,
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Range:
    """Bound the least and the largest value of ``c . f`` over a domain.

    Parameters
    ----------
    network : Network
        f.
    domain : Domain
        A bounded box, ball, or polytope; inputs may be frozen.
    functional : array_like, shape (m,), optional
        c; not needed for a network with one output.
    settings, **changes : optional
        See `lipyomo.derivative_range`; a checkpoint is possible as well.

    Returns
    -------
    Range
        Attained ends are values at the witnesses, in exact arithmetic on the weights as given, or
        in ball arithmetic for smooth units.

    Raises
    ------
    ProblemError
        If the arguments do not match, or the domain is unbounded.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[2.0, 1.0]]])
    >>> found = lipyomo.value_range(network, lipyomo.Box(-1, 3, 1))
    >>> found.low[0] <= 0.0 <= found.low[1], found.high[0], found.status.value
    (True, 6.0, 'exact')
    """
    settings = question_settings(settings, changes)
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    ready = _Ready.of(network, domain, functional, settings.seed)
    if ready.constant:
        value, center = value_at(ready.network, ready.row, domain.center), Point(domain.center)
        return Range(value, value, (center, center), Status.EXACT, clock.seconds)
    if clock.expired and settings.checkpoint is None and not ready.question().is_quick:
        return ready.at_once(clock)
    asked = partial(
        digests, network=ready.reduced.network, domain=ready.domain, functional=ready.row
    )
    found = both_ends(ready.pipeline, settings, clock, asked)
    low, high = (
        None if at is None else Point.at(ready.reduced.lift_point(at.point))
        for at in found.witnesses
    )
    return replace(found, witnesses=(low, high))


def least_value(
    network: Network,
    domain: Domain,
    settings: Settings,
    above: float = math.inf,
    sample: Callable[[Point], object] | None = None,
    boxes: bool = False,
    kept: Kept | None = None,
) -> tuple[float, int]:
    """Bound the values of a network with one output from below.

    Parameters
    ----------
    network : Network
    domain : Domain
        A bounded domain.
    settings : Settings
    above : float, optional
        The search ends once all values are proved to be at least this.
    sample : callable, optional
        Called with points of ever smaller values.
    boxes : bool, optional
        Whether to search over boxes also if the network is piecewise linear, which is quicker with
        few inputs and many units; by default the search is over phases of units then.
    kept : Kept, optional
        The place for the state of the search, from which it resumes.

    Returns
    -------
    (float, int)
        The bound, and the number of nodes.

    Raises
    ------
    ProblemError
        See `value_range`.
    """
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    ready = _Ready.of(network, domain, None, settings.seed)
    report = sample or (lambda point: None)
    if ready.constant:
        report(Point(domain.center))
        return value_at(ready.network, ready.row, domain.center)[0], 0

    def on_progress(point: FloatArray | None, upper: float, nodes: int, message: str) -> None:
        if point is not None:
            report(Point.at(ready.reduced.lift_point(point)))

    pipeline, workers = ready.pipeline(-1.0, -above, boxes), settings.workers_within(clock)
    found = Engine(pipeline, clock, workers=workers, checkpoint=kept, on_progress=on_progress).run()
    if found.best.point is not None:
        report(Point.at(ready.reduced.lift_point(found.best.point)))
    return -found.upper, found.counters.get(NODES, 0)


@lru_cache(maxsize=1)  # the functionals of a network are asked about in turn
def _reduced(network: Network, domain: Domain) -> tuple[Network, Reduction, Domain]:
    """Return the network with bounded slopes, its reduction, and the reduction's domain."""
    if network.needs_ranges:
        network = confined(network, domain)
    reduced = exactly(network, domain)
    moving = reduced.moving
    some = moving.any() and not moving.all()
    return network, reduced, domain.restrict(moving) if some else domain


@lru_cache(maxsize=1)
def _outputs(network: Network, domain: Domain) -> tuple[FloatArray, FloatArray]:
    """Bound all outputs without a search, in about `PARAMS.grace` seconds; shapes (m,)."""
    head = network.head
    refined = Layer(head.weight, head.bias, 0.0, 1.0)  # only ranges of units with kinks are refined
    last = Layer(np.eye(head.units), np.zeros(head.units))
    stop = Clock(PARAMS.grace).steps()
    found = preactivation_bounds(Network([*network.hidden, refined, last]), domain, stop=stop)
    return found.lower[-1], found.upper[-1]


@dataclass(frozen=True, eq=False)
class _Ready:
    """A network and a domain without frozen inputs.

    Attributes
    ----------
    network : Network
        The network, with bounded slopes on the domain.
    reduced : Reduction
    domain : Domain
    row : ndarray, shape (m,)
    scale : float
        Typical size of the values.
    seed : int
    constant : bool
        Whether the value is constant.
    """

    network: Network
    reduced: Reduction
    domain: Domain
    row: FloatArray
    scale: float
    seed: int
    constant: bool = False

    @classmethod
    def of(
        cls, network: Network, domain: Domain, functional: npt.ArrayLike | None, seed: int
    ) -> _Ready:
        """Check the arguments of `value_range`, and remove frozen inputs.

        Raises
        ------
        ProblemError
            See `value_range`.
        """
        check_parts(network, domain)
        row = chosen_functional(network, functional)
        whole = domain
        network, reduced, domain = _reduced(network, whole)
        check_magnitudes(network, whole, row[None])
        if not reduced.moving.any() or not reduced.network.linked[row != 0].any():
            return cls(network, reduced, whole, row, 0.0, seed, constant=True)
        sample = domain.sample(np.random.default_rng(seed), 64)
        return cls(network, reduced, domain, row, _scale(reduced.network, row, sample), seed)

    def question(self, sign: float = 1.0, enough: float = -math.inf) -> ValueQuestion:
        """Return the question for the largest of the values times `sign`, down to `enough`."""
        row, network = sign * self.row, self.reduced.network
        return ValueQuestion(network, row, self.domain, self.scale, enough, PARAMS)

    def at_once(self, clock: Clock) -> Range:
        """Bound the range without a search, by work that all functionals of a network share."""
        row, center = self.row, self.domain.center
        low, high = _outputs(self.reduced.network, self.domain)
        terms = np.stack([low * row, high * row])[:, row != 0]
        room = gamma(row.size + 2) * float(np.abs(terms).max(axis=0).sum())
        ends = float(terms.min(axis=0).sum()) - room, float(terms.max(axis=0).sum()) + room
        point = Point.at(self.reduced.lift_point(center))
        value = value_at(self.network, self.row, point.x)
        found = Range((ends[0], value[1]), (value[0], ends[1]), (point, point))
        return replace(found, seconds=clock.seconds).ended(clock)

    def pipeline(
        self, sign: float, enough: float = -math.inf, boxes: bool = False
    ) -> Pipeline[Any, Any]:
        """Make the pipeline that finds the largest of the values times `sign`, down to `enough`."""
        search = value_in_boxes if boxes else kind_of(self.reduced.network).largest_value
        return search(self.question(sign, enough), self.seed)


def both_ends(
    pipeline: Callable[[float], Pipeline[Any, Any]],
    settings: Settings,
    clock: Clock,
    owner: Callable[[], dict[str, str]],
) -> Range:
    """Bound both ends of a range by two searches: for the largest value of -f, and of f.

    Parameters
    ----------
    pipeline : callable
        Makes the pipeline that finds the largest value of f times a sign.
    settings : Settings
    clock : Clock
        Time for both searches together.
    owner : callable
        Returns digests of the question, for a checkpoint.
    """
    ends: list[Found[Any]] = []
    scarce = clock
    with checkpoint_of(settings, owner) as file:
        for name, sign in (("low", -1.0), ("high", 1.0)):
            part = clock.within((1.0 if ends else 0.5) * clock.left)
            engine = Engine(
                pipeline(sign),
                part,
                workers=settings.workers_within(part),
                checkpoint=file.part(name),
                on_progress=_progress_from(settings, clock, sign),
            )
            ends.append(engine.run())
            if part.interrupted:
                clock.stop()
            if part.expired:
                scarce = part
    lower, upper = ends
    return Range(
        (-lower.upper + 0.0, -lower.best.value + 0.0),  # no negative zeros
        (upper.best.value + 0.0, upper.upper + 0.0),
        (_point(lower), _point(upper)),
        Status.EXACT,
        clock.seconds,
        sum(end.counters.get(NODES, 0) for end in ends),
        file.trouble,
    ).ended(scarce)


def _scale(network: Network, row: FloatArray, points: FloatArray) -> float:
    """Estimate the size of ``c . f`` from points, or a share of its terms' size if this is larger.

    The values of a difference can be far smaller than its terms, whose errors limit its accuracy.
    """
    h = points
    for layer in network.hidden:
        h = layer.activate(layer.preactivation(h))
    values = np.abs(network.head.preactivation(h) @ row)
    terms = (np.abs(h) @ network.head.sizes.T + np.abs(network.head.bias)) @ np.abs(row)
    return float(max(values.max(), PARAMS.cancelled * terms.max()))


def _point(found: Found[Any]) -> Point | None:
    return None if found.best.point is None else Point.at(found.best.point)


def _progress_from(settings: Settings, clock: Clock, sign: float) -> Callable[..., object]:
    """Return the callback that reports the progress on one end."""

    def on_progress(point: FloatArray | None, upper: float, nodes: int, message: str) -> None:
        if settings.progress is not None:
            end = "largest value" if sign > 0 else "least value, negated"
            now = Progress(clock.seconds, -math.inf, upper, nodes, message, end)
            settings.progress(now)

    return on_progress
