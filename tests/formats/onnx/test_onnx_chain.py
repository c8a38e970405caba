"""Skips and branches become chains with few carried values; big affine maps stay sparse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_builder import DOUBLE, agrees, model, run

from lipyomo.formats.onnx import from_model, to_onnx
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.cover import distinct_rows, parallel_columns, smallest_cover
from lipyomo.networks.building.system import System
from lipyomo.networks.building.trace import Trace
from lipyomo.networks.network import Network

RNG = np.random.default_rng(17)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def linear(source: str, weight: str, target: str) -> list:
    return [helper.make_node("MatMul", [source, weight], [target])]


def relu(source: str, target: str) -> list:
    return [helper.make_node("Relu", [source], [target])]


def residual(width: int, inner: int) -> Network:
    nodes = [
        *linear("x", "w0", "a"),
        *relu("a", "h"),
        *linear("h", "w1", "b"),
        *relu("b", "c"),
        *linear("c", "w2", "d"),
        helper.make_node("Add", ["h", "d"], ["s"]),
        *relu("s", "t"),
        *linear("t", "w3", "y"),
    ]
    weights = {
        "w0": draw(4, width),
        "w1": draw(width, inner),
        "w2": draw(inner, width),
        "w3": draw(width, 2),
    }
    return agrees(model(nodes, ["N", 4], weights), ["N", 4])


def test_a_state_that_many_layers_read_is_carried_as_one_sum() -> None:
    nodes = [
        *linear("x", "w0", "a"),
        *relu("a", "h"),
        *linear("h", "w1", "b"),
        *relu("b", "r"),
        helper.make_node("Sub", ["h", "r"], ["s"]),
        *linear("s", "w2", "c"),
        *relu("c", "t"),
        *linear("t", "w3", "d"),
        *relu("d", "u"),
        *linear("u", "w4", "e"),
        *linear("s", "w5", "f"),
        helper.make_node("Add", ["e", "f"], ["y"]),
    ]
    shapes = {"w0": (4, 5), "w1": (5, 5), "w2": (5, 7), "w3": (7, 6), "w4": (6, 9), "w5": (5, 9)}
    weights = {name: draw(*shape) for name, shape in shapes.items()}
    network = agrees(model(nodes, ["N", 4], weights), ["N", 4])
    assert network.sizes == (4, 5, 5 + 5, 7 + 5, 6 + 5, 9)  # not 7 + 9 and 6 + 9


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_parallel_columns_give_all_columns_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(4, 3)) * (rng.random((4, 3)) < 0.7)
    reach = int(rng.choice([20, 600]))
    factors = rng.choice([-1.0, 1.0], 8) * 2.0 ** rng.integers(-reach, reach, 8)
    odd = np.where(rng.random(8) < 0.2, 3.0, 1.0)
    matrix = own[:, rng.integers(0, 3, 8)] * factors * odd
    sparse = sp.csr_array(matrix)
    chosen, shares = parallel_columns(sparse)
    assert ((sparse[:, chosen] @ shares).toarray() == matrix).all()
    filled = {column.tobytes() for column in (matrix / factors / odd).T if column.any()}
    near = np.abs(np.log2(np.abs(factors))).max() < 300 and (odd == 1.0).all()
    assert not near or chosen.size == len(filled)


def test_residual_block_carries_its_width() -> None:
    network = residual(6, 9)
    assert network.sizes == (4, 6, 9 + 6, 6, 2)
    assert network.kinked_units == 6 + 9 + 6


@pytest.mark.parametrize(("inputs", "outputs"), [(8, 2), (2, 8)])
def test_skip_of_the_input_carries_the_smaller_side(inputs: int, outputs: int) -> None:
    nodes = [
        *linear("x", "w0", "a"),
        *relu("a", "h"),
        *linear("h", "w1", "b"),
        *linear("x", "v", "c"),
        helper.make_node("Add", ["b", "c"], ["y"]),
    ]
    weights = {"w0": draw(inputs, 5), "w1": draw(5, outputs), "v": draw(inputs, outputs)}
    network = agrees(model(nodes, ["N", inputs], weights), ["N", inputs])
    assert network.sizes == (inputs, 5 + min(inputs, outputs), outputs)


def test_equal_rows_are_carried_once() -> None:
    nodes = [
        *linear("x", "w0", "a"),
        *relu("a", "h"),
        *linear("x", "v", "c"),
        helper.make_node("Add", ["h", "c"], ["y"]),
    ]
    column = draw(6, 1)
    weights = {"w0": draw(6, 4), "v": np.repeat(column, 4, axis=1)}
    network = agrees(model(nodes, ["N", 6], weights), ["N", 6])
    assert network.sizes == (6, 5, 4)


def test_units_that_nothing_reads_are_left_out() -> None:
    nodes = [
        *linear("x", "w0", "a"),
        *relu("a", "h"),
        helper.make_node("Gather", ["h", "some"], ["g"], axis=1),
        *linear("g", "w1", "y"),
    ]
    weights = {"w0": draw(4, 9), "some": np.array([7, 2]), "w1": draw(2, 3)}
    assert agrees(model(nodes, ["N", 4], weights), ["N", 4]).sizes == (4, 2, 3)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=6), st.integers(0, 2**32 - 1))
def test_depth_and_use_of_units_are_those_of_a_walk_through_the_graph(
    sizes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    trace = Trace(3)
    for size in sizes:  # each group reads some of the variables before it, or none
        there = rng.random((size, trace.variables)) < rng.choice([0.0, 0.2, 0.6])
        offset = rng.integers(0, 2, size).astype(float)
        rows = Tensor(sp.csr_array(there.astype(float)), offset, (size,), trace)
        trace.left.append(np.zeros(size))
        trace.right.append(np.ones(size))
        trace.groups.append(rows)
        trace.kinds.append(None)
        trace.variables += size
    read = sp.csr_array((rng.random((2, trace.variables)) < 0.2).astype(float))
    system = System.of(trace, Tensor(read, np.zeros(2), (2,), trace))

    def reads(rows: sp.csr_array, row: int) -> list[int]:
        found = rows.indices[rows.indptr[row] : rows.indptr[row + 1]].tolist()
        return [k for k in found if k < rows.shape[1] - 1]

    depth = [0, 0, 0]
    for unit in range(system.units):
        depth.append(1 + max((depth[k] for k in reads(system.rows, unit)), default=0))
    np.testing.assert_array_equal(system.depths()[:-1], depth)
    used: set[int] = set()
    ahead = [k for row in range(2) for k in reads(system.output, row)]
    while ahead:
        column = ahead.pop()
        if column >= 3 and column not in used:
            used.add(column)
            ahead += reads(system.rows, column - 3)
    np.testing.assert_array_equal(np.flatnonzero(system.used()), sorted(k - 3 for k in used))
    fewer = system.pruned()
    np.testing.assert_array_equal(fewer.depths()[3:-1], [depth[k] for k in sorted(used)])


def test_constant_units_fold() -> None:
    nodes = [*linear("x", "w0", "a"), helper.make_node("Add", ["a", "b"], ["z"])]
    nodes += [*relu("z", "h"), *linear("h", "w1", "y")]
    weights = {"w0": draw(4, 3) * [1, 0, 0], "b": np.array([0.0, 1.0, -1.0]), "w1": draw(3, 2)}
    assert agrees(model(nodes, ["N", 4], weights), ["N", 4]).sizes == (4, 1, 2)


SMOOTH = ("Tanh", "Sigmoid", "Sin", "Cos")
"""Smooth operators of which onnxruntime has kernels in float64."""


def random_step(
    rng: np.random.Generator, step: int, sources: list[str], weights: dict, smooth: bool = False
) -> list:
    """Nodes of one random operation on four entries, made from one or two of `sources`."""
    a, b = (str(rng.choice(sources)) for _ in range(2))
    name, constant = f"t{step}", f"c{step}"
    kinds = ["Relu", "Abs", "Neg", "LeakyRelu", "PRelu", "Add", "Sub", "Max", "Min", "Max3"]
    kinds += ["MatMul", "Mul", "Clip", "MaxPool", "Swap", "Gather", "Twin"]
    if smooth:
        kinds += 2 * [*SMOOTH, "SiLU", "SiLU"]
    kind = str(rng.choice(kinds))
    if kind == "SiLU":
        gate = helper.make_node("Sigmoid", [a], [f"{name}s"])
        return [gate, helper.make_node("Mul", [f"{name}s", a], [name])]
    if kind in ("Relu", "Abs", "Neg", *SMOOTH):
        return [helper.make_node(kind, [a], [name])]
    if kind in ("Add", "Sub", "Max", "Min"):
        return [helper.make_node(kind, [a, b], [name])]
    if kind == "Max3":
        return [helper.make_node("Max", [a, b, "x"], [name])]
    if kind == "LeakyRelu":
        return [helper.make_node(kind, [a], [name], alpha=float(rng.choice([0.1, -0.5, 2, 1])))]
    if kind == "Swap":
        split = helper.make_node("Split", [a], [f"{name}p", f"{name}q"], axis=1)
        return [split, helper.make_node("Concat", [f"{name}q", f"{name}p"], [name], axis=1)]
    if kind == "MaxPool":
        weights[constant], weights[f"{constant}b"] = np.array([1, 1, 4]), np.array([1, 4])
        pool = {"kernel_shape": [3], "pads": [1, 1]}
        return [
            helper.make_node("Reshape", [a, constant], [f"{name}r"]),
            helper.make_node("MaxPool", [f"{name}r"], [f"{name}p"], **pool),
            helper.make_node("Reshape", [f"{name}p", f"{constant}b"], [name]),
        ]
    if kind == "Clip":
        weights[constant], weights[f"{constant}b"] = np.array(-0.5), np.array(1.5)
        return [helper.make_node(kind, [a, constant, f"{constant}b"], [name])]
    if kind == "Twin":
        weights[constant] = np.array(float(rng.choice([-1.0, 2.0, -0.5])))
        product = helper.make_node("Mul", [a, constant], [f"{name}m"])
        return [product, helper.make_node("Relu", [f"{name}m"], [name])]
    if kind == "Gather":
        weights[constant] = rng.permutation(4)
        return [helper.make_node(kind, [a, constant], [name], axis=1)]
    if kind == "MatMul":
        weights[constant] = np.round(rng.normal(size=(4, 4)) * 2) / 2 * (rng.random((4, 4)) < 0.6)
    elif kind == "Mul":
        weights[constant] = rng.choice([0.0, 0.5, 1.0, -2.0], size=4)
    else:
        weights[constant] = rng.choice([0.0, 0.3, 1.0, -1.0], size=4)
    return [helper.make_node(kind, [a, constant], [name])]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_random_directed_graphs(seed: int) -> None:
    """Any acyclic mixture of operations keeps its function, to float64 precision."""
    rng = np.random.default_rng(seed)
    tensors, nodes, weights = ["x"], [], {}
    for step in range(int(rng.integers(3, 14))):
        nodes += random_step(rng, step, tensors[-5:], weights)
        tensors.append(f"t{step}")
    nodes.append(helper.make_node("Concat", [tensors[-1], tensors[-2]], ["y"], axis=1))
    agrees(model(nodes, ["N", 4], weights, kind=DOUBLE), ["N", 4], seed, rtol=1e-13)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_random_directed_graphs_with_smooth_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tensors, nodes, weights = ["x"], [], {}
    for step in range(int(rng.integers(3, 14))):
        nodes += random_step(rng, step, tensors[-5:], weights, smooth=True)
        tensors.append(f"t{step}")
    nodes.append(helper.make_node("Concat", [tensors[-1], tensors[-2]], ["y"], axis=1))
    agrees(model(nodes, ["N", 4], weights, kind=DOUBLE), ["N", 4], seed, rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
def test_covers_are_smallest(rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, columns)) < 0.4).astype(float)
    chosen_rows, chosen_columns = smallest_cover(sp.csr_array(dense))
    left = dense.copy()
    left[chosen_rows] = 0.0
    left[:, chosen_columns] = 0.0
    assert not left.any()
    best = min(
        int(mask.bit_count() + np.delete(dense, members(mask), axis=0).any(axis=0).sum())
        for mask in range(2**rows)
    )
    assert len(chosen_rows) + len(chosen_columns) == best


def members(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def test_units_that_become_constant_when_others_are_joined() -> None:
    nodes = [
        *relu("x", "h1"),
        *relu("x", "h2"),
        helper.make_node("Sub", ["h1", "h2"], ["zero"]),
        helper.make_node("Add", ["zero", "c"], ["z"]),
        *relu("z", "y"),
    ]
    network = agrees(model(nodes, ["N", 3], {"c": np.array([1.0, -1.0, 0.5])}), ["N", 3])
    assert network.sizes == (3, 3)
    assert np.array_equal(network.head.bias, [1.0, 0.0, 0.5])


def test_distinct_rows() -> None:
    dense = np.array([[1.0, 0, 2], [0, 1, 0], [1, 0, 2], [0, 0, 0], [0, 1, 0]])
    first, which = distinct_rows(sp.csr_array(dense))
    assert len(first) == 3
    assert np.array_equal(dense[first][which], dense)


def test_convolutions_stay_sparse() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        *relu("a", "h"),
        helper.make_node("Conv", ["h", "w1"], ["b"]),
        *relu("b", "g"),
        helper.make_node("Flatten", ["g"], ["f"]),
        *linear("f", "w2", "y"),
    ]
    weights = {"w0": draw(8, 1, 3, 3), "w1": draw(4, 8, 3, 3), "w2": draw(4 * 144, 10)}
    proto = model(nodes, ["N", 1, 28, 28], weights)
    network = from_model(proto, check=False)
    first, second, head = network.layers
    assert isinstance(first.weight, sp.csr_array)
    assert isinstance(second.weight, sp.csr_array)
    assert isinstance(head.weight, np.ndarray)
    assert first.weight.nnz <= first.units * 9
    points = RNG.normal(size=(3, 784)).astype(np.float32)
    np.testing.assert_allclose(
        network.forward(points), run(proto, points, [1, 1, 28, 28]), rtol=1e-4, atol=1e-3
    )


def test_wide_dense_networks_keep_their_weights() -> None:
    weights = [draw(256, 784), draw(256, 256), draw(10, 256)]
    proto = to_onnx(Network.from_arrays([w.astype(np.float32) for w in weights]))
    network = from_model(proto, check=False)
    for layer, weight in zip(network.layers, weights, strict=True):
        assert isinstance(layer.weight, np.ndarray)
        assert np.array_equal(layer.weight, weight.astype(np.float32).astype(np.float64))


def test_windows_of_a_large_pooling_layer_share_comparisons() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        *relu("a", "h"),
        helper.make_node("MaxPool", ["h"], ["p"], kernel_shape=[4, 4]),
        helper.make_node("Flatten", ["p"], ["f"]),
        *linear("f", "v", "y"),
    ]
    weights = {"w": draw(4, 1, 3, 3), "v": draw(4 * 11 * 11, 10)}
    network = from_model(model(nodes, [1, 1, 16, 16], weights), check=False)
    assert network.kinked_units < 4 * (14 * 14 + 11 * 11 * 15)
