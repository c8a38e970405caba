"""Directions on the command line: some inputs, weights, a matrix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

import lipyomo
from lipyomo import Box, LipschitzProblem

Cli = Callable[..., Ran]
NET = Path(__file__).resolve().parents[2] / "models" / "iris.onnx"
BOX = ("--box", "4,5")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Two rows of data."""
    path = tmp_path / "rows.npy"
    np.save(path, np.array([[5.0, 3.5, 1.4, 0.2], [6.0, 2.9, 4.5, 1.5]]))
    return path


def test_words_mean_what_python_means(cli: Cli, tmp_path: Path) -> None:
    network, box = lipyomo.load(NET), Box(4, 5, 4)
    matrix = np.array([[1.0, 0.0], [0.5, 0.0], [0.0, 2.0], [0.0, 0.0]])
    np.save(tmp_path / "T.npy", matrix)
    (tmp_path / "asked.toml").write_text('wrt = [0, 3]\nbox = "4,5"\n')
    cases = [
        (("--wrt", "0,3", *BOX), {"wrt": [0, 3]}, "wrt 0, 3"),
        (("--config", tmp_path / "asked.toml"), {"wrt": [0, 3]}, "wrt 0, 3"),
        (("--wrt", "1:", *BOX), {"wrt": slice(1, None)}, "wrt 1, 2, 3"),
        (("--weights", "1,2,0,0.5", *BOX), {"weights": [1, 2, 0, 0.5]}, "3 weighted inputs"),
        (("--directions", tmp_path / "T.npy", *BOX), {"directions": matrix}, "2 directions"),
    ]
    for words, asked, shown in cases:
        truth = lipyomo.solve(LipschitzProblem(network, box, **asked))
        ran = cli(NET, *words, "--quiet")
        assert ran.code == 0, ran.err
        assert shown in ran.out
        found = json.loads(cli(NET, *words, "--quiet", "--json").out)
        assert found["lower"] == pytest.approx(truth.lower, rel=1e-6)
        told = found["problem"]["directions"]
        given = np.zeros(told["shape"])
        for row, column, value in told["entries"]:
            given[row, column] = value
        assert np.array_equal(given, lipyomo.LipschitzProblem(network, box, **asked).directions)


def test_infinite_weights(cli: Cli) -> None:
    ran = cli(NET, *BOX, "--weights", "1,1,inf,1", "--quiet")
    assert ran.code == 0
    assert "infinite" in ran.out


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_balls_are_in_the_weighted_norm(cli: Cli, rows: Path, norm: str) -> None:
    words = (NET, rows, "--norm", norm, "--quiet", "--json")
    plain = json.loads(cli("sweep", *words, "--radius", "0.1").out)["rows"]
    weighted = json.loads(cli("sweep", *words, "--radius", "0.2", "--weights", "0.5").out)["rows"]
    for one, other in zip(plain, weighted, strict=True):
        assert other["lower"] == pytest.approx(0.5 * one["lower"], rel=1e-5)
    one = json.loads(cli("certify", *words, "--radius", "0.1").out)["rows"]
    other = json.loads(cli("certify", *words, "--radius", "0.2", "--weights", "0.5").out)["rows"]
    assert [row["verdict"] for row in one] == [row["verdict"] for row in other]


def test_a_sweep_over_directions(cli: Cli, rows: Path) -> None:
    words = ("sweep", NET, rows, "--radius", "0.1", "--quiet", "--json")
    every = json.loads(cli(*words).out)["rows"]
    some = json.loads(cli(*words, "--wrt", "2").out)["rows"]
    assert all(a["upper"] < b["upper"] for a, b in zip(some, every, strict=True))
    ran = cli(*words, "--wrt", "2", "--weights", "1")
    assert ran.code == 1
    assert "not with --weights" in ran.err
