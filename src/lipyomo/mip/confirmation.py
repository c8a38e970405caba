"""Confirmation: what a solver's incumbent is worth, from the weights.

A pattern that a model accepts counts only if its region has an interior in the domain.  It is then
attained, or proved to be empty, or (rarely) too thin to decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import IntArray, Pattern
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.mip.cells import excluded
from lipyomo.mip.semidefinite import unstable_units
from lipyomo.networks.network import Network
from lipyomo.primal.regions import examine
from lipyomo.primal.regions.witness import attained, witness_near
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness
from lipyomo.relaxations.linear import LayerBounds


@dataclass(frozen=True)
class Confirmation:
    """What is known of a claimed pattern.

    Attributes
    ----------
    value : float
        Attained; or, if that is open, the norm that the pattern would have; zero if it is empty.
    certain : bool
        Whether the pattern is either attained or proved to be empty.
    witness : Witness or None
    units : list of (layer, unit) or None
        Units whose decisions alone make the region empty; None means all of them.
    """

    value: float
    certain: bool
    witness: Witness | None = None
    units: list[tuple[int, int]] | None = None


def confirm_pattern(
    problem: LipschitzProblem, domain: Domain, bounds: LayerBounds, pattern: Pattern
) -> Confirmation:
    """Look for an interior point of a pattern's region, or prove that there is none.

    Parameters
    ----------
    problem : LipschitzProblem
        The original one.
    domain : Domain
        The cell, in the inputs of the reduced problem.
    bounds : LayerBounds
        Over `domain`.
    pattern : Pattern
        Claimed by a solver.

    Returns
    -------
    Confirmation
    """
    reduced = problem.reduced
    network = reduced.problem.network
    norm = attained(reduced.problem, pattern)[0].upper * (1.0 + 2.0 * EQUAL)
    answer = examine(network, domain, pattern)
    own = reduced.problem.domain
    if answer.point is not None and not own.holds_inside(answer.point):
        answer = examine(network, own, pattern)  # the cell's rows are rounded outwards
    if answer.support is not None:
        return Confirmation(0.0, True, None, _reason(network, bounds, pattern, answer.support))
    if answer.point is not None:
        witness = witness_near(problem, answer.point)
        if witness is not None and witness.value >= norm * (1.0 - 5.0 * EQUAL):
            return Confirmation(witness.value, True, witness)
    return Confirmation(norm, False)


def _reason(
    network: Network, bounds: LayerBounds, pattern: Pattern, support: IntArray
) -> list[tuple[int, int]] | None:
    """Unstable units whose decisions in `pattern` alone leave no interior; None if that is unclear.

    The signs of the units in `support` contradict each other, as functions that the decisions of
    earlier layers select.  Units that bounds decide need no cut: the pattern follows the bounds.
    """
    starts = np.cumsum([0, *(layer.units for layer in network.hidden)])
    layers = np.searchsorted(starts, support, side="right") - 1
    used = list(zip(layers.tolist(), (support - starts[layers]).tolist(), strict=True))
    if excluded(network, bounds, pattern):
        return None
    deepest = max((i for i, _ in used), default=0)
    units = [unit for unit in unstable_units(bounds.phases) if unit[0] < deepest or unit in used]
    return units or None
