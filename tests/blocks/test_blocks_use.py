"""One-sided values: every use on the side where they mean nothing is seen, right ones are not."""

from __future__ import annotations

import io
import sys
import warnings

import pyomo.environ as pyo
import pytest
from pyomo.contrib.fbbt.fbbt import fbbt

from lipyomo import Network
from lipyomo.base.errors import ProblemError
from lipyomo.blocks import (
    LipschitzBlock,
    NormBlock,
    OneSidedWarning,
    ReluNetworkBlock,
    UpperLipschitzBlock,
    rebuild,
)
from lipyomo.solvers.compilation import compile_model

NETWORK = Network.from_arrays([[[1.0], [-1.0]], [[3.0, 1.0]]])


def model():
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0], bounds=(-1, 1))
    m.y, m.t = pyo.Var(bounds=(0, 9)), pyo.Var()
    m.l, m.n, m.u = LipschitzBlock(), NormBlock(), UpperLipschitzBlock()
    m.g = pyo.Var([0, 1], bounds=(-2, 2))
    m.n.build_formulation(m.g, "l1", sense="max")
    m.l.build_formulation(NETWORK, inputs=m.x)
    m.u.build_formulation(NETWORK, inputs=m.x, radius=0.1)
    return m


def rebuilt(m):
    m.x[0].setub(m.x[0].ub + 1.0)
    rebuild(m)
    return m


def transformed(m):
    m.net = ReluNetworkBlock()
    m.net.build_formulation(NETWORK, inputs=m.x, formulation="gdp")
    pyo.TransformationFactory("gdp.bigm").apply_to(m)
    return m


def maximise(m, expression):
    m.goal = pyo.Objective(expr=expression, sense=pyo.maximize)


WRONG = {
    "bound": lambda m: m.l.value.setub(0.01),
    "fixed": lambda m: m.l.value.fix(0.01),
    "row": lambda m: m.add_component("row", pyo.Constraint(expr=m.l.value <= 0.01)),
    "equal": lambda m: m.add_component("row", pyo.Constraint(expr=m.l.value == 0.01)),
    "range": lambda m: m.add_component("row", pyo.Constraint(expr=(0.5, m.l.value, 1.0))),
    "row of ours": lambda m: m.l.add_component("row", pyo.Constraint(expr=m.l.value <= 0.01)),
    "row of a layer": lambda m: m.l.net.layer[0].add_component(
        "row", pyo.Constraint(expr=m.l.value <= 0.01)
    ),
    "block of ours": lambda m: m.l.add_component(
        "more",
        pyo.Block(rule=lambda b: b.add_component("row", pyo.Constraint(expr=m.l.value <= 1))),
    ),
    "budget": lambda m: m.add_component("row", pyo.Constraint(expr=m.l.value + m.y <= 2)),
    "square": lambda m: m.add_component("row", pyo.Constraint(expr=m.l.value**2 <= 2)),
    "upper, bound": lambda m: m.u.value.setlb(2.0),
    "upper, row": lambda m: m.add_component("row", pyo.Constraint(expr=m.u.value >= 2.0)),
}


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_bounding_a_constant_on_the_wrong_side_is_an_error(name, drawn):
    m = model()
    WRONG[name](m)
    maximise(m, m.l.value - m.u.value if drawn else m.x[0])
    with pytest.raises(ProblemError, match="says nothing about the norm"):
        compile_model(m)


@pytest.mark.parametrize("copy", [pyo.ConcreteModel.clone, rebuilt, transformed])
def test_a_row_under_a_block_is_seen_in_what_is_made_of_the_model(copy):
    m = model()
    m.l.row = pyo.Constraint(expr=m.l.value >= 0.5)
    maximise(m, m.x[0])
    compile_model(copy(m))
    m.l.wrong = pyo.Constraint(expr=m.l.value <= 0.01)
    with pytest.raises(ProblemError, match="says nothing about the norm"):
        compile_model(copy(m))


def test_a_narrow_bound_is_still_seen_after_a_rebuild():
    m = model()
    maximise(m, m.l.value)
    m.x[0].setub(2)
    rebuild(m)
    compile_model(m)
    m.l.value.setub(0.01)
    with pytest.raises(ProblemError):
        compile_model(m)


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize(
    "use",
    [
        lambda m: m.n.value.setub(0.01),
        lambda m: m.n.value.fix(0.01),
        lambda m: m.add_component("row", pyo.Constraint(expr=m.n.value <= 0.01)),
        lambda m: m.add_component("row", pyo.Constraint(expr=m.n.value + m.y <= 2)),
        lambda m: m.add_component("row", pyo.Constraint(expr=m.y * m.n.value <= 2)),
    ],
)
def test_a_norm_is_warned_of(use, drawn):
    m = model()
    use(m)
    maximise(m, m.n.value if drawn else m.y)
    with pytest.warns(OneSidedWarning, match=r"n\.value"):
        compile_model(m)


@pytest.mark.parametrize(
    "expression",
    [lambda m: m.l.value**2, lambda m: 3 * m.l.value + m.y, lambda m: pyo.exp(m.l.value)],
)
def test_minimising_is_an_error_whatever_the_shape(expression, tmp_path):
    m = model()
    m.goal = pyo.Objective(expr=expression(m))
    with pytest.raises(ProblemError, match=r"minimised.*Remedy: an UpperLipschitzBlock"):
        m.write(str(tmp_path / "model.nl"))


def test_rows_of_a_wrong_model_can_be_counted():
    m = model()
    rows = m.nconstraints()
    m.goal = pyo.Objective(expr=m.l.value)
    m.x[0].setub(3.0)  # stale as well
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(m.component_data_objects(pyo.Constraint, active=True))) == rows
        fbbt(m)
        m.pprint(io.StringIO())
    with pytest.raises(ProblemError, match="rebuild"):
        compile_model(m)
    rebuild(m)
    with pytest.raises(ProblemError, match="minimised"):
        compile_model(m)


def test_what_is_not_monotone_is_warned_of():
    m = model()
    m.goal = pyo.Objective(expr=(m.l.value - 2) ** 2)
    with pytest.warns(OneSidedWarning, match="goal"):
        compile_model(m)


RIGHT = {
    "copy": lambda m: (m.t == m.n.value, m.t),
    "turned copy": lambda m: (m.t == 3 - 2 * m.n.value, -m.t),
    "at most": lambda m: (m.t <= m.l.value, m.t),
    "sum": lambda m: (m.t == m.n.value + m.l.value - m.y, m.t),
    "sum at most": lambda m: (m.t <= m.n.value + m.l.value, m.t),
    "from below": lambda m: (m.l.value >= 0.5, m.y),
    "loose": lambda m: (m.l.value <= 1e3, m.l.value),
    "upper": lambda m: (m.u.value + m.y <= 4, m.y),
    "upper copy": lambda m: (m.t == m.u.value, -m.t),
    "square": lambda m: (m.l.value >= 0.5, m.l.value**2),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_uses_pass_in_silence(name):
    m = model()
    relation, goal = RIGHT[name](m)
    m.row = pyo.Constraint(expr=relation)
    maximise(m, goal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_model(m)


def calls_of_compiling(count):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(count), bounds=(-1, 1))
    m.s = NormBlock(range(count))
    for k in range(count):
        m.s[k].build_formulation([m.x[k]], "l1", sense="min")
    m.each = pyo.Constraint(range(count), rule=lambda m, k: m.x[k] + m.s[k].value <= 2)
    m.all = pyo.Constraint(expr=sum(m.s[k].value for k in range(count)) <= count)
    m.t = pyo.Var()
    m.sum = pyo.Constraint(expr=m.t == sum(m.s[k].value for k in range(count)))
    m.goal = pyo.Objective(expr=m.t)
    calls = 0

    def count_call(frame, event, argument):
        nonlocal calls
        calls += 1

    sys.setprofile(count_call)
    try:
        compile_model(m)
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_grows_with_the_model_not_with_its_square():
    calls_of_compiling(5)
    assert calls_of_compiling(200) < 6 * calls_of_compiling(50)


def test_a_persistent_interface_sees_wider_bounds_when_it_gets_the_model_again():
    solver = pyo.SolverFactory("gurobi_persistent")
    if not solver.available(exception_flag=False):
        pytest.skip("gurobi is not installed")
    m = model()
    maximise(m, m.l.value)
    solver.set_instance(m)
    solver.solve()
    assert m.l.stale() is None
    m.x[0].setub(3)
    solver.update_var(m.x[0])
    assert "x[0]" in m.l.stale()
    with pytest.raises(ProblemError, match="rebuild"):
        solver.set_instance(m)


@pytest.mark.filterwarnings("error::lipyomo.blocks.OneSidedWarning")
def test_bounds_that_follow_from_the_model_pass_in_silence():
    m = model()
    m.near = pyo.Constraint(expr=m.g[0] <= 0.5)
    m.other = pyo.Constraint(expr=m.g[1] <= 0.5)
    m.low = pyo.Constraint(expr=m.g[0] + m.g[1] >= -0.5)
    m.asked = pyo.Constraint(expr=m.l.value >= 1.5)
    m.copy = pyo.Constraint(expr=m.t == m.n.value)
    maximise(m, m.l.value + m.t)
    before = m.n.value.ub
    fbbt(m)
    assert m.n.value.ub < before
    compile_model(m)
    m.n.value.setub(0.5 * m.n.value.ub)
    with pytest.raises(OneSidedWarning, match=r"n\.value"):
        compile_model(m)
