"""Every bad input gets one sentence on stderr and exit code 1; never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_ran import Ran
from onnx import TensorProto, helper, numpy_helper

Cli = Callable[..., Ran]


def refused(ran: Ran, *words: str) -> None:
    """Check for one error that says `words`."""
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith("lipyomo: error: ")
    assert ran.err.count("error:") == 1
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["no domain", "--box"]),
        (["--box", "0"], ["LO,HI"]),
        (["--box", "0,1,2"], ["LO,HI"]),
        (["--box", "1,0"], ["lower bound", "above"]),
        (["--box", "nan,1"], ["NaN"]),
        (["--box", "a,1"], ["'a'", "neither a number"]),
        (["--box", "lo.npy,1"], ["lo.npy", "No such file"]),
        (["--box", "1,1"], ["single point"]),
        (["--box", "0,1", "--everywhere"], ["not allowed with"]),
        (["--box", "0,1", "--radius", "1"], ["--radius needs --ball"]),
        (["--box", "0,1", "--ball-norm", "l2"], ["--ball-norm needs --ball"]),
        (["--box", "0,1", "--clip", "0,1"], ["--clip"]),
        (["--ball", "0"], ["--radius"]),
        (["--ball", "0", "--radius", "-1"], ["positive radius"]),
        (["--ball", "0", "--radius", "inf"], ["positive radius"]),
        (["--ball", "5", "--radius", "1", "--clip", "0,1"], ["clip box"]),
        (["--box", "0,1", "--norm", "l3"], ["--norm", "'l3'"]),
        (["--box", "0,1", "--output-norm", "l3"], ["unknown output norm 'l3'"]),
        (["--box", "0,1", "--output-norm", "cross(7)"], ["out of range"]),
        (["--box", "0,1", "--functional", "1,-1"], ["2 entries", "3 outputs"]),
        (["--box", "0,1", "--functional", "1,b,2"], ["--functional"]),
        (["--box", "0,1", "--functional", "1,nan,2"], ["NaN"]),
        (["--box", "0,1", "--margin", "3"], ["out of range"]),
        (["--box", "0,1", "--margin", "-1"], ["out of range"]),
        (["--box", "0,1", "--margin", "x"], ["--margin", "invalid int"]),
        (["--box", "0,1", "--margin", "0", "--functional", "1,0,0"], ["not allowed with"]),
        (["--box", "0,1", "--method", "magic"], ["unknown method 'magic'"]),
        (["--box", "0,1", "--formulation", "magic"], ["--formulation"]),
        (["--box", "0,1", "--bounds", "magic"], ["--bounds"]),
        (["--box", "0,1", "--time-limit", "0"], ["time limit"]),
        (["--box", "0,1", "--time-limit", "nan"], ["time limit"]),
        (["--box", "0,1", "--gap", "-1"], ["gap"]),
        (["--box", "0,1", "--gap", "2"], ["gap"]),
        (["--box", "0,1", "--gap", "much"], ["--gap", "'much'"]),
        (["--box", "0,1", "--workers", "0"], ["--workers"]),
        (["--box", "0,1", "--nonsense"], ["--nonsense"]),
        (["--box", "0,1", "--output-node", "nowhere"], ["nowhere"]),
        (["--box", "0,1", "--method", "above", "--option", "value"], ["NAME=VALUE"]),
        (["--box", "0,1", "--method", "above", "--option", "value=x"], ["value", "a number"]),
        (["--box", "0,1", "--method", "above", "--option", "count=1.5"], ["a whole number"]),
        (["--box", "0,1", "--method", "above", "--option", "other=1"], ["no option other"]),
        (["--box", "0,1", "--method", "patient", "--norm", "l1"], ["no input norm l1"]),
        (["--everywhere", "--method", "above"], ["bounded domain"]),
        (["--box", "0,inf", "--method", "above"], ["bounded domain"]),
        (["--box", "0,1", "--method", "above", "--cross-check", "highs"], ["no MIP"]),
        (["--box", "0,1", "--method", "broken", "--cross-check", "nosolver"], ["nosolver"]),
        (["--box", "0,1", "--plot", "no/such/folder/a.png"], ["no/such/folder"]),
        (["--box", "0,1", "--prove-upper"], ["--prove-upper", "--proof FILE"]),
        (["--polytope", "none.npz"], ["none.npz", "No such file"]),
        (["--box", "0,1", "--dual-ball", "none.npz"], ["none.npz", "No such file"]),
        (["--box", "0,1", "--method", "broken", "--option", "memory=true"], ["memory"]),
    ],
    ids=" ".join,
)
def test_wrong_options(cli: Cli, net: Path, options: list[str], words: list[str]) -> None:
    refused(cli(net, *options), *words)


def test_no_network(cli: Cli) -> None:
    refused(cli(), "NET")


def test_missing_file(cli: Cli) -> None:
    refused(cli("no_such.onnx", "--box", "0,1"), "no_such.onnx")


def test_folder(cli: Cli, tmp_path: Path) -> None:
    refused(cli(tmp_path, "--box", "0,1"), "not a file")


@pytest.mark.parametrize("size", [0, 1, 100, 900])
def test_truncated_file(cli: Cli, net: Path, tmp_path: Path, size: int) -> None:
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(net.read_bytes()[:size])
    refused(cli(cut, "--box", "0,1"), "cut.onnx")


def test_not_onnx(cli: Cli, tmp_path: Path) -> None:
    text = tmp_path / "text.onnx"
    text.write_text("this is no network")
    refused(cli(text, "--box", "0,1"), "text.onnx")


def _model(path: Path, weight: np.ndarray, *nodes: onnx.NodeProto, inputs: int = 1) -> Path:
    names = ["x", "w", "t"][:inputs]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(weight.astype(np.float32), "W")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers(cli: Cli, tmp_path: Path, bad: float) -> None:
    weight = np.array([[1.0, 2.0], [bad, 0.0]])
    node = helper.make_node("MatMul", ["x", "W"], ["y"])
    refused(cli(_model(tmp_path / "nan.onnx", weight, node), "--box", "0,1"))


def test_unsupported_operator_names_node_and_operator(cli: Cli, tmp_path: Path) -> None:
    first = helper.make_node("MatMul", ["x", "W"], ["h"])
    second = helper.make_node("Floor", ["h"], ["y"], name="steps")
    path = _model(tmp_path / "floor.onnx", np.eye(2), first, second)
    refused(cli(path, "--box", "0,1"), "steps", "Floor", "Remedy")


def test_two_inputs(cli: Cli, tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    path = _model(tmp_path / "two.onnx", np.eye(2), node, inputs=2)
    refused(cli(path, "--box", "0,1", "--fix", "w=1,2,3"), "'w'", "3 values")


def test_wrong_lengths_in_files(cli: Cli, net: Path, tmp_path: Path) -> None:
    three, four = tmp_path / "three.npy", tmp_path / "four.npy"
    np.save(three, np.zeros(3))
    np.save(four, np.ones(4))
    refused(cli(net, "--box", f"{three},{four}"), "3 entries", "4")
    refused(cli(net, "--ball", three, "--radius", "1"), "3 entries", "4 inputs")


def test_files_that_are_no_arrays(cli: Cli, net: Path, tmp_path: Path) -> None:
    text, objects, words = tmp_path / "t.npy", tmp_path / "o.npy", tmp_path / "w.npy"
    text.write_text("0 0 0 0")
    np.save(objects, np.array([{}, None], dtype=object), allow_pickle=True)
    np.save(words, np.array(["a", "b"]))
    for path in (text, objects, words):
        refused(cli(net, "--ball", path, "--radius", "1"), path.name)
        refused(cli(net, "--polytope", path), path.name)
    archive = tmp_path / "a.npz"
    np.savez(archive, c=np.zeros(4))
    archive.rename(tmp_path / "a.npy")
    refused(cli(net, "--ball", tmp_path / "a.npy", "--radius", "1"), "archive")


def test_polytopes_that_are_none(cli: Cli, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, c=np.zeros(4))
    refused(cli(net, "--polytope", path), "A and b", "holds c")
    np.savez(path, A=np.zeros(4), b=np.zeros(4))
    refused(cli(net, "--polytope", path), "axes")
    np.savez(path, A=np.ones((2, 4)), b=np.ones(3))
    refused(cli(net, "--polytope", path), "2 rows", "3 entries")
    np.savez(path, A=np.ones((2, 3)), b=np.ones(2))
    refused(cli(net, "--polytope", path, "--clip", "0,1"), "3 inputs", "4")
    np.savez(path, A=np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]), b=np.array([-1.0, -1.0]))
    refused(cli(net, "--polytope", path), "empty")
    np.savez(path, A=np.array([[1.0, 1, 0, 0], [-1.0, -1, 0, 0]]), b=np.zeros(2))
    refused(cli(net, "--polytope", path, "--clip", "-1,1"), "no interior")


def test_dual_balls_that_are_none(cli: Cli, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, vertices=np.eye(2))
    refused(cli(net, "--box", "0,1", "--dual-ball", path), "2 entries", "3 outputs")
    np.savez(path, A=np.eye(3), b=np.ones(3))
    refused(cli(net, "--box", "0,1", "--dual-ball", path), "dual ball")


def test_debug_shows_where(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "1,0", "--debug")
    assert ran.code == 1
    assert "Traceback" in ran.err
    assert "lipyomo: error: " in ran.err
