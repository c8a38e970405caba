"""The search of networks with smooth units: against sampling, on degenerate ones, by limits."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, Polytope, Status, ball
from lipyomo.base.clock import Clock
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer
from lipyomo.primal.heuristics.evaluate import sampled_norms
from lipyomo.problems.domains import AllSpace
from lipyomo.problems.operator_norm import operator_norm
from lipyomo.search.spaces.boxes.context import BoxQuestion
from lipyomo.search.spaces.boxes.norm import Norm
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.pipeline import BoxPipeline
from samples import steepest

NAMES = ["tanh", "sigmoid", "sin", "softplus", "elu", "selu", "gelu", "silu", "mish", "softsign"]
NORMS = [(a, b) for a in ("linf", "l1", "l2") for b in ("linf", "l1", "l2", "cross", "cross(1)")]


def smooth_network(rng, sizes, names, mixed=0.0):
    """A random network; a share of `mixed` of its units are ReLUs."""
    layers = []
    for k, (before, units) in enumerate(pairwise(sizes)):
        weight = rng.normal(size=(units, before)) * 1.5 / np.sqrt(before)
        bias = 0.5 * rng.normal(size=units)
        if k == len(sizes) - 2:
            layers.append(Layer(weight, bias))
            continue
        smooth = np.flatnonzero(rng.random(units) >= mixed)
        kinds = [activation(names[j % len(names)]) for j in range(units)]
        curves = [Curve(kinds[j], [j]) for j in smooth.tolist()]
        layers.append(Layer(weight, bias, 0.0, 1.0, curves))
    return Network(layers)


def sampled_norm(problem, count=1500, seed=0):
    """The largest norm among points of the domain, and among as many near the best of them."""
    points = problem.domain.sample(np.random.default_rng(seed), count)
    best = points[np.argmax(sampled_norms(problem, points))]
    points = np.concatenate([points, best + 0.1 * (points - best)])
    move = ~problem.domain.frozen
    norms = problem.norm, problem.output_norm
    points = steepest(problem, points)
    jacobians = (problem.network.jacobian_at(x)[:, move] for x in points)
    return max(operator_norm(jacobian, *norms).value for jacobian in jacobians)


def solved(problem, **settings):
    """The result of the search, after a look at what it promises."""
    result = lipyomo.solve(problem, "bnb", **{"time_limit": 60.0, **settings})
    assert result.lower <= result.upper
    if result.witness is not None:
        assert problem.domain.contains(result.witness.x)
        assert problem.value_at(result.witness.x).value == pytest.approx(result.lower, rel=1e-9)
    assert sampled_norm(problem) <= result.upper * (1.0 + 1e-12)
    return result


@pytest.mark.parametrize("name", NAMES)
def test_every_activation_is_exact(name):
    network = smooth_network(np.random.default_rng(NAMES.index(name)), (2, 4, 3, 1), [name])
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    result = solved(problem)
    assert result.status is Status.EXACT
    assert result.lower <= 1.05 * sampled_norm(problem)


@pytest.mark.parametrize("norms", NORMS, ids=[f"{a}-{b}" for a, b in NORMS])
def test_every_pair_of_norms_is_exact(norms):
    network = smooth_network(np.random.default_rng(5), (2, 3, 2, 2), ["tanh"])
    problem = LipschitzProblem(network, Box(-1, 1, 2), norms[0], output_norm=norms[1])
    result = solved(problem)
    assert result.status is Status.EXACT
    assert result.lower <= 1.02 * sampled_norm(problem)


@pytest.mark.parametrize("seed", range(2))
def test_mixed_networks_are_exact(seed):
    rng = np.random.default_rng(seed)
    network = smooth_network(rng, (2, 4, 3, 2), ["tanh", "elu", "gelu"], mixed=0.4)
    problem = LipschitzProblem(network, Box(-1, 1, 2), output_norm=("linf", "l1")[seed % 2])
    assert solved(problem).status is Status.EXACT


@pytest.mark.parametrize(
    "domain",
    [
        ball([0.3, 0.2], 1.0, "l2"),
        ball([0.3, 0.2], 1.0, "l1"),
        ball([0.3, 0.2], 1.0, "l2", ([-0.5, -0.5], [1.0, 0.6])),
        Polytope([[1.0, 2.0], [-2.0, 1.0]], [0.7, 0.9], -1, 1),
    ],
    ids=["ball", "cross-polytope", "clipped ball", "polytope"],
)
def test_maxima_on_oblique_faces_are_exact(domain):
    network = smooth_network(np.random.default_rng(8), (2, 4, 3, 1), ["tanh"])
    result = solved(LipschitzProblem(network, domain))
    assert result.status is Status.EXACT
    whole = solved(LipschitzProblem(network, Box(domain.lower, domain.upper)))
    assert result.upper <= whole.upper * (1.0 + 1e-6)


OBLIQUE = Polytope([[1.0, 1.0, 1.0], [1.0, -1.0, 0.5]], [0.5, 0.3], -1, 1)


@pytest.mark.parametrize(
    ("names", "mixed", "domain", "output"),
    [
        (["tanh"], 0.0, ball([0.1, 0.2, 0.3], 0.5, "l2"), "l2"),
        (["tanh"], 0.0, OBLIQUE, "linf"),
        (["elu", "tanh"], 0.5, Box(-1, 1, 2), "l2"),
        (["elu", "tanh"], 0.5, Box(-1, 1, 2), "linf"),
    ],
    ids=["ball", "faces", "kinks", "kinks, linf"],
)
def test_euclidean_inputs_take_few_boxes(names, mixed, domain, output):
    """The bound along a box's direction is that of its own phases, and points up the gradient."""
    network = smooth_network(np.random.default_rng(6), (domain.dimension, 4, 3, 2), names, mixed)
    result = solved(LipschitzProblem(network, domain, "l2", output))
    assert result.status is Status.EXACT
    assert result.nodes < 10_000


def test_all_of_space_gets_a_bound_of_every_box():
    network = smooth_network(np.random.default_rng(2), (2, 4, 3, 1), ["tanh"], mixed=0.3)
    result = lipyomo.solve(LipschitzProblem(network, AllSpace(2)), "bnb", time_limit=20)
    inside = solved(LipschitzProblem(network, Box(-5, 5, 2)))
    assert inside.lower <= result.upper < np.inf


DEGENERATE = {
    "zero biases": lambda: Network(
        [tanh_layer(np.array([[1.0, -1.0], [2.0, 0.5]]), np.zeros(2)), Layer([[1.0, 1.0]], [0.0])]
    ),
    "dead units": lambda: Network(
        [tanh_layer(np.array([[0.0, 0.0], [2.0, 0.5]]), np.ones(2)), Layer([[1.0, 1.0]], [0.0])]
    ),
    "saturated units": lambda: Network(
        [tanh_layer(np.array([[0.1, 0.0], [2.0, 0.5]]), [40.0, 0]), Layer([[1.0, 1.0]], [0.0])]
    ),
    "equal and opposite units": lambda: Network(
        [
            tanh_layer(np.array([[1.0, 0.5], [1.0, 0.5], [-1.0, -0.5]]), [0.1, 0.1, -0.1]),
            Layer([[1.0, 2.0, -1.0]], [0.0]),
        ]
    ),
    "what cancels": lambda: Network(
        [
            tanh_layer(np.array([[1.0, 0.5], [1.0, 0.5]]), np.zeros(2)),
            Layer([[1.0, -1.0]], [0.0]),
        ]
    ),
    "cut off": lambda: Network(
        [tanh_layer(np.array([[1.0, 0.5], [0.0, 0.0]]), [0.0, 0.5]), Layer([[0.0, 3.0]], [0.0])]
    ),
    "steep": lambda: Network([tanh_layer(np.array([[1e4, 1.0]]), [0.3]), Layer([[1.0]], [0.0])]),
}


def tanh_layer(weight, bias):
    return Layer(weight, bias, curves=[Curve(activation("tanh"), range(len(weight)))])


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_networks_are_exact(name):
    result = solved(LipschitzProblem(DEGENERATE[name](), Box(-1, 1, 2)))
    assert result.status is Status.EXACT


@pytest.mark.parametrize("bias", [18.0, 20.0])
def test_boxes_are_not_halved_for_what_rounding_leaves(bias):
    """Slopes of saturated units are below what those of any unit are rounded by."""
    weight = np.array([[0.1, 0.3], [0.2, -0.5]])
    network = Network([tanh_layer(weight, [bias, bias]), Layer([[1.0, 1.0]], [0.0])])
    result = solved(LipschitzProblem(network, Box(-1, 1, 2)))
    assert result.status is Status.PRECISION
    assert result.nodes < 1000
    corner = np.array([-1.0, 1.0])  # where both units are steep
    sizes = abs(np.cosh(weight @ corner + bias) ** -2 @ weight).sum()
    assert sizes <= result.upper * (1 + 1e-12)
    assert result.upper <= 1.05 * result.lower


def test_rounding_alone_is_asked_about_more_and_more_rarely(monkeypatch):
    """After one, two, four, ... batches, of which none is of a few boxes but the last."""
    plans, looks, sizes = [], [], []

    def counted(kind, name, found, what):
        method = getattr(kind, name)

        def called(self, *given, **named):
            found.append(what(*given))
            return method(self, *given, **named)

        monkeypatch.setattr(kind, name, called)

    counted(BoxPipeline, "plan", plans, len)
    counted(Norm, "floor", looks, lambda box, cutoff: len(plans))
    counted(Norm, "bounded", sizes, lambda boxes, cutoff: len(boxes))
    network = smooth_network(np.random.default_rng(0), [4, 16, 16, 1], ["tanh"])
    result = solved(LipschitzProblem(network, Box([-1.0] * 4, [1.0] * 4)))
    assert result.status is Status.EXACT
    assert len(plans) > 4
    assert looks == [2**k for k in range(len(plans).bit_length())]
    assert min(sizes) >= Params().few


def test_one_unit_has_the_constant_of_its_slope():
    network = Network([tanh_layer(np.array([[3.0]]), [1.5]), Layer([[-2.0]], [0.0])])
    inside = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 1)), "bnb")
    assert inside.lower == pytest.approx(6.0, rel=1e-6)  # at -1/2, where tanh is steepest
    beside = lipyomo.solve(LipschitzProblem(network, Box(0, 1, 1)), "bnb")
    assert beside.lower == pytest.approx(6.0 / np.cosh(1.5) ** 2, rel=1e-12)  # on the boundary


def test_negative_derivatives_count_in_every_input_norm():
    network = Network([tanh_layer(-np.eye(2), np.zeros(2)), Layer([[1.0, 3.0]], [0.0])])
    for norm, constant in (("linf", 4.0), ("l1", 3.0), ("l2", np.sqrt(10.0))):
        result = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 2), norm), "bnb")
        assert result.lower == pytest.approx(constant, rel=1e-6)
        assert result.upper >= constant * (1.0 - 1e-12)


def test_frozen_inputs_are_left_out():
    network = smooth_network(np.random.default_rng(3), (3, 4, 3, 1), ["tanh", "elu"])
    frozen = LipschitzProblem(network, Box([-1.0, 0.25, -1.0], [1.0, 0.25, 1.0]))
    assert solved(frozen).status is Status.EXACT


def test_a_kink_is_no_witness():
    """x as 2 (relu(x + 10) - 10) - relu(x) + relu(-x) - 10 tanh(0): slopes at 0 would give 2."""
    hidden = Layer(
        [[1.0], [1.0], [-1.0], [0.5]], [10.0, 0.0, 0.0, 0.0], 0.0, 1.0, [Curve(TANH, [3])]
    )
    network = Network([hidden, Layer([[2.0, -1.0, 1.0, 0.0]], [-20.0])])
    result = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 1)), "bnb", time_limit=10)
    assert result.lower == pytest.approx(1.0, rel=1e-9)


TANH = activation("tanh")


def test_a_functional_and_a_gap_are_met():
    network = smooth_network(np.random.default_rng(4), (2, 6, 5, 2), ["tanh"])
    problem = LipschitzProblem(network, Box(-2, 2, 2), functional=[1.0, -2.0])
    result = solved(problem, gap=0.05)
    assert result.gap <= 0.05
    assert result.nodes < solved(problem).nodes


def test_limits_bind_and_leave_an_interval():
    network = smooth_network(np.random.default_rng(6), (8, 20, 20, 1), ["tanh"])
    result = solved(LipschitzProblem(network, Box(-3, 3, 8)), time_limit=0.5)
    assert result.status is Status.TIME_LIMIT
    assert 0 < result.lower < result.upper < np.inf


def test_too_fine_for_float64_is_said():
    """Far from zero the inputs' last digits move a steep unit by far more than the tolerance."""
    network = Network([tanh_layer(np.array([[1e9]]), [-1e15]), Layer([[1.0]], [0.0])])
    result = lipyomo.solve(LipschitzProblem(network, Box(1e6 - 1, 1e6 + 1, 1)), "bnb", time_limit=9)
    assert result.status in (Status.PRECISION, Status.EXACT)
    assert result.lower <= 1e9 <= result.upper * (1 + 1e-12)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "radius", "constant"),
    [
        ("tanh2", 2, 2.5498391),
        ("sig3", 2, 2.9537412),
        ("tanh4", 2, 2.7651093),
        ("tanh8", 1, 3.071575),
    ],
)
def test_reference_values(name, radius, constant, shared):
    network = lipyomo.load(shared / "smooth" / f"{name}.onnx")
    problem = LipschitzProblem(network, Box(-radius, radius, network.input_dim), output_norm="linf")
    result = lipyomo.solve(problem, "bnb", time_limit=120)
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(constant, rel=1e-6)


def test_breaks_on_faces_of_the_domain_are_no_breaks():
    """The slope of an ELU with alpha 2 jumps from 2 to 1 at -1, an end of the domain."""
    weight, bias = [[1.4933362413593085]], [1.4933362413593085]
    hidden = Layer(weight, bias, curves=[Curve(activation("elu", alpha=2.0), [0])])
    network = Network([hidden, Layer([[1.0]], [0.0])])
    result = solved(LipschitzProblem(network, Box(-1, 1, 1)))
    assert result.status is Status.EXACT
    assert result.upper == pytest.approx(1.4933362413593085, rel=1e-6)


def test_an_interrupted_search_goes_on_where_it_was(tmp_path):
    network = smooth_network(np.random.default_rng(11), (3, 8, 8, 1), ["tanh"])
    problem = LipschitzProblem(network, Box(-1.5, 1.5, 3))
    whole = solved(problem)
    file = tmp_path / "state.ckpt"
    polls = iter(range(10_000))
    part = lipyomo.solve(
        problem, "bnb", checkpoint=file, should_stop=lambda: next(polls) > 20, time_limit=60
    )
    assert part.status is Status.INTERRUPTED
    assert part.lower <= whole.upper
    assert whole.lower <= part.upper
    rest = lipyomo.solve(problem, "bnb", checkpoint=file, resume=True, time_limit=60)
    assert rest.status is Status.EXACT
    assert rest.upper == pytest.approx(whole.upper, rel=1e-6)


def test_two_processes_find_what_one_finds():
    network = smooth_network(np.random.default_rng(12), (2, 6, 5, 2), ["tanh", "elu"])
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    one, two = solved(problem), solved(problem, workers=2)
    assert two.status is Status.EXACT
    assert two.upper == pytest.approx(one.upper, rel=1e-6)


@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
def test_children_and_what_is_fathomed_cover_their_boxes(norm):
    """Random points of random boxes: each is in a child, or its norm is below what was closed."""
    rng = np.random.default_rng(13)
    network = smooth_network(rng, (2, 4, 3, 2), ["tanh", "elu", "selu"], mixed=0.2)
    problem = LipschitzProblem(network, Box(-1, 1, 2), norm, output_norm="linf").reduced.problem
    pipeline = BoxPipeline(Norm(BoxQuestion(problem)))
    nodes = pipeline.root(Clock(), lambda **_: None).outcome.children
    for _ in range(6):
        task = pipeline.plan(nodes, travels=False)
        outcome = pipeline.process(task, Clock(), lambda: None)
        for node in nodes:
            k = int(rng.integers(len(node)))
            for x in rng.uniform(node.low[k], node.high[k], (20, 2)):
                value = problem.value_at(x).value
                inside = [(x >= child.low) & (x <= child.high) for child in outcome.children]
                held = any(found.all(axis=1).any() for found in inside)
                assert held or value <= outcome.closed * (1.0 + 1e-12)
        nodes = outcome.children
        if not nodes:
            break


def test_a_direction_and_its_negative_are_searched_once() -> None:
    """Beyond what float64 numbers resolve, no sign of a direction is left to be decided."""
    curve = Curve(activation("silu"), [0, 1])
    layers = [Layer([[1.0], [0.5]], [-90.0, -80.0], curves=(curve,)), Layer(np.eye(2), [0.0, 0.0])]
    problem = LipschitzProblem(Network(layers), Box(-1, 1, 1), "linf", "l2")
    found = lipyomo.solve(problem, time_limit=2.0)
    assert found.status is Status.PRECISION
    assert found.nodes is not None
    assert found.nodes < 100


def test_a_functional_that_sees_no_input_has_the_constant_zero():
    weight = [[1.0, 0.5], [0.0, 0.0]]
    layers = [tanh_layer(np.eye(2), np.zeros(2)), Layer(weight, [0.0, 1.0])]
    for functional in ([0.0, 2.0], [0.0, 0.0]):
        problem = LipschitzProblem(Network(layers), Box(-1, 1, 2), functional=functional)
        found = lipyomo.solve(problem, "bnb")
        assert (found.lower, found.upper, found.status) == (0.0, 0.0, Status.EXACT)
    frozen = LipschitzProblem(Network(layers), Box([-1, 0.5], [1, 0.5]), functional=[0.0, 2.0])
    assert lipyomo.solve(frozen, "bnb").status is Status.EXACT
    seen = LipschitzProblem(Network(layers), Box(-1, 1, 2), functional=[1e-200, 2.0])
    assert not seen.is_constant


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_boxes_around_common_kinks_may_shrink_until_widths_underflow():
    """Scores of such boxes overflowed."""
    kinked = [Curve(activation("elu", alpha=0.5), np.arange(4))]
    first = Layer([[-1.3], [0.1], [1.3], [1.8]], np.zeros(4), curves=kinked)
    network = Network([first, Layer([[-1.0, -1.4, -0.02, 0.9]], [0.0])])
    found = lipyomo.solve(LipschitzProblem(network, Box(-1e-50, 1e-50, 1)), time_limit=20)
    assert found.lower <= found.upper
    assert found.status in ("exact", "precision")


def test_samples_of_large_networks_end_with_the_time():
    rng, sizes = np.random.default_rng(0), (200, 150, 150)
    kinds = [Curve(activation("tanh"), np.arange(150))]
    hidden = [
        Layer(rng.normal(size=(n, d)) / np.sqrt(d), rng.normal(size=n), curves=kinds)
        for d, n in pairwise(sizes)
    ]
    network = Network([*hidden, Layer(rng.normal(size=(1, 150)), np.zeros(1))])
    began = time.process_time()
    found = lipyomo.smoothness(network, Box(0, 1, 200), time_limit=1.0)
    assert time.process_time() - began < 4.0
    assert 0.0 < found.lower < found.upper < np.inf
