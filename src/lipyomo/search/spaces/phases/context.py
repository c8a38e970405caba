"""The question of a search and the data derived from it, which stay fixed while nodes are split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, Pattern
from lipyomo.networks.phases import RIGHT
from lipyomo.problems.affine.system import FlatPhases, UnitSystem
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.reductions.presolve import Presolved, presolve
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.layers import Stack, by_layer
from lipyomo.relaxations.linear.preactivation import propagate
from lipyomo.relaxations.semidefinite.bounder import Bounder
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.params import Params

if TYPE_CHECKING:
    from lipyomo.relaxations.semidefinite.switched_bounds import SwitchedBounder

RELIABILITY = "reliability"
"""Name of the default branching rule."""


class PhaseQuestion(NamedTuple):
    """The problem and options of a search, from which its context is made.

    Attributes
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    gap : float
        Relative gap that is good enough.
    enough : float
        A bound that is good enough, whatever value is attained.
    known : ndarray of int8, shape (N,), optional
        Phases that follow from the domain; if the network presolved with them is much smaller, that
        one is searched.
    record : bool
        Whether to record fathomed nodes.
    params : Params
    branching : str
        Name of a branching rule (`lipyomo.search.spaces.phases.score`).
    switched : bool
        Whether nodes are bounded with switches that depend on the inputs.
    """

    problem: LipschitzProblem
    gap: float = 0.0
    enough: float = 0.0
    known: FlatPhases | None = None
    record: bool = False
    params: Params = Params()
    branching: str = RELIABILITY
    switched: bool = False


@dataclass(frozen=True, eq=False)
class PhaseContext:
    """A question, and the data derived from it.

    Attributes
    ----------
    question : PhaseQuestion
    presolved : Presolved
        The presolved network.
    targets : Targets
        The targets, as functionals of its outputs.
    bounder : Bounder
    """

    question: PhaseQuestion
    presolved: Presolved
    targets: Targets
    bounder: Bounder

    @classmethod
    def of(cls, question: PhaseQuestion) -> PhaseContext:
        """Make the context of a question.

        Raises
        ------
        MethodError
            If the dual ball has too many vertices.
        """
        problem, known = question.problem, question.known
        targets = targets_of(problem)
        phases = None if known is None else tuple(by_layer(problem.network.hidden, known))
        given = problem.network, targets.functionals, problem.domain, phases
        left = presolve(*given, problem.directions)
        targets = replace(targets, functionals=left.functionals)
        known, join = (None, False) if phases is None else (left.phases, True)
        bounder = Bounder(left.system, targets, known, join=join)
        return cls(question, left, targets, bounder)

    def with_switches(self) -> PhaseContext:
        """Return the context with switches that depend on the inputs, if the problem has them."""
        from lipyomo.relaxations.semidefinite.switched_bounds import SwitchedBounder

        serves = SwitchedBounder.serves(self.system, self.targets, self.domain)
        return replace(self, question=self.question._replace(switched=serves))

    @cached_property
    def switches(self) -> SwitchedBounder | None:
        """Bounder with switches that depend on the inputs; None if the question has none."""
        if not self.question.switched:
            return None
        from lipyomo.relaxations.semidefinite.switched_bounds import SwitchedBounder

        return SwitchedBounder(self.system, self.targets, self.bounder)

    @property
    def system(self) -> UnitSystem:
        """The system of units to which phases and bounds of nodes refer."""
        return self.presolved.system

    @property
    def problem(self) -> LipschitzProblem:
        """The problem that is searched."""
        return self.question.problem

    @property
    def domain(self) -> Domain:
        """The domain of the problem."""
        return self.question.problem.domain

    @property
    def params(self) -> Params:
        """The parameters of the search."""
        return self.question.params

    @cached_property
    def ascent(self) -> DualAscent | None:
        """Dual ascent of pre-activation bounds; None on unbounded domains or without kinks."""
        system = self.system
        if not (self.domain.is_bounded and system.kinked.any()):
            return None
        return DualAscent(system.network.hidden, self.domain, system.weight_errors)

    @cached_property
    def functionals(self) -> FloatArray:
        """Functionals of the problem's outputs whose gradients are bounded, shape (k, m)."""
        return targets_of(self.problem).functionals

    def cutoff(self, value: float) -> float:
        """Return the bound at or below which nodes are fathomed, if `value` is attained."""
        question = self.question
        met = max(value, 0.0) / (1.0 - max(question.gap, self.params.slack))
        return max(met, question.enough)

    def aim(self, value: float) -> float:
        """Return how low floating-point bounds should be for their proofs to meet the cutoff."""
        return self.cutoff(value) - 0.5 * self.params.slack * max(value, self.question.enough)

    def pattern(self, phases: FlatPhases) -> Pattern:
        """Return the activation pattern of the problem's network for phases without open units."""
        return self.presolved.units.lift_pattern(phases == RIGHT)

    def substitute_back(self, stack: Stack, first: int = 0) -> None:
        """Tighten a stack by CROWN, from layer `first` on."""
        layers, errors = self.system.network.hidden, self.system.weight_errors
        propagate(layers, self.domain, stack, intervals=False, first=first, errors=errors)

    def whole(self, points: int = 0) -> PhaseNode:
        """Return the root node, for which nothing is known yet but the first `points` points."""
        n, domain = self.system.count, self.domain
        everything = np.arange(self.targets.count)
        infinite = np.full(everything.size, np.inf)
        return PhaseNode(
            self.system.root_phases(),
            np.full(n, -np.inf),
            np.full(n, np.inf),
            domain.lower,
            domain.upper,
            everything,
            infinite,
            infinite,
            points=np.arange(points),
        )


Question = PhaseQuestion
"""The name in version 0.3, which goes with the former path `lipyomo.search.relu.context`."""
