"""Networks of one output: what decides, and which are regressors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo import LipyomoError, Network
from lipyomo.analyses.certification import Classifier
from lipyomo.networks.activations import Sigmoid
from lipyomo.networks.layer import Curve, Layer
from networks import random_network

POINTS = np.random.default_rng(0).uniform(-1.0, 1.0, (8, 2))


def with_sigmoid(seed: int = 3) -> tuple[Network, Network]:
    """A network that ends in a sigmoid, and its logit."""
    logit = random_network(seed, (2, 6, 1))
    head = Layer(logit.head.weight, logit.head.bias, curves=[Curve(Sigmoid(), [0])])
    return Network([*logit.hidden, head]), logit


def certify(
    network: Any, labels: Any = None, points: Any = POINTS, **more: Any
) -> lipyomo.RobustnessReport:
    return lipyomo.certify_robustness(network, points, labels, radius=0.05, workers=1, **more)


def test_a_final_sigmoid_decides_at_a_half() -> None:
    network, logit = with_sigmoid()
    classes = (network.forward(POINTS)[:, 0] > 0.5).astype(int)
    assert 0 < classes.sum() < len(POINTS)
    report = certify(network)
    assert [row.predicted for row in report.rows] == classes.tolist()
    same = certify(logit, threshold=0.0)
    assert [row.certified_radius for row in report.rows] == [
        row.certified_radius for row in same.rows
    ]
    assert report.decision.startswith("class 1 if y > 0.5")
    assert not Classifier(network).network.smooth


@pytest.mark.parametrize("threshold", [0.3, 0.8])
def test_any_threshold_decides(threshold: float) -> None:
    network, logit = with_sigmoid()
    points = POINTS[:4]
    report = certify(network, points=points, threshold=threshold)
    values = network.forward(points)[:, 0]
    assert [row.predicted for row in report.rows] == (values > threshold).astype(int).tolist()
    same = certify(logit, points=points, threshold=float(np.log(threshold / (1 - threshold))))
    for row, other in zip(report.rows, same.rows, strict=True):
        assert row.certified_radius <= other.adversarial_radius * (1 + 1e-9)
        assert other.certified_radius <= row.adversarial_radius * (1 + 1e-9)


def test_probabilities_of_other_units_decide_at_a_half() -> None:
    clip = Network.from_arrays([np.ones((1, 2)), [[-1.0]], [[-1.0]]], [[0.5], [1.0], [1.0]])
    assert Classifier(clip).decision == "class 1 if y > 0.5"
    linear = Network.from_arrays([np.ones((1, 2))])
    assert Classifier(linear).decision == "class 1 if y > 0"


@pytest.mark.parametrize(
    ("labels", "more", "good"),
    [
        (None, {}, False),
        ([0.5] * 8, {}, False),
        ([0, 2] * 4, {}, False),
        ([-1, 1] * 4, {}, False),
        ([-1, 1] * 4, {"threshold": 0.0}, False),
        ([0, 1] * 4, {}, True),
        (None, {"threshold": 0.5}, True),
        (None, {"threshold": float("nan")}, False),
    ],
)
def test_regressors_are_refused(labels: Any, more: dict[str, float], good: bool) -> None:
    network = random_network(1, (2, 4, 1))
    if good:
        assert certify(network, labels, **more).used == 8
        return
    with pytest.raises(LipyomoError, match=r"Remedy|threshold") as caught:
        certify(network, labels, **more)
    if not more:
        for word in ("sweep", "range", "jacobian", "monotone", "--threshold"):
            assert word in str(caught.value)


def test_a_threshold_needs_one_output_and_a_probability_one_inside() -> None:
    with pytest.raises(LipyomoError, match="largest"):
        certify(random_network(0, (2, 3, 2)), threshold=0.5)
    for wrong in (0.0, 1.0, 1.5):
        with pytest.raises(LipyomoError, match="between 0 and 1"):
            certify(with_sigmoid()[0], threshold=wrong)


def test_files_are_taken_and_their_examples_confirmed(tmp_path: Path) -> None:
    network, _ = with_sigmoid()
    lipyomo.to_onnx(network, tmp_path / "net.onnx")
    report = certify(tmp_path / "net.onnx")
    assert [row.verdict for row in report.rows] == [row.verdict for row in certify(network).rows]


def test_one_radius_for_each_row() -> None:
    network, radii = random_network(0, (2, 4, 2)), np.linspace(0.01, 0.4, 8)
    report = lipyomo.certify_robustness(network, POINTS, radius=radii, workers=1)
    for k, row in enumerate(report.rows):
        one = lipyomo.certify_robustness(network, POINTS[[k]], radius=radii[k], workers=1).rows[0]
        assert row.radius == radii[k]
        assert (row.verdict, row.label) == (one.verdict, one.label)
    assert report.radius is None
    for wrong in (radii[:3], -radii):
        with pytest.raises(LipyomoError):
            lipyomo.certify_robustness(network, POINTS, radius=wrong, workers=1)


def test_reasons_are_counted() -> None:
    network = random_network(0, (2, 4, 2))
    points = np.vstack([POINTS[:2], [[np.nan, 0.0]]])
    found = lipyomo.certify_robustness(network, points, radius=0.1, workers=1).summary()
    ((reason, many),) = found["why unusable"].items()
    assert "NaN" in reason
    assert many == found["unusable"] == 1
