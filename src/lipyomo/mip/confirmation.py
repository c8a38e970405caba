"""Confirmation: what a solver's incumbent is worth, from the weights.

A pattern that a model accepts counts only if its region has an interior in the domain.  It is then
attained, or proved to be empty, or (rarely) too thin to decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.bounds import LayerBounds
from lipyomo.domains import Domain
from lipyomo.mip.conflict import conflicting_units
from lipyomo.network import Network, Pattern
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import interior_point, make_witness
from lipyomo.regions.emptiness import Verdict, examined, is_proved_empty
from lipyomo.regions.margin import EMPTY
from lipyomo.result import Witness


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
    norm = reduced.problem.norm_of(network.jacobian(pattern)).upper
    witness = None
    found = interior_point(network, domain, pattern)
    if found.margin > 0:
        witness = make_witness(problem, reduced.lift_point(found.x))
    verdict = Verdict(False) if witness is not None else examined(network, domain, pattern)
    if verdict.point is not None:
        witness = make_witness(problem, reduced.lift_point(verdict.point))
    if witness is not None and witness.value >= norm * (1.0 - 1e-9):
        return Confirmation(witness.value, True, witness)
    if verdict.empty:
        return Confirmation(0.0, True, None, _reason(network, domain, bounds, pattern))
    return Confirmation(norm, False)


def _reason(
    network: Network, domain: Domain, bounds: LayerBounds, pattern: Pattern
) -> list[tuple[int, int]] | None:
    """A few units that make an empty region empty, if exact arithmetic confirms them."""
    scale = float(np.max(domain.upper - domain.lower))
    units = conflicting_units(network, domain, bounds, pattern, EMPTY * scale)
    if units is None:
        return None
    asked = [np.zeros(on.shape, dtype=bool) for on in pattern]
    for layer, unit in units:
        asked[layer][unit] = True
    return units if is_proved_empty(network, domain, pattern, asked) else None
