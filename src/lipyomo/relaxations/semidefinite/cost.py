"""What semidefinite bounds of a root are predicted to take, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from lipyomo.base.numerics.pace import seconds_of
from lipyomo.base.system.memory import LARGE
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.semidefinite.choice import Ball, predicted_seconds
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form_cost
from lipyomo.relaxations.semidefinite.params import PARAMS


@dataclass(frozen=True)
class RootCost:
    """What the semidefinite bounds of a root are predicted to take.

    Attributes
    ----------
    closed, proof, approach, step, full : float
        Seconds of one quiet core for bounds in closed form, for a proof, for the first steps of a
        descent and for its Newton steps, and for one target.
    bytes : float
    """

    closed: float
    proof: float
    approach: float
    step: float
    full: float
    bytes: float

    @property
    def fits(self) -> bool:
        """Whether the matrices fit into memory."""
        return self.bytes <= LARGE


def root_cost(
    targets: Targets, inputs: int, units: int, layers: Sequence[int] | None = None
) -> RootCost:
    """Predict the cost of semidefinite bounds with so many inputs and unstable units.

    Parameters
    ----------
    targets : Targets
    inputs, units : int
    layers : sequence of int, optional
        The units, layer by layer; by default they all are in one.
    """
    single, whole = targets.by_column, targets.whole_ball
    functionals = len(targets.functionals) if whole else 1
    euclidean = targets.norm == "l2" or single
    ball: Ball = "l2" if whole else "vertices"
    parts = (units,) if layers is None else tuple(layers)
    return _cost(inputs, units, functionals, euclidean, single, ball, parts)


@cache
def _cost(
    inputs: int,
    units: int,
    functionals: int,
    euclidean: bool,
    single: bool,
    ball: Ball,
    layers: tuple[int, ...],
) -> RootCost:
    """The cost by all that it depends on; every node asks for it."""
    d = 1 if single else inputs
    closed = seconds_of(closed_form_cost(inputs, layers))
    proof = seconds_of(4.0 * inputs * units**2 + 3.0 * units**3)
    full = predicted_seconds(d, units, functionals, euclidean, ball)
    step = predicted_seconds(d, units, functionals, euclidean, ball, steps=1)
    size = 48.0 * (d + units + functionals) ** 2  # six matrices at a time
    return RootCost(closed, proof, step / PARAMS.newton, step, full, size)
