"""Check of a solver's incumbent against the network itself.

A pattern that is feasible in a model is only valid if its region has an interior in the domain.
The norm of the pattern is then attained; otherwise the region is proved to have none, or is
(rarely) too thin to decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import IntArray, Pattern
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.mip.cells import excluded, unstable_units
from lipyomo.networks.network import Network
from lipyomo.primal.regions import examine
from lipyomo.primal.regions.witness import attained, witness_near
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness
from lipyomo.relaxations.linear import LayerBounds


@dataclass(frozen=True)
class Confirmation:
    """The result of checking a claimed pattern.

    Attributes
    ----------
    value : float
        The attained value; if undecided, the norm of the pattern; zero if the region is empty.
    certain : bool
        Whether the pattern is either attained or proved to be empty.
    witness : Witness or None
    units : list of (layer, unit) or None
        Units whose phases alone make the region empty; None stands for all units.
    """

    value: float
    certain: bool
    witness: Witness | None = None
    units: list[tuple[int, int]] | None = None


def confirm_pattern(
    problem: LipschitzProblem, domain: Domain, bounds: LayerBounds, pattern: Pattern
) -> Confirmation:
    """Find an interior point of a pattern's region, or prove that there is none.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem.
    domain : Domain
        The domain of the cell, in the inputs of the reduced problem.
    bounds : LayerBounds
        Bounds over `domain`.
    pattern : Pattern
        The pattern of a solver's incumbent.

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
    """Return unstable units whose phases in `pattern` alone exclude an interior; None if unknown.

    The signs of the units in `support` contradict each other, where these are affine functions
    selected by the phases of earlier layers.  Stable units are not needed in the cut, since the
    pattern agrees with their phases.
    """
    starts = np.cumsum([0, *(layer.units for layer in network.hidden)])
    layers = np.searchsorted(starts, support, side="right") - 1
    used = list(zip(layers.tolist(), (support - starts[layers]).tolist(), strict=True))
    if excluded(network, bounds, pattern):
        return None
    deepest = max((i for i, _ in used), default=0)
    units = [unit for unit in unstable_units(bounds.phases) if unit[0] < deepest or unit in used]
    return units or None
