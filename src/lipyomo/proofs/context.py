"""The data that stay fixed while a proof is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProofError
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.reductions.merge import freeze
from lipyomo.problems.targets import Targets
from lipyomo.proofs.params import Params
from lipyomo.search.spaces.phases.context import PhaseContext, PhaseQuestion
from lipyomo.search.spaces.phases.points import Points
from lipyomo_check import linear as checked
from lipyomo_check.statement import Statement


@dataclass(frozen=True, eq=False)
class Recording:
    """The statement to be proved, in the data structures of the search and of the checker.

    Attributes
    ----------
    search : PhaseContext
        The search's context, with the original units and without frozen inputs.
    linear : lipyomo_check.linear.Linear
        The checker's arithmetic.
    moving : ndarray of int
        Indices of the inputs that are not frozen.
    pairs : tuple of (int or None, int or None)
        The checker's targets: vertex and input.
    numbers : tuple of int
        Index in `pairs` of each of the search's targets.
    turned : frozenset of int
        The search's targets whose functionals have the opposite sign of the checker's.
    points : Points
        Known points; further ones are added.
    clock : Clock
    params : Params
    """

    search: PhaseContext
    linear: checked.Linear
    moving: IntArray
    pairs: tuple[tuple[int | None, int | None], ...]
    numbers: tuple[int, ...]
    turned: frozenset[int]
    points: Points
    clock: Clock
    params: Params

    @classmethod
    def of(
        cls, problem: LipschitzProblem, statement: Statement, clock: Clock, params: Params
    ) -> Recording:
        """Prepare recording the proof of a problem's statement.

        Raises
        ------
        ProofError
            If the statement has other targets than the problem.
        """
        domain = problem.domain
        network, moving = problem.network, ~domain.frozen
        if not moving.all():
            # rounded biases are sound here: certificates are verified by the checker without them
            network = freeze(network, ~moving, domain.upper, rounding=True).network
        small = problem.of_moving(network, moving)
        domain = small.domain
        search = PhaseContext.of(PhaseQuestion(small))
        points = Points(search, np.random.default_rng(0))
        points.adopt([domain.sample(np.random.default_rng(0), params.points)])
        pairs = tuple(statement.targets)
        columns = np.array(statement.columns)
        numbers, turned = _numbered(search.targets, columns, statement, pairs)
        linear, own = checked.Linear(statement), np.flatnonzero(moving)
        return cls(search, linear, own, pairs, numbers, turned, points, clock, params)

    @cached_property
    def region(self) -> RegionProgram:
        """The linear programs that decide whether cases have interior."""
        return RegionProgram(self.search.system, self.search.domain)

    @property
    def upper(self) -> float:
        """The upper bound to be proved."""
        return self.linear.statement.upper

    @property
    def aim(self) -> float:
        """How low floating-point bounds should be."""
        return self.upper * (1.0 - self.params.aim)


def _numbered(
    targets: Targets,
    columns: IntArray,
    statement: Statement,
    pairs: tuple[tuple[int | None, int | None], ...],
) -> tuple[tuple[int, ...], frozenset[int]]:
    """Return the checker's index of each of our targets, and which have the opposite sign."""
    known = statement.vertices or []
    place = {pair: number for number, pair in enumerate(pairs)}
    found: list[int] = []
    turned: set[int] = set()
    for row, column in zip(targets.rows, targets.columns, strict=True):
        own = int(columns[column]) if targets.by_column else None
        if targets.whole_ball:
            vertex = None if statement.vertices is None else 0
        else:
            y = targets.functionals[row].tolist()
            negative = [-v for v in y]
            vertex = next((i for i, v in enumerate(known) if v in (y, negative)), None)
            if vertex is not None and known[vertex] != y:
                turned.add(len(found))
        if (vertex, own) not in place:
            raise ProofError("the output norm's dual vertices are not those of the proof")
        found.append(place[vertex, own])
    return tuple(found), frozenset(turned)
