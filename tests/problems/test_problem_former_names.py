"""Problems and blocks by names of version 0.3: they work, with a warning that names the new one."""

from __future__ import annotations

import pyomo.environ as pyo
import pytest

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.blocks import LipschitzBlock

NETWORK = Network.from_arrays([[[1.0, 2.0]], [[1.0]]])


def test_the_norm_of_a_problem() -> None:
    with pytest.warns(DeprecationWarning, match="norm="):
        problem = LipschitzProblem(NETWORK, Box(-1, 1, 2), input_norm="l1")
    assert problem.norm == "l1"
    with pytest.warns(DeprecationWarning, match="norm"):
        assert problem.input_norm == "l1"


def test_the_norm_of_a_block() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    with pytest.warns(DeprecationWarning, match="norm="):
        m.steep = LipschitzBlock(NETWORK, m.x, input_norm="l1")
    assert m.steep.value.ub == pytest.approx(2.0)
