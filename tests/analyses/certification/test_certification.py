"""Robustness verdicts against what is known by hand, by sampling, and by the exact MIP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import lipyomo
from lipyomo.analyses.certification import (
    Classifier,
    PointSettings,
    RobustnessVerdict,
    certify_point,
)
from lipyomo.analyses.certification.exact import least_margin, proves_positive
from lipyomo.analyses.certification.nearest import find_example
from lipyomo.base.errors import LipyomoError
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Box
from networks import random_network
from oracle import regions

DUAL_ORDER = {"linf": 1, "l2": 2, "l1": np.inf}


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_linear_classifier_has_the_radius_of_the_textbook(norm: str) -> None:
    rng = np.random.default_rng(0)
    W, b = rng.standard_normal((3, 4)), rng.standard_normal(3)
    network = lipyomo.Network.from_arrays([W], [b])
    points = rng.standard_normal((12, 4))
    report = lipyomo.certify_robustness(network, points, radius=0.1, norm=norm, workers=1)
    for row, x in zip(report.rows, points, strict=True):
        values = W @ x + b
        i = int(values.argmax())
        truth = min(
            (values[i] - values[j]) / np.linalg.norm(W[i] - W[j], DUAL_ORDER[norm])
            for j in range(3)
            if j != i
        )
        assert row.predicted == i
        assert row.certified_radius <= truth * (1 + 1e-12)
        assert row.certified_radius >= truth * (1 - 2e-3)
        assert row.adversarial_radius >= truth * (1 - 1e-9)
        assert row.verdict is (
            RobustnessVerdict.ROBUST if truth > 0.1 else RobustnessVerdict.NOT_ROBUST
        )


@pytest.mark.parametrize(
    ("norm", "seed"), [("linf", 0), ("linf", 1), ("l2", 1), ("l2", 2), ("l1", 2), ("l1", 0)]
)
def test_nothing_certified_is_ever_refuted(norm: str, seed: int) -> None:
    network = random_network(seed, (2, 8, 6, 3))
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (4, 2))
    report = lipyomo.certify_robustness(
        network, points, radius=0.15, norm=norm, clip=(-1, 1), workers=1, time_limit=5
    )
    classifier = Classifier(network, norm, (-1.0, 1.0))
    for row, x in zip(report.rows, points, strict=True):
        assert row.error is None
        assert row.certified_radius < row.adversarial_radius
        domain = classifier.ball(x, row.certified_radius) if row.certified_radius > 0 else None
        if domain is not None:
            tries = domain.sample(rng, 4000)
            tries = tries[classifier.distance(x, tries) <= row.certified_radius]
            assert (classifier.predict(tries) == row.predicted).all()
        if row.example is not None:
            found = np.array(row.example)
            assert classifier.predict(found[None])[0] != row.predicted
            assert classifier.distance(x, found[None])[0] <= row.adversarial_radius
            assert (np.abs(found) <= 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_every_verdict_is_that_of_the_exact_model(seed: int) -> None:
    network = random_network(seed, (3, 6, 5, 3))
    points = np.random.default_rng(seed).uniform(-1, 1, (3, 3))
    quick = lipyomo.certify_robustness(network, points, radius=0.2, workers=1, methods=["margins"])
    whole = lipyomo.certify_robustness(
        network, points, radius=0.2, workers=1, methods=[], exact=True, solver="highs"
    )
    assert whole.count(RobustnessVerdict.OPEN) == 0
    for fast, slow in zip(quick.rows, whole.rows, strict=True):
        assert fast.verdict in (slow.verdict, RobustnessVerdict.OPEN)


@pytest.mark.parametrize("method", ["fastlip", "sdp", "bnb", "interval"])
def test_each_lipschitz_method_certifies_what_it_proves(method: str) -> None:
    network = random_network(3, (2, 5, 3))
    classifier = Classifier(network)
    x = np.array([0.4, -0.3])
    outer = certify_point(classifier, x, None, PointSettings(0.5)).adversarial_radius
    radius = 0.05 * outer
    row = certify_point(classifier, x, None, PointSettings(radius, methods=(method,)))
    assert row.verdict is RobustnessVerdict.ROBUST
    assert row.method == method
    assert radius <= row.certified_radius < outer


def nearest_other_class(network: lipyomo.Network, x: np.ndarray, label: int, box: Box) -> float:
    """Least linf distance of a point of another class in a box, over all activation regions."""
    d, least = x.size, np.inf
    for pattern, inside in regions(network, box):
        rows, right = [], []
        slope, offset = np.eye(d), np.zeros(d)
        for layer, on in zip(network.hidden, pattern, strict=True):
            slope, offset = layer.weight @ slope, layer.weight @ offset + layer.bias
            sign = np.where(on, -1.0, 1.0)
            rows.append(sign[:, None] * slope)
            right.append(-sign * offset)
            steps = layer.slopes(on)
            slope, offset = steps[:, None] * slope, steps * offset
        slope, offset = (
            network.head.weight @ slope,
            network.head.weight @ offset + network.head.bias,
        )
        assert network.forward(inside) == pytest.approx(slope @ inside + offset)
        for j in range(network.output_dim):
            if j == label:
                continue
            near = np.hstack([np.vstack([np.eye(d), -np.eye(d)]), -np.ones((2 * d, 1))])
            A = np.vstack([*rows, (slope[label] - slope[j])[None]])
            A = np.vstack([np.hstack([A, np.zeros((len(A), 1))]), near])
            b = np.concatenate([*right, [offset[j] - offset[label]], x, -x])
            bounds = [*zip(box.lower, box.upper, strict=True), (0, None)]
            found = linprog(np.append(np.zeros(d), 1.0), A, b, bounds=bounds)
            if found.status == 0:
                least = min(least, float(found.fun))
    return least


@pytest.mark.parametrize("seed", range(3))
def test_radii_enclose_the_truth_of_all_regions(seed: int) -> None:
    network = random_network(seed, (2, 5, 3, 3))
    points = np.random.default_rng(seed).uniform(-1, 1, (2, 2))
    given: dict[str, Any] = {"exact": True, "solver": "highs"}
    for more in ({}, *[given] * 5):  # a busy machine may leave a solver's claim unchecked, not five
        report = lipyomo.certify_robustness(
            network, points, radius=0.2, clip=(-1, 1), workers=1, time_limit=20, **more
        )
        met = bool(more)
        for row, x in zip(report.rows, points, strict=True):
            truth = nearest_other_class(network, x, row.predicted, Box(-1.0, 1.0, 2))
            assert row.certified_radius <= truth * (1 + 1e-6)
            assert row.adversarial_radius >= truth * (1 - 1e-6)
            if np.isfinite(row.adversarial_radius):
                met &= row.adversarial_radius <= truth * (1 + 1e-3)
        if met:
            break
    assert met


def test_a_network_with_one_output_has_two_classes() -> None:
    network = lipyomo.Network.from_arrays([[[2.0]]], [[-1.0]])
    report = lipyomo.certify_robustness(network, [[0.0], [2.0]], [0, 0], radius=0.4, workers=1)
    assert [row.verdict for row in report.rows] == [
        RobustnessVerdict.ROBUST,
        RobustnessVerdict.MISCLASSIFIED,
    ]
    assert report.rows[0].certified_radius == pytest.approx(0.5, rel=2e-3)


def test_bad_rows_spoil_nothing() -> None:
    network = random_network(0, (2, 3, 2))
    inputs = np.array([[0.1, 0.2], [np.nan, 0.0], [5.0, 0.0], [0.3, 0.3]])
    report = lipyomo.certify_robustness(
        network, inputs, [0, 0, 0, 7], radius=0.01, clip=(-1, 1), workers=1
    )
    errors = [row.error for row in report.rows]
    assert errors[0] is None
    assert "NaN" in str(errors[1])
    assert "clip" in str(errors[2])
    assert "label 7" in str(errors[3])
    assert report.used == 1
    half = lipyomo.certify_robustness(network, inputs[:1], [0.5], radius=0.01, workers=1)
    assert "label" in str(half.rows[0].error)
    wide = lipyomo.certify_robustness(network, np.zeros((2, 3)), radius=0.01, workers=1)
    assert all("3 entries" in str(row.error) for row in wide.rows)


def test_wrong_arguments_are_one_sentence() -> None:
    network = random_network(0, (2, 3, 2))
    points = np.zeros((2, 2))
    for keywords in (
        {"radius": 0.0},
        {"radius": np.nan},
        {"radius": 0.1, "methods": ["clever"]},
        {"radius": 0.1, "labels": [0]},
        {"radius": 0.1, "labels": ["a", "b"]},
        {"radius": 0.1, "norm": "l3"},
        {"radius": 0.1, "workers": 0},
    ):
        with pytest.raises(LipyomoError):
            lipyomo.certify_robustness(network, points, **keywords)


def test_summary_and_curves_add_up(models: Path) -> None:
    network = lipyomo.load(models / "mnist17_s0.onnx")
    data = np.load(models / "mnist17_images.npz")
    report = lipyomo.certify_robustness(
        network, data["images"][:4], data["labels"][:4], radius=0.02, clip=(0, 1), workers=1,
        onnx=models / "mnist17_s0.onnx",
    )  # fmt: skip
    found = report.summary()
    assert found["rows"] == 4
    assert sum(found[str(verdict)] for verdict in RobustnessVerdict) == report.used == 4
    assert found["decided"] == 1.0
    radii = np.linspace(0.0, 0.5, 20)
    inner, outer = report.certified_accuracy(radii), report.attacked_accuracy(radii)
    assert (np.diff(inner) <= 0).all()
    assert (inner <= outer).all()
    assert inner[0] == found["clean accuracy"]
    assert report.to_dict()["rows"][0]["index"] == 0


def test_with_the_exact_model_the_radius_is_known_to_a_thousandth() -> None:
    network = random_network(1, (3, 6, 5, 3))
    points = np.random.default_rng(1).uniform(-1, 1, (2, 3))
    report = lipyomo.certify_robustness(
        network, points, radius=0.1, clip=(-1, 1), workers=1, exact=True, solver="highs",
        time_limit=60,
    )  # fmt: skip
    for row in report.rows:
        if np.isfinite(row.adversarial_radius):
            assert row.certified_radius < row.adversarial_radius
            assert row.certified_radius >= row.adversarial_radius * (1 - 2e-3)


def test_what_a_solver_s_tolerance_hides_does_not_shorten_the_radius() -> None:
    # a margin of 2 - x - y beside values of 1e5: a solver's tolerance is worth a tenth
    kinks = Layer(np.eye(2), [0.0, 0.0], 0.0, 1.0)
    network = Network([kinks, Layer([[-1.0, -1.0], [0.0, 0.0]], [1e5 + 2.0, 1e5])])
    classifier = Classifier(network)
    settings = PointSettings(4.0, methods=("exact",), solver="highs", time_limit=60)
    row = certify_point(classifier, np.zeros(2), None, settings)
    ball = classifier.ball(np.zeros(2), 0.99)
    assert least_margin(classifier, ball, 0, 0, "highs", 60.0).bound <= 0
    assert 0.99 < row.certified_radius <= 1.0 <= row.adversarial_radius < 1.01
    assert row.basis == "proved"


@pytest.mark.parametrize("methods", [["fastlip"], ["crown"], ["bnb"], ["margins"]])
def test_radii_of_single_methods_are_never_refuted(methods: list[str]) -> None:
    network = random_network(5, (2, 8, 6, 3))
    points = np.random.default_rng(5).uniform(-1, 1, (2, 2))
    report = lipyomo.certify_robustness(
        network, points, radius=0.4, workers=1, methods=methods, time_limit=5
    )
    exact = lipyomo.certify_robustness(
        network, points, radius=0.4, workers=1, exact=True, solver="highs", time_limit=60
    )
    for row, truth in zip(report.rows, exact.rows, strict=True):
        assert 0 < row.certified_radius < truth.adversarial_radius


def test_processes_and_a_cluster_give_the_same_rows() -> None:
    distributed = pytest.importorskip("distributed", reason="extra [dask] is not installed")
    network = random_network(0, (3, 6, 3))
    points = np.random.default_rng(0).uniform(-1, 1, (6, 3))

    def rows(**where: object) -> list[tuple[object, ...]]:
        report = lipyomo.certify_robustness(network, points, radius=0.1, **where)
        return [
            (r.index, r.verdict, r.method, r.certified_radius, r.adversarial_radius)
            for r in report.rows
        ]

    here = rows(workers=1)
    assert rows(workers=2) == here
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        assert rows(dask=cluster.scheduler_address) == here


def test_examples_are_checked_where_the_graph_was_cut(tmp_path: Path) -> None:
    network = lipyomo.Network.from_arrays([[[1.0], [-1.0]]])
    path = tmp_path / "net.onnx"
    lipyomo.to_onnx(network, path)
    import onnx

    output = onnx.load(path).graph.output[0].name
    report = lipyomo.certify_robustness(
        network, [[0.1]], radius=0.2, workers=1, onnx=(path, output)
    )
    assert report.rows[0].verdict is RobustnessVerdict.NOT_ROBUST


def test_where_no_row_is_usable_nothing_is_decided() -> None:
    report = lipyomo.certify_robustness(
        random_network(0, (2, 3, 2)), np.full((2, 2), np.nan), radius=0.1
    )
    assert report.used == 0
    assert report.decided == report.summary()["decided"] == 0.0


def test_a_file_that_was_exported_again_is_read_again(tmp_path: Path) -> None:
    """What confirms an example is the file as it is when rows are asked for."""
    path = tmp_path / "net.onnx"
    sloped = lipyomo.Network.from_arrays([[[1.0], [-1.0]]])
    flat = lipyomo.Network.from_arrays([[[0.0], [0.0]]], [[1.0, 0.0]])
    found = []
    for network in (sloped, flat, sloped):
        lipyomo.to_onnx(network, path)
        report = lipyomo.certify_robustness(sloped, [[0.1]], radius=0.2, workers=1, onnx=path)
        found.append(report.rows[0].verdict)
    assert found == [
        RobustnessVerdict.NOT_ROBUST,
        RobustnessVerdict.OPEN,
        RobustnessVerdict.NOT_ROBUST,
    ]


def test_the_file_of_another_network_is_refused(tmp_path: Path) -> None:
    lipyomo.to_onnx(lipyomo.Network.from_arrays([[[1.0, 0.0], [-1.0, 2.0]]]), tmp_path / "two.onnx")
    network = lipyomo.Network.from_arrays([[[1.0], [-1.0]]])
    for name, words in (("two.onnx", "takes 2 inputs"), ("none.onnx", "no file")):
        with pytest.raises(LipyomoError, match=words):
            lipyomo.certify_robustness(
                network, [[0.1]], radius=0.2, workers=1, onnx=tmp_path / name
            )


def test_a_certificate_says_what_it_rests_on() -> None:
    network = random_network(1, (3, 6, 5, 3))
    points = np.random.default_rng(1).uniform(-1, 1, (4, 3))
    report = lipyomo.certify_robustness(
        network, points, radius=0.05, workers=1, methods=[], exact=True, solver="highs",
        radii=False, time_limit=60,
    )  # fmt: skip
    bases = [row.basis for row in report.rows]
    assert report.count(RobustnessVerdict.ROBUST) > 0
    for row in report.rows:
        assert (row.basis is not None) == (row.certified_radius > 0)
        assert row.basis is None or row.basis == "proved" or row.basis.startswith("solver (highs")
    word = sum(basis not in (None, "proved") for basis in bases)
    assert report.summary()["on a solver's word"] == word
    assert [type(row).from_dict(row.to_dict()) for row in report.rows] == list(report.rows)


def test_the_proof_of_positive_margins_holds_for_what_is_robust_and_for_nothing_else() -> None:
    network = random_network(1, (3, 6, 5, 3))
    classifier = Classifier(network)
    x = np.random.default_rng(1).uniform(-1, 1, 3)
    label = int(classifier.predict(x[None])[0])
    least = classifier.least_margins(Box(x, x), label)
    example = find_example(classifier, x, label, 0.1, np.random.default_rng(0))
    assert example is not None
    for share in (0.5, 0.9, 1.001, 2.0):
        radius = share * example.distance
        # a solver that claims too much may not make it true
        claimed = 1e-3 * least
        proved = proves_positive(classifier, x, radius, label, claimed, least, seconds=100.0)
        assert proved == (share < 1)


def test_verdicts_without_radii_are_the_same() -> None:
    network = random_network(3, (3, 8, 6, 3))
    points = np.random.default_rng(3).uniform(-1, 1, (10, 3))
    ask = {"radius": 0.15, "clip": (-1, 1), "workers": 1}
    whole = lipyomo.certify_robustness(network, points, **ask)
    quick = lipyomo.certify_robustness(network, points, radii=False, **ask)
    verdicts = [row.verdict for row in whole.rows]
    assert {RobustnessVerdict.ROBUST, RobustnessVerdict.NOT_ROBUST} <= set(verdicts)
    assert [row.verdict for row in quick.rows] == verdicts
    for row in quick.rows:
        assert row.certified_radius == (0.15 if row.verdict is RobustnessVerdict.ROBUST else 0.0)
        assert row.verdict is not RobustnessVerdict.NOT_ROBUST or row.adversarial_radius <= 0.15
