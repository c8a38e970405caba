"""The range of a function on a domain: infimum and supremum, each an interval with a witness."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from lipyomo.base.arguments import instance
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.system.plain import finite
from lipyomo.networks.network import Network, check_network
from lipyomo.problems.domains import Domain
from lipyomo.problems.norms import read_functional
from lipyomo.problems.result import Point, Status


@dataclass(frozen=True, eq=False)
class Range:
    """The range over a domain of a network's values or of its derivatives.

    Attributes
    ----------
    low : (float, float)
        Interval of the infimum: its lower end is proved, its upper end is attained.
    high : (float, float)
        Interval of the supremum: its lower end is attained, its upper end is proved.
    witnesses : (Point or None, Point or None)
        Points where the attained ends of `low` and `high` are reached, verified in exact or ball
        arithmetic: ``x``, or ``x + rest`` between float64 numbers.  None if nothing is attained,
        and the end is infinite.
    status : Status
        ``exact`` if both intervals are narrow enough for `is_exact`, else why they are not;
        ``contradiction`` if an attained end lies beyond a proved one, which is a defect of lipyomo.
    seconds : float
    nodes : int
        Nodes of branch and bound.
    unwritten : str
        Why the checkpoint could not be written the last time; empty if it was written or not
        requested.
    """

    low: tuple[float, float]
    high: tuple[float, float]
    witnesses: tuple[Point | None, Point | None] = (None, None)
    status: Status = Status.EXACT
    seconds: float = 0.0
    nodes: int = 0
    unwritten: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether both ends are known up to `tolerance`."""
        return self._width <= self.tolerance and not self.contradicts

    @property
    def contradicts(self) -> bool:
        """Whether an attained end lies beyond a proved one: one of them is wrong."""
        return self.low[0] > self.low[1] or self.high[0] > self.high[1]

    def ended(self, clock: Clock) -> Range:
        """Return the range with the status that follows from its ends and the search's clock."""
        status = Status.EXACT if self.is_exact else why_open(clock)
        return replace(self, status=Status.CONTRADICTION if self.contradicts else status)

    @property
    def tolerance(self) -> float:
        """Width that counts as exact: 1e-6 of the largest attained value, at least 1e-12."""
        return tolerance_of(self.low[1], self.high[0])

    @property
    def magnitude(self) -> tuple[float, float]:
        """Interval of the largest absolute value."""
        least = max(self.high[0], -self.low[1], 0.0)
        return least, max(self.high[1], -self.low[0], 0.0)

    @property
    def _width(self) -> float:
        return max(self.low[1] - self.low[0], self.high[1] - self.high[0])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; infinite ends are None."""
        return {
            "low": [finite(end) for end in self.low],
            "high": [finite(end) for end in self.high],
            "witnesses": [None if at is None else at.to_dict() for at in self.witnesses],
            "status": str(self.status),
            "seconds": self.seconds,
            "nodes": self.nodes,
        }


def tolerance_of(*values: float) -> float:
    """Return the width up to which an interval around these values counts as exact."""
    size = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return EXACT_TOLERANCE * max(size, EXACT_TOLERANCE)


def why_open(clock: Clock) -> Status:
    """Return why a range is not exact at the end of a search."""
    if clock.interrupted:
        return Status.INTERRUPTED
    return Status.TIME_LIMIT if clock.expired else Status.PRECISION


def check_fit(network: Network, domain: Domain) -> None:
    """Raise an error unless a network and a domain fit together.

    Raises
    ------
    ProblemError
    """
    check_network(network, ProblemError)
    instance(domain, Domain, "the domain", ProblemError, "give a Box, a ball or a Polytope")
    if domain.dimension != network.input_dim:
        raise ProblemError(
            f"the domain has {domain.dimension} inputs, the network takes {network.input_dim}"
        )


def check_parts(network: Network, domain: Domain) -> None:
    """Raise an error unless a network and a bounded domain fit together.

    Raises
    ------
    ProblemError
    """
    check_fit(network, domain)
    if not domain.is_bounded:
        raise ProblemError("values have a range on bounded domains only.  Remedy: give a box")


def chosen_functional(network: Network, functional: npt.ArrayLike | None) -> FloatArray:
    """Return the given functional (m,), or the only output of a network.

    Raises
    ------
    ProblemError
        If it does not fit, or there are several outputs and none is given.
    """
    m = network.output_dim
    if functional is None and m > 1:
        raise ProblemError(f"the network has {m} outputs.  Remedy: give a functional of them")
    return read_functional([1.0] if functional is None else functional, m)
