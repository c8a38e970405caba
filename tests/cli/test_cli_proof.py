"""``--proof`` writes what ``lipyomo verify`` confirms, and nothing else passes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

import lipyomo
from lipyomo.base.system.threads import usable_cores
from lipyomo.formats.onnx import write

Cli = Callable[..., Ran]


@pytest.fixture
def proof(cli: Cli, net: Path, tmp_path: Path) -> Path:
    path = tmp_path / "net.proof"
    ran = cli(net, "--box", "0,8", "--margin", "1", "--method", "bnb", "--proof", path)
    assert ran.code == 0, ran.err
    return path


def test_both_ends_are_confirmed(cli: Cli, net: Path, proof: Path) -> None:
    ran = cli("verify", proof, net, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["upper_proved"]
    assert ran.json["lower"] <= ran.json["upper"] <= ran.json["lower"] * (1 + 2e-6)
    text = cli("verify", proof, net)
    assert text.code == 0
    assert "cross(1)" in text.out
    assert "[0.0, 8.0]^4" in text.out


SLOW = """
import os, pathlib, sys, time
from lipyomo_check import check

def share(*_):
    pathlib.Path(__file__).with_name("process").write_text(f"{os.getpid()}\\n")
    time.sleep(1000.0)

def run():
    from lipyomo.cli.main import main
    check._check_share = share
    main(["verify", *sys.argv[1:], "--workers", "2"])
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.skipif(usable_cores() < 2, reason="one core has one process")
def test_processes_end_after_a_check_that_was_killed(
    net: Path, proof: Path, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    said = tmp_path / "process"
    with subprocess.Popen(
        [sys.executable, "-c", "import slow; slow.run()", proof, net],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    ) as run:
        until = time.monotonic() + 60.0
        while not (said.exists() and said.read_text()) and time.monotonic() < until:
            time.sleep(0.1)
        other = Path("/proc") / said.read_text().strip()
        assert other.exists()
        run.kill()
        until = time.monotonic() + 30.0
        while other.exists() and time.monotonic() < until:
            time.sleep(0.1)
    assert not other.exists()


def test_several_processes_confirm_the_same(cli: Cli, net: Path, proof: Path) -> None:
    ran = cli("verify", proof, net, "--workers", "2", "--json")
    assert ran.code == 0, ran.err
    assert ran.json == cli("verify", proof, net, "--json").json


def test_a_network_without_units(cli: Cli, tmp_path: Path) -> None:
    affine = tmp_path / "affine.onnx"
    write(lipyomo.Network.from_arrays([np.array([[2.0, -1.0]])]), affine)
    path = tmp_path / "affine.proof"
    assert cli(affine, "--box", "0,1", "--proof", path).code == 0
    ran = cli("verify", path, affine, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["lower"] == pytest.approx(3.0)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_a_forged_interval_fails(cli: Cli, net: Path, proof: Path, end: str) -> None:
    first, *rest = gzip.decompress(proof.read_bytes()).splitlines()
    data = json.loads(first)
    data[end] = data["lower"] * (1.01 if end == "lower" else 1.0)
    if end == "lower":
        data["upper"] = 2 * data["upper"]
    else:
        data["lower"] = data["upper"] = 0.99 * data["upper"]
    proof.write_bytes(gzip.compress(b"\n".join([json.dumps(data).encode(), *rest]) + b"\n"))
    ran = cli("verify", proof, net)
    assert ran.code == 1
    assert "does not hold" in ran.err


def test_another_network_fails(cli: Cli, models: Path, proof: Path) -> None:
    ran = cli("verify", proof, models / "iris_scaler.onnx")
    assert ran.code == 1
    assert "another network" in ran.err


def test_a_solver_s_upper_end_is_not_called_proved(cli: Cli, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "mip.proof"
    words = (net, "--box", "0,8", "--method", "mip", "--solver", "highs", "--proof", path)
    assert cli(*words).code == 0
    ran = cli("verify", path, net)
    if ran.code == 2:
        assert "not proved   the upper end rests on mip" in ran.out
    assert cli(*words, "--prove-upper").code == 0
    assert cli("verify", path, net).code == 0


def test_proof_and_network_in_the_wrong_order(cli: Cli, net: Path, proof: Path) -> None:
    ran = cli("verify", net, proof)
    assert ran.code == 1
    assert "the proof comes first" in ran.err


def test_files_that_are_no_proofs(cli: Cli, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.proof"
    for text in ("", "[]\n", "{}\n", '{"format": 3}\n', "\n", "[[[[\n"):
        for data in (text.encode(), gzip.compress(text.encode())):
            path.write_bytes(data)
            ran = cli("verify", path, net)
            assert ran.code == 1
            assert ran.err.startswith("lipyomo: error: ")
            assert "defect" not in ran.err
    assert cli("verify", tmp_path / "none.proof", net).code == 1
    assert cli("verify").code == 1


def test_no_witness_no_proof(cli: Cli, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.proof"
    ran = cli(net, "--box", "0,8", "--method", "naive", "--upper-only", "--proof", path)
    assert ran.code == 1
    assert "witness" in ran.err
    assert not path.exists()
