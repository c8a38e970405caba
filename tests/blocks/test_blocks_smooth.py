"""Smooth networks as blocks: expressions, certified bounds, relaxations that hold the graph."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo.contrib.solver.common.factory import SolverFactory
from pyomo_models import best as optimum

from lipyomo import Box, Network
from lipyomo.base.errors import BoundsMissing, ProblemError
from lipyomo.blocks import (
    LipschitzBlock,
    ReluNetworkBlock,
    SmoothNetworkBlock,
    UpperLipschitzBlock,
    rebuild,
)
from lipyomo.networks.activations import activation
from lipyomo.networks.activations.segments import segments_of
from lipyomo.networks.network import Curve, Layer

KINDS = {
    "tanh": activation("tanh"),
    "sigmoid": activation("sigmoid"),
    "softplus": activation("softplus"),
    "softplus(3)": activation("softplus", beta=3.0),
    "elu": activation("elu"),
    "elu(0.5)": activation("elu", alpha=0.5),
    "selu": activation("selu"),
    "celu(2)": activation("celu", alpha=2.0),
    "gelu(tanh)": activation("gelu", approximate="tanh"),
    "silu": activation("silu"),
    "quick_gelu": activation("quick_gelu"),
    "mish": activation("mish"),
    "softsign": activation("softsign"),
    "hard_swish": activation("hard_swish"),
    "sin": activation("sin"),
    "cos": activation("cos"),
}
WITHOUT_EXPRESSION = {"erf": activation("erf"), "gelu": activation("gelu")}


def network_of(kind, sizes=(2, 4, 3, 1), seed=0, mixed=False, scale=1.0) -> Network:
    """Random weights; `mixed` makes every other unit a LeakyReLU."""
    rng = np.random.default_rng(seed)
    layers = []
    for i in range(len(sizes) - 1):
        n, k = sizes[i + 1], sizes[i]
        last = i == len(sizes) - 2
        units = np.arange(0, n, 2 if mixed else 1)
        curves = () if last else (Curve(kind, units),)
        left = 1.0 if last else 0.1
        weight = scale * rng.standard_normal((n, k))
        layers.append(Layer(weight, 0.5 * rng.standard_normal(n), left, 1.0, curves))
    return Network(layers)


def model_of(network, low=-1.0, high=1.0, **options):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(network.input_dim), bounds=(low, high))
    m.net = SmoothNetworkBlock()
    m.net.build_formulation(network, inputs=m.x, **options)
    return m


def set_values(m, network, x) -> None:
    """Give all variables of a model with nonlinear rows the values at a point."""
    for j, value in enumerate(x):
        m.x[j].set_value(value, skip_validation=True)
    h = np.asarray(x, dtype=float)
    for i, layer in enumerate(network.hidden):
        z = layer.preactivation(h)
        h = layer.activate(z)
        block = m.net.layer[i]
        for k, variable in block.preactivation.items():
            variable.set_value(z[k], skip_validation=True)
        for k, variable in block.output.items():
            variable.set_value(h[k], skip_validation=True)
        for key, side in block.side.items() if block.component("side") is not None else ():
            k, right = key
            side.set_value(max(z[k] if right else -z[k], 0.0))
    for k, variable in enumerate(m.net.outputs.values()):
        variable.set_value(network.forward(x)[k], skip_validation=True)


def violation(m) -> float:
    """The largest violation of rows and bounds at the values of a model."""
    worst = 0.0
    for row in m.component_data_objects(pyo.Constraint, active=True):
        body = pyo.value(row.body)
        low, high = pyo.value(row.lower), pyo.value(row.upper)
        worst = max(worst, -np.inf if low is None else low - body)
        worst = max(worst, -np.inf if high is None else body - high)
    for variable in m.component_data_objects(pyo.Var):
        low, high = variable.bounds
        worst = max(worst, -np.inf if low is None else low - variable.value)
        worst = max(worst, -np.inf if high is None else variable.value - high)
    return worst


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("mixed", [False, True])
def test_expressions_are_the_network(name, mixed):
    network = network_of(KINDS[name], mixed=mixed)
    m = model_of(network, -2.0, 2.0)
    rng = np.random.default_rng(1)
    for x in rng.uniform(-2, 2, (20, 2)):
        set_values(m, network, x)
        assert violation(m) < 1e-12
        m.net.outputs[0].set_value(m.net.outputs[0].value + 1e-3)
        assert violation(m) > 1e-4


@pytest.mark.parametrize("name", KINDS)
def test_expressions_do_not_overflow(name):
    network = network_of(KINDS[name], scale=1e4)
    m = model_of(network, -1.0, 1.0)
    for x in ([1.0, 1.0], [-1.0, -1.0], [0.0, 0.0], [1e-4, -1e-4]):
        set_values(m, network, np.array(x))
        scale = max(abs(v.value) for v in m.component_data_objects(pyo.Var))
        assert violation(m) <= 1e-12 * (1.0 + scale)


@pytest.mark.parametrize("low", [-9.0, -4.0, -3.0, -1.0, 0.0, 1.0, 3.0, 4.0])
@pytest.mark.parametrize("name", ["elu(0.5)", "selu", "celu(2)", "softsign", "hard_swish"])
def test_units_on_one_side_of_their_breaks(name, low):
    """Ranges on either side, touching and across the breaks give the same function."""
    unit = Network([Layer([[1.0]], [0.0], curves=[Curve(KINDS[name], [0])])])
    m = model_of(unit, low, low + 3.0)
    for x in np.linspace(low, low + 3.0, 13):
        set_values(m, unit, np.array([x]))
        assert violation(m) < 1e-12


@pytest.mark.parametrize("name", WITHOUT_EXPRESSION)
def test_the_error_function_is_refused_by_name(name):
    network = network_of(WITHOUT_EXPRESSION[name])
    with pytest.raises(ProblemError, match=f"{name} is no expression.*segments"):
        model_of(network)
    model_of(network, segments=2)


@pytest.mark.parametrize("name", [*KINDS, *WITHOUT_EXPRESSION])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_segments_contain_the_graph_in_real_arithmetic(name, count):
    """Bands, checked in fractions against enclosures in Arb at points of all segments."""
    from flint import arb, fmpq

    unit = {**KINDS, **WITHOUT_EXPRESSION}[name]
    low, high = np.array([-1.0, -30.0, -5e-324, 2.9]), np.array([2.0, 40.0, 1e-3, 3.1])
    rng = np.random.default_rng(0)

    def ball(value):
        return arb(fmpq(*float(value).as_integer_ratio()))

    for segments, start, end in zip(segments_of(unit, low, high, count), low, high, strict=True):
        assert 1 <= len(segments) <= count
        assert (segments[0].low, segments[-1].high) == (start, end)
        assert all(a.high == b.low for a, b in pairwise(segments))
        for part in segments:
            for z in [part.low, part.high, *rng.uniform(part.low, part.high, 20)]:
                line = ball(part.slope) * ball(z)
                value = unit.exact(ball(z))[0]
                assert not value < line + ball(part.below)
                assert not value > line + ball(part.above)


@pytest.mark.parametrize("name", ["tanh", "elu(0.5)", "hard_swish", "sin"])
def test_more_segments_are_tighter(name):
    areas = []
    for count in (1, 2, 4, 8, 16, 32):
        (segments,) = segments_of(KINDS[name], np.array([-4.0]), np.array([5.0]), count)
        areas.append(sum((part.high - part.low) * part.gap for part in segments))
    assert all(after < before for before, after in pairwise(areas))
    assert areas[-1] < 0.01 * areas[0]


@pytest.mark.parametrize(
    ("name", "mixed", "sense"),  # all pairs, not all triples
    [
        (name, mixed, (pyo.maximize, pyo.minimize)[(k + mixed) % 2])
        for k, name in enumerate(("tanh", "gelu", "elu(0.5)", "softsign", "mish"))
        for mixed in (False, True)
    ],
)
def test_relaxations_bound_the_network_and_close_in(name, mixed, sense):
    network = network_of({**KINDS, **WITHOUT_EXPRESSION}[name], (2, 3, 2, 1), 3, mixed)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), -1).reshape(-1, 2)
    values = network.forward(grid)[:, 0]
    truth, sign = (values.max(), 1) if sense == pyo.maximize else (values.min(), -1)
    gaps = []
    for segments in (1, 16):
        m = model_of(network, segments=segments)
        m.goal = pyo.Objective(expr=m.net.outputs[0], sense=sense)
        gaps.append(sign * (optimum(m) - truth))
    assert min(gaps) >= -1e-6
    assert gaps[1] <= gaps[0] + 1e-6
    assert gaps[1] <= 0.05 * (values.max() - values.min())


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("erf", -6.2, -4.3),
        ("sigmoid", -25.0, -19.0),
        ("celu", -30.0, -19.0),
        ("softplus", -26.0, -20.0),
    ],
)
def test_bands_of_saturated_units(kind: str, low: float, high: float) -> None:
    """HiGHS drops coefficients below 1e-9, such as slopes of these units."""
    curves = [Curve(activation(kind), [0]), Curve(activation("cos"), [1])]
    network = Network(
        [Layer([[1.0], [1.0]], [0.0, 0.0], curves=curves), Layer([[1.0, 1.0]], [0.0])]
    )
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0], bounds=(low, high))
    m.net = SmoothNetworkBlock(network, m.x, segments=3)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    assert optimum(m) >= network.forward(np.linspace(low, high, 1001)[:, None]).max()


def test_points_of_the_graph_are_feasible_for_a_solver():
    network = network_of(KINDS["silu"], mixed=True)
    rng = np.random.default_rng(2)
    for x in rng.uniform(-1, 1, (5, 2)):
        m = model_of(network, segments=4)
        m.net.outputs[0].fix(float(network.forward(x)[0]))
        for j in (0, 1):
            m.x[j].fix(float(x[j]))
        m.goal = pyo.Objective(expr=0.0)
        assert optimum(m) == 0.0


@pytest.mark.parametrize("name", ["tanh", "softplus", "silu", "sin"])
def test_a_global_solver_finds_the_extremes_of_the_expressions(name):
    scip = SolverFactory("scip_direct")
    if not scip.available():
        pytest.skip("needs pyscipopt")
    network = network_of(KINDS[name], (1, 2, 1))
    m = model_of(network)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    scip.solve(m, time_limit=60)
    truth = network.forward(np.linspace(-1, 1, 2001)[:, None]).max()
    assert pyo.value(m.goal) == pytest.approx(truth, abs=1e-4)


@pytest.mark.parametrize("segments", [None, 3])
def test_bounds_are_certified(segments):
    network = network_of(KINDS["silu"], mixed=True, scale=2.0)
    m = model_of(network, -1.5, 1.0, segments=segments)
    points = np.random.default_rng(0).uniform(-1.5, 1.0, (3000, 2))
    h = points
    for i, layer in enumerate(network.hidden):
        z = layer.preactivation(h)
        h = layer.activate(z)
        for values, variables in ((z, m.net.layer[i].preactivation), (h, m.net.layer[i].output)):
            for k, variable in variables.items():
                assert variable.lb <= values[:, k].min()
                assert values[:, k].max() <= variable.ub


@pytest.mark.parametrize("segments", [None, 2])
def test_indexed_nested_cloned_and_pickled(segments):
    network = network_of(KINDS["tanh"], (2, 3, 1))
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.part = pyo.Block()
    m.part.net = SmoothNetworkBlock(["a", "b"])
    for key in ("a", "b"):
        m.part.net[key].build_formulation(network, inputs=m.x, segments=segments)
    with pytest.raises(ProblemError, match="indexed"):
        m.part.net.build_formulation(network)
    m.goal = pyo.Objective(expr=m.part.net["a"].outputs[0] - m.part.net["b"].outputs[0])
    copies = [m, m.clone(), pickle.loads(pickle.dumps(m))]
    count = len(list(m.component_data_objects(pyo.Constraint)))
    for copy in copies:
        assert len(list(copy.component_data_objects(pyo.Constraint))) == count
        assert copy.part.net["a"].stale() is None
        if segments is not None:
            assert optimum(copy) < 0.0


def test_scaled_as_the_network_is_trained():
    network = network_of(KINDS["sigmoid"], (2, 3, 1))
    scaling = {"input_offset": 10.0, "input_factor": 2.0, "output_factor": 5.0}
    m = model_of(network, 8.0, 12.0, scaling=scaling, segments=4)
    for j, value in enumerate((9.0, 11.0)):
        m.x[j].fix(value)
    found = []
    for sense in (pyo.minimize, pyo.maximize):
        m.goal = pyo.Objective(expr=m.net.outputs[0], sense=sense)
        found.append(optimum(m))
        m.del_component("goal")
    truth = 5.0 * float(network.forward([-0.5, 0.5])[0])
    assert found[0] - 1e-6 <= truth <= found[1] + 1e-6
    assert found[1] - found[0] < 2.0


def test_wider_inputs_ask_for_a_rebuild():
    m = model_of(network_of(KINDS["tanh"]), segments=3)
    m.goal = pyo.Objective(expr=m.net.outputs[0])
    before = optimum(m)
    m.x[0].setub(3.0)
    with pytest.raises(ProblemError, match="no longer fits"):
        optimum(m)
    assert rebuild(m) == 1
    assert optimum(m) <= before + 1e-6


def test_a_built_block_gives_its_network_and_inputs():
    m = model_of(network_of(KINDS["tanh"]))
    m.relaxed = SmoothNetworkBlock()
    m.relaxed.build_formulation(m.net, segments=2)
    assert m.relaxed.network is m.net.network
    m.relaxed.layer[0].preactivation[0].setub(0.0)


def test_unbounded_inputs():
    network = network_of(KINDS["tanh"])
    m = model_of(network, None, None)
    assert m.net.layer[0].output[0].bounds == (-1.0, 1.0)
    with pytest.raises(BoundsMissing):
        model_of(network, None, None, segments=2)


def test_given_bounds_are_taken():
    network = network_of(KINDS["tanh"], (1, 2, 1))
    m = model_of(network, bounds=[([-0.5, -0.25], [0.5, 0.75])])
    assert m.net.layer[0].preactivation[1].bounds == (-0.25, 0.75)
    with pytest.raises(ProblemError, match="bounds"):
        model_of(network, bounds="lp")


@pytest.mark.parametrize("kind", [ReluNetworkBlock, LipschitzBlock])
def test_blocks_of_two_slope_networks_say_what_to_use(kind):
    m = pyo.ConcreteModel()
    m.block = kind()
    with pytest.raises(ProblemError, match=r"smooth units \(tanh\).*SmoothNetworkBlock"):
        m.block.build_formulation(network_of(KINDS["tanh"]))
    assert not m.block.is_built


def test_upper_blocks_say_what_to_use():
    m = pyo.ConcreteModel()
    m.calm = UpperLipschitzBlock()
    with pytest.raises(ProblemError, match=r"smooth units \(tanh\).*SmoothNetworkBlock"):
        m.calm.build_formulation(
            network_of(KINDS["tanh"]), radius=0.1, domain=Box(-np.ones(2), np.ones(2))
        )


def test_a_network_without_smooth_units_is_taken_as_well():
    network = Network.from_arrays([[[1.0], [-1.0]], [[1.0, 1.0]]])
    m = model_of(network, segments=1)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    assert optimum(m) == pytest.approx(1.0, abs=1e-6)
