"""``lipyomo map`` from the outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, map_cells, to_onnx

Cli = Callable[..., Ran]


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A network with three inputs."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((6, 3)), rng.standard_normal((2, 6))]
    to_onnx(
        Network.from_arrays(weights, [rng.standard_normal(6), np.zeros(2)]), tmp_path / "n.onnx"
    )
    return tmp_path / "n.onnx"


def test_a_grid_as_in_python(cli: Cli, net: Path) -> None:
    ran = cli("map", net, "--box", "-1,1", "--cells", "4x4", "--output-norm", "l2", "--json")
    assert ran.code == 0
    problem = LipschitzProblem(lipyomo.load(net), Box(-1, 1, 3), output_norm="l2")
    found = map_cells(problem, (4, 4)).to_dict()
    assert ran.json["largest"] == found["largest"]
    assert ran.json["status"] == {"exact": 16}


def test_axes_and_the_others(cli: Cli, net: Path) -> None:
    words = ("map", net, "--box", "0,1", "--cells", "3x2", "--axes", "2,0", "--json", "--quiet")
    ranging, fixed = cli(*words).json, cli(*words, "--at", "0.5").json
    assert ranging["cells"] == fixed["cells"] == 6
    assert fixed["largest"]["x"][1] == 0.5
    assert fixed["largest"]["upper"] <= ranging["largest"]["upper"]


def test_directions(cli: Cli, net: Path) -> None:
    words = ("map", net, "--box", "-1,1", "--cells", "3x3", "--json", "--quiet")
    all_, some = cli(*words).json, cli(*words, "--wrt", "1").json
    problem = LipschitzProblem(lipyomo.load(net), Box(-1, 1, 3), wrt=[1])
    assert some["largest"]["upper"] == pytest.approx(lipyomo.solve(problem).upper, rel=1e-6)
    assert some["largest"]["upper"] < all_["largest"]["lower"]


def test_boxes_of_a_file_and_an_answer_for_people(cli: Cli, net: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.array([[[0.0] * 3, [1.0] * 3], [[-1.0] * 3, [0.0] * 3]]))
    ran = cli("map", net, "--boxes", tmp_path / "b.npy", "--quiet", "--rows", tmp_path / "o.csv")
    assert ran.code == 0
    assert "2 exact" in ran.out
    assert (tmp_path / "o.csv").read_text().count("\n") == 3


def test_refined_cells(cli: Cli, net: Path) -> None:
    ran = cli("map", net, "--box", "0,1", "--cells", "1x1", "--until", "10%", "--json", "--quiet")
    assert ran.code == 0
    assert ran.json["largest_gap"] <= 0.1


def test_no_time_leaves_an_interval_and_says_so(cli: Cli, net: Path) -> None:
    ran = cli("map", net, "--box", "0,1", "--cells", "9x9", "--time-limit", "1e-9", "--json")
    assert ran.code == 2
    assert "time_limit" in ran.json["status"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no cells were given"),
        (("--box", "0,1"), "needs --cells"),
        (("--box", "0,1", "--cells", "4y4"), "64x64"),
        (("--box", "0,1", "--cells", "2x2x2", "--plot", "m.png"), "two axes"),
        (("--box", "0,1", "--cells", "2x2", "--axes", "0,7"), "axes"),
        (("--boxes", "b.npy", "--cells", "2x2"), "cells already"),
        (("--box", "0,1", "--cells", "2x2", "--largest"), "needs --until"),
        (("--box", "0,1", "--cells", "2x2", "--until", "1%", "--gap", "1%"), "give one"),
        (("--box", "0,1", "--cells", "2x2", "--rows", "m.txt"), "should end in"),
        (("--box", "0,1", "--cells", "2x2", "--plot", "m.onnx"), "no known format"),
        (("--box", "0,1", "--cells", "2", "--at", "1,2,3,4"), "--at has 4 entries"),
        (("--box", "0,inf", "--cells", "2x2"), "bounded boxes"),
        (("--boxes", "none.csv"), "holds no boxes"),
    ],
)
def test_wrong_words_are_told(
    words: tuple[str, ...], said: str, cli: Cli, net: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.csv").touch()
    ran = cli("map", net, *words)
    assert ran.code == 1
    assert said in ran.err
    assert ran.err.count("\n") == 1
