"""What never changes while a proof is recorded."""

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
from lipyomo.search.spaces.phases.context import Context, Question
from lipyomo.search.spaces.phases.points import Points
from lipyomo_check import linear as checked
from lipyomo_check.statement import Statement


@dataclass(frozen=True, eq=False)
class Recording:
    """The statement to be proved, in the words of the search and of the checker.

    Attributes
    ----------
    search : Context
        Of the original units, in the inputs that move.
    linear : lipyomo_check.linear.Linear
        The checker's arithmetic.
    moving : ndarray of int
        The inputs that move.
    pairs : tuple of (int or None, int or None)
        The checker's targets: vertex and input.
    numbers : tuple of int
        The place among them of each of the search's targets.
    turned : frozenset of int
        Those of the search's targets whose functionals are the checker's with the other sign.
    points : Points
        Known points, of which there are ever more.
    clock : Clock
    params : Params
    """

    search: Context
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
        """The recording of a problem's statement.

        Raises
        ------
        ProofError
            If the statement is one about other targets.
        """
        domain = problem.domain
        network, moving = problem.network, ~domain.frozen
        if not moving.all():
            # its biases round, and it only suggests certificates: the checker's own do not
            network = freeze(network, ~moving, domain.upper, rounding=True).network
        small = problem.of_moving(network, moving)
        domain = small.domain
        search = Context.of(Question(small))
        points = Points(small, search.presolved, np.random.default_rng(0), search.params)
        points.adopt([domain.sample(np.random.default_rng(0), params.points)])
        pairs = tuple(statement.targets)
        columns = np.array(statement.columns)
        numbers, turned = _numbered(search.targets, columns, statement, pairs)
        linear, own = checked.Linear(statement), np.flatnonzero(moving)
        return cls(search, linear, own, pairs, numbers, turned, points, clock, params)

    @cached_property
    def region(self) -> RegionProgram:
        """The programs that tell whether cases have interior."""
        return RegionProgram(self.search.system, self.search.domain)

    @property
    def upper(self) -> float:
        """The upper end to be proved."""
        return self.linear.statement.upper

    @property
    def aim(self) -> float:
        """What floating-point bounds should reach."""
        return self.upper * (1.0 - self.params.aim)


def _numbered(
    targets: Targets,
    columns: IntArray,
    statement: Statement,
    pairs: tuple[tuple[int | None, int | None], ...],
) -> tuple[tuple[int, ...], frozenset[int]]:
    """The checker's number of each of our targets, and those with the other sign."""
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
