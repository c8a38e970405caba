"""The least margin over a ball by a mixed-integer program over the forward blocks."""

from __future__ import annotations

import numpy as np

from lipyomo.certification.classifier import Classifier
from lipyomo.domains import Domain
from lipyomo.network import FloatArray, Layer, Network

TOLERANCE = 1e-6
"""A dual bound counts as positive beyond this share of the margin's own magnitudes."""


def least_margin(
    classifier: Classifier,
    domain: Domain,
    label: int,
    rival: int,
    solver: str,
    seconds: float,
) -> tuple[float, FloatArray | None]:
    """Bound one margin over a domain from below, and find a point where it is small.

    Parameters
    ----------
    classifier : Classifier
    domain : Domain
    label : int
    rival : int
        Number of the rival among the others.
    solver : str
        A name of ``solvers.toml`` or ``auto``.
    seconds : float

    Returns
    -------
    bound : float
        The solver's dual bound less its tolerance; -inf where it has none, or the domain is no
        polyhedron.
    point : ndarray or None
        The solver's best point, inside the domain.
    """
    import pyomo.environ as pyo

    from lipyomo.blocks import ReluNetworkBlock
    from lipyomo.solvers import SolverOptions, solve_model

    if not domain.is_polyhedral:
        return -np.inf, None
    row = classifier.functionals(label)[rival]
    network = Network([*classifier.network.layers, Layer(row[None], np.zeros(1))])
    model = pyo.ConcreteModel()
    model.net = ReluNetworkBlock()
    model.net.build_formulation(network, domain=domain)
    model.margin = pyo.Objective(expr=model.net.outputs[0])
    outcome = solve_model(model, solver, SolverOptions(time_limit=max(seconds, 0.01)))
    point = None
    if outcome.incumbent is not None:
        outcome.load()
        values = [pyo.value(model.net.inputs[j]) for j in range(network.input_dim)]
        point = np.clip(np.array(values), domain.lower, domain.upper)
    scale = float(np.abs(classifier.network.forward(domain.center)).max())
    return outcome.bound - TOLERANCE * (1.0 + scale), point
