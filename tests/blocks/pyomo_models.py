"""Models with a network block, and their optima by HiGHS."""

from __future__ import annotations

import pyomo.environ as pyo

from lipyomo.blocks import ReluNetworkBlock
from lipyomo.solvers import solve_model


def solved(model, solver="highs", **options):
    """The outcome of a solve that came to its end, with its solution in the model."""
    outcome = solve_model(model, solver, **options)
    assert outcome.status.proven, outcome.message
    if outcome.incumbent is not None:
        outcome.load()
    return outcome


def best(model, **options):
    """The optimum of a model."""
    return solved(model, **options).incumbent


def model_of(network, box=(-1, 1), **options):
    """A model with variables ``x`` and the block ``net`` of a network."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(network.input_dim), bounds=box)
    m.net = ReluNetworkBlock()
    m.net.build_formulation(network, inputs=m.x, **options)
    return m
