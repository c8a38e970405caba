"""Real networks and real methods through the command line."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cli_forks import Forks
from cli_ran import Ran

import lipyomo
from lipyomo.base.errors import SolverError
from lipyomo.cli.job import cross_check
from lipyomo.formats.onnx import write
from lipyomo.solvers import available_solvers

Cli = Callable[..., Ran]
EXACT = ("mip", "bnb")


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    """f(x) = x, written so that the kink of two units at 0 looks like a slope of 2."""
    network = lipyomo.Network.from_arrays(
        [[[1.0], [1.0], [-1.0]], [[2.0, -1.0, 1.0]]], [[10.0, 0.0, 0.0], [-20.0]]
    )
    path = tmp_path / "identity.onnx"
    write(network, path)
    return path


@pytest.mark.parametrize("method", ["auto", *EXACT])
def test_a_kink_is_no_slope(cli: Cli, identity: Path, method: str) -> None:
    ran = cli(identity, "--box", "-1,1", "--method", method, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["status"] == "exact"
    assert ran.json["lower"] == pytest.approx(1.0, rel=1e-9)
    assert ran.json["upper"] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_the_witness_attains_the_value(cli: Cli, net: Path, method: str, norm: str) -> None:
    ran = cli(net, "--norm", norm, "--box", "0,8", "--margin", "1", "--method", method, "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    witness = found["witness"]
    network = lipyomo.load(net)
    x = np.array(witness["x"])
    pattern = network.pattern(x)
    assert ["".join("01"[int(on)] for on in layer) for layer in pattern] == witness["pattern"]
    value = np.array(witness["functional"]) @ network.jacobian(pattern) @ witness["direction"]
    assert value == pytest.approx(found["lower"], rel=1e-9)
    assert np.linalg.norm(witness["direction"], {"linf": np.inf, "l1": 1}[norm]) <= 1 + 1e-12
    assert witness["margin"] > 0
    assert (x > 0).all()
    assert (x < 8).all()
    assert found["lower"] <= found["upper"] <= found["lower"] * (1 + 1.1e-6)


def test_summary_of_a_real_run(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "0,8", "--output-norm", "linf")
    assert ran.code == 0, ran.err
    for word in ("constant", "(exact)", "norms", "domain", "network", "witness", "onnxruntime"):
        assert word in ran.out


def test_solvers_agree(cli: Cli, net: Path) -> None:
    values = []
    for solver in available_solvers():
        ran = cli(net, "--box", "4,6", "--functional", "1,-1,0", "--solver", solver, "--json")
        assert ran.code == 0, ran.err
        assert ran.json["solver"] == solver
        values.append(ran.json["lower"])
    assert values
    assert max(values) == pytest.approx(min(values), rel=1e-6)


def test_cross_check(cli: Cli, net: Path) -> None:
    others = [name for name in available_solvers() if name != "highs"]
    if not others:
        pytest.skip("only one solver is installed")
    options = ("--box", "4,6", "--functional", "1,-1,0", "--solver", "highs", "--json")
    ran = cli(net, *options, "--cross-check", others[-1])
    assert ran.code == 0, ran.err
    assert ran.json["details"]["cross_check"]["solver"] == others[-1]
    text = cli(net, *options[:-1], "--cross-check", others[-1])
    assert f"solver {others[-1]} agrees" in text.out


def test_solvers_that_disagree_are_an_error(net: Path) -> None:
    problem = lipyomo.LipschitzProblem(
        lipyomo.load(net), lipyomo.Box(0, 8, 4), functional=[1, -1, 0]
    )
    truth = lipyomo.solve(problem)
    wrong = replace(truth, lower=0.0, upper=0.5 * truth.lower, solver="other")
    with pytest.raises(SolverError, match="the solvers disagree: other says"):
        cross_check(problem, "mip", lipyomo.Settings(), wrong, "highs")


@pytest.mark.parametrize("norms", [("linf", "l1"), ("l1", "cross"), ("l2", "l2")])
def test_rational_confirms_the_witness(cli: Cli, net: Path, norms: tuple[str, str]) -> None:
    options = ("--norm", norms[0], "--output-norm", norms[1], "--box", "0,8", "--method", "bnb")
    plain = cli(net, *options, "--json").json
    ran = cli(net, *options, "--rational", "--json")
    assert ran.code == 0, ran.err
    exact = ran.json["details"]["rational"]
    assert exact["holds"]
    assert exact["value"] >= ran.json["lower"]
    assert ran.json["lower"] == pytest.approx(plain["lower"], rel=1e-12)
    if exact["fraction"] is not None:
        assert float(Fraction(exact["fraction"])) == pytest.approx(ran.json["lower"], rel=1e-12)
    assert (exact["fraction"] is None) == (norms == ("l2", "l2"))
    if norms == ("linf", "l1"):
        assert "exact arithmetic" in cli(net, *options, "--rational").out


def test_unknown_solver(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "0,8", "--solver", "magic")
    assert ran.code == 1
    assert "magic" in ran.err


def test_an_unbounded_domain_is_refused_by_the_mip(cli: Cli, net: Path) -> None:
    ran = cli(net, "--everywhere", "--method", "mip")
    assert ran.code == 1
    assert "bounded" in ran.err


def test_solvers_are_listed(cli: Cli) -> None:
    table = cli("solvers")
    assert table.code == 0
    assert "highs" in table.out
    rows = cli("solvers", "--json").json
    assert rows["highs"]["usable"]
    assert set(rows) >= {"highs", "gurobi", "cplex", "cbc", "scip"}


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    """A random network that nobody solves in a few seconds."""
    rng = np.random.default_rng(0)
    sizes = (12, 40, 40, 40, 10)
    weights = [rng.normal(size=(n, m)) / np.sqrt(m) for m, n in itertools.pairwise(sizes)]
    biases = [0.1 * rng.normal(size=n) for n in sizes[1:]]
    path = tmp_path / "hard.onnx"
    write(lipyomo.Network.from_arrays(weights, biases), path)
    return path


@pytest.mark.parametrize("method", EXACT)
def test_time_limit_leaves_a_sound_interval(cli: Cli, hard: Path, method: str) -> None:
    ran = cli(hard, "--box", "-1,1", "--method", method, "--time-limit", "2", "--json")
    assert ran.code == 2, ran.err
    assert ran.json["status"] == "time_limit"
    assert 0 < ran.json["lower"] < ran.json["upper"]
    assert ran.json["seconds"] < 10


@pytest.mark.parametrize("method", EXACT)
def test_interrupt_leaves_a_sound_interval(hard: Path, forks: Forks, method: str) -> None:
    process = forks.start(hard, "--box", "-1,1", "--method", method, "--json")
    process.stderr.readline()  # the first line of progress: it is at work
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert time.monotonic() - sent < 20
    record = json.loads(out)
    assert record["status"] == "interrupted"
    assert 0 < record["lower"] < record["upper"]
    assert "Traceback" not in err


def test_larger_domains_have_larger_constants(cli: Cli, net: Path) -> None:
    def lower(*options: str) -> float:
        ran = cli(net, "--norm", "l2", "--output-norm", "l2", "--json", *options)
        assert ran.code == 0, ran.err
        return float(ran.json["lower"])

    around = ("--ball", "3", "--radius", "0.5", "--ball-norm")
    chain = [
        lower(*around, "l1"),
        lower(*around, "l2"),
        lower(*around, "linf"),
        lower("--box", "0,8"),
        lower("--everywhere"),
    ]
    for smaller, larger in itertools.pairwise(chain):
        assert smaller <= larger * (1 + 1e-6)


def test_frozen_inputs_are_said(cli: Cli, net: Path, tmp_path: Path) -> None:
    low, high = tmp_path / "lo.npy", tmp_path / "hi.npy"
    np.save(low, np.array([0.0, 0.0, 1.0, 1.0]))
    np.save(high, np.array([8.0, 8.0, 1.0, 1.0]))
    ran = cli(net, "--box", f"{low},{high}", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["problem"]["frozen_inputs"] == 2
    assert any("cannot move" in text for text in ran.json["warnings"])
    assert ran.json["witness"]["direction"][2:] == [0.0, 0.0]
    assert ran.json["lower"] < cli(net, "--box", "0,8", "--json").json["lower"]
