"""First layers that see less than all inputs: boxes of features."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, Curve, Domain, Layer, LipschitzProblem, Network, activation, ball
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.structure.features import Features, features_of, of_features
from lipyomo.search.spaces.boxes.structure.stages import stages_of


def seen_network(rng: np.random.Generator, sizes: tuple[int, ...], rank: int, name: str) -> Network:
    """A network of one activation whose first weight is a product of two of this rank."""
    *hidden, last = (
        (rng.standard_normal((n, k)), rng.standard_normal(n)) for k, n in itertools.pairwise(sizes)
    )
    n, d = hidden[0][0].shape
    hidden[0] = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) / d, hidden[0][1]
    kind = activation(name)
    layers = [Layer(W, b, curves=(Curve(kind, np.arange(len(b))),)) for W, b in hidden]
    return Network([*layers, Layer(*last)])


def features(network: Network, domain: Domain) -> Features | None:
    return features_of(network.hidden[0].dense_weight, domain, Params())


DOMAINS = (Box(-1, 2, 6), ball(np.full(6, 0.3), 1.5, norm="l2"))


@pytest.mark.parametrize("domain", DOMAINS, ids=("box", "ball"))
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_features_hold_pre_activations_and_domain(domain: Domain, rank: int) -> None:
    """W x + b is A y + bias up to `off`, and every y is in the domain of features."""
    rng = np.random.default_rng(rank)
    network = seen_network(rng, (6, 9, 1), rank, "tanh")
    found = features(network, domain)
    assert found is not None
    assert found.basis.shape == (rank, 6)
    assert found.domain.dimension == rank
    corners = np.where(rng.random((50, 6)) < 0.5, domain.lower, domain.upper)
    points = domain.sample(rng, 200)
    points = np.concatenate([points, corners[domain.contains(corners)]])
    y = found.of(points)
    assert found.domain.contains(y, 1e-12).all()
    stages = stages_of(network, network, native=True)[0]
    (first,) = of_features(stages, found, 2.0**-40)
    z = points @ network.hidden[0].dense_weight.T + network.hidden[0].bias
    assert (abs(y @ first.weight.T + first.bias - z) <= 2.0**-40 * first.off + 1e-13).all()
    assert 2.0**-40 * first.off.max() < 1e-11
    assert abs(found.of(found.near(y)) - y).max() < 0.1


def test_facets_of_features_touch_the_box() -> None:
    """The zonotope is no larger than what corners of the box reach."""
    network = seen_network(np.random.default_rng(2), (6, 9, 1), 2, "tanh")
    found = features(network, DOMAINS[0])
    assert found is not None
    corners = np.array(list(itertools.product((-1.0, 2.0), repeat=6)))
    rows = found.domain.rows
    reach = (rows.A @ found.of(corners).T).max(axis=1)
    assert np.allclose(reach, rows.b, rtol=1e-9, atol=1e-12)


def test_layers_of_full_rank_and_clipped_balls_have_none() -> None:
    rng = np.random.default_rng(0)
    full, seen = (seen_network(rng, (4, 9, 1), rank, "tanh") for rank in (4, 2))
    assert features(full, Box(-1, 1, 4)) is None
    clipped = ball(np.zeros(4), 1.0, norm="l2", clip=(-0.5, 0.5))
    assert features(seen, clipped) is None
    many = seen_network(rng, (60, 9, 1), 3, "tanh")
    assert features(many, Box(-1, 1, 60)) is None  # 1770 pairs of facets


def test_inputs_of_a_group_with_too_many_facets_are_kept() -> None:
    """Others have features."""
    rng = np.random.default_rng(0)
    rows = np.zeros((10, 66))
    rows[:4, :60] = rng.standard_normal((4, 3)) @ rng.standard_normal((3, 60))  # 1770 facets
    rows[4:, 60:] = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 6))
    domain = Box(-1, 2, 66)
    found = features_of(rows, domain, Params())
    assert found is not None
    assert found.basis.shape == (62, 66)
    assert (found.basis[:60, :60] == np.eye(60)).all()
    points = domain.sample(rng, 50)
    assert found.domain.contains(found.of(points), 1e-12).all()
    assert np.allclose(rows @ found.basis.T @ found.basis, rows)


@pytest.mark.parametrize("d", range(3, 8))
def test_features_of_flat_boxes_hold_them(d: int) -> None:
    """Some inputs of zero width: then facets may be parallel."""
    rng = np.random.default_rng(d)
    for rank, flat in itertools.product(range(2, d), range(1, 4)):
        rows = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, d))
        high = np.where(rng.permutation(d) < flat, 0.0, 1.0)
        domain = Box(-high, high)
        found = features_of(rows, domain, Params())
        if found is None:  # boxes of inputs are better
            continue
        assert np.allclose(rows @ found.basis.T @ found.basis, rows)
        points = domain.sample(rng, 50)
        assert found.domain.contains(found.of(points), 1e-12).all()


def test_one_input_of_some_width_is_searched_with_all_directions() -> None:
    network = seen_network(np.random.default_rng(0), (4, 3, 1), 3, "tanh")
    high = np.array([1.0, 0.0, 0.0, 0.0])
    found = lipyomo.lipschitz(network, (-high, high), wrt=[0, 1, 2, 3])
    points = np.linspace(-high, high, 200)
    norms = [LipschitzProblem(network, Box(-1, 1, 4)).value_at(x).value for x in points]
    assert max(norms) <= found.upper <= 1.01 * max(norms)


@pytest.mark.parametrize("name", ["tanh", "selu", "elu"])
@pytest.mark.parametrize(
    ("domain", "norm"),
    [(Box(-1, 1, 7), "linf"), (Box(-1, 1, 7), "l1"), (ball(np.zeros(7), 1.0, norm="l2"), "l2")],
)
def test_constants_are_those_of_the_features(name: str, domain: Domain, norm: str) -> None:
    """Exact, not below any Jacobian in the domain, and attained at the witness."""
    rng = np.random.default_rng(len(name))
    network = seen_network(rng, (7, 6, 1), 1, name)
    problem = LipschitzProblem(network, domain, norm)
    found = lipyomo.solve(problem, time_limit=60)
    assert found.status == "exact"
    norms = [problem.value_at(x).value for x in domain.sample(rng, 300)]
    assert max(norms) <= found.upper
    assert found.lower <= problem.value_at(found.witness.point).value * (1 + 1e-9)
    assert domain.contains(found.witness.point)


def test_two_features_are_as_two_inputs() -> None:
    """On a ball of the l2 norm, a rotation of two inputs among nine changes nothing."""
    rng = np.random.default_rng(4)
    network = seen_network(rng, (2, 8, 5, 1), 2, "tanh")
    basis = np.linalg.qr(rng.standard_normal((9, 2)))[0].T
    first, *rest = network.layers
    wide = Network([first.with_map(first.dense_weight @ basis, first.bias), *rest])
    small, large = (
        lipyomo.solve(LipschitzProblem(one, ball(np.zeros(d), 1.0, norm="l2"), "l2"), time_limit=60)
        for one, d in ((network, 2), (wide, 9))
    )
    assert small.status == large.status == "exact"
    assert large.upper == pytest.approx(small.upper, rel=3e-6)


def test_something_is_attained_on_a_thin_polytope() -> None:
    """Ascents end on faces, where rounding leaves points outside."""
    silu = Curve(activation("silu"), [0])
    first = Layer([[-56733996.66510049]], [-56733997.32357943], curves=[silu])
    network = Network([first, Layer([[0.64096467]], [0.0])])
    A, b = [[-0.44399434], [0.79815971]], [0.44399434696555284, -0.7981597096561691]
    thin = lipyomo.Polytope(A, b, [-1.00000002], [-0.99999998])
    found = lipyomo.solve(LipschitzProblem(network, thin), time_limit=30)
    assert found.lower > 0.999 * found.upper
    assert found.witness is not None
    assert thin.holds(found.witness.x)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_inputs_of_no_width_do_not_count(rank: int, seed: int) -> None:
    """Where no more inputs move than there are features, boxes of these are no help."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((9, rank)) @ rng.standard_normal((rank, 8))
    width = np.zeros(8)
    width[rng.permutation(8)[:rank]] = rng.uniform(0.1, 2.0, rank)
    assert features_of(rows, Box(-width, width), Params()) is None
    assert features_of(rows, Box(-1, 1, 8), Params()) is not None
