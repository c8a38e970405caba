"""Damaged and mutated files: a network that agrees with onnxruntime, or one sentence; in time.

Bytes are flipped, cut and repeated, and fields of the model are changed: operators, attributes,
shapes, names, opsets, tensors.  Some hundreds of each kind are tried, and more for as long as
``LIPYOMO_MUTATE_SECONDS`` says.
"""

from __future__ import annotations

import os
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_builder import model

from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import load

SECONDS = float(os.environ.get("LIPYOMO_MUTATE_SECONDS", "0"))
LIMIT = 500_000_000
SLOWEST = 20.0
FILES = (
    "iris.onnx",
    "iris_scaler.onnx",
    "residual.onnx",
    "leaky.onnx",
    "mnist17_maxpool.onnx",
    "random10_s0.onnx",
)
OPS = (
    *("Add", "Sub", "Mul", "Div", "Relu", "Abs", "Neg", "LeakyRelu", "PRelu", "Clip", "Max", "Min"),
    *("MatMul", "Gemm", "Conv", "MaxPool", "AveragePool", "Flatten", "Reshape", "Transpose"),
    *("Concat", "Split", "Slice", "Gather", "Expand", "Tile", "Pad", "Squeeze", "Unsqueeze"),
    *("Softmax", "Sigmoid", "Cast", "Shape", "ConstantOfShape", "Loop", "If", "Resize", "Einsum"),
    *("ReduceSum", "ReduceMean", "ReduceMax", "BatchNormalization", "Dropout", "Identity", "TopK"),
    *("QuantizeLinear", "DequantizeLinear", "Range", "OneHot", "Where", "NoSuchOperator", ""),
)
NUMBERS = (-(2**63), -(10**9), -2, -1, 0, 1, 2, 3, 7, 10**6, 10**9, 2**31, 2**40, 2**62)


def _bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Flip, cut, repeat or insert bytes."""
    raw = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        place, length = int(rng.integers(len(raw))), int(rng.integers(1, 40))
        kind = rng.integers(4)
        if kind == 0:
            raw[place] ^= int(rng.integers(1, 256))
        elif kind == 1:
            del raw[place : place + length]
        elif kind == 2:
            raw[place:place] = raw[place : place + length]
        else:
            raw[place:place] = rng.integers(0, 256, length, dtype=np.uint8).tobytes()
        if not raw:
            break
    return bytes(raw)


def _fields(rng: np.random.Generator, data: bytes) -> bytes:
    """Change some fields of the model."""
    proto = onnx.load_from_string(data)
    for _ in range(rng.integers(1, 4)):
        CHANGES[rng.integers(len(CHANGES))](rng, proto)
    return proto.SerializeToString()


def _any(rng: np.random.Generator, items: object) -> object:
    sequence = list(items)
    return sequence[rng.integers(len(sequence))] if sequence else None


def _operator(rng: np.random.Generator, proto: onnx.ModelProto) -> None:
    _any(rng, proto.graph.node).op_type = str(rng.choice(OPS))


def _wire(rng: np.random.Generator, proto: onnx.ModelProto) -> None:
    node = _any(rng, proto.graph.node)
    names = [name for other in proto.graph.node for name in (*other.input, *other.output)]
    side = node.input if rng.integers(4) else node.output
    if side:
        side[rng.integers(len(side))] = str(rng.choice([*names, "", "nowhere"]))
    else:
        side.append(str(rng.choice(names)))


def _attribute(rng: np.random.Generator, proto: onnx.ModelProto) -> None:
    node = _any(rng, proto.graph.node)
    name = str(
        rng.choice(["axis", "axes", "pads", "kernel_shape", "strides", "perm", "group", "alpha"])
    )
    number = int(rng.choice(NUMBERS))
    values = [number, [number], [1, number], [1, 1, 1, number], float(number), float("nan"), "x"]
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(onnx.helper.make_attribute(name, values[rng.integers(len(values))]))


def _tensor(rng: np.random.Generator, proto: onnx.ModelProto) -> None:
    tensor = _any(rng, proto.graph.initializer)
    if tensor is None:
        return
    kind = rng.integers(4)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.integers(len(tensor.dims))] = int(rng.choice(NUMBERS))
    elif kind == 1:
        tensor.data_type = int(rng.integers(0, 25))
    else:
        array = np.array(numpy_helper.to_array(tensor))
        if array.size:
            odd = (np.nan, np.inf, 1e38, 1e-40, 0.0, -1.0) if array.dtype.kind == "f" else NUMBERS
            spot = int(rng.integers(array.size))
            with np.errstate(all="ignore"):
                array.reshape(-1)[spot] = odd[rng.integers(len(odd))]
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _shape(rng: np.random.Generator, proto: onnx.ModelProto) -> None:
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    if dims:
        dims[rng.integers(len(dims))].dim_value = int(rng.choice(NUMBERS))


def _nodes(rng: np.random.Generator, proto: onnx.ModelProto) -> None:
    nodes = list(proto.graph.node)
    if rng.integers(2):
        nodes.insert(int(rng.integers(len(nodes) + 1)), nodes[rng.integers(len(nodes))])
    else:
        nodes.pop(int(rng.integers(len(nodes))))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)


def _opset(rng: np.random.Generator, proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version = int(rng.choice([-1, 0, 1, 6, 7, 9, 11, 13, 17, 22, 40, 2**40]))


def _outputs(rng: np.random.Generator, proto: onnx.ModelProto) -> None:
    names = [name for node in proto.graph.node for name in node.output]
    proto.graph.output.append(onnx.ValueInfoProto(name=str(rng.choice([*names, "", "none"]))))
    if rng.integers(2):
        del proto.graph.output[0]


CHANGES: tuple[Callable[[np.random.Generator, onnx.ModelProto], None], ...] = (
    *(_operator, _wire, _attribute, _tensor, _shape, _nodes, _opset, _outputs),
)


def _seeds(models: Path) -> Iterator[bytes]:
    for name in FILES:
        yield (models / name).read_bytes()
    names = onnx.helper.make_node
    nodes = [
        names("Reshape", ["x", "s"], ["a"]),
        names("Pad", ["a", "p"], ["b"]),
        names("Tile", ["b", "t"], ["c"]),
        names("ReduceMax", ["c"], ["d"], axes=[3]),
        names("Flatten", ["d"], ["e"]),
        names("Concat", ["e", "e"], ["y"], axis=1),
    ]
    stored = {
        "s": np.array([1, 1, 2, 3]),
        "p": np.array([0, 0, 1, 1, 0, 0, 0, 1]),
        "t": np.array([1, 2, 1, 2]),
    }
    yield model(nodes, ["N", 6], stored).SerializeToString()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("mutate", "trials"), [(_bytes, 120), (_fields, 40)], ids=["bytes", "fields"]
)
def test_mutated_files_are_imported_or_refused(
    mutate: Callable[[np.random.Generator, bytes], bytes],
    trials: int,
    models: Path,
    tmp_path: Path,
) -> None:
    seeds, path = list(_seeds(models)), tmp_path / "mutant.onnx"
    deadline, trial, refused, imported = time.monotonic() + SECONDS, 0, 0, 0
    while time.monotonic() < deadline or trial < trials:
        rng = np.random.default_rng(trial)
        try:
            data = mutate(rng, seeds[trial % len(seeds)])
        except (ValueError, TypeError, OverflowError, UnicodeDecodeError):
            trial += 1  # the mutation itself cannot be written down
            continue
        path.write_bytes(data)
        tracemalloc.start()
        began = time.process_time()
        print(f"{mutate.__name__} of trial {trial}, file {trial % len(seeds)}")  # if it fails
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                network = load(path, memory_limit=LIMIT, time_limit=30.0)
            assert np.isfinite(network.forward(np.zeros(network.input_dim))).all()
            imported += 1
        except ImportRefused:
            refused += 1
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 * LIMIT, trial
        assert time.process_time() - began < SLOWEST, trial
        trial += 1
    assert refused > 10
    assert imported > 3
