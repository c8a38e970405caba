"""``lipyomo smoothness``, ``lipyomo residual`` and ``lipyomo lyapunov``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

from lipyomo import Network
from lipyomo.formats.onnx import write

Cli = Callable[..., Ran]

PDE = """
names = ["t", "x"]


def residual(u, x):
    return [u.dt + u.dx, u.dtt + u]
"""


@pytest.fixture
def wave(tmp_path: Path) -> Path:
    """sin(x - t / 2)."""
    path = tmp_path / "wave.onnx"
    write(Network.from_arrays([[[-0.5, 1.0]], [[1.0]]], activation="sin"), path)
    return path


def test_smoothness_of_a_wave(cli: Cli, wave: Path) -> None:
    """The Hessian is -sin(x - t / 2) [1/4, -1/2; -1/2, 1]."""
    box = ("--box", "-0.5,0.5")
    ran = cli("smoothness", wave, *box, "--norm", "l2", "--eigenvalues", "--json", "--quiet")
    assert ran.code == 0
    (row,) = ran.json["rows"]
    assert row["smoothness"]["upper"] == pytest.approx(1.25 * 0.6816387600, rel=1e-5)
    assert row["eigenvalues"]["least"][0] == pytest.approx(-1.25 * 0.6816387600, rel=1e-5)
    assert row["eigenvalues"]["convex"] is False
    shown = cli("smoothness", wave, *box, "--quiet")
    assert shown.code == 0
    assert "smoothness constant" in shown.out


def test_smoothness_goes_on_from_its_checkpoint(cli: Cli, wave: Path, tmp_path: Path) -> None:
    words = ("smoothness", wave, "--box", "-0.5,0.5", "--checkpoint", tmp_path / "c", "--json")
    first = cli(*words, "--eigenvalues", "--quiet")
    rest = cli(*words, "--eigenvalues", "--quiet", "--resume")
    kinds = "smoothness", "eigenvalues"
    counts = [[ran.json["rows"][0][kind]["nodes"] for kind in kinds] for ran in (first, rest)]
    assert (first.code, rest.code) == (0, 0)
    assert counts[0] == counts[1]  # no box is split again
    assert "another question" in cli(*words, "--norm", "l2", "--resume").err


def test_residual_of_a_wave(cli: Cli, wave: Path, tmp_path: Path) -> None:
    """u_t + u_x = cos(x - t / 2) / 2, u_tt + u = 3/4 sin(x - t / 2)."""
    pde = tmp_path / "pde.py"
    pde.write_text(PDE, encoding="utf-8")
    words = ("residual", wave, "--pde", pde, "--box", "-0.5,0.5", "--quiet")
    ran = cli(*words, "--json")
    assert ran.code == 0
    first, second = ran.json["ranges"]
    assert first["low"][0] == pytest.approx(0.5 * 0.7316888689, rel=1e-5)
    assert first["high"][1] == pytest.approx(0.5, rel=1e-5)
    assert second["high"][1] == pytest.approx(0.75 * 0.6816387600, rel=1e-5)
    assert "residual 1" in cli(*words).out


def test_smoothness_has_a_proof(cli: Cli, wave: Path, tmp_path: Path) -> None:
    """Only x moves: its second derivative is -sin(x - t / 2)."""
    proof = tmp_path / "smooth.proof"
    words = ("smoothness", wave, "--box", "0.5:0.5,-0.5:0.5", "--proof", proof)
    assert cli(*words, "--quiet").code == 0
    checked = cli("verify", proof, wave, "--smoothness", "--strict", "--json")
    assert checked.code == 0
    assert checked.json["upper"] == pytest.approx(0.6816387600, rel=1e-5)
    other = cli("verify", proof, wave, "--smoothness", "--functional", "2")
    assert (other.code, "another network" in other.err) == (1, True)
    assert cli("verify", proof, wave).code == 1
    assert "needs --smoothness" in cli("verify", proof, wave, "--functional", "1").err
    two = tmp_path / "two.onnx"
    write(Network.from_arrays([[[1.0]], [[1.0], [2.0]]], activation="sin"), two)
    several = cli("smoothness", two, "--box", "0,1", "--proof", proof)
    assert (several.code, "--entries 0" in several.err) == (1, True)


def test_residuals_have_proofs(cli: Cli, wave: Path, tmp_path: Path) -> None:
    pde, proof = tmp_path / "pde.py", tmp_path / "left.proof"
    pde.write_text(PDE, encoding="utf-8")
    words = ("residual", wave, "--pde", pde, "--box", "-0.5,0.5", "--proof", proof)
    ran = cli(*words, "--json")
    assert (ran.code, "proof of both ends" in ran.err) == (0, True)
    checked = cli("verify", proof, wave, "--pde", pde, "--json")
    assert checked.code == 0
    ends = [(one["functional"], one["upper"]) for one in checked.json["largest_values"]]
    assert [row for row, _ in ends] == [[1, 0], [-1, 0], [0, 1], [0, -1]]
    assert ends[0][1] == pytest.approx(ran.json["ranges"][0]["high"][1], rel=2e-6)
    assert -ends[1][1] == pytest.approx(ran.json["ranges"][0]["low"][0], rel=2e-6)
    pde.write_text(PDE.replace("u.dt + u.dx", "u.dt - u.dx"), encoding="utf-8")
    assert cli("verify", proof, wave, "--pde", pde).code == 1


def test_maps_of_a_wave(cli: Cli, wave: Path, tmp_path: Path) -> None:
    """Sizes of a residual and of the outputs, and constants of the gradient."""
    pde, picture = tmp_path / "pde.py", tmp_path / "map.png"
    pde.write_text(PDE, encoding="utf-8")
    words = ("map", wave, "--box", "-0.5,0.5", "--cells", "4x4", "--quiet")
    ran = cli(*words, "--pde", pde, "--plot", picture, "--json")
    assert ran.code == 0
    assert ran.json["of"] == "values"
    assert ran.json["status"] == {"exact": 16}
    assert ran.json["largest"]["upper"] == pytest.approx(0.75 * 0.6816387600, rel=1e-5)
    assert picture.stat().st_size > 1000
    assert "largest value" in cli(*words, "--pde", pde).out
    sizes = cli(*words, "--values", "--json").json
    assert sizes["largest"]["upper"] == pytest.approx(0.6816387600, rel=1e-5)
    bent = cli(*words, "--curvature", "--norm", "l2", "--json").json
    assert bent["norms"] == "l2 -> l2"
    assert bent["largest"]["upper"] == pytest.approx(1.25 * 0.6816387600, rel=1e-5)
    for more, message in (
        (("--pde", pde, "--values"), "give one"),
        (("--curvature", "--output-norm", "l2"), "no --output-norm"),
    ):
        wrong = cli(*words, *more)
        assert wrong.code == 1
        assert message in wrong.err


def test_lyapunov_of_a_well(cli: Cli, tmp_path: Path) -> None:
    """V = -cos(x) - cos(y) along x' = -x, y' = -y falls but where it is least."""
    well, plant = tmp_path / "well.onnx", tmp_path / "plant.onnx"
    write(Network.from_arrays([[[1.0, 0], [0, 1]], [[-1.0, -1.0]]], activation="cos"), well)
    write(Network.from_arrays([[[-1.0, 0], [0, -1]]]), plant)
    words = ("lyapunov", well, plant, "--box", "-1,1", "--quiet", "--time-limit", "30")
    assert cli(*words, "--shell", "5").code == 1
    proof = tmp_path / "falls.proof"
    ran = cli(*words, "--shell", "-1.8,-1.5", "--proof", proof, "--json")
    assert ran.code == 0
    assert ran.json["falls"] is True
    assert ran.json["derivative"]["high"][0] < -0.3
    checked = cli("verify", proof, well, "--along", plant)
    assert checked.code == 0
    assert "where V is in [-1.8, -1.5]" in checked.out
    assert cli("verify", proof, well).code == 1
    empty = cli(*words, "--shell", "5,6")
    assert empty.code == 1
    assert "no point of the domain was found" in empty.err


def test_what_is_wrong_is_said(cli: Cli, wave: Path, tmp_path: Path) -> None:
    pde = tmp_path / "pde.py"
    assert "there is no file" in cli("residual", wave, "--pde", pde, "--box", "0,1").err
    for text, message in (
        ("x = 1", "no function 'residual'"),
        ("1 / 0", "fails in line 1: ZeroDivisionError: division by zero"),
        ("\nx = (", "line 2)"),
        ("class Own(Exception):\n    pass\n\n\nraise Own", "fails in line 5: Own\n"),
        (
            "class Own(Exception):\n    pass\n\n\ndef residual(u, x):\n    raise Own('no')",
            "fails in line 6: Own: no",
        ),
        ("raise SystemExit(0)", "ends the program"),
        ("def residual(u, x):\n    return u * float('nan')", "NaN"),
        ("def residual(u, x):\n    return u.dt", "'dt' is no derivative"),
        ("def residual(u, x):\n    return u.d(0) + missing", "missing"),
        ("def residual(u, x):\n    assert not u", "AssertionError"),
        ("def residual(u, x):\n    raise SystemExit(0)", "ends the program"),
        ("def residual(u, x):\n    return u**u", "must be a number"),
        ("def residual(u, x):\n    return []", "None"),
    ):
        pde.write_text(text, encoding="utf-8")
        ran = cli("residual", wave, "--pde", pde, "--box", "0,1")
        assert ran.code == 1
        assert message in ran.err
        assert "defect" not in ran.err
    pde.write_text(f"print('said')\n{PDE}", encoding="utf-8")
    assert cli("residual", wave, "--pde", pde, "--box", "0,0.1", "--json").json["ranges"]
    wide = tmp_path / "wide.onnx"
    write(Network.from_arrays([[[1.0, 2.0, 3.0]]]), wide)
    assert "the inputs of V" in cli("lyapunov", wave, wide, "--box", "0,1").err
    equal = cli("difference", wave, wave, "--box", "0,1", "--proof", tmp_path / "equal.proof")
    assert "the time limit" not in equal.err
    relu = tmp_path / "relu.onnx"
    write(Network.from_arrays([[[1.0]], [[1.0]]]), relu)
    ran = cli("smoothness", relu, "--box", "0,1")
    assert ran.code == 1
    assert "kinks" in ran.err


def test_contraction_of_a_plant(cli: Cli, tmp_path: Path) -> None:
    plant, metric = tmp_path / "plant.onnx", tmp_path / "P.npy"
    write(Network.from_arrays([[[-2.0, 1.0], [1.0, -2.0]]]), plant)
    np.save(metric, np.eye(2))
    words = ("jacobian", plant, "--box", "-1,1", "--quiet")
    ran = cli(*words, "--contraction", "--metric", metric, "--time-limit", "30", "--json")
    assert ran.json["eigenvalues"]["low"][0] == pytest.approx(-3.0, abs=1e-5)
    assert ran.json["eigenvalues"]["high"][1] == pytest.approx(-1.0, abs=1e-5)
    assert "contracts" in cli(*words, "--contraction").out
    for more, message in (
        (("--metric", metric), "needs --contraction"),
        (("--contraction", "--wrt", "0"), "whole Jacobian"),
    ):
        wrong = cli(*words, *more)
        assert wrong.code == 1
        assert message in wrong.err
