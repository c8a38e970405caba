"""Two networks, several inputs, and domains from VNN-LIB files on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_ran import Ran
from onnx import TensorProto, helper, numpy_helper

import lipyomo
from lipyomo import networks

Cli = Callable[..., Ran]

DECLARED = "".join(f"(declare-const X_{j} Real)" for j in range(4)) + "(declare-const Y_0 Real)"
LOW = "(and " + "".join(f"(>= X_{j} 4) (<= X_{j} 5)" for j in range(4)) + "(<= Y_0 3))"
HIGH = "(and " + "".join(f"(>= X_{j} 5) (<= X_{j} 7)" for j in range(4)) + ")"


@pytest.fixture
def rounded(net: Path, tmp_path: Path) -> Path:
    """The small network with weights of eight bits."""
    model = onnx.load(net)
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.ndim == 2:
            step = np.float32(np.abs(values).max() / 127)
            tensor.CopyFrom(numpy_helper.from_array(np.rint(values / step) * step, tensor.name))
    path = tmp_path / "rounded.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def query(tmp_path: Path) -> Path:
    path = tmp_path / "query.vnnlib"
    path.write_text(f"{DECLARED}\n(assert (or {LOW} {HIGH}))", encoding="utf-8")
    return path


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    """``relu([s, u] W)`` with two inputs; outputs of this and of its negative part."""
    weight = np.arange(12.0).reshape(3, 4).astype(np.float32) - 5
    nodes = [
        helper.make_node("Concat", ["s", "u"], ["both"], axis=1),
        helper.make_node("MatMul", ["both", "W"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
        helper.make_node("Neg", ["a"], ["n"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])
        for name, size in (("s", 2), ("u", 1))
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    stored = [numpy_helper.from_array(weight, "W")]
    graph = helper.make_graph(nodes, "plant", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "plant.onnx"
    onnx.save(model, path)
    return path


def test_difference_is_that_of_the_networks(cli: Cli, net: Path, rounded: Path) -> None:
    ran = cli("difference", net, rounded, "--box", "4,6", "--functional", "1,-1,0", "--json")
    assert ran.code == 0, ran.err
    network = networks.difference(lipyomo.load(net), lipyomo.load(rounded))
    box = lipyomo.Box(4, 6, 4)
    found = lipyomo.solve(lipyomo.LipschitzProblem(network, box, functional=[1, -1, 0]))
    assert ran.json["lower"] == pytest.approx(found.lower, rel=2e-6)
    assert ran.json["problem"]["minus"] == str(rounded)
    single = cli(net, "--box", "4,6", "--functional", "1,-1,0", "--json")
    assert ran.json["upper"] < 0.6 * single.json["lower"]
    largest = ran.json["details"]["largest_value"]
    assert largest["status"] == "exact"
    x = np.array(largest["x"])
    apart = abs((network(x)) @ [1, -1, 0])
    assert apart == pytest.approx(largest["lower"], rel=1e-9)
    points = box.sample(np.random.default_rng(0), 2000)
    assert np.abs(network(points) @ [1, -1, 0]).max() <= largest["upper"]
    text = cli("difference", net, rounded, "--box", "4,6", "--functional", "1,-1,0").out
    assert "of values at most" in text


def test_a_network_is_not_off_from_itself(cli: Cli, net: Path) -> None:
    ran = cli("difference", net, net, "--box", "0,8", "--json")
    assert ran.code == 0
    assert (ran.json["upper"], ran.json["details"]["largest_value"]["upper"]) == (0.0, 0.0)


def test_what_is_not_known_of_values_is_said(cli: Cli, net: Path, rounded: Path) -> None:
    options = "--box", "5,5.1", "--output-norm", "l2", "--json"
    ran = cli("difference", net, rounded, *options)
    assert ran.code == 0
    assert any("not known" in note for note in ran.json["warnings"])


def test_proof_of_a_difference_is_about_both_files(
    cli: Cli, net: Path, rounded: Path, tmp_path: Path
) -> None:
    proof = tmp_path / "difference.proof"
    options = "--box", "5,5.5", "--functional", "1,-1,0", "--proof", proof
    assert cli("difference", net, rounded, *options).code == 0
    assert cli("verify", proof, net, "--minus", rounded, "--json").json["upper_proved"]
    for wrong in ((net,), (rounded, "--minus", net), (net, "--minus", net)):
        ran = cli("verify", proof, *wrong)
        assert ran.code == 1
        assert "another network" in ran.err


def test_differences_that_make_no_sense(cli: Cli, net: Path, models: Path) -> None:
    ran = cli("difference", net, models / "mnist17_s0.onnx", "--box", "0,1")
    assert ran.code == 1
    assert "differ" in ran.err
    assert cli("difference", net, "--box", "0,1").code == 1


def test_each_part_of_a_disjunction_has_its_interval(cli: Cli, net: Path, query: Path) -> None:
    whole = cli(net, "--vnnlib", query, "--json")
    assert whole.code == 0, whole.err
    parts = whole.json["details"]["parts"]
    alone = [cli(net, "--vnnlib", query, "--part", k, "--json").json for k in (0, 1)]
    for part, single in zip(parts, alone, strict=True):
        assert part["lower"] == pytest.approx(single["lower"], rel=2e-6)
        assert part["upper"] == pytest.approx(single["upper"], rel=2e-6)
    assert whole.json["lower"] == max(part["lower"] for part in parts)
    assert whole.json["upper"] == max(part["upper"] for part in parts)
    assert any("1 condition" in note for note in whole.json["warnings"])
    assert cli(net, "--box", "5,7", "--json").json["lower"] == pytest.approx(parts[1]["lower"])
    text = cli(net, "--vnnlib", query)
    assert "2 parts" in text.out
    assert "part 1: [" in text.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--proof", "a.proof"), "has 2 parts.*--part 0"),
        (("--checkpoint", "a.state"), "has 2 parts"),
        (("--part", "2"), "parts 0 to 1"),
        (("--box", "0,1"), "not allowed with"),
    ],
)
def test_what_is_about_one_domain(
    cli: Cli,
    net: Path,
    query: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli(net, "--vnnlib", query, *options)
    assert ran.code == 1
    assert re.search(words, ran.err)
    assert not list(tmp_path.glob("a.*"))


def test_queries_about_other_networks_are_refused(cli: Cli, query: Path, models: Path) -> None:
    ran = cli(models / "mnist17_s0.onnx", "--vnnlib", query)
    assert ran.code == 1
    assert "4 inputs" in ran.err
    ran = cli(models / "iris.onnx", "--box", "0,1", "--part", "0")
    assert "--vnnlib" in ran.err


def test_inputs_are_fixed_and_joined(cli: Cli, plant: Path, tmp_path: Path) -> None:
    joined = cli(plant, "--box", "-1,1", "--json")
    assert joined.code == 0, joined.err
    assert joined.json["problem"]["inputs"] == 3
    assert any("joined in this order: 's' (2), 'u' (1)" in w for w in joined.json["warnings"])
    fixed = cli(plant, "--box", "-1,1", "--fix", "u=0.5", "--json")
    assert fixed.json["problem"]["inputs"] == 2
    held = cli(plant, "--box", f"{tmp_path}/lo.npy,{tmp_path}/hi.npy", "--json")
    assert held.code == 1  # there are no such files
    np.save(tmp_path / "lo.npy", [-1, -1, 0.5])
    np.save(tmp_path / "hi.npy", [1, 1, 0.5])
    held = cli(plant, "--box", f"{tmp_path}/lo.npy,{tmp_path}/hi.npy", "--json")
    assert held.json["lower"] == pytest.approx(fixed.json["lower"], rel=2e-6)
    assert joined.json["lower"] >= fixed.json["lower"]
    assert cli("info", plant, "--fix", "s=1,2", "--json").json["network"]["inputs"] == 1


def test_inputs_are_named(cli: Cli, plant: Path) -> None:
    some = [cli(plant, "--box", "-1,1", "--wrt", wrt, "--json") for wrt in ("u", "2")]
    assert some[0].json["lower"] == some[1].json["lower"]
    ran = cli(plant, "--box", "-1,1", "--wrt", "v")
    assert ran.code == 1
    assert "'s', 'u'" in ran.err


def test_outputs_are_stacked(cli: Cli, plant: Path) -> None:
    ran = cli(plant, "--box", "-1,1", "--output-node", "y,n", "--json")
    assert ran.json["problem"]["outputs"] == 8


@pytest.mark.parametrize("word", ["u", "u=", "=1", "u=a", "v=1", "u=1,2"])
def test_values_that_do_not_fit(cli: Cli, plant: Path, word: str) -> None:
    ran = cli(plant, "--box", "-1,1", "--fix", word)
    assert ran.code == 1
    assert "lipyomo: error" in ran.err
    assert "defect" not in ran.err


GELU = """
<ir_version: 8, opset_import: ["" : 17]>
gelu (float[1, 2] x) => (float[1, 1] y)
<float[2, 1] W = {1.0, -2.0}, float r = {1.4142135}, float o = {1.0}, float h = {0.5}>
{
  z = MatMul(x, W)
  d = Div(z, r)
  e = Erf(d)
  s = Add(e, o)
  m = Mul(z, s)
  y = Mul(m, h)
}
"""


def test_rounded_constants_of_an_activation_are_told(cli: Cli, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(GELU), tmp_path / "gelu.onnx")
    box = (tmp_path / "gelu.onnx", "--box", "0,1")
    assert "constants of float32" in " ".join(cli(*box, "--json").json["warnings"])
    assert "lipyomo: warning: node " in cli("range", *box, "--quiet").err


@pytest.mark.parametrize("command", ["range", "jacobian", "map", "compare", "certify", "sweep"])
def test_notes_on_an_import_are_sentences(
    cli: Cli, plant: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "rows.csv").write_text("0.1,0.2,0.3\n")
    words: tuple[object, ...] = ("--box", "0,1", "--output-node", "y")
    if command in ("certify", "sweep"):
        words = (tmp_path / "rows.csv", "--radius", "0.1", "--workers", "1", "--output-node", "y")
    if command in ("map", "compare"):
        words += ("--cells", "1") if command == "map" else ("--methods", "naive")
    ran = cli(command, plant, *words, "--quiet")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("lipyomo: warning: the model has 2 inputs")
    assert ".py" not in ran.err


@pytest.mark.parametrize("command", ["certify", "sweep", "monotone"])
def test_rows_are_of_the_inputs_that_are_not_fixed(
    cli: Cli, plant: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "rows.csv").write_text("0.1,0.2\n0.5,-0.4\n")
    words = (
        plant,
        tmp_path / "rows.csv",
        "--radius",
        "0.1",
        "--workers",
        "1",
        "--output-node",
        "n",
    )
    asked = ("--increasing", "0", "--functional", "1,0,0,0") if command == "monotone" else ()
    ran = cli(command, *words, *asked, "--fix", "u=0.25", "--quiet", "--json")
    assert ran.code == 0, ran.err
    found = ran.json["rows"]
    assert [row["error"] for row in found] == [None, None]
    if command == "sweep":  # the largest row of the first two inputs' weights
        assert [row["lower"] for row in found] == pytest.approx([6.0] * 2)
