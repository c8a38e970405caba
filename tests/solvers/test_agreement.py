"""All solvers give the same Lipschitz constants."""

from __future__ import annotations

from pathlib import Path

import pyomo.environ as pyo
import pytest

from lipyomo import Box, Network, load
from lipyomo.blocks import LipschitzBlock
from lipyomo.solvers import SolverOptions, available_solvers, solve_model
from references import load_reference

SMALL_MODELS = ("iris", "exchanger")
SMALL_REFERENCES = ("chen_10_12_seed0", "chen_10_12_seed1", "lipbab_iris_4-5-5-3")


def constant_of(network: Network, box: Box) -> pyo.ConcreteModel:
    model = pyo.ConcreteModel()
    model.lipschitz = LipschitzBlock()
    model.lipschitz.build_formulation(network, domain=box)
    model.largest = pyo.Objective(expr=model.lipschitz.value, sense=pyo.maximize)
    return model


def check_agreement(model: pyo.ConcreteModel) -> None:
    options = SolverOptions(rel_gap=1e-9, integrality_tolerance=1e-9, time_limit=60)
    outcomes = [solve_model(model, name, options, fallback=False) for name in available_solvers()]
    assert all(outcome.status.proven for outcome in outcomes)
    values = [outcome.incumbent for outcome in outcomes if outcome.incumbent is not None]
    assert len(values) == len(outcomes)
    assert max(values) - min(values) <= 1e-6 * max(values)
    assert min(outcome.bound for outcome in outcomes) >= max(values) * (1.0 - 1e-6)


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_solvers_agree_on_the_projects_networks(name: str, models: Path) -> None:
    network = load(models / f"{name}.onnx")
    check_agreement(constant_of(network, Box(0.0, 1.0, network.input_dim)))


@pytest.mark.reference
@pytest.mark.parametrize("name", SMALL_REFERENCES)
def test_solvers_agree_on_small_reference_networks(name: str, shared: Path) -> None:
    known = load_reference(shared / "reference" / f"{name}.npz")
    box = known.box if "lo" in known.arrays else Box(0.0, 1.0, known.network.input_dim)
    check_agreement(constant_of(known.network, box))
