"""Names of inputs: where they come from, what keeps them, and that they stand for indices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lipyomo
from lipyomo import Box, LipschitzProblem, LipyomoError, Network
from lipyomo.analyses.maps import grid
from lipyomo.cli.main import main
from lipyomo.networks.combined import difference, parallel
from networks import random_network


@pytest.fixture
def network() -> Network:
    found = random_network(0, (3, 4, 2))
    found.input_names = ["age", "income", "debt"]
    return found


def test_wrong_names_are_one_sentence(network: Network) -> None:
    for wrong in (["a", "b"], ["a", "a", "b"], "abc", [1, 2, 3], ["a", "", "b"], 3):
        with pytest.raises(LipyomoError):
            network.input_names = wrong  # type: ignore[assignment]
    assert network.input_names == ("age", "income", "debt")


def test_what_keeps_the_inputs_keeps_their_names(network: Network, tmp_path: Path) -> None:
    names = network.input_names
    lipyomo.to_onnx(network, tmp_path / "net.onnx")
    kept = [
        network.fused(),
        network.with_functional([1.0, -1.0]),
        difference(network, network),
        parallel(random_network(1, (3, 2)), network),
        lipyomo.load(tmp_path / "net.onnx"),
    ]
    assert [one.input_names for one in kept] == [names] * len(kept)
    problem = LipschitzProblem(network, Box([0, 0, 0], [1, 0, 1]))
    assert problem.reduced.problem.network.input_names == ("age", "debt")


def test_networks_with_inputs_in_another_order_have_no_difference(network: Network) -> None:
    other = random_network(1, (3, 4, 2))
    other.input_names = ["income", "age", "debt"]
    with pytest.raises(LipyomoError, match="input_names"):
        difference(network, other)


def test_columns_of_a_model_are_names() -> None:
    row = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None, 1]) for n in ("th", "om")]
    W = helper.make_tensor("W", TensorProto.FLOAT, [1, 2], [1.0, 2.0])
    nodes = [helper.make_node("Concat", ["th", "om"], ["x"], axis=1),
             helper.make_node("Gemm", ["x", "W"], ["y"], transB=1)]  # fmt: skip
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])
    graph = helper.make_graph(nodes, "g", row, [y], [W])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    with pytest.warns(UserWarning, match="joined"):
        assert lipyomo.formats.onnx.from_model(model).input_names == ("th", "om")
    assert lipyomo.formats.onnx.from_model(model, fixed={"th": 1.0}).input_names == ("om",)


def test_names_stand_for_indices(network: Network) -> None:
    box = Box(-1.0, 1.0, 3)
    named = LipschitzProblem(network, box, wrt=["income", 2])
    assert named.describe_norms().endswith("wrt income, debt")
    assert (
        lipyomo.solve(named).lower
        == lipyomo.solve(LipschitzProblem(network, box, wrt=[1, 2])).lower
    )
    found = lipyomo.jacobian_ranges(named, time_limit=20)
    assert (found.columns, found.names) == ((1, 2), ("income", "debt"))
    cells = grid(-1.0, 1.0, (2, 2), ["debt", "age"], names=network.input_names)
    assert cells.grid is not None
    assert cells.grid.axes == (2, 0)
    report = lipyomo.check_monotone(
        network, np.zeros((1, 3)), 0.1, ["income"], "debt", [1.0, 0.0], workers=1
    )
    assert [(row.input, row.name) for row in report.rows] == [(1, "income"), (2, "debt")]
    for wrong in ("nothing", ["income", "nothing"]):
        with pytest.raises(LipyomoError, match="'age', 'income', 'debt'"):
            LipschitzProblem(network, box, wrt=wrong)


def test_names_on_the_command_line(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    lipyomo.to_onnx(network, "net.onnx")
    Path("rows.csv").write_text("id,debt,age,income,label\n0,.1,.2,.3,1\n1,.4,.5,.6,0\n")

    def said(*words: str) -> str:
        assert main([*words, "--quiet"]) in (0, 2)
        return capsys.readouterr().out

    assert "x = (age " in said("net.onnx", "--box", "0,1", "--wrt", "income")
    assert "wrt income" in said("net.onnx", "--box", "0,1", "--wrt", "income")
    table = said("jacobian", "net.onnx", "--box", "0,1", "--wrt", "debt,age")
    assert "age" in table
    assert "income" not in table
    found = said(
        "map", "net.onnx", "--box", "0,1", "--axes", "debt,age", "--cells", "2x2", "--json"
    )
    same = said("map", "net.onnx", "--box", "0,1", "--axes", "2,0", "--cells", "2x2", "--json")
    assert json.loads(found)["largest"] == json.loads(same)["largest"]
    words = ("rows.csv", "--radius", "0.1", "--workers", "1", "--functional", "1,0")
    found = said("monotone", "net.onnx", *words, "--increasing", "income", "--json")
    record = json.loads(found)
    assert record["data"]["inputs"] == ["age", "income", "debt"]
    assert set(record["summary"]["inputs"]) == {"income"}
    found = said("sweep", "net.onnx", "rows.csv", "--radius", "0.1", "--workers", "1", "--json")
    assert [row["label"] for row in json.loads(found)["rows"]] == [1, 0]
    assert main(["monotone", "net.onnx", *words, "--increasing", "nothing", "--quiet"]) == 1
    assert "'age', 'income', 'debt'" in capsys.readouterr().err
