"""What the command line answers: text, JSON, exit codes, and what the options mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran
from hypothesis import given
from hypothesis import strategies as st

from lipyomo import Box, LipschitzProblem, load
from lipyomo.base.decimals import down, up
from lipyomo.cli.job import exit_code
from lipyomo.cli.parser import main_parser
from lipyomo.cli.show import summary
from lipyomo.problems.result import Guarantee, Result, Status

Cli = Callable[..., Ran]

KEYS = {
    "lower",
    "upper",
    "status",
    "method",
    "formulation",
    "solver",
    "seconds",
    "unstable",
    "witness",
    "warnings",
    "problem",
    "version",
}


def test_json_is_one_object_with_the_promised_keys(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "0,1", "--method", "above", "--json")
    assert ran.code == 0
    assert set(ran.json) >= KEYS
    assert ran.json["problem"]["sizes"] == [4, 4, 4, 8, 8, 3]
    assert ran.json["problem"]["norm"] == "linf"


def test_unknown_bounds_are_null_in_json(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "0,1", "--method", "above", "--option", "value=inf", "--json")
    assert ran.json["upper"] is None
    assert ran.code == 2


def test_time_limit_gap_and_bounds(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "0,1", "--method", "patient", "--time-limit", "0.1")
    assert ran.code == 2
    assert "time limit" in ran.out
    ran = cli(net, "--box", "0,1", "--method", "patient", "--gap", "10%")
    assert ran.code == 0
    ran = cli(net, "--box", "0,1", "--method", "above")
    assert ran.code == 0
    assert "upper bound" in ran.out


def test_default_output_norm_is_said(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "0,1", "--method", "above")
    assert "linf over the 3 outputs" in ran.out
    ran = cli(net, "--box", "0,1", "--method", "above", "--output-norm", "l1")
    assert "linf over the 3 outputs" not in ran.out
    assert "linf -> l1" in ran.out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--functional", "-1,1,0"], "functional"),
        (["--functional=-1,1,0"], "functional"),
        (["--margin", "2"], "cross(2)"),
        (["--output-norm", "cross"], "cross"),
        (["--output-norm", "cross(1)"], "cross(1)"),
    ],
)
def test_output_norms(cli: Cli, net: Path, options: list[str], name: str) -> None:
    ran = cli(net, "--box", "0,1", "--method", "above", "--json", *options)
    assert ran.json["problem"]["output_norm"] == name


def test_domains(cli: Cli, net: Path, tmp_path: Path) -> None:
    def domain(*options: object) -> str:
        ran = cli(net, "--method", "above", "--json", *options)
        assert ran.code == 0, ran.err
        return str(ran.json["problem"]["domain"])

    low, high, center = tmp_path / "lo.npy", tmp_path / "hi.npy", tmp_path / "center.npy"
    np.save(low, np.array([-1.0, -2.0, -3.0, -4.0]))
    np.save(high, np.array([1, 2, 3, 4]))
    np.save(center, np.full((1, 4), 0.5))
    assert domain("--box", "-1,1") == "box [-1, 1]^4"
    assert domain("--box", "-1e0,.5") == "box [-1, 0.5]^4"
    assert "largest width 8" in domain("--box", f"{low},{high}")
    assert "largest width 5" in domain("--box", f"{low},1")
    assert domain("--ball", center, "--radius", "0.25") == "box [0.25, 0.75]^4"
    assert domain("--ball", center, "--radius", "2", "--clip", "0,1") == "box [0, 1]^4"
    assert domain("--ball", "0.5,0.5,0.5,0.5", "--radius", "0.25") == "box [0.25, 0.75]^4"
    assert "l2 ball" in domain("--ball", "0.5", "--radius", "0.25", "--ball-norm", "l2")
    simplex = tmp_path / "simplex.npz"
    np.savez(simplex, A=np.vstack([np.ones((1, 4)), -np.eye(4)]), b=np.array([1.0, 0, 0, 0, 0]))
    assert "polytope" in domain("--polytope", simplex)
    np.savez(simplex, A=np.ones((1, 4)), b=np.ones(1))
    assert "polytope" in domain("--polytope", simplex, "--clip", "0,1")


def test_ends_that_contradict_each_other_are_said(cli: Cli, net: Path) -> None:
    words = [net, "--box", "0,1", "--method", "above", "--option", "value=1"]
    ran = cli(*words)
    assert ran.code == 2
    assert "the ends contradict each other" in ran.out
    assert cli(*words, "--json").json["status"] == "contradiction"


@pytest.mark.parametrize("status", Status)
def test_every_way_to_end_is_said(net: Path, status: Status) -> None:
    problem = LipschitzProblem(load(net), Box(0, 1, 4))
    upper = 1.0 if status is Status.EXACT else 2.0
    words = dict(summary(problem, Result(1.0, upper, status, "bnb")))
    assert words["constant"].endswith("(exact)") if status is Status.EXACT else words["status"]


def test_options_of_a_method_get_their_types(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "0,1", "--method", "above", "--option", "value=300", "--json")
    assert ran.json["upper"] == 300.0


def test_a_linear_norm_from_a_file(cli: Cli, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "hexagon.npz"
    np.savez(path, vertices=np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 0.0, -1.0]]))
    ran = cli(net, "--box", "0,1", "--method", "above", "--dual-ball", path, "--json")
    assert ran.json["problem"]["output_norm"] == "hexagon"


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(cli: Cli, net: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    path = tmp_path / f"history.{suffix}"
    ran = cli(net, "--box", "0,1", "--method", "patient", "--gap", "0.2", "--plot", path)
    assert ran.code == 0, ran.err
    assert path.stat().st_size > 1000


def test_plot_of_an_unknown_format(cli: Cli, net: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    ran = cli(net, "--box", "0,1", "--method", "above", "--plot", tmp_path / "history.nope")
    assert ran.code == 1
    assert "--plot" in ran.err


def test_version_and_help(cli: Cli) -> None:
    import lipyomo

    assert cli("--version").out.split() == ["lipyomo", lipyomo.__version__]
    assert cli("--help").code == 0
    for name in ("solvers", "methods", "compare", "verify"):
        assert cli(name, "--help").code == 0


def test_methods_are_listed(cli: Cli) -> None:
    table = cli("methods")
    assert table.code == 0
    assert "above" in table.out
    record = cli("methods", "--json").json
    assert record["above"]["guarantee"] == "upper"
    assert record["above"]["options"]["count"] == 3


def test_every_option_has_a_help_text() -> None:
    for action in main_parser()._actions:
        assert action.help, action.option_strings


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(3, 12))
def test_printed_bounds_stay_bounds(value: float, digits: int) -> None:
    assert float(down(value, digits)) <= value <= float(up(value, digits))


def test_words_with_dashes() -> None:
    words = ["net", "--box", "-1,1", "--json", "--margin", "-1"]
    found = main_parser().parse_args(words)
    assert (found.box, found.margin, found.json) == ((-1.0, 1.0), -1, True)
    assert main_parser().parse_args(["net", "--box=-.5,-inf"]).box == (-0.5, -np.inf)
    assert main_parser().parse_args(["net", "--ball", "-inf"]).ball == -np.inf


@pytest.mark.parametrize(
    ("status", "guarantee", "lower", "upper", "gap", "code"),
    [
        (Status.EXACT, Guarantee.EXACT, 1.0, 1.0, 0.0, 0),
        (Status.GAP, Guarantee.EXACT, 0.95, 1.0, 0.05, 0),
        (Status.GAP, Guarantee.EXACT, 0.5, 1.0, 0.05, 2),
        (Status.TIME_LIMIT, Guarantee.EXACT, 0.5, 1.0, 0.05, 2),
        (Status.TIME_LIMIT, Guarantee.UPPER, 0.0, 1.0, 0.0, 2),
        (Status.INTERRUPTED, Guarantee.EXACT, 0.5, 1.0, 0.0, 2),
        (Status.BOUNDS, Guarantee.EXACT, 0.5, 1.0, 0.0, 2),
        (Status.BOUNDS, Guarantee.UPPER, 0.0, 1.0, 0.0, 0),
        (Status.BOUNDS, Guarantee.UPPER, 0.0, np.inf, 0.0, 2),
        (Status.BOUNDS, Guarantee.LOWER, 0.5, np.inf, 0.0, 0),
    ],
)
def test_exit_codes(
    status: Status, guarantee: Guarantee, lower: float, upper: float, gap: float, code: int
) -> None:
    assert exit_code(Result(lower, upper, status, "m", guarantee), gap) == code


def test_one_sided_answers_say_so(cli: Cli, net: Path) -> None:
    upper = cli(net, "--box", "0,1", "--method", "above", "--upper-only")
    assert "at most 200" in upper.out
    lower = cli(net, "--box", "0,1", "--method", "random_lb", "--option", "samples=10")
    assert "at least" in lower.out
    assert "lower bound" in lower.out


def test_a_box_with_ends_of_every_input(cli: Cli, models: Path, tmp_path: Path) -> None:
    """``LO:HI`` pairs are what files of lower and upper ends are."""
    np.save(tmp_path / "lo.npy", [-0.5, 0.0])
    np.save(tmp_path / "hi.npy", [5.0, 0.95])
    net = models / "exchanger.onnx"
    inline = cli(net, "--box", "-0.5:5, 0:0.95", "--json").json
    files = cli(net, "--box", f"{tmp_path}/lo.npy,{tmp_path}/hi.npy", "--json").json
    assert inline["status"] == files["status"] == "exact"
    assert inline["upper"] == files["upper"]
    assert inline["witness"] == files["witness"]
    wrong = cli(net, "--box", "0:1,0:1,0:1")
    assert wrong.code == 1
    assert "has 3 entries, expected 2" in wrong.err
