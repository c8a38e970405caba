"""Robustness verdicts against what is known by hand, by sampling, and by the exact MIP."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo.certification import Classifier, PointSettings, Verdict, certify_point
from lipyomo.errors import LipyomoError
from networks import random_network

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
        assert row.verdict is (Verdict.ROBUST if truth > 0.1 else Verdict.NOT_ROBUST)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_certified_is_ever_refuted(norm: str, seed: int) -> None:
    network = random_network(seed, (2, 8, 6, 3))
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (6, 2))
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
    points = np.random.default_rng(seed).uniform(-1, 1, (5, 3))
    quick = lipyomo.certify_robustness(network, points, radius=0.2, workers=1, ladder=["margins"])
    whole = lipyomo.certify_robustness(
        network, points, radius=0.2, workers=1, ladder=[], exact=True, solver="highs"
    )
    assert whole.count(Verdict.OPEN) == 0
    for fast, slow in zip(quick.rows, whole.rows, strict=True):
        assert fast.verdict in (slow.verdict, Verdict.OPEN)


@pytest.mark.parametrize("rung", ["fastlip", "sdp", "bnb", "interval"])
def test_each_lipschitz_rung_certifies_what_it_proves(rung: str) -> None:
    network = random_network(3, (2, 5, 3))
    classifier = Classifier(network)
    x = np.array([0.4, -0.3])
    outer = certify_point(classifier, x, None, PointSettings(0.5)).adversarial_radius
    radius = 0.05 * outer
    row = certify_point(classifier, x, None, PointSettings(radius, ladder=(rung,)))
    assert row.verdict is Verdict.ROBUST
    assert row.method == rung
    assert radius <= row.certified_radius < outer


def test_a_network_with_one_output_has_two_classes() -> None:
    network = lipyomo.Network.from_arrays([[[2.0]]], [[-1.0]])
    report = lipyomo.certify_robustness(network, [[0.0], [2.0]], [0, 0], radius=0.4, workers=1)
    assert [row.verdict for row in report.rows] == [Verdict.ROBUST, Verdict.MISCLASSIFIED]
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
        {"radius": 0.1, "ladder": ["clever"]},
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
        network, data["images"][:6], data["labels"][:6], radius=0.02, clip=(0, 1), workers=2,
        onnx=models / "mnist17_s0.onnx",
    )  # fmt: skip
    found = report.summary()
    assert found["rows"] == 6
    assert sum(found[str(verdict)] for verdict in Verdict) == report.used == 6
    assert found["decided"] == 1.0
    radii = np.linspace(0.0, 0.5, 20)
    inner, outer = report.certified_accuracy(radii), report.attacked_accuracy(radii)
    assert (np.diff(inner) <= 0).all()
    assert (inner <= outer).all()
    assert inner[0] == found["clean accuracy"]
    assert report.to_dict()["rows"][0]["index"] == 0
