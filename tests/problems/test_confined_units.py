"""Squares, quotients, exponentials: what a domain proves of their arguments, and what follows."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
from lipyomo import AllSpace, Box, LipschitzProblem, Network, NormBall
from lipyomo.base.errors import LipyomoError, ProblemError
from lipyomo.networks.activations import HALVES, Confined, Exp, Log, Power, Sigmoid, Tanh
from lipyomo.networks.network import Curve, Layer
from lipyomo.problems.domains import Domain
from lipyomo.problems.reductions.confine import confined
from lipyomo.proofs.writing import check_units

KINDS = [Power(2.0), Exp(), Log(), Power(-1.0), Power(0.5), Power(-0.5), Power(3.0), Power(-2.0)]


def random_network(seed: int) -> tuple[Network, Domain]:
    """Tanh units, then functions of their means with offsets that often keep them apart."""
    rng = np.random.default_rng(seed)
    d, n, m = int(rng.integers(1, 4)), int(rng.integers(2, 6)), int(rng.integers(1, 5))
    first = Layer(rng.normal(size=(n, d)), rng.normal(size=n), curves=[Curve(Tanh(), range(n))])
    weight = rng.normal(size=(m, n)) / n
    offset = rng.choice([-1.0, 1.0, 1.0], size=m) * np.abs(weight).sum(axis=1)
    offset *= rng.choice([0.3, 1.01, 2.0], size=m)
    kinds = [KINDS[k] for k in rng.integers(len(KINDS), size=m)]
    units = [[k for k in range(m) if kinds[k] == kind] for kind in dict.fromkeys(kinds)]
    curves = [Curve(kinds[own[0]], own) for own in units]
    second = Layer(weight, offset, 0.0, 1.0, curves)
    third = Layer(rng.normal(size=(3, m)), rng.normal(size=3), 0.0, 1.0, [Curve(Power(2.0), [0])])
    last = Layer(rng.normal(size=(1, 3)), [0.0])
    centre, radius = rng.normal(size=d), 10.0 ** rng.uniform(-2, 0.3)
    domain: Domain = Box(centre - radius, centre + radius)
    if seed % 3 == 0:
        domain = NormBall(centre, radius, "l2")
    return Network([first, second, third, last]), domain


@pytest.mark.parametrize("seed", range(24))
def test_ranges_hold_what_points_lead_to_and_constants_what_they_have(seed: int) -> None:
    network, domain = random_network(seed)
    rng = np.random.default_rng(seed)
    x = domain.sample(rng, 400)
    try:
        problem = LipschitzProblem(network, domain)
    except ProblemError as refused:
        assert "range" in str(refused)  # noqa: PT017
        return
    for layer, z in zip(problem.network.hidden, network.preactivations(x), strict=True):
        for curve in layer.curves:
            if isinstance(curve.activation, Confined):
                own = z[:, curve.units]
                assert curve.activation.low <= own.min()
                assert own.max() <= curve.activation.high
    np.testing.assert_array_equal(network.forward(x), problem.network.forward(x))
    norms = np.abs(network.gradients(x, [1.0])).sum(axis=1)
    step = 1e-6
    inner = x[:20]
    for j in range(network.input_dim):
        shift = step * np.eye(network.input_dim)[j]
        slope = (network.forward(inner + shift) - network.forward(inner - shift)) / (2 * step)
        own = network.gradients(inner, [1.0])[:, j]
        np.testing.assert_allclose(slope[:, 0], own, rtol=1e-4, atol=1e-4 * (1 + np.abs(own).max()))
    found = lipyomo.solve(problem, time_limit=0.2)
    assert found.lower <= found.upper
    assert norms.max() <= found.upper
    assert np.abs(network.forward(x) - network.forward(x[::-1])).max() <= found.upper * np.abs(
        x - x[::-1]
    ).max() * (1 + 1e-9)
    for method in ("naive", "crown", "interval"):
        assert found.lower <= lipyomo.solve(problem, method, time_limit=0.2, attain=False).upper * (
            1 + 1e-12
        )


def single(kind: object, weight: float, bias: float) -> Network:
    unit = Layer([[weight]], [bias], curves=[Curve(kind, [0])])
    return Network([unit, Layer([[1.0]], [0.0])])


@pytest.mark.parametrize(
    ("kind", "low", "high", "constant"),
    [
        (Power(2.0), -1.0, 3.0, 6.0),
        (Power(-1.0), 0.5, 4.0, 4.0),
        (Power(-1.0), -4.0, -0.5, 4.0),
        (Power(0.5), 0.25, 4.0, 1.0),
        (Power(-0.5), 0.25, 4.0, 4.0),
        (Log(), 0.1, 2.0, 10.0),
        (Exp(), -3.0, 1.0, np.e),
        (Power(3.0), -2.0, 1.0, 12.0),
    ],
)
def test_constants_of_one_unit(kind: object, low: float, high: float, constant: float) -> None:
    problem = LipschitzProblem(single(kind, 1.0, 0.0), Box(low, high, 1))
    found = lipyomo.solve(problem)
    assert found.lower <= constant * (1 + 1e-12)
    assert found.upper >= constant * (1 - 1e-12)
    assert found.upper <= constant * (1 + 2e-6)


def test_a_domain_that_reaches_the_singularity_is_refused_with_the_range() -> None:
    network = single(Power(-1.0), 2.0, 1.0)
    with pytest.raises(ProblemError, match=r"reciprocal.*\[-1, 3\]"):
        LipschitzProblem(network, Box(-1, 1, 1))
    assert LipschitzProblem(network, Box(0, 1, 1)).network.hidden[0].curves[0].activation.low > 0.9
    with pytest.raises(ProblemError, match="unbounded"):
        LipschitzProblem(single(Power(2.0), 1.0, 0.0), AllSpace(1))


def test_boxes_are_halved_until_a_range_is_clear_of_the_singularity() -> None:
    """x**2 - x + 0.3 is at least 0.05, which no range of the whole interval says."""
    square = Layer([[1.0], [1.0]], [0.0, 0.0], curves=[Curve(Power(2.0), [0])])
    inverse = Layer([[1.0, -1.0]], [0.3], curves=[Curve(Power(-1.0), [0])])
    network = Network([square, inverse, Layer([[1.0]], [0.0])])
    problem = LipschitzProblem(network, Box(0, 1, 1))
    unit = problem.network.hidden[1].curves[0].activation
    assert isinstance(unit, Confined)
    assert 0.03 < unit.low <= 0.05
    x = np.linspace(0, 1, 100_001)
    true = np.abs((2 * x - 1) / (x * x - x + 0.3) ** 2).max()
    assert lipyomo.solve(problem).upper == pytest.approx(true, rel=1e-5)


def test_another_domain_is_confined_anew() -> None:
    problem = LipschitzProblem(single(Power(2.0), 1.0, 0.0), Box(-1, 1, 1))
    assert problem.over(Box(-3, 3, 1)).network.hidden[0].curves[0].activation.high >= 3.0
    assert lipyomo.solve(problem.over(Box(-3, 3, 1))).upper == pytest.approx(6.0, rel=1e-5)
    again = confined(problem.network, Box(-5, 5, 1))
    assert again.hidden[0].curves[0].activation.high >= 5.0


def test_other_questions_know_them_or_refuse_them_by_name() -> None:
    network, box = single(Power(2.0), 1.0, -0.5), Box(-1, 2, 1)
    found = lipyomo.value_range(network, box)
    assert found.low[0] <= 0.0 <= found.low[1]
    assert found.high[1] == pytest.approx(2.25, rel=1e-6)
    decay = lipyomo.lie_derivative(network, ([[-1.0]], [0.0]), box)  # -2 x (x - 1 / 2)
    assert decay.high[0] <= 0.125 <= decay.high[1]
    assert decay.low[0] <= -6.0 <= decay.low[1]
    check_units(LipschitzProblem(network, box).network)
    with pytest.raises(LipyomoError, match="square"):
        lipyomo.solve(LipschitzProblem(network, box), "mip")


def test_states_of_gates_stay_between_what_they_are_means_of() -> None:
    rng, n, steps = np.random.default_rng(0), 3, 12
    eye, none = np.eye(n), np.zeros((n, n))
    slopes = np.repeat([0.0, 0.0, 1.0], n)
    curves = [Curve(Sigmoid(), range(n)), Curve(Tanh(), range(n, 2 * n))]
    halves = [Curve(HALVES[0], range(n)), Curve(HALVES[1], range(n, 2 * n))]
    gate, change = np.hstack([eye, none, none]), 0.5 * np.hstack([none, eye, -eye])
    rows = np.vstack([0.5 * gate + change, 0.5 * gate - change, np.hstack([none, none, eye])])
    layers, state = [], eye
    for _ in range(steps):
        weight = np.vstack([2.0 * rng.normal(size=(2 * n, n)), eye]) @ state
        bias = np.append(rng.normal(size=2 * n), np.zeros(n))
        layers += [Layer(weight, bias, slopes, slopes, curves)]
        layers += [Layer(rows, np.zeros(3 * n), slopes, slopes, halves)]
        state = np.hstack([eye, -eye, eye])
    net = Network([*layers, Layer(state, np.zeros(n))])
    points = rng.uniform(-1, 1, (4000, n))
    for layer in confined(net, Box(-1, 1, n)).hidden:
        z = points @ layer.dense_weight.T + layer.bias
        for curve in layer.curves:
            if isinstance(curve.activation, Confined):
                own = z[:, curve.units]
                assert curve.activation.low <= own.min() <= own.max() <= curve.activation.high
                assert -2.1 <= curve.activation.low <= curve.activation.high <= 2.1
        points = layer.activate(z)


def test_networks_without_them_are_left_as_they_are() -> None:
    network = Network([Layer([[1.0]], [0.0], curves=[Curve(Tanh(), [0])]), Layer([[1.0]], [0.0])])
    assert confined(network, Box(-1, 1, 1)) is network
