"""Quantised models: weights are folded as onnxruntime does, signals are rounded within bounds."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_builder import agrees, model, run

import lipyomo
from lipyomo.analyses.questions.quantised import domain_with_errors, quantised_range, value_of
from lipyomo.base.errors import DomainError, ImportRefused, NetworkError
from lipyomo.cli.main import main
from lipyomo.formats.onnx import check_quantised, from_model, load_quantised, to_onnx
from lipyomo.formats.onnx.check import CheckFailed
from lipyomo.networks.quantised import QuantisedNetwork, of_network, quantised_difference

BOX = lipyomo.Box(-1.5, 1.5, 3)


def rng() -> np.random.Generator:
    return np.random.default_rng(17)


def pair(name: str, made: str, step: str, zero: str, **options: int) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", [name, step, zero], [f"{name}/q"], **options),
        helper.make_node("DequantizeLinear", [f"{name}/q", step, zero], [made], **options),
    ]


def rounding(
    kind: str = "int8", act: str | None = "Relu", channels: bool = False
) -> onnx.ModelProto:
    """Two layers of stored whole numbers, whose inputs, hidden signals and outputs are rounded."""
    draw = rng()
    info = np.iinfo(kind)
    constants: dict[str, np.ndarray] = {
        "W": draw.integers(-128, 128, (3, 4)).astype(np.int8),
        "W_step": (0.004 + 0.008 * draw.random(4)).astype(np.float32),
        "W_zero": draw.integers(-3, 4, 4).astype(np.int8),
        "b": draw.integers(-3000, 3000, 4).astype(np.int32),
        "b_step": np.float32(1e-4),
        "V": draw.normal(size=(4, 2)),
        "x_step": np.float32(0.0117),
        "x_zero": np.array(info.min // 2 + info.max // 2 + 3, dtype=kind),
        "h_step": np.full(4, 0.0131, np.float32) if channels else np.float32(0.0131),
        "h_zero": np.full(4 if channels else (), info.min if act is None else 0, dtype=kind),
        "y_step": np.float32(0.021),
        "y_zero": np.array(7, dtype=kind),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["W", "W_step", "W_zero"], ["Wf"], axis=1),
        helper.make_node("DequantizeLinear", ["b", "b_step"], ["bf"]),
        *pair("x", "xr", "x_step", "x_zero"),
        helper.make_node("Gemm", ["xr", "Wf", "bf"], ["a"]),
        *([] if act is None else [helper.make_node(act, ["a"], ["c"])]),
        *pair("a" if act is None else "c", "h", "h_step", "h_zero"),
        helper.make_node("MatMul", ["h", "V"], ["o"]),
        *pair("o", "y", "y_step", "y_zero"),
    ]
    return model(nodes, [1, 3], constants, opset=21 if kind.endswith("16") else 17)


@pytest.mark.parametrize(
    ("kind", "act"), [("int8", "Relu"), ("uint8", "Tanh"), ("int16", "Relu"), ("int8", None)]
)
def test_signals_are_those_of_onnxruntime(kind: str, act: str | None) -> None:
    proto = rounding(kind, act, channels=act == "Tanh")
    proto.ir_version = 10
    found = load_quantised(proto, domain=BOX)
    assert found.rounded == 3 + 4 + 2
    check_quantised(found, proto, BOX, samples=250)
    points = BOX.sample(rng(), 250).astype(np.float32).astype(np.float64)
    held = found.settled(points)
    signals = found.held.forward(np.hstack([points, held]))[:, 2:]
    errors = np.clip((held - signals) / found.step, -0.5, 0.5)
    values = found.network.forward(np.hstack([points, errors]))
    np.testing.assert_allclose(values, found.forward(points), atol=1e-12)
    theirs = run(proto, points, [1, 3])
    same = np.abs(theirs - values).max(axis=1) < 1e-5  # float32 rounds some the other way
    assert same.mean() > 0.98


def test_stored_weights_are_products_in_float32() -> None:
    network = agrees(weights_only(np.int8), [1, 4])
    found = network.layers[0].dense_weight
    np.testing.assert_array_equal(found, found.astype(np.float32))


def weights_only(kind: type) -> onnx.ModelProto:
    """A layer of weights in blocks of two rows with a scale and a zero point for each."""
    draw = rng()
    constants = {
        "W": draw.integers(-8, 8, (4, 3)).astype(kind),
        "step": (0.1 * draw.random((2, 3)) + 0.05).astype(np.float32),
        "zero": draw.integers(-2, 3, (2, 3)).astype(kind),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["W", "step", "zero"], ["Wf"], axis=0, block_size=2),
        helper.make_node("MatMul", ["x", "Wf"], ["y"]),
    ]
    proto = model(nodes, [1, 4], constants, opset=21)
    proto.ir_version = 10
    return proto


def test_weights_of_four_bits_in_blocks() -> None:
    network = agrees(weights_only(ml_dtypes.int4), [1, 4])
    assert network.bent_units == 0


def test_constants_are_rounded_like_their_definition() -> None:
    constants = {
        "W": np.array([[0.26, -3.0], [0.25, 0.124]]),
        "step": np.float32(0.5),
        "zero": np.array(1, np.int8),
    }
    nodes = [*pair("W", "Wr", "step", "zero"), helper.make_node("MatMul", ["x", "Wr"], ["y"])]
    network = agrees(model(nodes, [1, 2], constants), [1, 2])
    np.testing.assert_array_equal(network.layers[0].dense_weight, [[0.5, 0.0], [-3.0, 0.0]])


def test_what_is_on_the_grid_is_not_rounded_again() -> None:
    constants = {"s": np.float32(0.1), "z": np.array(5, np.uint8), "shape": np.array([3, 1])}
    nodes = [
        *pair("x", "a", "s", "z"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        *pair("c", "y", "s", "z"),
    ]
    found = load_quantised(model(nodes, [1, 3], constants))
    assert found.rounded == 3


@pytest.mark.parametrize("minus", [False, True])
def test_bounds_hold_and_inner_ends_are_attained(minus: bool) -> None:
    proto = rounding("int8", None)
    found = load_quantised(proto)
    if minus:
        draw = rng()
        other = lipyomo.Network.from_arrays([draw.normal(size=(4, 3)), draw.normal(size=(2, 4))])
        found = quantised_difference(of_network(other), found)
    box = lipyomo.Box(-0.3, 0.3, 3)
    row = np.array([1.0, -0.5])
    known = quantised_range(found, box, row, time_limit=4.0)
    values = found.forward(box.sample(rng(), 4000)) @ row
    assert known.low[0] <= min(known.low[1], values.min())
    assert known.high[1] >= max(known.high[0], values.max())
    assert known.low[1] <= known.high[0]
    for at, end, side in zip(known.witnesses, (known.low[1], known.high[0]), (1, 0), strict=True):
        assert at is not None
        assert value_of(found, row, at.x)[side] == end
    reach = 2.0 * np.abs(values).max() + 1.0
    assert known.high[1] - known.low[0] < 2.0 * reach


def test_between_two_steps_nothing_is_claimed() -> None:
    constants = {"s": np.float32(0.5), "z": np.array(0, np.int8)}
    found = load_quantised(model(pair("x", "y", "s", "z"), [1, 1], constants))
    row = np.ones(1)
    assert value_of(found, row, np.array([0.25])) is None
    assert value_of(found, row, np.array([0.26])) == (0.5, 0.5)
    assert value_of(found, row, np.array([1e6])) == (63.5, 63.5)
    known = quantised_range(found, lipyomo.Box(-0.6, 0.1, 1))
    assert known.low[0] <= -0.85 + 1e-9
    assert known.low[1] == -0.5
    assert (known.status.value, known.high[0]) == ("bounds", 0.0)


def test_a_wrong_rounding_is_found() -> None:
    proto = rounding()
    found = load_quantised(proto)
    wrong = QuantisedNetwork(
        found.network, found.held, 0.5 * found.step, 2.0 * found.low, 2.0 * found.high
    )
    with pytest.raises(CheckFailed):
        check_quantised(wrong, proto, BOX)


def test_domains_of_errors() -> None:
    found = load_quantised(rounding())
    polytope = lipyomo.Polytope([[1.0, 1.0, 1.0]], [1.0], -1.0, 1.0)
    wide = domain_with_errors(found, polytope)
    assert wide.dimension == 12
    assert wide.contains(np.append([0.2, 0.3, 0.4], np.full(9, 0.5)))
    assert not wide.contains(np.append([0.5, 0.5, 0.1], np.zeros(9)))
    assert domain_with_errors(of_network(found.held), polytope) is polytope
    with pytest.raises(DomainError, match="round"):
        domain_with_errors(found, lipyomo.ball([0.0] * 3, 1.0, "l2"))


def test_networks_that_do_not_fit_are_told() -> None:
    found = load_quantised(rounding())
    other = of_network(lipyomo.Network.from_arrays([np.ones((1, 3))]))
    with pytest.raises(NetworkError, match="outputs"):
        quantised_difference(found, other)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (pair("x", "y", "s", "z"), "difference"),
        ([helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "a", "b"])], "QuantFormat.QDQ"),
        (
            [
                pair("x", "a", "s", "z")[0],
                helper.make_node("MaxPool", ["x/q"], ["y"], kernel_shape=[1]),
            ],
            "QuantFormat.QDQ",
        ),
        ([*pair("x", "a", "s", "z")[:1], *pair("x", "y", "t", "z")[1:]], "another scale"),
        (pair("x", "y", "none", "z"), "positive"),
    ],
)
def test_refusals(nodes: list[onnx.NodeProto], said: str) -> None:
    constants = {
        "s": np.float32(0.5), "t": np.float32(0.25), "none": np.float32(0.0), "z": np.uint8(0)
    }  # fmt: skip
    proto = model(nodes, [1, 1, 2], constants)
    with pytest.raises(ImportRefused) as refused:
        from_model(proto)
    if said != "difference":
        with pytest.raises(ImportRefused) as refused:
            load_quantised(proto)
    assert said in str(refused.value)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = rounding("int8", None)
    quantised, whole = tmp_path / "int8.onnx", tmp_path / "float.onnx"
    onnx.save(proto, quantised)
    draw = rng()
    to_onnx(lipyomo.Network.from_arrays([draw.normal(size=(2, 3))]), str(whole))
    domain = ["--box", "-0.1,0.1", "--quiet", "--json", "--time-limit", "3"]
    assert main([str(quantised), *domain]) == 1
    assert "lipyomo difference" in capsys.readouterr().err
    assert main(["range", str(quantised), *domain]) == 2
    ranges = json.loads(capsys.readouterr().out)["ranges"]
    assert all(one["high"][0] <= one["high"][1] < 10.0 for one in ranges)
    assert main(["difference", str(whole), str(quantised), *domain]) == 2
    found = json.loads(capsys.readouterr().out)
    largest = found["largest_value"]
    assert 0.0 < largest["lower"] <= largest["upper"] < 10.0
    assert found["problem"]["rounded"] == 9
    proof = ["--proof", str(tmp_path / "proof")]
    assert main(["difference", str(whole), str(quantised), *domain, *proof]) == 1
    assert "--proof" in capsys.readouterr().err


def test_commands_go_on_from_their_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quantised, whole = tmp_path / "int8.onnx", tmp_path / "float.onnx"
    onnx.save(rounding("int8", None), quantised)
    to_onnx(lipyomo.Network.from_arrays([rng().normal(size=(2, 3))]), str(whole))
    for k, words in enumerate(
        (["range", str(quantised)], ["difference", str(whole), str(quantised)])
    ):
        kept = ["--checkpoint", str(tmp_path / f"state{k}"), "--quiet", "--json"]
        ends = []
        for further in (["--time-limit", "0.3"], ["--time-limit", "0.3", "--resume"]):
            assert main([*words, "--box", "-0.1,0.1", *kept, *further]) == 2
            found = json.loads(capsys.readouterr().out)
            rows = found["ranges"] if k == 0 else [{"high": [0, found["largest_value"]["upper"]]}]
            ends.append([row["high"][1] for row in rows])
        assert all(later <= former for former, later in zip(*ends, strict=True))
        assert main([*words, "--box", "-0.2,0.1", *kept, "--resume"]) == 1
        assert "another domain" in capsys.readouterr().err


def test_the_largest_value_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    network = lipyomo.Network.from_arrays([rng().normal(size=s) for s in ((8, 4), (8, 8), (2, 8))])
    problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1.0, 1.0, 4), output_norm="linf")
    file = tmp_path / "state"
    first = lipyomo.largest_value(problem, time_limit=60.0, checkpoint=file)
    again = lipyomo.largest_value(problem, time_limit=60.0, checkpoint=file, resume=True)
    assert (again.lower, again.upper, again.status) == (first.lower, first.upper, first.status)
    assert again.nodes == first.nodes
    assert again.unwritten == ""
