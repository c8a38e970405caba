"""One conjunction of a VNN-LIB query: its domain, and a network that computes its excess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import DomainError, ProblemError
from lipyomo.networks.building.affine import Tensor, stack, tree
from lipyomo.networks.building.chain import to_network
from lipyomo.networks.building.system import System
from lipyomo.networks.building.trace import Trace
from lipyomo.networks.derivatives.replay import Replay
from lipyomo.networks.network import Network
from lipyomo.primal.regions.value import value_at
from lipyomo.problems.domains import Domain
from lipyomo.problems.domains.query import Clause, Query
from lipyomo.problems.domains.vnnlib import bounds_of, domain_of, renumbered, same_inputs


@dataclass(frozen=True, eq=False)
class Conjunction:
    """A conjunction of rows; inputs that a row makes equal share one variable.

    Attributes
    ----------
    query : Query
    networks : tuple of Network
        In the order of the query.
    places : ndarray of int, shape (inputs,)
        The variable of each input of the query.
    size : int
        Number of variables d.
    part : int
        Index of its clause in the query.
    inputs, mixed : tuple of Condition
        Rows on inputs alone, and rows that involve outputs, in terms of variables.
    """

    query: Query
    networks: tuple[Network, ...]
    places: IntArray
    size: int
    part: int
    inputs: Clause
    mixed: Clause

    @classmethod
    def of(cls, query: Query, networks: Sequence[Network], part: int) -> Conjunction:
        """Make the conjunction of a query's clause."""
        clause = query.clauses[part]
        places, size = same_inputs(clause, query.inputs)
        rows = renumbered(clause, places)
        inputs = tuple(row for row in rows if row.of_inputs)
        mixed = tuple(row for row in rows if not row.of_inputs)
        return cls(query, tuple(networks), places, size, part, inputs, mixed)

    @property
    def contradictory(self) -> bool:
        """Whether the bounds of some input contradict each other."""
        return bounds_of(self.inputs) is None

    @property
    def strict(self) -> bool:
        """Whether a point with excess zero does not satisfy all rows."""
        return all(row.strict for row in self.mixed)

    @cached_property
    def domain(self) -> Domain:
        """The points that satisfy the rows on inputs, with strict rows made non-strict.

        Raises
        ------
        LipyomoError
            If there are none, or the domain is unbounded or not supported.
        """
        where = f"{self.query.name}: part {self.part + 1} of the conditions"
        domain = domain_of(self.inputs, self.size, where, outwards=True)
        if not domain.is_bounded:
            raise ProblemError(
                f"{where} leaves an input without a bound.  Remedy: give each input a lower and an "
                "upper bound"
            )
        return domain

    def own(self, network: int) -> IntArray:
        """Return the variables of a network's inputs."""
        starts = np.cumsum([0, *(one.inputs for one in self.query.networks)])
        return self.places[starts[network] : starts[network + 1]]

    @cached_property
    def rows(self) -> Network:
        """The network ``x -> a . x + c . y + b``, with one output for each mixed row.

        A row is satisfied where its output is negative (or zero, if not strict).  A constant b that
        is no float64 number is rounded downwards.
        """
        trace, every = self._traced()
        return to_network(System.of(trace, every), "rows")

    @cached_property
    def excess(self) -> Network:
        """The network that computes the largest of the rows' values."""
        trace, every = self._traced()
        parts = [every.take(np.array([k])) for k in range(len(self.mixed))]
        return to_network(System.of(trace, tree(parts, trace.maximum)), "excess")

    def _traced(self) -> tuple[Trace, Tensor]:
        trace = Trace(self.size)
        x = trace.input((self.size,))
        values = [
            Replay(trace, network, x.take(self.own(k))).output
            for k, network in enumerate(self.networks)
        ]
        matrix = np.zeros((len(self.mixed), self.size + sum(y.size for y in values)))
        for row, numbers in zip(self.mixed, matrix, strict=True):
            for k, a in row.coefficients:
                numbers[k if k >= 0 else self.size + ~k] = _float64(a)
        shift = [_below(row.constant) for row in self.mixed]
        return trace, stack([x, *values]).apply(matrix, (len(self.mixed),)).shift(shift)

    def holds(self, x: FloatArray) -> bool:
        """Return whether a point (d,) satisfies all rows; exact, or by balls for smooth units."""
        numbers = [Fraction(value) for value in x.tolist()]
        for row in self.inputs:
            value = row.constant + sum(a * numbers[k] for k, a in row.coefficients)
            if value > 0 or (row.strict and value == 0):
                return False
        for row, unit in zip(self.mixed, np.eye(len(self.mixed)), strict=True):
            above = value_at(self.rows, unit, x)[1]
            if not np.isfinite(above):
                return False
            value = Fraction(above) + row.constant - Fraction(_below(row.constant))
            if value > 0 or (row.strict and value == 0):
                return False
        return True

    def assignment(self, x: FloatArray) -> dict[str, FloatArray]:
        """Return the tensors of all networks at a point, in the order of the file."""
        found: dict[str, FloatArray] = {}
        for k, (network, said) in enumerate(zip(self.networks, self.query.networks, strict=True)):
            values = {"input": x[self.own(k)]}
            values["output"] = network.forward(values["input"])
            for tensor in said.tensors:
                numbers, values[tensor.kind] = np.split(values[tensor.kind], [tensor.size])
                found[tensor.name] = numbers.reshape(tensor.shape)
        return found


def satisfied(query: Query, clause: Clause, assignment: Mapping[str, FloatArray]) -> bool:
    """Return whether float64 numbers satisfy a clause's mixed rows, in exact arithmetic."""
    flat = {
        kind: np.concatenate(
            [
                np.asarray(assignment[tensor.name], dtype=np.float64).reshape(-1)
                for network in query.networks
                for tensor in network.of(kind)
            ]
            or [np.zeros(0)]
        )
        for kind in ("input", "output")
    }
    for row in clause:
        if row.of_inputs:
            continue
        value = row.constant
        for k, a in row.coefficients:
            number = float(flat["input"][k] if k >= 0 else flat["output"][~k])
            if not np.isfinite(number):
                return False
            value += a * Fraction(number)
        if value > 0 or (row.strict and value == 0):
            return False
    return True


def _float64(a: Fraction) -> float:
    number = float(a)
    if Fraction(number) != a:
        raise DomainError(
            f"the coefficient {a} of a condition is no float64 number.  Remedy: multiply the "
            "condition by its denominator"
        )
    return number


def _below(b: Fraction) -> float:
    number = float(b)
    return float(np.nextafter(number, -np.inf)) if Fraction(number) > b else number
