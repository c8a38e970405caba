"""The whole command line with a smooth network: answers, or refusals by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

from lipyomo import Network
from lipyomo.formats.onnx import write
from lipyomo.methods import methods
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer

Cli = Callable[..., Ran]


def small(outputs: int = 1) -> Network:
    """Two inputs, three tanh units, two SiLUs and a ReLU."""
    rng = np.random.default_rng(5)
    hidden = [
        Layer(
            rng.standard_normal((3, 2)),
            [0.1, -0.2, 0.3],
            curves=[Curve(activation("tanh"), [0, 1, 2])],
        ),
        Layer(
            rng.standard_normal((3, 3)),
            [0.0, 0.5, 0.1],
            [0.0] * 3,
            [1.0] * 3,
            curves=[Curve(activation("silu"), [0, 2])],
        ),
    ]
    return Network([*hidden, Layer(rng.standard_normal((outputs, 3)), np.zeros(outputs))], "small")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """One output."""
    write(small(), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """Two classes."""
    write(small(2), tmp_path / "classes.onnx")
    return tmp_path / "classes.onnx"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three points."""
    (tmp_path / "data.csv").write_text("0.5,0.2\n-1.0,1.0\n0.1,0.0\n")
    return tmp_path / "data.csv"


def sampled(low: float, high: float, points: int = 61) -> float:
    """The largest l1 norm of the gradient on a grid."""
    grid = np.stack(np.meshgrid(*[np.linspace(low, high, points)] * 2), -1).reshape(-1, 2)
    return float(np.abs(small().gradients(grid, [1.0])).sum(axis=1).max())


def test_the_main_job(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box=-1,1", "--json", "--time-limit", "20")
    assert ran.code == 0
    assert ran.json["status"] == "exact"
    assert ran.json["problem"]["units"] == 6
    assert sampled(-1, 1) <= ran.json["upper"]
    assert ran.json["lower"] == pytest.approx(sampled(-1, 1), rel=0.01)


def test_what_is_said_of_the_witness(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box=-1,1", "--time-limit", "20")
    assert ran.code == 0
    assert "enclosed in ball arithmetic at a point of the domain" in ran.out
    assert "nearest kink" not in ran.out


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_answers_or_refuses_by_name(cli: Cli, net: Path, name: str) -> None:
    ran = cli(net, "--box=-1,1", "--method", name, "--time-limit", "5", "--json")
    if not methods()[name].smooth:
        assert ran.code == 1
        assert f"method {name} " in ran.err
        assert "smooth units" in ran.err
        assert "bnb" in ran.err
        return
    assert ran.code in (0, 2)
    truth = sampled(-1, 1)
    if ran.json["upper"] is not None:
        assert truth <= ran.json["upper"]
    assert ran.json["lower"] <= truth * 1.01


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rational"], "ball arithmetic"),
        (["--cross-check", "highs"], "smooth units"),
    ],
)
def test_what_is_for_two_slope_networks_is_refused_before_the_search(
    cli: Cli, net: Path, words: list[str], said: str
) -> None:
    ran = cli(net, "--box=-1,1", *words)
    assert ran.code == 1
    assert said in ran.err
    assert "Remedy" in ran.err
    assert ran.out == ""


def test_proofs_are_written_and_verified(cli: Cli, net: Path, tmp_path: Path) -> None:
    proof = tmp_path / "p.lipproof"
    ran = cli(net, "--box=-1,1", "--proof", proof, "--json")
    assert ran.code == 0
    ran = cli("verify", proof, net, "--json")
    assert ran.code == 0
    assert ran.json["upper_proved"]
    assert ran.json["lower"] <= sampled(-1, 1) * 1.01
    assert cli("verify", proof, net).code == 0


def test_open_units_are_counted_among_all_that_are_not_linear(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box=-1,1", "--method", "crown")
    assert ran.code == 0
    assert "of 6 units after linear bounds" in ran.out


def test_files_beside_the_answer(cli: Cli, net: Path, tmp_path: Path) -> None:
    history, checkpoint = tmp_path / "h.csv", tmp_path / "c.npz"
    ran = cli(net, "--box=-1,1", "--history", history, "--checkpoint", checkpoint)
    assert ran.code == 0
    assert history.read_text().count("\n") > 1


def test_info(cli: Cli, net: Path) -> None:
    ran = cli("info", net, "--json")
    assert ran.code == 0
    assert ran.json["network"]["units"] == 6
    assert "tanh" in cli("info", net).out


@pytest.mark.usefixtures("compared_here")
def test_compare(cli: Cli, net: Path) -> None:
    ran = cli("compare", net, "--box=-1,1", "--methods", "bnb,mip", "--time-limit", "20", "--json")
    assert ran.code in (0, 2)
    assert "smooth units" in ran.out + ran.err


def test_sweep(cli: Cli, net: Path, data: Path) -> None:
    ran = cli("sweep", net, data, "--radius", "0.1", "--time-limit", "20", "--json")
    assert ran.code == 0
    assert [row["status"] for row in ran.json["rows"]] == ["exact"] * 3


def test_certify_exact(cli: Cli, classes: Path, data: Path) -> None:
    ran = cli("certify", classes, data, "--radius", "0.02", "--exact", "--clip=-2,2", "--json")
    assert ran.code == 0
    assert len(ran.json["rows"]) == 3
    for row in ran.json["rows"]:
        assert row["error"] is None
        inner, outer = row["certified_radius"], row["adversarial_radius"]
        assert row["verdict"] == "misclassified" or inner > 0
        assert outer is None or inner <= outer <= inner * (1 + 2e-6)
    ran = cli("certify", classes, data, "--radius", "0.02", "--exact", "--solver", "highs")
    assert ran.code == 1
    assert "method exact with a solver is for piecewise-linear networks" in ran.err


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_certify(cli: Cli, classes: Path, data: Path, norm: str) -> None:
    ran = cli(
        "certify", classes, data, "--radius", "0.02", "--norm", norm, "--time-limit", "10", "--json"
    )
    assert ran.code == 0
    rows = ran.json["rows"]
    assert [row["error"] for row in rows] == [None] * 3
    assert {row["verdict"] for row in rows} <= {"robust", "not robust", "open"}
    network = small(2)
    rng = np.random.default_rng(0)
    for row, x in zip(rows, np.loadtxt(data, delimiter=","), strict=True):
        around = x + row["certified_radius"] * rng.uniform(-1, 1, (200, 2)) / (
            1 if norm == "linf" else 2
        )
        assert (network.forward(around).argmax(axis=1) == row["predicted"]).all()
    assert any(row["certified_radius"] > 0 for row in rows)


def test_monotone(cli: Cli, net: Path, data: Path) -> None:
    words = ["--radius", "0.05", "--increasing", "0,1", "--time-limit", "10", "--json"]
    ran = cli("monotone", net, data, *words)
    assert ran.code == 0
    rows = ran.json["rows"]
    assert len(rows) == 6
    points = np.loadtxt(data, delimiter=",")
    for row in rows:
        assert row["error"] is None
        x = points[row["row"]]
        grid = x + 0.05 * np.random.default_rng(0).uniform(-1, 1, (300, 2))
        slopes = small().gradients(grid, [1.0])[:, row["input"]]
        assert row["slope_lower"] <= slopes.min() + 1e-9
        if row["verdict"] == "monotone":
            assert slopes.min() >= -1e-3
        elif row["verdict"] == "not monotone":
            assert row["slope_upper"] < 0


def test_verify_still_reads_only_proofs(cli: Cli, net: Path) -> None:
    ran = cli("verify", net)
    assert ran.code == 1
    assert ran.err.startswith("lipyomo")
    assert "Traceback" not in ran.err


def test_what_float64_numbers_cannot_tell_apart_is_said(cli: Cli, tmp_path: Path) -> None:
    """The difference of two equal units, a little apart, times a large number."""
    twins = Layer([[1.0], [1.0]], [0.0, 1e-9], curves=[Curve(activation("tanh"), [0, 1])])
    path = tmp_path / "twins.onnx"
    write(Network([twins, Layer([[1e12, -1e12]], [0.0])]), path)
    ran = cli(path, "--box", "0.4,0.41", "--time-limit", "20")
    assert ran.code == 2, ran.err
    assert "more time does not help" in ran.out
    assert cli(path, "--box", "0.4,0.41", "--json").json["status"] == "precision"
