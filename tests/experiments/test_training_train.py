"""Training: it learns, its penalties shrink weights, equal seeds agree, PyTorch stays optional."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from experiments.training import leaders_dataset, train_classifier, train_regressor
from lipyomo.base.errors import LipyomoError, MissingExtra

DATA = leaders_dataset(2, 100, 4, 2, seed=1)


@pytest.fixture
def torch() -> None:
    pytest.importorskip("torch", reason="training needs the extra [torch]")


def train(**changes: float) -> list[np.ndarray]:
    settings = {"epochs": 40, "lr": 5e-3, "batch_size": 20, "seed": 0} | changes
    return train_classifier((2, 12, 12, 2), DATA.points, DATA.labels, **settings).weights


@pytest.mark.usefixtures("torch")
def test_a_classifier_learns_and_keeps_its_snapshots() -> None:
    trained = train_classifier(
        (2, 12, 12, 2),
        DATA.points,
        DATA.labels,
        epochs=80,
        lr=1e-2,
        batch_size=20,
        snapshots=[0, 10, 80],
    )
    assert list(trained.snapshots) == [0, 10, 80]
    network = trained.network()
    assert network.sizes == (2, 12, 12, 2)
    rates = [
        (trained.network(epoch).forward(DATA.points).argmax(axis=1) == DATA.labels).mean()
        for epoch in (0, 80)
    ]
    assert rates[0] < rates[1]
    assert rates[1] > 0.9
    np.testing.assert_array_equal(trained.snapshots[80][0][1], trained.weights[1])
    with pytest.raises(LipyomoError, match="snapshots were taken at: 0, 10, 80"):
        trained.network(7)


@pytest.mark.usefixtures("torch")
def test_equal_seeds_give_equal_weights() -> None:
    first, again, other = train(), train(), train(seed=1)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])


@pytest.mark.usefixtures("torch")
def test_training_leaves_the_global_random_state_and_threads_alone() -> None:
    import torch

    torch.manual_seed(11)
    expected, threads = torch.rand(3), torch.get_num_threads()
    torch.manual_seed(11)
    train(epochs=1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


@pytest.mark.usefixtures("torch")
def test_penalties_shrink_what_they_penalise() -> None:
    plain = train()
    assert sum(np.abs(w).sum() for w in train(l1=1e-2)) < 0.7 * sum(np.abs(w).sum() for w in plain)
    assert sum((w**2).sum() for w in train(l2=1e-2)) < 0.7 * sum((w**2).sum() for w in plain)


@pytest.mark.usefixtures("torch")
def test_fgsm_training_resists_fgsm_examples() -> None:
    """Two stripes 0.5 apart: a robust network keeps its answer when both move by 0.2."""
    rng = np.random.default_rng(0)
    points = rng.random((200, 2))
    points[:, 0] = np.where(rng.random(200) < 0.5, 0.0, 0.5) + 0.01 * points[:, 0]
    labels = (points[:, 0] > 0.25).astype(int)
    settings = {"epochs": 60, "lr": 1e-2, "batch_size": 20, "seed": 0}
    margins = []
    for step in (0.0, 0.2):
        network = train_classifier((2, 12, 2), points, labels, fgsm=step, **settings).network()
        worst = np.concatenate([network.forward(points + np.array([d, 0.0])) for d in (-0.2, 0.2)])
        own = np.tile(labels, 2)
        gaps = worst[np.arange(400), own] - worst[np.arange(400), 1 - own]
        margins.append((gaps > 0).mean())
    assert margins[1] == 1.0
    assert margins[1] >= margins[0]


@pytest.mark.usefixtures("torch")
def test_a_regressor_fits_a_piecewise_linear_function() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (500, 2))
    values = np.abs(points[:, 0]) - 0.5 * points[:, 1]
    trained = train_regressor((2, 12, 1), points, values, epochs=80, lr=2e-2, batch_size=50)
    error = trained.network().forward(points)[:, 0] - values
    assert np.sqrt((error**2).mean()) < 0.05


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("points", "labels", "part"),
    [
        (DATA.points[:, :1], DATA.labels, "samples have shape"),
        (DATA.points[:0], DATA.labels[:0], "samples have shape"),
        (DATA.points, DATA.labels[:5], "as many classes"),
        (DATA.points, DATA.labels + 1, "0 to 1"),
    ],
)
def test_data_that_do_not_fit_are_refused(
    points: np.ndarray, labels: np.ndarray, part: str
) -> None:
    with pytest.raises(LipyomoError, match=part):
        train_classifier((2, 4, 2), points, labels, epochs=1)


@pytest.mark.usefixtures("torch")
def test_a_regressor_refuses_values_of_the_wrong_number() -> None:
    with pytest.raises(LipyomoError, match="100 values, got 99"):
        train_regressor((2, 4, 1), DATA.points, np.zeros(99), epochs=1)


def test_without_torch_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"lipyomo\[torch\]"):
        train_classifier((2, 4, 2), DATA.points, DATA.labels, epochs=1)


def test_importing_the_room_does_not_import_torch() -> None:
    code = "import sys, experiments.training; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
