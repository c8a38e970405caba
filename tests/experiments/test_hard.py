"""The hard set: its table, its networks, and a run beside the same sources."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.hard import FAMILIES, Compared, Question, Run, run, table
from experiments.problems import he
from experiments.reference import ROOT
from experiments.training.plain import fit_classifier
from lipyomo import Box


def test_a_family_is_judged_by_geometric_means():
    exact, open_ = (lambda s: Run(1, 1, True, 8, s)), (lambda gap: Run(1, 1 + gap, False, 2, 30))
    results = [
        Compared("a", (exact(2.0), exact(8.0))),
        Compared("a", (exact(4.0), exact(4.0))),
        Compared("a", (open_(0.3), open_(0.1))),
        Compared("b", (exact(1.0),)),
    ]
    first, second = (row.split(" | ") for row in table(results)[2:])
    assert first[:3] == ["| a", "3", "2"]
    assert first[5:] == ["0.50", "3.00 |"]
    assert second[5:] == ["", " |"]


def test_a_run_solves_the_question_that_is_asked(tmp_path):
    asked = Question(he((3, 6, 2), 0), Box(-1.0, 1.0, 3), ("--functional", "1,-1"))
    found = run(asked.command(tmp_path), ROOT / "src", 30.0)
    assert found.exact
    assert found.lower <= found.upper
    assert found.seconds > 0


def test_no_run_but_the_first_compiles_what_it_imports(tmp_path):
    asked = Question(he((3, 6, 2), 0), Box(-1.0, 1.0, 3), ("--functional", "1,-1"))
    words, cache = asked.command(tmp_path), tmp_path / "bytecode"
    run(words, ROOT / "src", 30.0, cache)
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("lipyomo/**/*.pyc")}
    assert kept
    run(words, ROOT / "src", 30.0, cache)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_an_error_is_shown():
    with pytest.raises(RuntimeError, match="nosuch"):
        run(["nosuch.onnx", "--box", "0,1"], ROOT / "src", 1.0)


@pytest.mark.parametrize("family", ["Chen-like 80-80", "random 10-20-30-20-2"])
def test_seeds_are_networks_of_their_own(family, tmp_path):
    one, again, other = (FAMILIES[family](tmp_path, seed).network for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.layers[0].weight, again.layers[0].weight)
    assert not np.array_equal(one.layers[0].weight, other.layers[0].weight)


def test_training_in_numpy_learns_and_repeats():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (600, 3))
    labels = (points[:, 0] * points[:, 1] > 0).astype(int)
    weights, biases = fit_classifier((3, 16, 16, 2), points, labels, epochs=150, seed=1)
    signal = points
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        signal = np.maximum(signal @ weight.T + bias, 0)
    outputs = signal @ weights[-1].T + biases[-1]
    assert (outputs.argmax(axis=1) == labels).mean() > 0.9
    again, _ = fit_classifier((3, 16, 16, 2), points, labels, epochs=150, seed=1)
    np.testing.assert_array_equal(weights[1], again[1])
    assert (weights[0] == weights[0].astype(np.float32)).all()
