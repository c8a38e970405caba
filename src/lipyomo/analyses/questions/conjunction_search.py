"""Search for a point that satisfies one conjunction of a VNN-LIB query, or a proof of none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from lipyomo.analyses.questions.conjunction import Conjunction
from lipyomo.analyses.questions.pairs import excluded_by_slopes
from lipyomo.analyses.questions.values import least_value
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.problems.domains import Domain
from lipyomo.problems.domains.query import Clause
from lipyomo.problems.result import Point
from lipyomo.problems.settings import Settings
from lipyomo.search.engine.checkpoint import SearchStates
from lipyomo.search.kinds import kind_of

Confirm = Callable[[Clause, dict[str, FloatArray]], bool]
"""Whether an assignment that satisfies a conjunction is also confirmed by a second evaluator."""

SAMPLES = 256
"""Number of points that are sampled first."""

FEW = 8
"""Number of these if there are conditions on inputs only."""

SLICE = 1.0
"""Seconds of the first run of each kind of search."""


class ConjunctionSearch:
    """The search of one conjunction; keeps the best point so far.

    Parameters
    ----------
    conjunction : Conjunction
    part : int
        Its index.
    clause : Clause
        The clause from which it was made.
    confirm : callable, optional
    seed : int

    Attributes
    ----------
    point : ndarray or None
        Values of the variables that satisfy all rows.
    confirmed : bool or None
    """

    def __init__(
        self,
        conjunction: Conjunction,
        part: int,
        clause: Clause,
        confirm: Confirm | None,
        seed: int,
    ) -> None:
        self.conjunction, self._part, self._seed = conjunction, part, seed
        self._clause, self._confirm = clause, confirm
        self._glanced = False
        self.point: FloatArray | None = None
        self.confirmed: bool | None = None

    @cached_property
    def _domain(self) -> Domain:
        """The domain in which the rows on inputs hold.

        Raises
        ------
        LipyomoError
            If it is unbounded, or not supported.
        """
        domain = self.conjunction.domain(self._part)
        if not domain.is_bounded:
            raise ProblemError(
                f"{self.conjunction.query.name}: part {self._part + 1} of the conditions leaves an "
                "input without a bound.  Remedy: give each input a lower and an upper bound"
            )
        return domain

    def glance(self) -> None:
        """Try some sampled points."""
        if self._glanced or self.conjunction.contradictory:
            return
        self._glanced = True
        some = self._domain.sample(np.random.default_rng(self._seed), SAMPLES)
        points = np.concatenate([self._domain.center[None], some])
        if self.conjunction.mixed:
            points = points[[np.argmin(self.conjunction.excess.forward(points)[:, 0])]]
        for x in points[:FEW]:
            self.sample(Point(x))

    def run(self, settings: Settings) -> tuple[float, int]:
        """Search; return a lower bound of the largest excess, and the number of nodes.

        The bound is infinite if it is proved that no point satisfies the conjunction.

        Parameters
        ----------
        settings : Settings
            Settings of this search; its checkpoint is a part of another.
        """
        conjunction = self.conjunction
        if conjunction.contradictory:
            return np.inf, 0
        clock = Clock(settings.time_limit, settings.should_stop, settings.started)
        self.glance()
        if self.done or not conjunction.mixed:
            return -np.inf, 0
        domain = self._domain
        if excluded_by_slopes(conjunction, domain, clock):
            return np.inf, 0
        return self._searched(domain, settings, clock)

    def _searched(self, domain: Domain, settings: Settings, clock: Clock) -> tuple[float, int]:
        """Do the search of `run` over phases or boxes, whichever has the better bound at first."""
        network = self.conjunction.excess
        assert not isinstance(settings.checkpoint, Path)
        states = SearchStates(settings.checkpoint)
        few = kind_of(network).halves_beside(network)
        # excess zero satisfies all rows only if one of them is not strict; ulp(0) is the least
        # positive number
        above = 0.0 if self.conjunction.strict else math.ulp(0.0)
        left = [False, True] if few else [False]  # whether to search over boxes
        end, seconds = -np.inf, SLICE if few else np.inf
        counts = dict.fromkeys(left, 0)
        while True:
            bounds = []
            for boxes in left:
                kept = states.part("boxes" if boxes else "phases")
                part = clock.within(seconds)
                own = replace(
                    settings,
                    time_limit=max(part.left, 1e-3),
                    started=None,
                    should_stop=lambda: self.done or clock.interrupted,
                )
                found, count = least_value(network, domain, own, above, self.sample, boxes, kept)
                end = max(end, found)
                counts[boxes] = count if kept is not None else counts[boxes] + count
                if end >= above:
                    return np.inf, sum(counts.values())
                if self.done or clock.expired or not part.expired:
                    return end, sum(counts.values())
                bounds.append(found)
            seconds *= 2.0
            if len(left) > 1 and bounds[0] != bounds[1]:
                left, seconds = [bounds[1] > bounds[0]], np.inf

    @property
    def done(self) -> bool:
        """Whether a point satisfies all rows, and was not rejected by the second evaluator."""
        return self.point is not None and self.confirmed is not False

    def sample(self, at: Point) -> None:
        """Try a point with a small excess."""
        if at.rest is not None or self.done:
            return
        x = at.x
        if self.conjunction.mixed and float(self.conjunction.excess.forward(x)[0]) > 1e-6:
            return
        if not self.conjunction.holds(x):
            return
        agreed = None
        if self._confirm is not None:
            agreed = self._confirm(self._clause, self.conjunction.assignment(x))
        if self.point is None or agreed:
            self.point, self.confirmed = x, agreed
