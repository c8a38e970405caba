"""The question of a search for values, and the data that stay fixed for one cutoff."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock, dense_entries, seconds_of
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import RIGHT
from lipyomo.primal.regions.value import value_at
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.domains import Domain
from lipyomo.problems.ranges import tolerance_of
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.params import Params
from lipyomo.search.spaces.boxes.ascent import projected_ascents


@dataclass(frozen=True, eq=False)
class ValueQuestion:
    """The largest value of ``c . f`` on a bounded domain.

    Attributes
    ----------
    network : Network
    row : ndarray, shape (m,)
        c.
    domain : Domain
        A bounded domain.
    scale : float
        Size of the values; the tolerance is 1e-6 of it, or of the largest value if that is larger.
    enough : float
        A bound that is good enough, whatever value is attained.
    params : Params
    """

    network: Network
    row: FloatArray
    domain: Domain
    scale: float = 0.0
    enough: float = -np.inf
    params: Params = field(default_factory=Params)

    def cutoff(self, value: float) -> float:
        """Return the bound at or below which nodes are fathomed, if `value` is attained.

        If no point is proved to be inside (minus infinity), the value at the centre is used, as
        the cutoff only decides which bounds matter.
        """
        if not np.isfinite(value):
            value = float(self.values(self.domain.center[None])[0])
        return max(value + 0.5 * tolerance_of(value, self.scale), self.enough)

    @property
    def is_quick(self) -> bool:
        """Whether the root is bounded in full even if the time is up."""
        weights = np.cumsum([dense_entries(layer.weight) for layer in self.network.layers])
        return self.params.quick >= seconds_of(4.0 * float(weights @ self.network.sizes[1:]))

    def values(self, points: FloatArray) -> FloatArray:
        """Evaluate the values at points (n, d), in floating point."""
        return np.asarray(self.network.forward(points) @ self.row)

    def gradients(self, points: FloatArray) -> FloatArray:
        """Evaluate the gradients (n, d) of the values."""
        return self.network.gradients(points, self.row)

    def attained(self, x: FloatArray) -> float:
        """Prove a lower bound of the value at a point of the domain, or return minus infinity."""
        return value_at(self.network, self.row, x)[0]

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """Return the better of an incumbent and a point of the domain near the given one.

        The point is (d,), or (2, d) for the exact sum of two rows.
        """
        domain = self.domain
        if point.ndim > 1:  # an exact sum, between float64 points
            value = self.attained(point) if domain.holds(point) else -np.inf
            return Incumbent(value, point) if value > best.value else best
        for x in domain.pulled_in(point):
            if not float(self.values(x[None])[0]) > best.value:
                return best
            value = self.attained(x) if domain.holds(x) else -np.inf
            if np.isfinite(value):
                return Incumbent(value, x) if value > best.value else best
        return best

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """Return the best point of the centre and of ascents from the best sampled points."""
        best = self.challenged(Incumbent(), self.domain.center)
        return self.ascended(self.domain.sample(rng, self.params.samples), clock, best)

    def ascended(self, points: FloatArray, clock: Clock, best: Incumbent) -> Incumbent:
        """Return the better of an incumbent and of ascents from the best of points (n, d)."""
        if clock.expired and best.point is not None:
            return best
        first = points[np.argsort(-self.values(points), kind="stable")[: self.params.starts]]

        def slopes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            return self.values(x), self.gradients(x)

        points, values = projected_ascents(self.domain, first, slopes, self.params.steps, clock)
        return self.challenged(best, points[values.argmax()])


@dataclass(frozen=True, eq=False)
class ValueContext:
    """A question under a cutoff.

    Attributes
    ----------
    question : ValueQuestion
    system : UnitSystem
        All units, the last of which is the aim, here without bias and kink.
    cutoff : float
    """

    question: ValueQuestion
    system: UnitSystem
    cutoff: float = 0.0

    @classmethod
    def of(cls, question: ValueQuestion) -> ValueContext:
        """Make the context of a question, without a cutoff yet."""
        aim, last = Layer(question.row[None], np.zeros(1)), Layer(np.eye(1), np.zeros(1))
        network = Network([*question.network.layers, aim, last])
        return cls(question, UnitSystem(network, np.ones((1, 1)), question.domain))

    def at(self, cutoff: float) -> ValueContext:
        """Return the context with another cutoff."""
        return self if cutoff == self.cutoff else replace(self, cutoff=cutoff)

    @property
    def domain(self) -> Domain:
        """The domain of the question."""
        return self.question.domain

    @property
    def aim(self) -> int:
        """Index of the aim."""
        return int(self.system.count) - 1

    @cached_property
    def kinked(self) -> BoolArray:
        """Which units have phases, including the aim, shape (N,)."""
        kinked: BoolArray = self.system.kinked.copy()
        kinked[self.aim] = True
        return kinked

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The hidden layers, and the aim with its bias of minus the cutoff."""
        *layers, aim = self.system.network.hidden
        return (*layers, Layer(aim.weight, [-self.cutoff], 0.0, 1.0))

    @cached_property
    def ascent(self) -> DualAscent:
        """Dual ascent of pre-activation bounds."""
        with np.errstate(over="ignore"):  # overflows of single precision prove nothing
            return DualAscent(self.layers, self.domain)

    def whole(self) -> ValueNode:
        """Return the root node, without any bounds."""
        infinite, domain = np.full(self.system.count, np.inf), self.domain
        phases = self.system.root_phases()
        phases[self.aim] = RIGHT  # only values above the cutoff matter
        return ValueNode(phases, -infinite, infinite, domain.lower, domain.upper)
