"""Names that changed still do what they did, and warn, for one more version."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.cli.certify import run as certify
from lipyomo.proofs import write_proof
from lipyomo_check import check_proof
from networks import random_network

NETWORK = lipyomo.Network.from_arrays([[[1.0], [-1.0]]])


def test_what_certifies() -> None:
    new = lipyomo.certify_robustness(NETWORK, [[0.5]], radius=0.2, workers=1, methods=["crown"])
    with pytest.warns(DeprecationWarning, match="methods="):
        old = lipyomo.certify_robustness(NETWORK, [[0.5]], radius=0.2, workers=1, ladder=["crown"])
    assert old.rows[0].verdict is new.rows[0].verdict
    assert old.rows[0].method == new.rows[0].method == "crown"


def test_what_certifies_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lipyomo.to_onnx(NETWORK, tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=np.array([[0.5]]), y=np.array([0]))
    words = [str(tmp_path / "net.onnx"), str(tmp_path / "data.npz"), "--radius", "0.2", "--json"]
    certify([*words, "--ladder", "crown"])
    ran = capsys.readouterr()
    assert "--ladder is now --methods" in ran.err
    old = json.loads(ran.out)
    certify([*words, "--methods", "crown"])
    new = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in old["rows"]] == ["crown"]
    assert [row["verdict"] for row in old["rows"]] == [row["verdict"] for row in new["rows"]]


def test_look_ahead_and_progress_of_proofs(tmp_path: Path) -> None:
    problem = LipschitzProblem(random_network(2, (4, 8, 8, 1)), Box(0, 1, 4))
    result = lipyomo.solve(problem, "bnb")
    with pytest.warns(DeprecationWarning, match="look_ahead"):
        assert result.promises is result.look_ahead
    seen: list[int] = []
    with pytest.warns(DeprecationWarning, match="progress="):
        written = write_proof(tmp_path / "p", problem, result, told=seen.append)
    assert seen[-1] == written.cases
    with pytest.warns(DeprecationWarning, match="progress="):
        verdict = check_proof(tmp_path / "p", told=seen.append)
    assert seen[-1] == verdict.nodes
