"""Physical units: a network is dimensionless, so what enters it has to be."""

from __future__ import annotations

import pyomo.environ as pyo
import pytest
from pyomo.util.check_units import assert_units_consistent

from lipyomo import Network
from lipyomo.blocks import LipschitzBlock, ReluNetworkBlock, UpperLipschitzBlock
from lipyomo.solvers import solve_model

pytest.importorskip("pint", reason="units of Pyomo need pint")

NETWORK = Network.from_arrays([[[1.0, 0.5], [-1.0, 2.0]], [[3.0, 1.0]]])


@pytest.mark.parametrize("kind", [ReluNetworkBlock, LipschitzBlock, UpperLipschitzBlock])
def test_models_with_units_are_consistent(kind):
    values = []
    for unit in (None, pyo.units.m):
        m = pyo.ConcreteModel()
        m.x = pyo.Var([0, 1], bounds=(-1, 1), units=unit)
        inputs = m.x if unit is None else [m.x[0] / unit, m.x[1] / unit]
        m.net = kind()
        m.net.build_formulation(NETWORK, inputs=inputs)
        assert_units_consistent(m)
        found = m.net.outputs[0] if kind is ReluNetworkBlock else m.net.value
        sense = pyo.minimize if kind is UpperLipschitzBlock else pyo.maximize
        m.goal = pyo.Objective(expr=found, sense=sense)
        values.append(solve_model(m, "highs").incumbent)
    assert values[0] == pytest.approx(values[1])
