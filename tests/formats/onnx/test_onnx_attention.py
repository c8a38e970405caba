"""Attention as one operator, and masks that are minus infinity, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_builder import agrees, model

import lipyomo
from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import from_model

TOKENS, ENTRIES = 3, 4


def attention(
    shape: list[int] | None = None, opset: int = 23, kv: int = 4, **options: object
) -> onnx.ModelProto:
    """Attention of an input of three tokens to itself; arrays among the options are constants."""
    rng = np.random.default_rng(2)
    constants = {name: 0.7 * rng.normal(size=(4, kv if name != "q" else 4)) for name in "qkv"}
    given = ["mask", "past_key", "past_value", "seen"]
    inputs = ["Q", "K", "V", *(name if name in options else "" for name in given)]
    constants |= {name: options.pop(name) for name in given if name in options}
    while not inputs[-1]:
        inputs.pop()
    made = [("q", "Q"), ("k", "K"), ("v", "V")]
    nodes = [helper.make_node("MatMul", ["x", name], [to]) for name, to in made]
    if "q_num_heads" not in options:  # as (batch, heads, tokens, entries)
        nodes = []
        for name, to in made:
            heads = constants[name].shape[1] // 2
            constants[f"{name}/shape"] = np.array([1, TOKENS, heads, 2])
            nodes += [
                helper.make_node("MatMul", ["x", name], [f"{name}/m"]),
                helper.make_node("Reshape", [f"{name}/m", f"{name}/shape"], [f"{name}/r"]),
                helper.make_node("Transpose", [f"{name}/r"], [to], perm=[0, 2, 1, 3]),
            ]
    made_of_past = ["new_keys", "new_values"] if "past_key" in inputs else []
    outputs = ["y", *made_of_past]
    nodes.append(helper.make_node("Attention", inputs, outputs, name="attention", **options))
    proto = model(nodes, shape or [1, TOKENS, ENTRIES], constants, opset=opset)
    proto.ir_version = 11
    return proto


BOOLEAN = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]], dtype=bool)
ADDED = np.array([[0.5, -1.0, -np.inf], [-np.inf, 0.25, 0.0], [1.0, -2.0, 0.125]])
HEADS = {"q_num_heads": 2, "kv_num_heads": 2}


@pytest.mark.parametrize(
    "options",
    [
        {},
        HEADS,
        {**HEADS, "scale": 0.4, "is_causal": 1},
        {"is_causal": 1},
        {**HEADS, "mask": BOOLEAN},
        {**HEADS, "mask": ADDED},
        {**HEADS, "mask": ADDED, "is_causal": 1, "opset": 24},
        {**HEADS, "softcap": 0.8},
        {"kv": 2},
        {"kv": 2, "q_num_heads": 2, "kv_num_heads": 1},
        {
            **HEADS,
            "past_key": np.full((1, 2, 2, 2), 0.3),
            "past_value": np.arange(8.0).reshape(1, 2, 2, 2),
            "is_causal": 1,
        },
    ],
)
def test_attention(options: dict[str, object]) -> None:
    agrees(attention(**dict(options)), [1, TOKENS, ENTRIES])


def test_rows_without_a_key_are_zero() -> None:
    mask = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 1]], dtype=bool)
    network = from_model(attention(**HEADS, mask=mask), check=False)
    rows = network.forward(np.random.default_rng(0).normal(size=(4, 12))).reshape(4, TOKENS, -1)
    assert (rows[:, 0] == 0.0).all()
    assert (rows[:, 1:] != 0.0).all()


def test_keys_beyond_those_seen_are_not_read() -> None:
    one = from_model(attention(opset=24, seen=np.array([2])), check=False)
    mask = np.array([[1, 1, 0]] * 3, dtype=bool)
    other = from_model(attention(opset=24, mask=mask), check=False)
    points = np.random.default_rng(1).normal(size=(5, 12))
    np.testing.assert_allclose(one.forward(points), other.forward(points), atol=1e-14)


def test_a_causal_token_does_not_read_later_ones() -> None:
    network = from_model(attention(**HEADS, is_causal=1))
    first = network.with_functional(np.eye(network.output_dim)[0])
    found = lipyomo.lipschitz(first, box=(-0.1, 0.1), wrt=range(4, 12))
    assert (found.upper, found.is_exact) == (0.0, True)


def test_attention_of_two_tokens_is_bounded_exactly() -> None:
    constants = {"scale": np.float32(1.0)}
    nodes = [helper.make_node("Attention", ["x", "x", "x"], ["y"])]
    proto = model(nodes, [1, 1, 2, 1], constants, opset=23)
    proto.ir_version = 11
    found = lipyomo.lipschitz(from_model(proto), box=(-1, 1))
    assert found.is_exact
    assert 1.0 <= found.lower < 2.0  # means of the tokens, and what their weights move


def masked(condition: bool, opset: int = 17, last: str = "Softmax") -> onnx.ModelProto:
    """Scores of which some are minus infinity, added or chosen, and their weights."""
    constants = {"W": np.random.default_rng(3).normal(size=(4, 6)), "shape": np.array([2, 3])}
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["a"]),
        helper.make_node("Reshape", ["a", "shape"], ["s"]),
    ]
    gone = np.array([[0, 1, 0], [0, 0, 0]], dtype=bool)
    if condition:
        constants |= {"gone": gone, "least": np.array(-np.inf)}
        nodes.append(helper.make_node("Where", ["gone", "least", "s"], ["m"]))
    else:
        constants |= {"mask": np.where(gone, -np.inf, 0.5)}
        nodes.append(helper.make_node("Add", ["s", "mask"], ["m"]))
    nodes.append(helper.make_node(last, ["m"], ["y"], name="last"))
    return model(nodes, [1, 4], constants, opset=opset)


@pytest.mark.parametrize("condition", [False, True])
@pytest.mark.parametrize("opset", [12, 17])
def test_masks_before_softmax(condition: bool, opset: int) -> None:
    if opset == 12:  # all axes from one on are one
        with_flat = masked(condition, opset)
        assert agrees(with_flat, [1, 4]).forward(np.zeros(4)).reshape(2, 3)[0, 1] == 0.0
    else:
        network = agrees(masked(condition), [1, 4])
        np.testing.assert_array_equal(network.forward(np.ones((3, 4)))[:, 1], 0.0)


@pytest.mark.parametrize("last", ["Relu", "Tanh", "LogSoftmax", "Neg"])
def test_masks_are_read_by_nothing_else(last: str) -> None:
    with pytest.raises(ImportRefused, match="masked"):
        from_model(masked(False, last=last))


def test_rows_that_are_masked_whole_need_a_choice() -> None:
    constants = {
        "mask": np.array([[-np.inf, -np.inf], [0.0, 0.0]]),
        "zero": np.array(0.0),
        "shape": np.array([2, 2]),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["s"]),
        helper.make_node("Add", ["s", "mask"], ["m"]),
        helper.make_node("Softmax", ["m"], ["p"]),
    ]
    choice = [
        helper.make_node("IsNaN", ["p"], ["none"]),
        helper.make_node("Where", ["none", "zero", "p"], ["y"]),
    ]
    network = agrees(model([*nodes, *choice], [1, 4], constants), [1, 4])
    np.testing.assert_array_equal(network.forward(np.ones(4)), [0.0, 0.0, 0.5, 0.5])
    with pytest.raises(ImportRefused, match="masked"):
        from_model(model([*nodes, helper.make_node("Neg", ["p"], ["y"])], [1, 4], constants))
    with pytest.raises(ImportRefused):
        from_model(model([*nodes, helper.make_node("Identity", ["p"], ["y"])], [1, 4], constants))


def test_a_mask_that_depends_on_the_input_is_added() -> None:
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 2, 2]) for name in "xy"]
    node = helper.make_node("Attention", ["x", "x", "x", "x"], ["y"])
    graph = helper.make_graph([node], "graph", info[:1], info[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    agrees(proto, [1, 1, 2, 2])
