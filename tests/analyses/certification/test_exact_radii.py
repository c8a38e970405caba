"""The smallest adversarial perturbation: against all regions, sampling, and the MIP."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import lipyomo
from lipyomo import Layer, LipyomoError, Network
from lipyomo.analyses.certification import Classifier, RobustnessVerdict
from lipyomo.analyses.certification.nearest import farthest, find_example, smallest_perturbation
from lipyomo.base.clock import Clock
from lipyomo.primal.regions.value import value_at
from lipyomo.problems.affine.signal import affine_pieces
from lipyomo.problems.domains import Box
from lipyomo.problems.norms import LinearOutput
from networks import integer_network, mixed_network, random_network
from oracle import regions

NORMS = ("linf", "l1", "l2")


def closed(certified: float, adversarial: float) -> bool:
    return 0.0 <= adversarial - certified <= 1e-6 * adversarial


def true_distance(network: Network, x: np.ndarray, label: int, norm: str, box: Box) -> float:
    """The least distance of another class in a box, by a program for each region."""
    least, d = np.inf, x.size
    for pattern, inside in regions(network, box):
        *pieces, (J, g) = affine_pieces(network, pattern)
        rows, right = [np.zeros((0, d))], [np.zeros(0)]
        for layer, on, (G, h) in zip(network.hidden, pattern, pieces, strict=True):
            sign = np.where(on, -1.0, 1.0)[layer.kinked]
            rows.append(sign[:, None] * G[layer.kinked])
            right.append(-sign * h[layer.kinked])
        for rival in range(len(g)):
            if rival == label:
                continue
            A = np.vstack([*rows, J[[label]] - J[[rival]]])
            b = np.concatenate([*right, [g[rival] - g[label]]])
            steps = np.vstack([np.hstack([A, -A]), np.hstack([-np.eye(d), np.eye(d)])])
            # x + s - t with s, t >= 0
            limits = np.concatenate([b - A @ x, x - box.lower])
            steps = np.vstack([steps, np.hstack([np.eye(d), -np.eye(d)])])
            limits = np.concatenate([limits, box.upper - x])
            cost = {
                "l1": lambda w: w.sum(),
                "l2": lambda w: np.square(w[:d] - w[d:]).sum(),
                "linf": lambda w: w[-1],
            }[norm]
            start = np.append(np.maximum(inside - x, 0), np.maximum(x - inside, 0))
            if norm == "linf":
                near = -np.ones((2 * d, 1))
                steps = np.hstack([steps, np.zeros((len(steps), 1))])
                steps = np.vstack([steps, np.hstack([np.eye(2 * d), near])])
                limits = np.append(limits, np.zeros(2 * d))
                start = np.append(start, start.max())
            found = minimize(
                cost,
                start,
                bounds=[(0, None)] * start.size,
                constraints={"type": "ineq", "fun": lambda w, A=steps, b=limits: b - A @ w},
                tol=1e-12,
            )
            if found.success and (steps @ found.x <= limits + 1e-8).all():
                value = found.fun**0.5 if norm == "l2" else found.fun
                least = min(least, float(value))
    return least


@pytest.mark.parametrize(
    ("norm", "seed"), [("linf", 0), ("linf", 1), ("l1", 1), ("l1", 2), ("l2", 2), ("l2", 0)]
)
def test_it_is_the_least_distance_over_all_regions(norm: str, seed: int) -> None:
    network = random_network(seed, (2, 4, 3, 3))
    x = np.random.default_rng(seed).uniform(-1, 1, 2)
    report = lipyomo.certify_robustness(
        network, [x], radius=0.2, norm=norm, clip=(-1, 1), workers=1, exact=True
    )
    row = report.rows[0]
    assert row.predicted is not None
    truth = true_distance(network, x, row.predicted, norm, Box(-1.0, 1.0, 2))
    if np.isinf(truth):
        assert np.isinf(row.adversarial_radius)
        assert row.certified_radius > 0
    else:
        assert closed(row.certified_radius, row.adversarial_radius)
        assert row.certified_radius <= truth * (1 + 1e-6)
        assert row.adversarial_radius >= truth * (1 - 1e-6)


@pytest.mark.parametrize(
    ("norm", "make", "seed"),  # all pairs, not all triples
    [
        (norm, make, (j + k) % 2)
        for j, norm in enumerate(NORMS)
        for k, make in enumerate([random_network, mixed_network, integer_network])
    ],
)
def test_no_attack_is_nearer_than_what_is_certified(norm: str, make, seed: int) -> None:
    network = make(seed, (3, 5, 4, 3))
    points = np.random.default_rng(seed).uniform(-1, 1, (2, 3))
    report = lipyomo.certify_robustness(
        network, points, radius=0.2, norm=norm, clip=(-1.5, 1.5), workers=1, exact=True,
        time_limit=3,
    )  # fmt: skip
    classifier = Classifier(network, norm, (-1.5, 1.5))
    for row, x in zip(report.rows, points, strict=True):
        assert row.error is None
        assert row.predicted is not None
        assert row.certified_radius <= row.adversarial_radius
        if row.certified_radius > 0:
            ball = classifier.ball(x, row.certified_radius)
            tries = ball.sample(np.random.default_rng(seed), 3000)
            tries = tries[classifier.distance(x, tries) <= row.certified_radius]
            assert (classifier.predict(tries) == row.predicted).all()
            found = find_example(
                classifier, x, row.predicted, row.certified_radius, np.random.default_rng(seed)
            )
            assert found is None or found.distance > row.certified_radius
        if row.example is not None:
            example = np.array(row.example)
            other = int(classifier.predict(example[None])[0])
            gain = np.eye(3)[other] - np.eye(3)[row.predicted]
            least = value_at(network, gain, example)[0]
            assert least > 0 or (least == 0 and other < row.predicted)
            assert classifier.distance(x, example[None])[0] <= row.adversarial_radius
            if make is not integer_network:  # margins that vanish all over a piece leave a gap
                assert closed(row.certified_radius, row.adversarial_radius)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("weights", "seed"), [((4.0, 0.5, 1.0), 0), ((0.25, 2.0, 8.0), 1)])
def test_weighted_radii_are_those_of_the_scaled_network(norm: str, weights, seed: int) -> None:
    network = random_network(seed, (3, 5, 3, 3))
    x, scale = np.random.default_rng(seed).uniform(-1, 1, 3), np.array(weights)
    scaled = Network([Layer(np.diag(scale), np.zeros(3)), *network.layers])  # rounds nothing
    ask = {"radius": 0.1, "norm": norm, "workers": 1, "exact": True}
    row = lipyomo.certify_robustness(network, [x], clip=(-4, 4), weights=weights, **ask).rows[0]
    ends = -4.0 / scale, 4.0 / scale
    plain = lipyomo.certify_robustness(scaled, [x / scale], clip=ends, **ask).rows[0]
    assert row.certified_radius > 0
    assert row.certified_radius == pytest.approx(plain.certified_radius, rel=2e-6)
    assert row.adversarial_radius == pytest.approx(plain.adversarial_radius, rel=2e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(3))
def test_weighted_radii_hold_in_the_weighted_ball(norm: str, seed: int) -> None:
    network, weights = random_network(seed, (2, 6, 4, 3)), np.array([3.3, 0.3])
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, 2)
    row = lipyomo.certify_robustness(
        network, [x], radius=0.1, norm=norm, clip=(-4, 4), weights=weights, workers=1, exact=True
    ).rows[0]
    classifier = Classifier(network, norm, (-4, 4), weights)
    tries = x + row.certified_radius * weights * rng.uniform(-1, 1, (50_000, 2))
    tries = np.clip(tries, -4, 4)
    tries = tries[classifier.distance(x, tries) <= row.certified_radius]
    assert len(tries) > 1000
    assert (classifier.predict(tries) == row.predicted).all()
    if row.example is not None:
        assert closed(row.certified_radius, row.adversarial_radius)
        assert classifier.predict(np.array([row.example]))[0] != row.predicted


def test_a_metric_of_a_dual_ball_has_exact_radii() -> None:
    network = random_network(3, (2, 6, 4, 2))
    metric = LinearOutput(vertices=[[3.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    x = np.array([[0.2, -0.4]])
    row = lipyomo.certify_robustness(
        network, x, radius=0.1, norm=metric, clip=(-2, 2), workers=1, exact=True
    ).rows[0]
    assert closed(row.certified_radius, row.adversarial_radius)
    scaled = lipyomo.certify_robustness(  # three times as far in the first input
        Network([Layer(np.diag([1 / 3, 1.0]), np.zeros(2)), *network.layers]),
        x * [3.0, 1.0],
        radius=0.1,
        norm=LinearOutput(vertices=[[1.0, 0.0], [0.0, 1.0], [1 / 3, 1.0]]),
        clip=([-6, -2], [6, 2]),
        workers=1,
        exact=True,
    ).rows[0]
    assert scaled.certified_radius == pytest.approx(row.certified_radius, rel=2e-6)


def test_radii_agree_with_the_mip() -> None:
    network = random_network(1, (3, 6, 5, 3))
    points = np.random.default_rng(1).uniform(-1, 1, (2, 3))
    where = {"radius": 0.1, "clip": (-1, 1), "workers": 1, "exact": True, "time_limit": 60}
    ours = lipyomo.certify_robustness(network, points, **where)
    mips = lipyomo.certify_robustness(network, points, **where, solver="highs")
    for row, other in zip(ours.rows, mips.rows, strict=True):
        assert row.certified_radius >= other.certified_radius * (1 - 1e-6)
        assert row.adversarial_radius <= other.adversarial_radius * (1 + 1e-6)
        assert other.certified_radius <= row.adversarial_radius


def test_where_all_valid_inputs_have_one_class_the_box_is_certified() -> None:
    network = Network([Layer([[1.0], [-1.0]], [5.0, 0.0])])
    row = lipyomo.certify_robustness(
        network, [[0.25]], radius=0.1, clip=(-1, 1), workers=1, exact=True
    ).rows[0]
    assert row.verdict is RobustnessVerdict.ROBUST
    assert row.certified_radius == pytest.approx(1.25)
    assert row.certified_radius >= farthest(
        Classifier(network, "linf", (-1, 1)), np.array([0.25]), 9
    )
    assert np.isinf(row.adversarial_radius)


def test_a_tie_is_no_example_and_no_certificate() -> None:
    # the margin is |x - 1/2| around a point where it vanishes, and negative from 2 on
    bend = Layer([[1.0], [-1.0], [1.0]], [-0.5, 0.5, -2.0], 0.0, 1.0)
    network = Network([bend, Layer([[1.0, 1.0, -3.0], [0.0, 0.0, 0.0]], [0.0, 0.0])])
    row = lipyomo.certify_robustness(
        network, [[0.0]], radius=0.1, clip=(0, 4), workers=1, exact=True
    ).rows[0]
    assert row.verdict is RobustnessVerdict.ROBUST
    assert row.certified_radius == pytest.approx(0.5, rel=1e-6)
    assert row.adversarial_radius == pytest.approx(2.75, rel=1e-6)


def test_shipped_images_are_closed(models: Path) -> None:
    data = np.load(models / "mnist17_images.npz")
    network = lipyomo.load(models / "mnist17_s1.onnx")
    report = lipyomo.certify_robustness(
        network, data["images"][:5], data["labels"][:5], radius=0.05, clip=(0, 1), workers=1,
        exact=True, onnx=models / "mnist17_s1.onnx",
    )  # fmt: skip
    for row in report.rows:
        assert closed(row.certified_radius, row.adversarial_radius)
        assert row.basis == "proved"


def test_limits_bind() -> None:
    network = random_network(0, (12, 40, 40, 40, 3))
    classifier = Classifier(network)
    x = np.random.default_rng(0).uniform(-1, 1, 12)
    label = int(classifier.predict(x[None])[0])
    clock = Clock(1.0)
    certified, example = smallest_perturbation(classifier, x, label, 4.0, clock)
    assert clock.seconds < 10.0
    assert 0.0 <= certified <= 4.0
    if example is not None:
        assert certified <= example.distance


def smooth_network(seed: int, sizes: tuple[int, ...], activation: str) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((n, k)) * np.sqrt(2 / k) for k, n in pairwise(sizes)]
    biases = [0.3 * rng.standard_normal(n) for n in sizes[1:]]
    return Network.from_arrays(weights, biases, activation=activation)


@pytest.mark.parametrize(
    ("norm", "activation", "weights"),  # all pairs, not all triples
    [
        (norm, activation, (None, (0.4, 2.5, 1.0))[(i + j) % 2])
        for i, norm in enumerate(NORMS)
        for j, activation in enumerate(("tanh", "gelu", "elu"))
    ],
)
def test_radii_of_smooth_networks_are_exact(norm: str, weights, activation: str) -> None:
    network = smooth_network(1, (3, 4, 4, 3), activation)
    rng = np.random.default_rng(1)
    x, clip = rng.uniform(-1, 1, 3), (-2.0, 2.0)
    classifier = Classifier(network, norm, clip, weights)
    row = lipyomo.certify_robustness(
        network, [x], radius=0.1, norm=norm, clip=clip, weights=weights, workers=1, exact=True,
        time_limit=60,
    ).rows[0]  # fmt: skip
    assert row.predicted is not None
    scale = np.ones(3) if weights is None else np.array(weights)
    tries = x + row.certified_radius * scale * rng.uniform(-1, 1, (20_000, 3))
    tries = np.clip(tries, *clip)
    tries = tries[classifier.distance(x, tries) <= row.certified_radius]
    assert (classifier.predict(tries) == row.predicted).all()
    if row.example is None:
        assert row.certified_radius >= farthest(classifier, x, np.inf) * (1 - 1e-6)
        return
    assert closed(row.certified_radius, row.adversarial_radius)
    example = np.array(row.example)
    gain = np.eye(3)[int(classifier.predict(example[None])[0])] - np.eye(3)[row.predicted]
    assert value_at(network, gain, example)[0] >= 0
    assert classifier.distance(x, example[None])[0] <= row.adversarial_radius


def test_a_smooth_network_of_one_layer_has_the_radius_of_the_formula() -> None:
    # tanh(x0) + tanh(x1) > 1: nearest to zero in l2 on the diagonal, in linf likewise
    network = Network.from_arrays(
        [np.eye(2), [[0.0, 0.0], [1.0, 1.0]]], [[0, 0], [0, -1.0]], activation="tanh"
    )
    for norm, truth in (("linf", np.arctanh(0.5)), ("l2", 2**0.5 * np.arctanh(0.5))):
        row = lipyomo.certify_robustness(
            network, [[0.0, 0.0]], radius=0.1, norm=norm, clip=(-3, 3), workers=1, exact=True
        ).rows[0]
        assert row.certified_radius <= truth <= row.adversarial_radius
        assert closed(row.certified_radius, row.adversarial_radius)


def test_what_smooth_networks_have_no_exact_radii_for_is_refused_by_name() -> None:
    network = Network.from_arrays([np.eye(2), np.eye(2)], activation="tanh")
    ask = {"radius": 0.1, "workers": 1, "exact": True}
    with pytest.raises(LipyomoError, match=r"exact with a solver"):
        lipyomo.certify_robustness(network, [[0.1, 0.2]], solver="highs", **ask)
    metric = LinearOutput(vertices=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    with pytest.raises(LipyomoError, match=r"exact in the metric of a dual ball"):
        lipyomo.certify_robustness(network, [[0.1, 0.2]], norm=metric, **ask)
    row = lipyomo.certify_robustness(
        network, [[0.1, 0.4]], radius=0.1, norm=metric, workers=1
    ).rows[0]
    assert row.verdict is RobustnessVerdict.ROBUST
