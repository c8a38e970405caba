"""``lipyomo property`` from the outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

import lipyomo
from lipyomo import to_onnx
from networks import random_network

Cli = Callable[..., Ran]

TEXT = """(vnnlib-version <2.0>)
(declare-network f (declare-input X real [2]) (declare-output Y float32 [1,2]))
(declare-network g (RELATION f) (declare-input U real [2]) (declare-output V real [2]))
(assert (and (>= X[0] -1) (<= X[0] 1) (>= X[1] -1) (<= X[1] 1)))
(assert (== X[0] U[0]))(assert (== X[1] U[1]))
(assert (> V[0] (+ Y[0,0] EPS)))
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Two networks, whose first outputs are 1 apart, and queries."""
    f = random_network(0, (2, 5, 2))
    to_onnx(f, tmp_path / "f.onnx")
    to_onnx(lipyomo.networks.affine_after(f, np.eye(2), [1.0, 0.0]), tmp_path / "g.onnx")
    for name, eps in (("near", "0.5"), ("far", "1.5")):
        text = TEXT.replace("RELATION", "isomorphic-to").replace("EPS", eps)
        (tmp_path / name).write_text(text)
    (tmp_path / "equal").write_text(TEXT.replace("RELATION", "equal-to").replace("EPS", "0.5"))
    return {path.name: path for path in tmp_path.iterdir()}


def both(files: dict[str, Path]) -> list[str]:
    return [f"--network=f={files['f.onnx']}", f"--network=g={files['g.onnx']}"]


def test_answers_and_exit_codes(cli: Cli, files: dict[str, Path]) -> None:
    ran = cli("property", files["near"], *both(files), "--json")
    assert ran.code == 0
    assert ran.json["verdict"] == "violated"
    assert ran.json["confirmed"] is True
    at = {name: np.ravel(values) for name, values in ran.json["assignment"].items()}
    network = lipyomo.load(files["f.onnx"])
    assert at["Y"] == pytest.approx(network.forward(at["X"]))
    assert at["V"][0] - at["Y"][0] == pytest.approx(1)
    ran = cli("property", files["far"], *both(files))
    assert (ran.code, ran.out.split()[0]) == (0, "holds")
    ran = cli("property", files["equal"], f"--network={files['f.onnx']}")
    assert (ran.code, ran.out.split()[0]) == (0, "holds")


def test_words_of_the_competition(cli: Cli, files: dict[str, Path], tmp_path: Path) -> None:
    ran = cli("property", files["near"], *both(files), "--vnncomp")
    first, *lines = ran.out.splitlines()
    assert (ran.code, first) == (0, "sat")
    heads = [line for line in lines if " " in line]
    assert heads == ["X real [2]", "Y float32 [1,2]", "U real [2]", "V real [2]"]
    assert len(lines) == len(heads) + 8
    numbers = [float(line) for line in lines if " " not in line]
    assert numbers[:2] == numbers[4:6]
    assert cli("property", files["far"], *both(files), "--vnncomp").out == "unsat\n"
    (tmp_path / "one").write_text(
        "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
        "(declare-const Y_1 Real)(assert (>= X_0 0))(assert (<= X_0 1))(assert (== X_1 1))"
    )
    ran = cli("property", tmp_path / "one", "--network", files["f.onnx"], "--vnncomp")
    assert ran.out.startswith("sat\n((X_0 ")
    assert ran.out.endswith("))\n")


def test_what_is_not_decided_in_time(cli: Cli, tmp_path: Path) -> None:
    to_onnx(random_network(0, (12, 40, 40, 40, 1)), tmp_path / "n.onnx")
    box = "".join(f"(assert (>= X[{k}] -1))(assert (<= X[{k}] 1))" for k in range(12))
    (tmp_path / "q").write_text(
        "(declare-network f (declare-input X real [12]) (declare-output Y real [1]))" + box
        + "(assert (>= Y[0] 4))"
    )  # fmt: skip
    words = ("property", tmp_path / "q", "--network", tmp_path / "n.onnx", "--time-limit", "1")
    ran = cli(*words)
    assert (ran.code, ran.out.split()[0]) == (2, "unknown")
    ran = cli(*words, "--vnncomp")
    assert (ran.code, ran.out) == (0, "timeout\n")


def test_files_and_names_have_to_fit(cli: Cli, files: dict[str, Path]) -> None:
    f, g = both(files)
    for words, said in (
        ([files["near"], f], "no file was given"),
        ([files["near"], f, g, f], "given twice"),
        ([files["near"], f, g.replace("g=", "h=", 1)], "declares no 'h'"),
        ([files["near"], f"--network={files['f.onnx']}"], "say which one"),
        ([files["equal"], f, g], "another file"),
        ([files["f.onnx"], f], "no text"),
        (["nothing.vnnlib", f], "nothing.vnnlib"),
    ):
        ran = cli("property", *words)
        assert ran.code == 1
        assert ran.out == ""
        assert said in ran.err
        assert ran.err.count("error") == 1


def test_a_property_goes_on_from_its_checkpoint(cli: Cli, tmp_path: Path) -> None:
    to_onnx(random_network(1, (2, 8, 8, 1)), tmp_path / "n.onnx")
    query = tmp_path / "high.vnnlib"
    bounds = "".join(f"(assert (>= X_{k} -1))(assert (<= X_{k} 1))" for k in (0, 1))
    declared = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0"))
    query.write_text(f"{declared}{bounds}(assert (>= Y_0 100))", encoding="utf-8")
    words = ("property", query, "--network", tmp_path / "n.onnx", "--checkpoint", tmp_path / "c")
    assert (cli(*words).code, (tmp_path / "c").exists()) == (0, True)
    assert cli(*words, "--resume").code == 0
    query.write_text(query.read_text().replace("100", "101"))
    assert "another query" in cli(*words, "--resume").err
    assert "already" in cli(*words).err
