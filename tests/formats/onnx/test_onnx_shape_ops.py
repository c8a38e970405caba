"""Operators that move entries: shapes, slices, skips, and computed shapes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_builder import agrees, model, one

from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import from_model

RNG = np.random.default_rng(3)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


MOVES = {
    "flatten": (one("Flatten", ["N", 2, 3], axis=1), ["N", 2, 3]),
    "flatten-negative": (one("Flatten", [2, 3, 4], axis=-1), [2, 3, 4]),
    "flatten-0": (one("Flatten", [2, 3, 4], axis=0), [2, 3, 4]),
    "reshape": (one("Reshape", ["N", 2, 3], ints(0, -1)), ["N", 2, 3]),
    "reshape-5": (one("Reshape", [2, 3], opset=4, shape=[3, 2]), [2, 3]),
    "squeeze": (one("Squeeze", [1, 2, 1], ints(2)), [1, 2, 1]),
    "squeeze-all": (one("Squeeze", [1, 2, 1]), [1, 2, 1]),
    "squeeze-11": (one("Squeeze", [1, 2, 1], opset=11, axes=[0]), [1, 2, 1]),
    "unsqueeze": (one("Unsqueeze", [2, 3], ints(0, -1)), [2, 3]),
    "unsqueeze-11": (one("Unsqueeze", [2, 3], opset=11, axes=[1]), [2, 3]),
    "transpose": (one("Transpose", [2, 3, 4], perm=[2, 0, 1]), [2, 3, 4]),
    "transpose-default": (one("Transpose", [2, 3, 4]), [2, 3, 4]),
    "identity": (one("Identity", [2, 3]), [2, 3]),
    "cast": (
        model(
            [
                helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
                helper.make_node("CastLike", ["d", "x"], ["y"]),
            ],
            [2, 3],
        ),
        [2, 3],
    ),
    "dropout": (one("Dropout", [2, 3], np.array(0.5, dtype=np.float32)), [2, 3]),
    "dropout-10": (one("Dropout", [2, 3], opset=10, ratio=0.3), [2, 3]),
    "slice": (one("Slice", [4, 5], ints(1, 0), ints(3, 5), ints(0, 1), ints(1, 2)), [4, 5]),
    "slice-back": (one("Slice", [4, 5], ints(-1), ints(-9), ints(1), ints(-2)), [4, 5]),
    "slice-long": (one("Slice", [4, 5], ints(-2), ints(2**62)), [4, 5]),
    "slice-9": (one("Slice", [4, 5], opset=9, starts=[1], ends=[-1], axes=[1]), [4, 5]),
    "gather": (one("Gather", [4, 5], ints(3, 0, -2), axis=1), [4, 5]),
    "gather-scalar": (one("Gather", [4, 5], np.array(2)), [4, 5]),
    "gather-elements": (one("GatherElements", [2, 3], ints(1, 0, 1)[None], axis=0), [2, 3]),
    "gather-nd": (one("GatherND", [2, 3], np.array([[1, 2], [0, 0], [1, -3]])), [2, 3]),
    "scatter-elements": (
        one("ScatterElements", [2, 3], ints(1, -2)[None], np.array([[0.5, 0.25]]), axis=1),
        [2, 3],
    ),
    "scatter-nd": (one("ScatterND", [2, 3], ints(1)[:, None], draw(1, 3)), [2, 3]),
    "scatter-signal": (
        model(
            [helper.make_node("ScatterND", ["z", "i", "x"], ["y"])],
            [1, 3],
            {"z": draw(2, 3), "i": ints(1)[:, None]},
        ),
        [1, 3],
    ),
    "expand": (one("Expand", [2, 1], ints(3, 1, 4)), [2, 1]),
    "tile": (one("Tile", [2, 3], ints(2, 1)), [2, 3]),
    "pad": (one("Pad", [2, 3], ints(0, 1, 2, 0), np.array(0.5)), [2, 3]),
    "pad-cut": (one("Pad", [3, 4], ints(-1, 1, 0, -2)), [3, 4]),
    "pad-10": (one("Pad", [2, 3], opset=10, pads=[0, 1, 1, 0], value=-1.0), [2, 3]),
    "pad-edge": (one("Pad", [2, 3], ints(0, 2, 1, 0), mode="edge"), [2, 3]),
    "pad-reflect": (one("Pad", [3, 4], ints(0, 2, 1, 0), mode="reflect"), [3, 4]),
    "pad-axes": (
        one("Pad", [2, 3], ints(1, 2), np.array(0.0), ints(-1), opset=18),
        [2, 3],
    ),
    "depth-to-space": (one("DepthToSpace", [1, 8, 2, 3], blocksize=2), [1, 8, 2, 3]),
    "depth-to-space-crd": (
        one("DepthToSpace", [1, 8, 2, 3], blocksize=2, mode="CRD"),
        [1, 8, 2, 3],
    ),
    "space-to-depth": (one("SpaceToDepth", [1, 2, 4, 6], blocksize=2), [1, 2, 4, 6]),
    "features": (
        one("ArrayFeatureExtractor", [2, 4], ints(3, 1), domain="ai.onnx.ml", ml=2),
        [2, 4],
    ),
}


@pytest.mark.parametrize("case", MOVES, ids=str)
def test_moves(case: str) -> None:
    proto, shape = MOVES[case]
    network = agrees(proto, shape, rtol=1e-7)
    assert network.kinked_units == 0


def test_concat_with_a_constant() -> None:
    node = helper.make_node("Concat", ["c", "x", "x"], ["y"], axis=-1)
    agrees(model([node], [2, 3], {"c": draw(2, 2)}), [2, 3])


@pytest.mark.parametrize(
    ("opset", "attributes", "sizes", "pieces"),
    [
        (17, {"axis": 1}, ints(1, 4), 2),
        (17, {"axis": 1}, None, 5),
        (18, {"axis": 1, "num_outputs": 2}, None, 2),
        (11, {"axis": -1, "split": [2, 3]}, None, 2),
    ],
)
def test_split(opset: int, attributes: dict, sizes: np.ndarray | None, pieces: int) -> None:
    names = [f"p{i}" for i in range(pieces)]
    inputs = ["x"] if sizes is None else ["x", "s"]
    nodes = [
        helper.make_node("Split", inputs, names, **attributes),
        helper.make_node("Relu", ["p0"], ["r"]),
        helper.make_node("Concat", [*reversed(names[1:]), "r"], ["y"], axis=1),
    ]
    constants = {} if sizes is None else {"s": sizes}
    agrees(model(nodes, [2, 5], constants, opset=opset), [2, 5])


def test_computed_shapes_are_folded() -> None:
    """Shape, Gather, Unsqueeze, Concat, Reshape: how exporters write ``x.view(x.size(0), -1)``."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    constants = {"zero": np.array(0), "axes": ints(0), "minus": ints(-1), "w": draw(6, 3)}
    network = agrees(model(nodes, ["N", 2, 3], constants), ["N", 2, 3])
    assert network.sizes == (6, 3, 3)


def test_arithmetic_on_shapes() -> None:
    """Product of sizes, slices of a shape, ConstantOfShape, Range and comparisons, all constant."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "one", "end"], ["tail"]),
        helper.make_node("ReduceProd", ["tail"], ["count"], keepdims=1),
        helper.make_node("Concat", ["minus", "count"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("ConstantOfShape", ["count"], ["zeros"]),
        helper.make_node("Add", ["flat", "zeros"], ["z"]),
        helper.make_node("Equal", ["tail", "tail"], ["same"]),
        helper.make_node("Where", ["same", "tail", "one"], ["tail2"]),
        helper.make_node("Concat", ["minus", "tail2"], ["back"], axis=0),
        helper.make_node("Reshape", ["z", "back"], ["y"]),
    ]
    constants = {"one": ints(1), "end": ints(9), "minus": ints(-1)}
    agrees(model(nodes, ["N", 2, 3], constants), ["N", 2, 3])


def test_constants_come_in_all_forms() -> None:
    nodes = [
        helper.make_node("Constant", [], ["a"], value_float=0.5),
        helper.make_node("Constant", [], ["b"], value_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Constant", [], ["i"], value_ints=[3, 1]),
        helper.make_node("Mul", ["a", "b"], ["c"]),
        helper.make_node("Reshape", ["c", "i"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["e"]),
        helper.make_node("Sqrt", ["a"], ["root"]),
        helper.make_node("Add", ["e", "root"], ["y"]),
    ]
    agrees(model(nodes, ["N", 3]), ["N", 3])


def test_nodes_in_any_order() -> None:
    nodes = [
        helper.make_node("Add", ["z", "b"], ["y"]),
        helper.make_node("MatMul", ["x", "w"], ["z"]),
    ]
    agrees(model(nodes, ["N", 3], {"w": draw(3, 2), "b": draw(2)}), ["N", 3])


def test_output_that_ignores_the_input() -> None:
    node = helper.make_node("Constant", [], ["y"], value_floats=[1.0, 2.0])
    network = agrees(model([node], [3]), [3])
    assert network.sizes == (3, 2)
    assert not network.head.dense_weight.any()


def test_pieces_of_a_sequence_are_those_of_a_split() -> None:
    constants = {"sizes": np.array([3, 1]), "first": np.array(0), "last": np.array(-1)}
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["pieces"], axis=1),
        helper.make_node("SequenceAt", ["pieces", "last"], ["a"]),
        helper.make_node("SequenceAt", ["pieces", "first"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=1),
    ]
    network = agrees(model(nodes, [1, 4], constants), [1, 4])
    assert network.forward([1.0, 2.0, 3.0, 4.0]).tolist() == [4.0, 1.0, 2.0, 3.0]


def test_other_sequences_are_refused() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["pieces"], axis=1),
        helper.make_node("ConcatFromSequence", ["pieces"], ["y"], axis=1),
    ]
    with pytest.raises(ImportRefused, match="SplitToSequence"):
        from_model(model(nodes, [1, 4]))
