"""``--proof`` writes what ``lipyomo verify`` confirms, and nothing else passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

import lipyomo
from lipyomo.onnx import write

Cli = Callable[..., Ran]


@pytest.fixture
def proof(cli: Cli, net: Path, tmp_path: Path) -> Path:
    path = tmp_path / "proof.json"
    ran = cli(net, "--box", "0,8", "--margin", "1", "--method", "bnb", "--proof", path)
    assert ran.code == 0, ran.err
    return path


def test_a_proof_is_confirmed(cli: Cli, net: Path, proof: Path) -> None:
    ran = cli("verify", proof, net, "--json")
    assert ran.code in (0, 2), ran.err
    assert ran.json["lower_holds"]
    assert ran.json["upper_holds"] is not False
    assert ran.json["lower"] <= ran.json["upper"]
    text = cli("verify", proof, net)
    assert text.code == ran.code
    assert "FAILS" not in text.out


def test_an_upper_end_of_the_bound_ladder_is_confirmed(cli: Cli, tmp_path: Path) -> None:
    affine = tmp_path / "affine.onnx"
    write(lipyomo.Network.from_arrays([np.array([[2.0, -1.0]])]), affine)
    path = tmp_path / "proof.json"
    assert cli(affine, "--box", "0,1", "--proof", path).code == 0
    ran = cli("verify", path, affine, "--json")
    assert ran.json["lower_holds"]
    assert ran.json["lower"] == pytest.approx(3.0)
    assert ran.code == (0 if ran.json["upper_holds"] else 2)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_a_forged_interval_fails(cli: Cli, net: Path, proof: Path, end: str) -> None:
    data = json.loads(proof.read_text())
    data["interval"][end] = data["interval"]["lower"] * (1.01 if end == "lower" else 0.99)
    proof.write_text(json.dumps(data))
    ran = cli("verify", proof, net, "--json")
    assert ran.code == 1
    assert not ran.json["lower_holds"] or ran.json["upper_holds"] is False


def test_another_network_fails(cli: Cli, models: Path, proof: Path) -> None:
    assert cli("verify", proof, models / "iris_scaler.onnx").code == 1


def test_files_that_are_no_proofs(cli: Cli, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    for text in ("", "[]", "{}", '{"format": 3}'):
        path.write_text(text)
        ran = cli("verify", path, net)
        assert ran.code == 1
        assert ran.err.startswith("lipyomo: error: ")
    assert cli("verify", tmp_path / "none.json", net).code == 1
    assert cli("verify").code == 1


def test_no_witness_no_proof(cli: Cli, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    ran = cli(net, "--box", "0,8", "--method", "naive", "--proof", path)
    assert ran.code == 1
    assert "witness" in ran.err
    assert not path.exists()
