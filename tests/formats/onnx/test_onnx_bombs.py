"""Small files that ask for much: refused before anything large is allocated."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_builder import FLOAT, model, one

from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import load

LIMIT = 400_000_000
node = helper.make_node


def constant_of_shape() -> onnx.ModelProto:
    nodes = [node("ConstantOfShape", ["s"], ["c"], name="big"), node("Add", ["x", "c"], ["y"])]
    return model(nodes, [1, 3], {"s": np.array([3_000_000_000])})


def doubled(constant: bool) -> onnx.ModelProto:
    first = "c" if constant else "x"
    names = [first, *(f"t{k}" for k in range(40))]
    nodes = [node("Concat", [a, a], [b], name=b, axis=1) for a, b in zip(names, names[1:])]  # noqa: B905, RUF007
    nodes.append(node("ReduceSum", [names[-1], "axes"], ["s"], name="sum", keepdims=1))
    nodes.append(node("Add", ["s", "x"], ["y"], name="last"))
    return model(nodes, [1, 3], {"c": np.ones((1, 3)), "axes": np.array([1])})


def tiled() -> onnx.ModelProto:
    names = ["x", "a", "b", "c", "d"]
    nodes = [node("Tile", [names[k], "r"], [names[k + 1]], name=f"t{k}") for k in range(4)]
    nodes.append(node("Relu", ["d"], ["y"]))
    return model(nodes, [1, 3], {"r": np.array([1, 1000])})


def wide() -> onnx.ModelProto:
    return one("Relu", [1, 10_000_000])


def functions(recursive: bool = False) -> onnx.ModelProto:
    made = []
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    for k in range(40):
        inner = f"f{k - 1}" if k else ("f39" if recursive else "")
        if inner:
            body = [
                node(inner, ["a"], ["b"], domain="local"),
                node(inner, ["b"], ["c"], domain="local"),
            ]
        else:
            body = [node("Relu", ["a"], ["c"])]
        made.append(helper.make_function("local", f"f{k}", ["a"], ["c"], body, opset))
    proto = model([node("f39", ["x"], ["y"], domain="local", name="call")], [1, 3])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.extend(made)
    return proto


def loop() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["cond"], ["cond_out"]), node("Add", ["v", "v"], ["v_out"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("cond_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_out", FLOAT, [1]),
        ],
    )
    nodes = [
        node("Loop", ["n", "", "c"], ["d"], name="long", body=body),
        node("Add", ["x", "d"], ["y"]),
    ]
    return model(nodes, [1, 3], {"n": np.array(10**12), "c": np.ones(1)})


def expanded() -> onnx.ModelProto:
    nodes = [node("Expand", ["x", "s"], ["z"], name="wide"), node("Relu", ["z"], ["y"])]
    return model(nodes, [3000, 1], {"s": np.array([3000, 3000])})


def outer() -> onnx.ModelProto:
    nodes = [node("Mul", ["a", "b"], ["c"], name="outer"), node("MatMul", ["x", "c"], ["y"])]
    stored = {"a": np.ones((20_000, 1)), "b": np.ones((1, 20_000))}
    return model(nodes, [1, 20_000], stored)


def ranged() -> onnx.ModelProto:
    nodes = [node("Range", ["a", "b", "c"], ["d"], name="long"), node("Add", ["x", "d"], ["y"])]
    stored = {"a": np.array(0), "b": np.array(10**12), "c": np.array(1)}
    return model(nodes, [1, 3], stored)


def padded() -> onnx.ModelProto:
    return one("Pad", [1, 3], np.array([0, 0, 0, 10**10]))


def resized() -> onnx.ModelProto:
    node_ = node("Resize", ["c", "", "s"], ["d"], name="large")
    nodes = [node_, node("ReduceSum", ["d"], ["e"]), node("Add", ["x", "e"], ["y"])]
    stored = {"c": np.ones((1, 1, 8, 8)), "s": np.array([1.0, 1.0, 1e4, 1e4])}
    return model(nodes, [1, 3], stored)


def hot() -> onnx.ModelProto:
    nodes = [
        node("OneHot", ["i", "d", "v"], ["h"], name="hot"),
        node("ReduceSum", ["h"], ["e"]),
        node("Add", ["x", "e"], ["y"]),
    ]
    stored = {"i": np.arange(10), "d": np.array(10**10), "v": np.array([0.0, 1.0])}
    return model(nodes, [1, 3], stored)


def einsum() -> onnx.ModelProto:
    nodes = [
        node("Einsum", ["a", "a"], ["b"], name="outer", equation="ij,kl->ijkl"),
        node("ReduceSum", ["b"], ["e"]),
        node("Add", ["x", "e"], ["y"]),
    ]
    return model(nodes, [1, 3], {"a": np.ones((300, 300))})


def powers() -> onnx.ModelProto:
    """Little memory, many operations."""
    nodes = [
        node("Expand", ["one", "s"], ["a"]),
        node("MatMul", ["a", "a"], ["b"], name="slow"),
        node("MatMul", ["x", "b"], ["y"]),
    ]
    return model(nodes, [1, 4000], {"s": np.array([4000, 4000]), "one": np.ones(1)})


def pooled() -> onnx.ModelProto:
    return one("ConvTranspose", [1, 1, 4, 4], np.ones((1, 1, 2, 2)), strides=[10**5, 10**5])


def stored_value() -> onnx.ModelProto:
    proto = one("Add", [1, 3], np.ones(3))
    proto.graph.initializer[0].dims[:] = [10**9, 10**9]
    return proto


BOMBS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "constant": (constant_of_shape, "'big' (ConstantOfShape)"),
    "doubled": (lambda: doubled(False), "(Concat)"),
    "doubled-constant": (lambda: doubled(True), "(Concat)"),
    "tiled": (tiled, "(Tile)"),
    "wide": (wide, "'the_node' (Relu)"),
    "functions": (functions, "nodes"),
    "loop": (loop, "'long' (Loop)"),
    "expanded": (expanded, "'wide' (Expand)"),
    "outer": (outer, "'outer' (Mul)"),
    "range": (ranged, "'long' (Range)"),
    "padded": (padded, "(Pad)"),
    "resized": (resized, "'large' (Resize)"),
    "one-hot": (hot, "'hot' (OneHot)"),
    "einsum": (einsum, "'outer' (Einsum)"),
    "operations": (powers, "operations"),
    "transposed": (pooled, "(ConvTranspose)"),
    "dims": (stored_value, "'c0'"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_before_they_go_off(name: str, tmp_path: Path) -> None:
    make, words = BOMBS[name]
    path = tmp_path / "bomb.onnx"
    onnx.save(make(), path)
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(ImportRefused) as caught:
        load(path, memory_limit=LIMIT)
    spent = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert words in str(caught.value)
    assert caught.value.remedy
    assert peak < 1.5 * LIMIT
    assert spent < 20.0


@pytest.mark.parametrize("limit", [None, 10**12], ids=["default", "large machine"])
@pytest.mark.parametrize("summed", [False, True])
def test_hundreds_of_millions_of_entries_are_refused_before_they_are_made(
    tmp_path: Path, summed: bool, limit: int | None
) -> None:
    nodes = [node("Expand", ["x", "s"], ["e" if summed else "y"], name="wide")]
    if summed:
        nodes.append(node("ReduceSum", ["e"], ["y"]))
    path = tmp_path / "bomb.onnx"
    onnx.save(model(nodes, [1, 3], {"s": np.array([10**8, 3])}), path)
    tracemalloc.start()
    with pytest.raises(ImportRefused, match=r"'wide' \(Expand\).*300,000,000"):
        load(path, memory_limit=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**8


def test_the_refusal_names_node_size_and_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.onnx"
    onnx.save(constant_of_shape(), path)
    with pytest.raises(ImportRefused) as caught:
        load(path, memory_limit=LIMIT)
    assert str(caught.value).startswith(
        "node 'big' (ConstantOfShape): a constant of 3,000,000,000 entries would take 24.0 GB; "
        "the memory limit is 400.0 MB"
    )
    assert "--memory-limit" in str(caught.value.remedy)


def test_a_function_that_calls_itself(tmp_path: Path) -> None:
    path = tmp_path / "bomb.onnx"
    onnx.save(functions(recursive=True), path)
    with pytest.raises(ImportRefused, match="calls itself"):
        load(path)


def chain(length: int) -> onnx.ModelProto:
    nodes, last = [], "x"
    for k in range(length):
        op = ("Neg", "Relu")[k % 2]
        nodes.append(node(op, [last], [f"t{k}"]))
        last = f"t{k}"
    nodes.append(node("Add", [last, "c"], ["y"]))
    return model(nodes, [1, 4], {"c": np.ones(4)})


def test_a_long_chain_stays_within_its_time(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(chain(20_000), path)
    began = time.monotonic()
    with pytest.raises(ImportRefused, match=r"2 s were left"):
        load(path, time_limit=2.0)
    assert time.monotonic() - began < 12.0


def test_what_fits_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "fits.onnx"
    onnx.save(chain(40), path)
    assert load(path, memory_limit=LIMIT, time_limit=60.0).output_dim == 4


def test_a_constant_choice_takes_its_branch() -> None:
    from lipyomo.formats.onnx import from_model

    def branch(name: str, slope: float) -> onnx.GraphProto:
        return helper.make_graph(
            [node("Mul", ["x", f"{name}_k"], [name]), node("Relu", [name], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", FLOAT, None)],
            [numpy_helper.from_array(np.array([slope], dtype=np.float32), f"{name}_k")],
        )

    for taken, slope in ((True, 2.0), (False, 3.0)):
        choice = node(
            "If",
            ["c"],
            ["y"],
            then_branch=branch("then", 2.0),
            else_branch=branch("other", 3.0),
        )
        network = from_model(model([choice], [1, 2], {"c": np.array(taken)}))
        np.testing.assert_array_equal(network.forward([1.0, -1.0]), [slope, 0.0])
