"""What users have set on a block stays when it is rebuilt; blocks rest on active ones only."""

from __future__ import annotations

import pickle
from functools import cache

import pyomo.environ as pyo
import pytest
from pyomo.gdp import Disjunct, Disjunction
from pyomo_models import best, model_of

from lipyomo import Box, Network
from lipyomo.base.errors import BoundsMissing, ProblemError
from lipyomo.blocks import (
    DualBallBlock,
    GradientBlock,
    LipschitzBlock,
    NormBlock,
    ReluNetworkBlock,
    TangentBlock,
    UpperLipschitzBlock,
    add_ideal_cuts,
    rebuild,
)
from lipyomo.solvers import available_solvers, solve_model
from networks import random_network

NETWORK = random_network(3, (2, 5, 4, 2))
COPIES = {
    "itself": lambda m: m,
    "cloned": lambda m: m.clone(),
    "pickled": lambda m: pickle.loads(pickle.dumps(m)),
}


def narrow(sense=pyo.maximize, **options):
    """A model whose bounds will be widened."""
    m = model_of(NETWORK, (-1, 1), **options)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=sense)
    return m


def widened(m, copy="itself", again=1):
    """The model after its inputs were given more room, `again` times."""
    m = COPIES[copy](m)
    for turn in range(again):
        m.x[0].setub(2.0 + turn)
        assert rebuild(m) >= 1
    return m


@cache
def wide(restrict):
    """The truth: a model that had the room from the beginning."""
    m = model_of(NETWORK, (-1, 1))
    m.x[0].setub(2.0)
    m.del_component("net")
    m.net = ReluNetworkBlock()
    m.net.build_formulation(NETWORK, inputs=m.x)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    restrict(m)
    return best(m)


def limit_output(m):
    m.net.outputs[1].setub(1.0)


def limit_unit(m):
    m.net.layer[0].output[0].setub(2.0)


def fix_switch(m):
    m.net.layer[1].switch[1].fix(1)


def relate_switches(m):
    m.net.layer[0].own = pyo.Constraint(
        expr=m.net.layer[0].switch[0] + m.net.layer[1].switch[2] <= 1
    )


def relate_activations(m):
    units = m.net.layer[0].activation
    m.net.own = pyo.Block()
    m.net.own.cap = pyo.Constraint(expr=sum(units[k] for k in units) <= 2.5)


RESTRICTIONS = [limit_output, limit_unit, fix_switch, relate_switches, relate_activations]


@cache
def unrestricted():
    return best(widened(narrow()))


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("restrict", RESTRICTIONS)
def test_what_users_have_restricted_stays_restricted(restrict, copy):
    m = narrow()
    restrict(m)
    assert best(widened(m, copy)) == pytest.approx(wide(restrict), abs=1e-6)
    assert wide(restrict) < unrestricted() - 1e-3


@pytest.mark.parametrize("solver", available_solvers())
def test_every_solver_sees_what_has_stayed(solver):
    m = narrow()
    limit_output(m)
    relate_switches(m)
    m = widened(m)
    assert solve_model(m, solver).incumbent == pytest.approx(best(m), abs=1e-5)


def test_bounds_of_users_outlast_many_rebuilds_and_can_be_taken_back():
    m = narrow()
    computed = m.net.outputs[1].ub
    m.net.outputs[1].setub(1.0)
    m = widened(m, again=3)
    assert m.net.outputs[1].ub == 1.0
    m.net.outputs[1].setub(None)
    m.x[0].setub(9.0)
    rebuild(m)
    assert m.net.outputs[1].ub > computed
    m.net.outputs[1].setub(1e6)  # wider than what holds anyway
    m.net.rebuild()
    assert m.net.outputs[1].ub < 1e6


def test_own_inputs_keep_the_bounds_of_users():
    m = pyo.ConcreteModel()
    m.net = ReluNetworkBlock()
    m.net.build_formulation(NETWORK, domain=Box(-1, 1, 2))
    m.goal = pyo.Objective(expr=m.net.inputs[0], sense=pyo.maximize)
    m.net.inputs[0].setub(0.25)
    loose = m.net.layer_bounds.unstable
    m.net.rebuild()
    assert best(m) == pytest.approx(0.25)
    assert m.net.layer_bounds.unstable <= loose
    m.net.inputs[0].setub(1.0)  # the domain allows it
    assert rebuild(m) == 1
    assert best(m) == pytest.approx(1.0)


def test_a_robust_limit_stays():
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.calm = UpperLipschitzBlock()
    m.calm.build_formulation(NETWORK, inputs=m.x, radius=0.1)
    limit = 0.6 * m.calm.value.ub
    m.calm.value.setub(limit)
    m.goal = pyo.Objective(expr=m.x[0] - m.x[1], sense=pyo.maximize)
    m.x[0].setub(2.0)
    assert rebuild(m) == 1
    best(m)
    assert m.calm.value.ub == pytest.approx(limit)
    x = [pyo.value(m.x[j]) for j in range(2)]
    slope = NETWORK.jacobian(NETWORK.pattern(x))
    assert abs(slope).sum(axis=1).max() <= limit + 1e-6


@pytest.mark.parametrize("encoding", ["adjoint", "tangent"])
def test_parts_of_a_lipschitz_block_keep_the_bounds_of_users(encoding):
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.steep = LipschitzBlock()
    m.steep.build_formulation(NETWORK, inputs=m.x, encoding=encoding)
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    m.steep.value.setlb(0.5)
    part = m.steep.gradient.gradient if encoding == "adjoint" else m.steep.tangent.derivative
    part[0].fix(0.0)
    m.x[0].setub(2.0)
    rebuild(m)
    assert m.steep.value.lb == 0.5
    assert part[0].fixed
    assert part[0].parent_block().parent_block() is m.steep
    fresh = pyo.ConcreteModel()
    fresh.x = pyo.Var([0, 1], bounds=(-1, 1))
    fresh.x[0].setub(2.0)
    fresh.steep = LipschitzBlock()
    fresh.steep.build_formulation(NETWORK, inputs=fresh.x, encoding=encoding)
    fresh.goal = pyo.Objective(expr=fresh.steep.value, sense=pyo.maximize)
    steep = fresh.steep
    part = steep.gradient.gradient if encoding == "adjoint" else steep.tangent.derivative
    part[0].fix(0.0)
    assert best(m) == pytest.approx(best(fresh), rel=1e-6)


@pytest.mark.parametrize("formulation", ["bigm", "partition", "gdp"])
def test_constraints_on_switches_mean_what_they_meant(formulation):
    m = narrow(formulation=formulation)
    switches = [m.net.switches(i) for i in range(2)]
    m.few = pyo.Constraint(expr=sum(a for found in switches for a in found.values()) <= 2)
    m = widened(m)
    if formulation == "gdp":
        pyo.TransformationFactory("gdp.bigm").apply_to(m)
    value = best(m)
    on = [z > 1e-6 for z in NETWORK.preactivations([pyo.value(m.x[j]) for j in range(2)])]
    assert sum(int(on[i][k]) for i in range(2) for k in switches[i]) <= 2
    assert value == pytest.approx(NETWORK.forward([pyo.value(m.x[j]) for j in range(2)])[0])


def test_what_a_rebuild_would_drop_is_named():
    first = min(model_of(NETWORK).net.layer[0].switch)

    def pinned(m):
        m.net.layer[0].switch[first].fix(1)

    def used(m):
        m.use = pyo.Constraint(expr=m.net.layer[0].switch[first] >= 1)

    for restrict, word in ((pinned, "fixed"), (used, "'use'")):
        m = narrow()
        restrict(m)
        before = best(m)
        held = {j: min(max(pyo.value(m.x[j]), -1.0), 1.0) for j in m.x}
        for j in m.x:  # so little room that nothing is left to decide
            m.x[j].setlb(held[j])
            m.x[j].setub(held[j])
        with pytest.raises(ProblemError, match=rf"layer\[0\]\.switch\[{first}\].*{word}"):
            m.net.rebuild()
        assert best(m) == pytest.approx(before, abs=1e-6)


def test_a_rebuild_that_fails_leaves_what_users_have_set():
    m = narrow()
    for restrict in RESTRICTIONS:
        restrict(m)
    before = best(m)
    names = sorted(c.name for c in m.component_data_objects(pyo.Constraint))
    m.x[0].setub(None)
    with pytest.raises(BoundsMissing):
        m.net.rebuild()
    m.x[0].setub(1.0)
    assert best(m) == pytest.approx(before, abs=1e-6)
    assert sorted(c.name for c in m.component_data_objects(pyo.Constraint)) == names


def test_cuts_go_with_the_bounds_that_they_were_made_for():
    m = narrow()
    assert add_ideal_cuts(m.net) > 0
    m = widened(m)
    assert best(m) == pytest.approx(wide(lambda m: None), abs=1e-6)


# -- deactivated blocks ----------------------------------------------------------------------------


def rest_on_each_other():
    """Pairs of blocks: (name of what rests, name of what it rests on) and a model that has both."""
    m = model_of(NETWORK)
    m.slope, m.along, m.size, m.far = GradientBlock(), TangentBlock(), NormBlock(), NormBlock()
    m.steep, m.ball, m.back = LipschitzBlock(), DualBallBlock(), GradientBlock()
    m.second = ReluNetworkBlock()
    m.slope.build_formulation(m.net, functional=0)
    m.size.build_formulation(m.slope.gradient, "l1", sense="max")
    m.far.build_formulation(m.net.outputs, "linf", sense="max")
    m.along.build_formulation(m.net)
    m.steep.build_formulation(m.net)
    m.ball.build_formulation(2, "linf")
    m.back.build_formulation(m.net, functional=m.ball.functional)
    m.second.build_formulation(NETWORK, inputs=m.net.outputs, input_bounds=[(-1, 1)] * 2)
    m.calm = UpperLipschitzBlock()
    m.calm.build_formulation(
        NETWORK, inputs=[m.net.outputs[0], m.slope.gradient[0] + 1.0], radius=0.1
    )
    m.goal = pyo.Objective(expr=m.x[0])
    return m


PAIRS = [
    ("slope", "net"),
    ("along", "net"),
    ("steep", "net"),
    ("back", "net"),
    ("back", "ball"),
    ("size", "slope"),
    ("far", "net"),
    ("second", "net"),
    ("calm", "slope"),
]


NEEDS = {upper: {b for a, b in PAIRS if a == upper} for upper, _ in PAIRS}
NEEDS["size"] |= {"net"}
NEEDS["calm"] |= {"net"}


@pytest.mark.parametrize(("upper", "lower"), PAIRS)
def test_a_block_on_a_deactivated_one_is_an_error_that_names_both(upper, lower, tmp_path):
    m = rest_on_each_other()
    solve_model(m, "highs")
    for block in m.component_objects(pyo.Block, descend_into=False):
        if block.local_name not in {upper} | NEEDS[upper] - {lower}:
            block.deactivate()
    for solve in (
        lambda m: solve_model(m, "highs"),
        lambda m: pyo.SolverFactory("appsi_highs").solve(m),
        lambda m: m.write(str(tmp_path / "m.lp")),
        lambda m: solve_model(m.clone(), "highs"),
    ):
        with pytest.raises(ProblemError, match=rf"'{upper}'.*'{lower}'.*{lower}\.activate"):
            solve(m)
    m.component(lower).activate()
    solve_model(m, "highs")


@pytest.mark.parametrize("part", ["net", "gradient", "norm"])
def test_a_lipschitz_block_rests_on_its_parts(part):
    m = pyo.ConcreteModel()
    m.steep = LipschitzBlock()
    m.steep.build_formulation(NETWORK, domain=Box(-1, 1, 2), encoding="adjoint")
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    m.steep.component(part).deactivate()
    with pytest.raises(ProblemError, match=f"steep.{part}"):
        solve_model(m, "highs")


def test_a_deactivated_block_around_it_counts_and_both_off_is_fine():
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.plant = pyo.Block()
    m.plant.net, m.slope = ReluNetworkBlock(), GradientBlock()
    m.plant.net.build_formulation(NETWORK, inputs=m.x)
    m.slope.build_formulation(m.plant.net, functional=0)
    m.goal = pyo.Objective(expr=m.x[0])
    m.plant.deactivate()
    with pytest.raises(ProblemError, match=r"'slope'.*'plant'"):
        solve_model(m, "highs")
    m.slope.deactivate()
    assert best(m) == pytest.approx(-1.0)


def test_derivatives_outside_of_a_transformed_disjunct():
    """The network's disjunct is deactivated by the transformation, and lives on elsewhere."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.part = Disjunct([0, 1])
    m.part[0].net = ReluNetworkBlock()
    m.part[0].net.build_formulation(NETWORK, inputs=m.x)
    m.either = Disjunction(expr=[m.part[0], m.part[1]])
    m.part[0].indicator_var.fix(True)
    m.slope = GradientBlock()
    m.slope.build_formulation(m.part[0].net, functional=0)
    m.goal = pyo.Objective(expr=m.slope.gradient[0], sense=pyo.maximize)
    pyo.TransformationFactory("gdp.bigm").apply_to(m)
    plain = model_of(NETWORK)
    plain.slope = GradientBlock()
    plain.slope.build_formulation(plain.net, functional=0)
    plain.goal = pyo.Objective(expr=plain.slope.gradient[0], sense=pyo.maximize)
    assert best(m) == pytest.approx(best(plain), rel=1e-6)


def test_a_network_of_one_unit_is_rebuilt_between_open_and_decided():
    shifted = Network.from_arrays([[[1.0]], [[1.0]]], [[-2.0], [0.0]])  # relu(x - 2)
    m = model_of(shifted, (-1, 1))
    unit = m.net.layer[0].activation[0]
    m.goal = pyo.Objective(expr=unit, sense=pyo.maximize)
    for top, value in ((5.0, 3.0), (1.0, 0.0), (4.0, 2.0)):
        m.x[0].setub(top)
        m.net.rebuild()
        assert best(m) == pytest.approx(value, abs=1e-7)
        assert len(m.net.layer[0].switch) == (top > 2.0)


@pytest.mark.parametrize("how", ["gdp.bigm", "gdp.hull"])
def test_disjuncts_are_rebuilt_after_they_were_transformed(how):
    m = narrow(formulation="gdp")
    pyo.TransformationFactory(how).apply_to(m)
    best(m)
    m = widened(m)
    pyo.TransformationFactory(how).apply_to(m)
    assert best(m) == pytest.approx(wide(lambda m: None), abs=1e-5)


@pytest.mark.parametrize("kind", [GradientBlock, TangentBlock, LipschitzBlock])
def test_a_network_of_the_block_s_own_is_rebuilt_with_it(kind):
    m, fresh = pyo.ConcreteModel(), pyo.ConcreteModel()
    for model, top in ((m, 1.0), (fresh, 2.0)):
        model.x, model.block = pyo.Var([0, 1], bounds=(-1, top)), kind()
        options = {"direction": [1.0, 0.5]} if kind is TangentBlock else {}
        model.block.build_formulation(NETWORK, inputs=model.x, **options)
        model.goal = pyo.Objective(
            expr={
                GradientBlock: lambda b: b.row[0].gradient[1],
                TangentBlock: lambda b: b.derivative[1],
                LipschitzBlock: lambda b: b.value,
            }[kind](model.block),
            sense=pyo.maximize,
        )
    for j in m.x:
        m.x[j].setub(2.0)
    assert rebuild(m) == 1
    assert best(m) == pytest.approx(best(fresh))
