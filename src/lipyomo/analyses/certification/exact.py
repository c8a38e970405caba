"""The least margin over a ball by a mixed-integer program with the forward blocks, and its proof.

The solver's claim is checked by branch and bound.  An additional layer has units
``relu(1 - margin / floor)``, which are zero at the centre of a ball of radius r.  If their
Lipschitz constant over the ball is below 1 / r, they stay below one there, and margins are
positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.analyses.api import bound_until
from lipyomo.analyses.certification.classifier import Classifier
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import PART
from lipyomo.base.system.processes import MOMENT
from lipyomo.mip.cells import whole_cell
from lipyomo.mip.params import DOUBT, INTEGRALITY, SHARE
from lipyomo.mip.scaling import scaled, too_fine
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.norms import LinfOutput
from lipyomo.problems.problem import LipschitzProblem


@dataclass(frozen=True)
class LeastMargin:
    """A solver's result for one margin over a domain.

    Attributes
    ----------
    bound : float
        The solver's dual bound minus its tolerance; -inf if it has none, or the domain is not a
        polyhedron.
    point : ndarray or None
        The solver's best point, inside the domain.
    basis : str
        The solver and its tolerance.
    doubt : bool
        Whether tolerances matter too much to trust the solver.
    seconds : float
        The time of the solver.
    """

    bound: float = -np.inf
    point: FloatArray | None = None
    basis: str = ""
    doubt: bool = True
    seconds: float = 0.0


def least_margin(
    classifier: Classifier,
    domain: Domain,
    label: int,
    rival: int,
    solver: str,
    seconds: float,
) -> LeastMargin:
    """Bound one margin over a domain from below, and find a point where it is small.

    Parameters
    ----------
    classifier : Classifier
    domain : Domain
    label : int
    rival : int
        The index of the rival among the other classes.
    solver : str
        A name in ``solvers.toml``, or ``auto``.
    seconds : float

    Returns
    -------
    LeastMargin
    """
    import pyomo.environ as pyo

    from lipyomo.blocks import ReluNetworkBlock
    from lipyomo.solvers import SolverOptions, SolveStatus, solve_model

    if not domain.is_polyhedral:
        return LeastMargin()
    row = classifier.functionals(label)[rival]
    network = Network([*classifier.network.layers, Layer(row[None], np.zeros(1))])
    size = float(np.abs(classifier.network.forward(domain.center)).max())
    problem = LipschitzProblem(network, domain, output_norm=LinfOutput())
    units, cell = scaled(problem, whole_cell(problem, "linear", PART * seconds), size)
    model = pyo.ConcreteModel()
    model.net = ReluNetworkBlock()
    bounds = list(zip(cell.bounds.lower, cell.bounds.upper, strict=True))
    model.net.build_formulation(units.problem.network, domain=domain, bounds=bounds)
    model.margin = pyo.Objective(expr=model.net.outputs[0])
    options = SolverOptions(time_limit=max(seconds, 0.01), integrality_tolerance=INTEGRALITY)
    outcome = solve_model(model, solver, options)
    if outcome.status is SolveStatus.INTERRUPTED:  # by Ctrl-C, which the solver has received
        raise KeyboardInterrupt
    point = None
    if outcome.incumbent is not None:
        outcome.load()
        values = [pyo.value(model.net.inputs[j]) for j in range(network.input_dim)]
        point = np.clip(np.array(values), domain.lower, domain.upper)
    return LeastMargin(
        units.outward(outcome.bound) - DOUBT * (units.unit + size),
        point,
        f"solver ({outcome.solver} {outcome.version}, tolerance {INTEGRALITY:g}, less {DOUBT:g})",
        bool(too_fine(units.problem, cell)),
        outcome.seconds,
    )


def proves_positive(
    classifier: Classifier,
    x: FloatArray,
    radius: float,
    label: int,
    claimed: FloatArray,
    least: FloatArray,
    seconds: float,
) -> bool:
    """Return whether branch and bound proves that all margins stay positive in a ball.

    Parameters
    ----------
    classifier : Classifier
    x : ndarray, shape (d,)
    radius : float
    label : int
    claimed : ndarray, shape (classes - 1,)
        Lower bounds of the margins over the ball as claimed by a solver; positive.
    least : ndarray, shape (classes - 1,)
        Proved lower bounds of the margins at the centre.
    seconds : float
        The time of the solver; the proof may take a share of it, plus a short time.
    """
    floor = np.exp2(np.floor(np.log2(claimed)) - 1.0)  # powers of two cause no rounding
    if not (np.isfinite(floor) & (floor > 0) & (floor <= least)).all():
        return False
    below = Layer(-classifier.functionals(label) / floor[:, None], np.ones(floor.size), 0.0, 1.0)
    network = Network([*classifier.network.layers, below])
    problem = classifier.metric.problem(network, x, radius, classifier.clip, LinfOutput())
    goal = 1.0 / radius
    limit = SHARE * seconds + MOMENT
    found = bound_until(problem, "bnb", goal * (1.0 - 2.0**-50), goal, limit)
    return found.upper * radius * (1.0 + 2.0**-50) < 1.0
